# SPDX-License-Identifier: Apache-2.0
"""Blocks to which only pointers at odd offsets lead, as in packed structures, or words that have
a number beside the address.

The program frees them at its end: one that is reported as leaked would be a false leak. The
one it has lost is reported.
"""

import pytest

import support
from support import Target, check_scanned, compile_special, scan

TEXTS = 300
TAGGED = 70


@pytest.mark.parametrize("how", ["copy", "fork"])
def test_what_packed_structures_keep_is_possible(how):
    with Target([compile_special("packed.c", "-Wno-pedantic")]) as target:
        report = check_scanned(scan(target.pid, "--no-fold", "--possible", "--snapshot", how))
        support.check_truth(report, target)
        kept = [leak for leak in report["leaks"] if leak.get("reason") == "unaligned"]
        assert len(kept) == 2 * TEXTS and {leak["kind"] for leak in kept} == {"possible"}
        assert {leak["address"] for leak in kept} == {hex(at) for at in target.blocks("live")}
        report = check_scanned(scan(target.pid, "--no-fold", "--snapshot", how))
        support.check_truth(report, target)
        assert any(f"{2 * TEXTS} allocations" in warning for warning in report["warnings"]), report["warnings"]
        report = check_scanned(scan(target.pid, "--no-fold", "--unaligned", "--snapshot", how))
        support.check_truth(report, target)
        assert not report["warnings"]
        target.popen.stdin.close()
        assert target.line() == f"freed {2 * TEXTS + 1}"


@pytest.mark.parametrize("how", ["copy", "fork"])
def test_what_has_a_number_beside_its_address_is_possible(how):
    with Target([compile_special("tagged.c", "-Wno-pedantic")]) as target:
        report = check_scanned(scan(target.pid, "--no-fold", "--possible", "--snapshot", how))
        support.check_truth(report, target)
        kept = {leak["address"] for leak in report["leaks"] if leak.get("reason") == "unaligned"}
        assert kept == {hex(at) for at in target.blocks("live")} and len(kept) == TAGGED
        report = check_scanned(scan(target.pid, "--no-fold", "--snapshot", how))
        support.check_truth(report, target)
        assert any(f"{TAGGED} allocations" in warning for warning in report["warnings"]), report["warnings"]
        support.check_truth(check_scanned(scan(target.pid, "--no-fold", "--unaligned", "--snapshot", how)), target)
        target.popen.stdin.close()
        assert target.line() == f"freed {TAGGED}"
