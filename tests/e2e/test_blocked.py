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


def check_no_call_returns(notes, label, program, scans, *options):
    with Process([program]) as blocked:
        assert blocked.line() == "READY"
        threads = support.threads_of(blocked.pid)
        for _ in range(scans):
            check_scanned(scan(blocked.pid, *options))
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
    # glibc has strerrorname_np() since 2.32; here it only words a failure
    flags = ["-Dstrerrorname_np=strerror"] if suite == "bullseye" else []
    program = compile_target("blocked", suite, variant, flags=flags)
    check_no_call_returns(notes, f"{suite} {variant}", program, max(10, SCANS // 10))


@pytest.mark.alone
def test_the_target_notices_an_interruption():
    """That the target would tell: after a stop some of its calls return, by signal(7)."""
    with Process([compile_target("blocked")]) as blocked:
        assert blocked.line() == "READY"
        # SIGSTOP and SIGCONT make the calls of signal(7)'s list return EINTR
        os.kill(blocked.pid, 19)
        support.wait_until(lambda: support.state_of(blocked.pid) == "T", 5, "it is stopped")
        os.kill(blocked.pid, 18)
        support.wait_until(lambda: support.state_of(blocked.pid) != "T", 5, "it goes on")
        assert blocked.ask("stop\n").split()[:2] != ["eintr", "0"]


def check_signals_arrive(program):
    """Every queued signal once and in order, while the process is stopped again and again."""
    with Process([program]) as target:
        assert target.line() == "READY"
        for _ in range(max(20, SCANS // 3)):
            check_scanned(scan(target.pid))
        target.popen.stdin.close()
        words = target.line().split()
        assert words[0] == "sent" and int(words[1]) > 1000, words
        assert words[1] == words[3] and words[4:] == ["ticks", "1"], words
        assert target.popen.wait(10) == 0


def test_signals_in_flight_arrive():
    check_signals_arrive(compile_target("signals"))
