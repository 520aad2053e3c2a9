# SPDX-License-Identifier: Apache-2.0
"""memscan on kernels that do not know all that it asks: what they cannot say is not taken for a "no".

A filter of system calls (tests/hostile/older.c) makes this kernel answer memscan as an older one
would; the target is not under it. Real older kernels: make check-kernels.
"""

import re

import pytest

import attach_support
from support import Process, Target, check_scanned, check_truth, compile_hostile, compile_target, memscan, scan

SCANS = 3


def older(release):
    return [compile_hostile("older.c"), release]


def refuse(scenario):
    return Target([compile_target("refuse"), scenario])


def scan_on(release, target, snapshot="fork"):
    report = check_scanned(scan(target.scan_pid, "--no-fold", "--snapshot", snapshot, under=older(release)))
    check_truth(report, target)
    return report


def attach_on(release, pid):
    return memscan("attach", pid, under=older(release))


def said(report):
    return " ".join(report["warnings"])


@pytest.mark.parametrize("release,scenario,why", [
    ("6.1", "dispatched", "dispatched by itself"),
    ("6.1", "dispatched_handled", "handles SIGSYS"),
    ("6.4", "dispatched_handled", "dispatched by itself"),
])
def test_calls_that_the_program_handles_itself(release, scenario, why):
    """From 5.11 on there are such programs, and from 6.4 on the kernel says of which."""
    with refuse(scenario) as target:
        for _ in range(SCANS):
            report = scan_on(release, target)
            assert report["scan"]["source"] == "copy" and why in said(report), report["warnings"]
        done = attach_on(release, target.pid)
        assert done.status == attach_support.REFUSED and why in done.stderr, str(done)
        assert target.running()
        assert target.finish() == 0


@pytest.mark.parametrize("release,source", [("5.10", "fork"), ("6.1", "copy"), ("6.4", "fork")])
def test_a_handler_of_sigsys(release, source):
    """Copied where it may be one for calls that the kernel hands over, and only there."""
    with refuse("handles_sigsys") as target:
        report = scan_on(release, target)
        assert report["scan"]["source"] == source, report["warnings"]
        assert target.finish() == 0


@pytest.mark.parametrize("release", ("4.18", "5.4", "5.10", "6.1"))
def test_an_ordinary_program_is_cloned(release):
    """Also without close_range(), before 5.9; and no pause is spent on finding out."""
    with refuse("plain") as target:
        report = scan_on(release, target)
        assert report["scan"]["source"] == "fork", report["warnings"]
        done = attach_on(release, target.pid)
        assert done.status == attach_support.ATTACHED, str(done)
        attach_support.detach(target.pid)
        assert target.finish() == 0


@pytest.mark.parametrize("release", ("5.10", "5.13"))
def test_restartable_sequences(release):
    """Before 5.13 the kernel does not say who is in one: a thread that computes is left alone."""
    with Process([compile_hostile("sequences.c")]) as target:
        if target.line() == "SKIP":
            pytest.skip("the kernel has no restartable sequences")
        for _ in range(SCANS):
            check_scanned(scan(target.pid, "--snapshot", "fork", under=older(release)))
            if attach_on(release, target.pid).status == attach_support.ATTACHED:
                attach_support.detach(target.pid)
        target.popen.stdin.close()
        done, aborted, broken = map(int, re.fullmatch(r"sequences (\d+) aborted (\d+) broken (\d+)", target.line()).groups())
        assert done and aborted and not broken, f"{broken} of {done + aborted + broken} sequences went on behind a detour"
