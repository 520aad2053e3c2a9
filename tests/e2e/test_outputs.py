# SPDX-License-Identifier: Apache-2.0
"""Where output goes: never to what another user planted, whole or not at all, and nothing is left of what was killed."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess

import pytest

import support
from containers import NOBODY, ROOT_ONLY
from shim_support import Interactive
from support import MEMSCAN, Process, Target, compile_target, memscan, wait_until

UNWRITTEN = 4
NOBODY_ID = 65534
PLANTED = ("fifo", "file", "link", "folder", "socket")
COMMANDS = ("scan", "live", "retained", "dump", "diff", "records", "heapdump", "run")

SOCKET = "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])"


@pytest.fixture
def sticky(tmp_path):
    """A folder as /tmp is, in which another user may plant things."""
    folder = pathlib.Path(support.tempfile.mkdtemp(prefix="memscan-e2e-"))
    folder.chmod(0o1777)
    yield folder
    subprocess.run(["rm", "-rf", folder], check=True)


@pytest.fixture(scope="module")
def idle():
    with Target([compile_target("leaks"), "simple"]) as target:
        yield target
        target.finish()


def plant(kind, sticky):
    """As nobody; returns the path to give, and what stands behind it."""
    at = sticky / "out"
    victim = sticky / "victim"
    victim.write_text("not to be changed")
    make = {"fifo": ["mkfifo", "-m", "666", at], "file": ["install", "-m", "666", "/dev/null", at],
            "link": ["ln", "-s", victim, at], "folder": ["ln", "-s", sticky / "safe", sticky / "linked"],
            "socket": ["/usr/bin/python3", "-c", SOCKET, at]}
    (sticky / "safe").mkdir()
    (sticky / "safe").chmod(0o700)
    subprocess.run([*NOBODY, *make[kind]], check=True, cwd="/")
    return sticky / "linked/out" if kind == "folder" else at


def reads(words):
    """A process beside, which is none of memscan's."""
    reader = subprocess.Popen(words, stdout=subprocess.PIPE, cwd="/")
    support.our_children.add(reader.pid)
    return reader


def words_for(command, pid, tmp_path):
    file = tmp_path / "input"
    texts = {"records": "1: malloc 0x10 8 1 2\n",
             "heapdump": "Android Native Heap Dump v1.2\n\nTotal memory: 0\nAllocation records: 0\n"
                         "Backtrace size: 1\n\nMAPS\nEND\n"}
    file.write_text(texts.get(command, ""))
    if command == "diff":
        memscan("--pid", pid, "--json", "-o", file)
    return {"scan": ["--contents", "--pid", pid], "live": ["live", "--pid", pid], "retained": ["retained", "--pid", pid],
            "dump": ["dump", pid], "diff": ["diff", file, file], "records": ["records", file],
            "heapdump": ["heapdump", file], "run": ["run"]}[command]


@ROOT_ONLY
@pytest.mark.parametrize("kind", PLANTED)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_others_planted_is_refused(command, kind, sticky, idle, tmp_path):
    out = plant(kind, sticky)
    reader = reads([*NOBODY, "cat", out]) if kind == "fifo" else None
    try:
        program = ["--", compile_target("leaks"), "simple"] if command == "run" else []
        done = memscan(*words_for(command, idle.pid, tmp_path), "-o", out, *program, timeout=60)
        assert done.status == UNWRITTEN, str(done)
        first, second = done.stderr.strip().split("\n")
        assert f"of user {NOBODY_ID} stands there or in its path" in first and "folder" in second, str(done)
        assert (sticky / "victim").read_text() == "not to be changed"
        assert kind != "file" or not out.stat().st_size
        assert not list((sticky / "safe").iterdir())
    finally:
        if reader:
            reader.kill()
            assert reader.communicate()[0] == b""


@ROOT_ONLY
@pytest.mark.parametrize("kind", ("fifo", "file"))
def test_reports_of_run_are_not_planted(kind, sticky):
    """Each process's own name is looked at when its report is written: by then its number was known to others."""
    script = f"{' '.join(NOBODY)} {dict(fifo='mkfifo', file='touch')[kind]} {sticky}/leaks-$$.txt; " \
             f"exec {compile_target('leaks')} simple"
    done = memscan("run", "-o", sticky / "leaks-%p.txt", "--", "sh", "-c", script, cwd="/", timeout=60)
    assert "stands there or in its path" in done.stderr, str(done)
    planted, = sticky.iterdir()
    assert planted.stat().st_uid == NOBODY_ID and not planted.stat().st_size


