# SPDX-License-Identifier: Apache-2.0
"""The texts in a group of leaks (tests/targets/texts.c), not that of its lowest address."""

import support
from support import Target, compile_target, memscan

NAMES, OTHERS = 600, 3


def test_group_shows_samples_and_what_they_have_in_common():
    with Target([compile_target("texts")]) as target:
        report = support.check_scanned(support.scan(target.pid, merge=True))
        group = max(report["leaks"], key=lambda leak: leak["similar_count"])
        assert group["text"] == "--mode=quiet,fast"  # that of the lowest address
        assert group["texts"] == {"count": 1 + NAMES + OTHERS, "alike": [
            {"count": NAMES, "pattern": "photo-….jpeg", "samples": ["photo-0000.jpeg", "photo-0599.jpeg"]},
            {"count": OTHERS, "samples": ["https://example.org/"]},
            {"count": 1, "samples": ["--mode=quiet,fast"]}]}
        done = memscan("--pid", target.pid, *support.SNAPSHOT)
    assert done.status == 1, str(done)
    assert '   text: "photo-0000.jpeg", "photo-0599.jpeg" and 598 more like "photo-….jpeg"\n' \
           '   text: "https://example.org/", 3 times\n' \
           '   text: "--mode=quiet,fast"\n' in done.stdout, str(done)
