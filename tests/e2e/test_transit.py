# SPDX-License-Identifier: Apache-2.0
"""Pointers that were sent and not received yet: in pipes, sockets and message queues.

The program receives all of it after the scans and compares it with what it sent: nothing is taken
from it, not an error that waits, nor is an offset moved. The one block that it has lost is reported.
"""

import os
import pty
import shutil
import subprocess
import tempfile

import pytest

import support
from support import Target, check_scanned, compile_special, compile_target, scan

N = 40
PIDFD_GETFD, EPERM = 438, 1
WITHOUT_GETFD = [compile_special("without_call.c"), PIDFD_GETFD, -1, EPERM]
PLACES = ("pipe", "stream", "path", "tcp", "queue", "seqpacket", "dgram", "udp")


def check_received(target, n=N):
    target.popen.stdin.close()
    assert target.line() == f"received {n}" and target.popen.wait(60) == 0


@pytest.mark.parametrize("how", ["copy", "fork"])
@pytest.mark.parametrize("place", PLACES)
def test_what_is_on_its_way_is_in_use(place, how):
    with Target([compile_target("in_transit"), place]) as target:
        for _ in range(3):
            report = check_scanned(scan(target.pid, "--no-fold", "--snapshot", how))
            support.check_truth(report, target)
            warnings = [warning for warning in report["warnings"] if "perhaps more behind" in warning]
            assert len(warnings) == (place in ("dgram", "udp")), report["warnings"]
        check_received(target)


@pytest.mark.parametrize("how", ["copy", "fork"])
@pytest.mark.parametrize("place", ["error", "offset"])
def test_what_would_be_changed_is_left_alone(place, how):
    with Target([compile_target("in_transit"), place]) as target:
        report = check_scanned(scan(target.pid, "--no-fold", "--snapshot", how))
        assert any(warning.startswith("1 socket could not be looked into") for warning in report["warnings"]), \
            report["warnings"]
        assert report["totals"]["leaked_allocations"] == N + 1
        check_received(target)


@pytest.mark.skipif(os.geteuid() != 0, reason="a filter without no_new_privs takes root")
def test_where_descriptors_may_not_be_had():
    """That is said of ends that are read from alone."""
    with Target([compile_target("in_transit"), "pipe"]) as target:
        report = check_scanned(scan(target.pid, "--no-fold", under=WITHOUT_GETFD))
        assert any("(Operation not permitted)" in warning for warning in report["warnings"]), report["warnings"]
        assert report["totals"]["leaked_allocations"] == N + 1
        check_received(target)
    ours, theirs = pty.openpty()
    with Target([compile_target("in_transit"), "queue"], stdin=theirs) as target:
        report = check_scanned(scan(target.pid, "--no-fold", under=WITHOUT_GETFD))
        support.check_truth(report, target)
        assert not report["warnings"]
        os.write(ours, b"\x04")
        assert target.line() == f"received {N}" and target.popen.wait(60) == 0
    os.close(ours)
    os.close(theirs)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("place", ["pipe", "stream", "queue"])
def test_as_a_user(place):
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    with tempfile.TemporaryDirectory(prefix="memscan-e2e-") as folder:
        os.chmod(folder, 0o755)
        program, memscan = (shutil.copy(path, folder) for path in (compile_target("in_transit"), support.MEMSCAN))
        with Target([*nobody, program, place], cwd="/") as target:
            done = subprocess.run([*nobody, memscan, "--pid", str(target.pid), "--json", "--no-fold"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, cwd="/")
            if "yama" in done.stderr:
                pytest.skip("Yama forbids it")
            support.check_truth(check_scanned(support.Scan(done.returncode, done.stdout, done.stderr, 0)), target)
            check_received(target)


def test_a_message_with_a_descriptor():
    with Target([compile_target("in_transit"), "rights"]) as target:
        report = check_scanned(scan(target.pid, "--no-fold"))
        first = min(target.facts.index(fact) for fact in target.facts if fact[0] == "live")
        leaked = {leak["address"] for leak in report["leaks"]}
        assert hex(target.facts[first][1]) not in leaked and len(leaked) == N
        check_received(target, 1)


def test_the_root_has_a_name():
    with Target([compile_target("in_transit"), "pipe"]) as target:
        block = min(target.blocks("live"))
        done = support.memscan("why", "--pid", target.pid, hex(block))
        assert "a pointer in transit, in pipe 3" in done.stdout, str(done)
        answer = support.memscan("why", "--json", "--pid", target.pid, hex(block))
        chain = support.read_answer(answer.stdout)["subjects"][0]["chains"][0]
        assert chain["root"] == {"kind": "transit", "queue": "pipe", "number": 3}, chain
        check_received(target)


def test_a_core_has_what_was_on_its_way(tmp_path):
    with Target([compile_target("in_transit"), "pipe"]) as target:
        core = tmp_path / "core"
        done = support.memscan("dump", target.pid, "-o", core)
        assert done.status == 0, str(done)
        report = check_scanned(support.memscan("core", core, "--json", "--no-fold", "--limit", "all"))
        support.check_truth(report, target)
        check_received(target)


@pytest.mark.parametrize("how", ["copy", "fork"])
def test_a_pipe_whose_lock_is_held(how):
    """Nobody waits for it beyond a limit; what asked for the lock ends as soon as that is free."""
    with Target([compile_special("stuck_pipe.c", "-pthread")]) as target:
        if target.blocks("skip"):
            pytest.skip("userfaultfd() is not allowed here")
        popen = subprocess.Popen([support.MEMSCAN, "--json", "--snapshot", how, "--pid", str(target.pid)],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        support.our_children.add(popen.pid)
        report = support.read_report(popen.communicate(timeout=60)[0])
        support.our_children.discard(popen.pid)
        assert any("not all pipes" in warning for warning in report["warnings"]), report["warnings"]
        assert report["scan"]["pause_ns"] > 0
        check_received(target)
        support.wait_until(lambda: not support.leftovers_alive(), 20, "what waits for the lock ends with that")
        support.leftovers()