@pytest.mark.parametrize("command", ["retained", "diff"])
def test_a_reader_that_leaves_is_told_nothing(command, idle, tmp_path):
    words = words_for(command, idle.pid, tmp_path)
    to, from_ = os.pipe()
    os.close(to)
    done = memscan(*words, stdout=from_)
    os.close(from_)
    assert done.status == UNWRITTEN and done.stderr == "", str(done)


def test_a_fifo_of_ones_own_waits_for_its_reader(idle, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with reads(["sh", "-c", f"sleep 1; exec cat {pipe}"]) as reader:
        assert memscan("--pid", idle.pid, "-o", pipe).status == 1
        assert b"leak" in reader.communicate(timeout=20)[0]


def test_a_fifo_that_nobody_reads_is_not_waited_for_for_ever(idle, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = memscan("--pid", idle.pid, "-o", pipe, timeout=40)
    assert done.status == UNWRITTEN and "No such device or address" in done.stderr, str(done)


@pytest.mark.parametrize("out", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("to", ["pipe", "file", "append"])
def test_descriptors_of_its_own(out, to, idle, tmp_path):
    file = tmp_path / "file"
    file.write_text("before\n")
    sink = {"pipe": "| cat >" + str(file), "file": f">{file}", "append": f">>{file}"}[to]
    script = f"{MEMSCAN} --pid {idle.pid} -o {out} {sink}; echo ${{PIPESTATUS[0]}}; wait"
    done = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, timeout=60, check=True)
    assert done.stdout == b"1\n"
    wait_until(lambda: "leak" in file.read_text(), what="a report")
    assert file.read_text().startswith("before\n") == (to == "append")


def test_a_process_of_the_shell(idle, tmp_path):
    file = tmp_path / "file"
    script = f"{MEMSCAN} --pid {idle.pid} -o >(cat >{file}); status=$?; wait; exit $status"
    assert subprocess.run(["bash", "-c", script], timeout=60, check=False).returncode == 1
    wait_until(lambda: file.exists() and "leak" in file.read_text(), what="a report")


def test_devices(idle):
    assert memscan("--pid", idle.pid, "-o", "/dev/null").status == 1
    done = memscan("--pid", idle.pid, "-o", "/dev/full")
    assert done.status == UNWRITTEN and "No space left" in done.stderr, str(done)
    assert memscan("--pid", idle.pid, "-o", "/dev/stderr").status == 1


# ---- nothing is left ----

@pytest.mark.parametrize("words", [[], ["--compress", "zstd"]], ids=["plain", "compressed"])
def test_a_dump_that_is_killed_leaves_nothing(words, tmp_path):
    core = tmp_path / "core"
    core.write_text("older")
    code = "import os, sys\nx = os.urandom(300 << 20); print('READY', flush=True); sys.stdin.read()"
    with Process(["/usr/bin/python3", "-c", code]) as target:
        assert target.line() == "READY"
        popen = subprocess.Popen([MEMSCAN, "dump", str(target.pid), "-o", core, *words], stdout=subprocess.DEVNULL)
        wait_until(lambda: largest_open(popen.pid) > 1 << 20, what="a core that is being written")
        popen.send_signal(signal.SIGKILL)
        assert popen.wait(10) == -signal.SIGKILL
        wait_until(lambda: not support.leftovers(), what="the end of its processes")
    assert [file.name for file in tmp_path.iterdir()] == ["core"] and core.read_text() == "older"


def largest_open(pid):
    """Of the files that a process has open, which may have no names."""
    size = 0
    for fd in pathlib.Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):
            if "memscan" in os.readlink(fd) or "deleted" in os.readlink(fd):
                size = max(size, os.stat(fd).st_size)
    return size


# ---- the libraries ----

@ROOT_ONLY
@pytest.mark.parametrize("kind", ("fifo", "file", "link"))
def test_files_of_malloc_debug_are_not_planted(kind, sticky, tmp_path):
    out = plant(kind, sticky)
    with Interactive(f"record_allocs record_allocs_file={out}", tmp_path / "log") as target:
        target.ask("501\n")
        target.signal(18)
        target.ask("502\n")
        lines = target.logged()
        assert lines[-1].startswith(f"Cannot create record alloc file {out}: "), lines
        assert kind == "link" or re.search(f": a .* of user {NOBODY_ID} is in a folder that others may write to",
                                           lines[-2]), lines
        assert target.finish() == 0
    assert (sticky / "victim").read_text() == "not to be changed"
    assert kind != "file" or not out.stat().st_size
