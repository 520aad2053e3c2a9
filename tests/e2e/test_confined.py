# SPDX-License-Identifier: Apache-2.0
"""What reads foreign memory has no rights; where they cannot be given up, nothing is read."""

import os

import pytest

import support
from support import COULD_NOT_SCAN, Target, check_scanned, compile_special, compile_target, memscan, scan

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="a filter without no_new_privs takes root")
EPERM, ENOSYS = 1, 38
PRCTL, CAPSET, SECCOMP, CLOSE_RANGE = 157, 126, 317, 436
NO_NEW_PRIVS, CAPBSET_DROP = 38, 24

MISSING = pytest.mark.parametrize("number, first, told", [
    (SECCOMP, -1, "cannot give up system calls"),
    (PRCTL, NO_NEW_PRIVS, "cannot give up new privileges"),
    (PRCTL, CAPBSET_DROP, "cannot give up the bounding set"),
    (CAPSET, -1, "cannot give up capabilities"),
], ids=["seccomp", "no_new_privs", "bounding", "capset"])


def start():
    return Target([compile_target("leaks"), "among_freed"])


def without(number, first, error):
    return [compile_special("without_call.c"), number, first, error]


def check_refused(done, told):
    assert done.status == COULD_NOT_SCAN and not done.stdout, str(done)
    lines = done.stderr.strip().split("\n")
    assert len(lines) == 2 and told in lines[0] and "allow" in lines[1], str(done)


@ROOT_ONLY
@MISSING
@pytest.mark.parametrize("snapshot", ["fork", "copy"])
def test_nothing_is_searched_with_rights_that_cannot_be_given_up(number, first, told, snapshot):
    with start() as target:
        check_refused(scan(target.scan_pid, "--snapshot", snapshot, under=without(number, first, EPERM)), told)
        support.check_untouched(target.scan_pid)
        check_scanned(scan(target.scan_pid))
        assert target.finish() == 0


@ROOT_ONLY
@MISSING
def test_run_tells_it_too_and_leaves_the_program_alone(number, first, told, tmp_path):
    done = memscan("run", "-o", tmp_path / "report", "--", "/bin/sh", "-c", "exit 5",
                   under=without(number, first, EPERM))
    assert done.status == 5, str(done)
    assert told in done.stderr, str(done)
    assert not (tmp_path / "report").exists()


@ROOT_ONLY
def test_descriptors_are_closed_without_close_range():
    with start() as target:
        done = scan(target.scan_pid, "--snapshot", "copy", under=without(CLOSE_RANGE, -1, ENOSYS))
        check_scanned(done)
