# SPDX-License-Identifier: Apache-2.0
"""Threads asleep in every kind of system call: not one may see EINTR.

The target has a thread in each blocking call and tells, when asked to stop,
which of them returned. BLOCKED_SCANS is the number of scans (1000 by hand).
"""

import os

import pytest

import support
from support import HOST, Process, check_scanned, compile_target, scan

SCANS = int(os.environ.get("BLOCKED_SCANS") or 100)


def check_no_call_returns(notes, label, program, scans):
    with Process([program]) as blocked:
        assert blocked.line() == "READY"
        threads = support.threads_of(blocked.pid)
        for _ in range(scans):
            check_scanned(scan(blocked.pid))
        assert support.threads_of(blocked.pid) == threads
        support.check_untouched(blocked.pid)
        said = blocked.ask("stop\n")
        assert said == "eintr 0", f"after {scans} scans: {said}"
        assert blocked.popen.wait(10) == 0
    notes.append(f"blocked {label}: {len(threads)} threads, {scans} scans, {said}")


def test_no_sleeping_call_sees_eintr(notes):
    check_no_call_returns(notes, HOST, compile_target("blocked"), SCANS)


@pytest.mark.parametrize("suite,variant", [("bullseye", "dynamic"), ("sid", "dynamic"), (HOST, "static")])
def test_no_sleeping_call_sees_eintr_elsewhere(suite, variant, notes):
    check_no_call_returns(notes, f"{suite} {variant}", compile_target("blocked", suite, variant), max(10, SCANS // 10))


def test_the_target_notices_an_interruption():
    """That the target would tell: a signal without handler does not wake, a stop does some."""
    with Process([compile_target("blocked")]) as blocked:
        assert blocked.line() == "READY"
        # SIGSTOP and SIGCONT make the calls of signal(7)'s list return EINTR
        os.kill(blocked.pid, 19)
        support.wait_until(lambda: support.state_of(blocked.pid) == "T", 5, "it is stopped")
        os.kill(blocked.pid, 18)
        support.wait_until(lambda: support.state_of(blocked.pid) != "T", 5, "it goes on")
        assert blocked.ask("stop\n").split()[:2] != ["eintr", "0"]
