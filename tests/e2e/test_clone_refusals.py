# SPDX-License-Identifier: Apache-2.0
"""Targets that cannot, or must not, be cloned: each gets a copy, and the report says why.

Every way of refusal is provoked for real (tests/targets/refuse.c). Whatever it
is, the leaks are right, and the target is alive, has no child, and ends as it
would have: some of them die of one system call of a wrong kind.
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

import pytest

import support
from support import (Target, check_scanned, check_truth, children_by_thread, compile_target, memscan, scan,
                     state_of, wait_until)

SNAPSHOTS = support.snapshots()
HAS_FORK = "fork" in SNAPSHOTS

ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason="only root may")


def start(scenario, variant="dynamic", **env):
    return Target([compile_target("refuse", variant=variant), scenario], {name: str(value) for name, value in env.items()})


def check_unharmed(target, status=0):
    pid = target.scan_pid
    wait_until(lambda: target.running() and state_of(pid) in "SRD", 20, "the target runs")
    support.check_untouched(pid)
    wait_until(lambda: not children_by_thread(pid), 20, "the target has no strange child")
    assert target.finish() == status


def scan_with(target, snapshot):
    """Its report, with the right leaks."""
    report = support.scan_as_asked(target.scan_pid, "--no-fold", "--snapshot", snapshot)
    check_truth(report, target)
    return report


def about_clone(report):
    return [text for text in report["warnings"] if re.search(r"clon|fork|copied", text)]


def check_copied(target, *words, stopped=False):
    """Asked for a clone, it gives a copy and says these words; auto gives the same answer."""
    for snapshot in SNAPSHOTS:
        report = scan_with(target, snapshot)
        assert report["scan"]["source"] == "copy", (snapshot, report["scan"], report["warnings"])
        if snapshot == "fork":
            said = " ".join(about_clone(report))
            for word in words:
                assert re.search(word, said), f"{word!r} is not said: {report['warnings']}"
        if snapshot == "copy":
            assert not about_clone(report), report["warnings"]
    if not stopped:
        check_unharmed(target)


def check_cloned(target):
    for snapshot in SNAPSHOTS:
        report = scan_with(target, snapshot)
        wanted = {"fork": ["fork"], "copy": ["copy"], "auto": ["fork", "copy"]}[snapshot]
        assert report["scan"]["source"] in wanted, (snapshot, report["scan"], report["warnings"])
    check_unharmed(target)


def test_nothing_is_in_the_way():
    """By this the others are known to be refused for their own reason."""
    with start("plain") as target:
        check_cloned(target)


# ---- limits ----

@ROOT_ONLY
@pytest.mark.parametrize("room", [1, 2])
def test_process_limit_of_its_user(room):
    with start(f"nproc_{room}") as target:
        check_copied(target, "RLIMIT_NPROC|pids|processes|unavailable")


@pytest.fixture
def pids_cgroup():
    with support.cgroup("pids", 20) as (group, _):
        yield group


@pytest.mark.parametrize("room", [1, 2])
def test_pids_cgroup(pids_cgroup, room):
    with start("plain") as target:
        (pids_cgroup / "pids.max").write_text(str(room))
        (pids_cgroup / "cgroup.procs").write_text(str(target.pid))
        check_copied(target, "RLIMIT_NPROC|pids|processes|unavailable")


@contextlib.contextmanager
def setting(path, value):
    path = pathlib.Path(path)
    old = path.read_text()
    try:
        path.write_text(value)
    except OSError as error:
        pytest.skip(f"{path} cannot be written: {error}")
    try:
        yield
    finally:
        path.write_text(old)


def meminfo(key):
    return int(re.search(rf"^{key}:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text(), re.M).group(1)) * 1024


@pytest.mark.alone
def test_overcommit_2():
    """More than half of what may still be committed: there is no room for it twice."""
    room = meminfo("CommitLimit") - meminfo("Committed_AS")
    if room < 1 << 30:
        pytest.skip("too little memory to commit")
    with start("committed", REFUSE_BYTES=room * 6 // 10 & -4096) as target:
        with setting("/proc/sys/vm/overcommit_memory", "2"):
            scans = [(snapshot, scan(target.scan_pid, "--no-fold", "--snapshot", snapshot))
                     for snapshot in SNAPSHOTS]
        for snapshot, done in scans:
            report = check_scanned(done)
            check_truth(report, target)
            assert report["scan"]["source"] == "copy", (snapshot, report["warnings"])
            said = " ".join(about_clone(report))
            assert snapshot != "fork" or re.search("Cannot allocate|ENOMEM|commit", said), report["warnings"]
        check_unharmed(target)


# ---- seccomp ----

@ROOT_ONLY
@pytest.mark.parametrize("action", ["kill_process", "kill_thread", "trap", "errno", "trace", "user_notif"])
def test_filter_that_answers_clone(action):
    with start(f"clone_{action}") as target:
        check_copied(target, f"seccomp filter answers clone with {action.upper()}")


@pytest.mark.parametrize("action", ["log", "allow"])
@ROOT_ONLY
def test_filter_that_lets_clone_through(action):
    with start(f"clone_{action}") as target:
        check_cloned(target)


@ROOT_ONLY
@pytest.mark.parametrize("call", ["prctl", "wait4", "exit", "close_range", "rt_sigreturn"])
def test_filter_that_kills_for_another_call_of_ours(call):
    check_killed_for(call)


def check_killed_for(call, variant="dynamic"):
    """Cloned without that call, or copied; never dead."""
    with start(f"dies_of_{call}", variant) as target:
        for snapshot in SNAPSHOTS:
            report = scan_with(target, snapshot)
            if snapshot == "fork" and report["scan"]["source"] == "copy":
                assert f"seccomp filter answers {call} with KILL_PROCESS" in " ".join(report["warnings"])
        check_unharmed(target)


@ROOT_ONLY
def test_filter_of_one_thread():
    with start("one_thread_filtered") as target:
        for snapshot in SNAPSHOTS:
            scan_with(target, snapshot)
        check_unharmed(target)


@ROOT_ONLY
def test_strict_mode():
    with start("strict") as target:
        check_copied(target, "strict")


# ---- without privileges ----

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@pytest.fixture
def for_all():
    """Copies of memscan and of the target where any user can run them."""
    yama = pathlib.Path("/proc/sys/kernel/yama/ptrace_scope")
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    if yama.exists() and yama.read_text().strip() != "0":
        pytest.skip("Yama forbids it")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="memscan-e2e-"))
    try:
        folder.chmod(0o755)
        yield [shutil.copy(path, folder) for path in (support.MEMSCAN, compile_target("refuse"))]
    finally:
        shutil.rmtree(folder)


def scan_as_nobody(program, target, snapshot):
    done = subprocess.run([*NOBODY, program, "--pid", str(target.pid), "--json", "--no-fold", "--limit", "all",
                           "--snapshot", snapshot], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=60, cwd="/")
    report = check_scanned(support.Scan(done.returncode, done.stdout, done.stderr, 0))
    check_truth(report, target)
    return report


def test_process_of_an_ordinary_user(for_all):
    program, refuse = for_all
    with Target([*NOBODY, refuse, "plain"], cwd="/") as target:
        for snapshot in SNAPSHOTS:
            report = scan_as_nobody(program, target, snapshot)
            assert snapshot == "auto" or report["scan"]["source"] == snapshot, report["warnings"]
        check_unharmed(target)


def test_filter_that_cannot_be_read(for_all):
    """An ordinary user may scan his own process, but not see what filters it has."""
    program, refuse = for_all
    with Target([*NOBODY, refuse, "clone_allow"], cwd="/") as target:
        for snapshot in SNAPSHOTS:
            report = scan_as_nobody(program, target, snapshot)
            assert report["scan"]["source"] == "copy", report["warnings"]
            if snapshot == "fork":
                assert "CAP_SYS_ADMIN" in " ".join(about_clone(report)), report["warnings"]
        check_unharmed(target)


# ---- other calls than it expects, or other relatives ----

def test_calls_that_the_program_itself_handles():
    with start("dispatched") as target:
        check_copied(target, "dispatch")


@ROOT_ONLY
def test_init_of_a_pid_namespace():
    with start("namespace_init") as target:
        check_cloned(target)


def test_subreaper():
    with start("subreaper") as target:
        check_cloned(target)


def test_stopped_by_sigstop():
    with start("plain") as target:
        os.kill(target.pid, signal.SIGSTOP)
        wait_until(lambda: state_of(target.pid) == "T", 20, "it is stopped")
        check_copied(target, "stopped|SIGSTOP", stopped=True)
        assert state_of(target.pid) == "T"
        os.kill(target.pid, signal.SIGCONT)
        check_unharmed(target)


def test_no_vdso():
    """Nothing of ours needs it: the C library has the instructions too."""
    with start("no_vdso") as target:
        assert "[vdso]" not in pathlib.Path(f"/proc/{target.pid}/maps").read_text()
        check_cloned(target)


# ---- memory that a child does not get ----

@pytest.mark.parametrize("scenario", ["dontfork", "wipeonfork", "dontfork_in_heap", "wipeonfork_in_heap"])
def test_memory_that_a_clone_does_not_have(scenario):
    """A block that only such memory holds is alive: whichever way it is scanned."""
    with start(scenario) as target:
        assert target.blocks("live")
        for snapshot in SNAPSHOTS:
            scan_with(target, snapshot)
        check_unharmed(target)


# ---- the option itself ----

def test_fork_is_accepted_when_help_says_so():
    with start("plain") as target:
        done = memscan("--pid", target.pid, "--json", "--snapshot", "fork")
        assert (done.status == support.USAGE) == (not HAS_FORK), str(done)
        check_unharmed(target)
