# SPDX-License-Identifier: Apache-2.0
"""Programs that lie or hurt (tests/hostile), scanned again and again: they live on, and memscan ends in order.

HOSTILE_SCANS is how often each is scanned (1000 by hand).
"""

import os

import pytest

import support
from support import COULD_NOT_SCAN, SCANNED_CLEAN, Process, compile_hostile, scan

SCANS = int(os.environ.get("HOSTILE_SCANS") or 40)


@pytest.mark.parametrize("snapshot", support.snapshots())
def test_executing_other_programs_meanwhile(snapshot):
    """What was found out about the program before it was stopped is not used on the next one."""
    seen = set()
    with Process([compile_hostile("exec_storm.c"), "40"]) as target:
        assert target.line() == "READY"
        for _ in range(SCANS):
            done = scan(target.pid, "--snapshot", snapshot)
            assert target.running(), f"it ended with {target.popen.wait()}: {done}"
            assert done.status in (SCANNED_CLEAN, COULD_NOT_SCAN), str(done)
            seen.add(done.status)
        assert SCANNED_CLEAN in seen
        assert target.finish() == 0
