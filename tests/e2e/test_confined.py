# SPDX-License-Identifier: Apache-2.0
"""What reads foreign memory has no rights; where they cannot be given up, nothing is read."""

import contextlib
import os
import pathlib
import subprocess

import pytest

import support
from support import COULD_NOT_SCAN, MEMSCAN, Target, check_scanned, compile_special, compile_target, memscan, scan

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


def test_the_judge_of_run(tmp_path):
    """It says which stacks to suppress, is not the reader, and has no descriptor but its channel."""
    rules = tmp_path / "rules"
    rules.write_text("leak:nothing_has_this_name\n")
    seen = []
    code = "x = [[i] for i in range(500000)]"  # to search that takes a while
    with subprocess.Popen([MEMSCAN, "run", "--suppressions", rules, "--", "/usr/bin/python3", "-c", code],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as popen:
        while popen.poll() is None:
            for pid in support.children_of(popen.pid):
                with contextlib.suppress(OSError):
                    folder = pathlib.Path(f"/proc/{pid}")
                    if (folder / "comm").read_text() == "memscan-judge\n" and \
                            "NoNewPrivs:\t1" in (folder / "status").read_text():
                        seen.append([os.readlink(fd) for fd in (folder / "fd").iterdir() if int(fd.name) > 2])
    assert any(len(links) == 1 and links[0].startswith("socket:") for links in seen), seen
    assert not any("memfd" in link for links in seen for link in links), seen
