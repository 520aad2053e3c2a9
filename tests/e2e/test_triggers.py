# SPDX-License-Identifier: Apache-2.0
"""A process is made to look at itself: by memscan trigger, by kill -35, by size, by the clock.

The target (tests/targets/triggered.c) works on meanwhile and checks itself; it ends with
status 0 only when all was right. TRIGGERS is how often the hammers strike (10,000 by hand).
"""

import contextlib
import ctypes
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

import messages
import support
from support import (BUILD, COULD_NOT_SCAN, COULD_NOT_WRITE, MEMSCAN, Process, SCANNED_CLEAN, Target, compile_target, kill, state_of,
                     wait_until)

TRIGGERS = int(os.environ.get("TRIGGERS") or 200)

SIGNAL, FILES, MANY = 35, 32, 400_000
SWAPS = 100  # at the second to the 49th a chmod hit the wrong file
STACKS = ctypes.c_void_p(1)  # union sigval, as sigqueue(3) takes it
LIBRARY = BUILD / "libmemunreachable.so"
HELPER = "memunreachable"
NOBODY = 65534
MODES = ("idle", "compute", "malloc", "forks", "calls", "tiny", "altstack", "fds")


# ---- a program with the handler ----

@pytest.fixture
def folder():
    """Not pytest's own, which other users may not enter."""
    with tempfile.TemporaryDirectory(prefix="triggers-") as name:
        os.chmod(name, 0o755)
        yield pathlib.Path(name)


pytestmark = pytest.mark.usefixtures("adopted")
root_only = pytest.mark.skipif(os.getuid() != 0, reason="needs two users")


class Triggered(Target):
    """The target, preloaded; its standard error is kept."""

    def __init__(self, folder, *words, static=False, env=None, argv=None, **more):
        self.folder = folder
        self.errors = open(folder / "stderr", "w+b")
        env = {"MEMUNREACHABLE_FOLDER": str(folder), "INSTALL_HANDLER": "1" if static else "", **(env or {})}
        ours = support.for_all if "user" in more else str
        if not static:
            env.setdefault("LD_PRELOAD", str(ours(LIBRARY)))
        program = ours(linked() if static else compile_target("triggered"))
        super().__init__(argv or [program, *words], env=env, stderr=self.errors, **more)

    def said(self):
        return pathlib.Path(self.errors.name).read_text(errors="replace")

    def files(self):
        return sorted(self.folder.glob("tombstone_*"))

    def answers(self):
        return [file.read_text() for file in self.files()]

    def named_by(self, text):
        """Whether an answer names each planted leak by its address, and is whole."""
        return all(re.search(rf"\b{size} bytes unreachable at {address:x}$", text, re.M)
                   for address, size in self.leaks().items())

    def strike(self, pid=None):
        """One bare signal; its answer, a file."""
        before = len(self.files())
        os.kill(pid or self.pid, SIGNAL)
        wait_until(lambda: len(self.files()) > before, what="a file")
        return self.files()[-1].read_text()

    def quiet(self):
        """No process beside is left, and no file that is not a whole answer."""
        wait_until(lambda: not helpers(self.pid) and not [p for p in self.folder.iterdir() if p.name.startswith(".")],
                   30, "the end of the process beside, and of what it writes")

    def well(self):
        """All that it did was right, and nothing is left over."""
        self.quiet()
        status = self.finish(30)
        assert status == 0, f"status {status}\n{self.said()[-2000:]}"


def linked():
    """The same program with the static library, that installs the handler itself."""
    library = BUILD / "libmemunreachable.a"
    out = support.E2E_BUILD / support.HOST / "triggered-linked"
    if out.exists() and out.stat().st_mtime < library.stat().st_mtime:
        out.unlink()
    return compile_target("triggered", tag="-linked", flags=("-Wl,-u,memunreachable_install_handler",),
                          libs=(str(library),))


def helpers(pid):
    """Processes beside a program: named so, and with its memory map."""
    return [other for other in support.all_pids()
            if other != pid and support.command_of(other) == HELPER and shares_memory(pid, other)]


def shares_memory(pid, other):
    return support.libc.syscall(312, pid, other, 1, 0, 0) == 0  # kcmp(KCMP_VM)


def trigger(pid, *words):
    status, out, err = finish_trigger(start_trigger(pid, *words))
    return support.Scan(status, out, err, 0)


def mappings(pid):
    return len(pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines())


def mapped_mib(pid):
    return int(re.search(r"VmSize:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) >> 10


def descriptors(pid):
    return sorted(os.listdir(f"/proc/{pid}/fd"))


def start_trigger(pid, *words):
    """A memscan trigger that goes on; to be ended with finish_trigger()."""
    popen = subprocess.Popen([MEMSCAN, "trigger", str(pid), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    support.our_children.add(popen.pid)
    return popen


def finish_trigger(popen):
    out, err = popen.communicate(timeout=100)
    support.our_children.discard(popen.pid)
    return popen.returncode, out, err


# ---- it answers, whatever the program is doing ----

@pytest.mark.parametrize("static", (False, True), ids=("preloaded", "linked"))
@pytest.mark.parametrize("mode", MODES)
def test_answers_and_leaves_nothing(folder, mode, static):
    if static and mode == "fds":
        pytest.skip("the same handler")
    with Triggered(folder, mode, static=static) as target:
        answer = trigger(target.pid)
        assert answer.status == SCANNED_CLEAN and target.named_by(answer.stdout), str(answer)
        assert target.named_by(target.strike()), target.answers()
        target.quiet()
        before = mappings(target.pid), descriptors(target.pid)
        for _ in range(10):
            answer = trigger(target.pid)
            assert answer.status == SCANNED_CLEAN and target.named_by(answer.stdout), str(answer)
        target.quiet()
        if mode not in ("malloc", "forks"):
            assert (mappings(target.pid), descriptors(target.pid)) == before
        target.well()


def test_stacks(folder):
    with Triggered(folder, "malloc") as target:
        for _ in range(3):
            status, out, err = finish_trigger(start_trigger(target.pid, "--stacks"))
            assert status == SCANNED_CLEAN, (status, err)
            told = {int(tid) for tid in re.findall(r"sysTid=(\d+)", out)}
            assert told == set(support.threads_of(target.pid)), out
        target.well()


def test_stacks_by_a_library_of_a_relative_path(folder):
    """The program beside it is still found when the process has gone to another folder."""
    program = compile_target("triggered")
    command = f"cd {BUILD} && LD_PRELOAD=./{LIBRARY.name} exec {program} idle"
    with Triggered(folder, argv=["/bin/sh", "-c", command], env={"LD_PRELOAD": ""}) as target:
        assert target.ask("leave\n") == "left 0"
        status, out, err = finish_trigger(start_trigger(target.pid, "--stacks"))
        assert status == SCANNED_CLEAN and "sysTid=" in out, (status, err)
        target.well()


def test_a_thread_stands_for_its_process(folder):
    with Triggered(folder, "malloc") as target:
        answer = trigger(support.threads_of(target.pid)[-1])
        assert answer.status == SCANNED_CLEAN and target.named_by(answer.stdout), str(answer)
        target.well()


def test_a_name_stands_for_a_process(folder):
    with Triggered(folder, "malloc") as target:
        name = pathlib.Path(f"/proc/{target.pid}/comm").read_text().strip()
        answer = trigger("--name", name)
        assert answer.status == SCANNED_CLEAN and target.named_by(answer.stdout), str(answer)
        target.well()


def test_a_reader_that_leaves_is_told_nothing(folder):
    with Triggered(folder, "idle") as target:
        to, from_ = os.pipe()
        os.close(to)
        done = subprocess.run([MEMSCAN, "trigger", str(target.pid)], stdout=from_, stderr=subprocess.PIPE, timeout=100)
        os.close(from_)
        assert (done.returncode, done.stderr) == (COULD_NOT_WRITE, b"")
        target.well()


def test_two_at_once(folder):
    with Triggered(folder, "idle", MANY) as target:
        for _ in range(5):
            first, second = start_trigger(target.pid), start_trigger(target.pid)
            ended = sorted([finish_trigger(first), finish_trigger(second)], key=lambda end: end[0])
            answered = [end for end in ended if end[0] == SCANNED_CLEAN]
            refused = [end for end in ended if end[0] == COULD_NOT_SCAN]
            assert answered and len(answered) + len(refused) == 2, ended
            assert all(target.named_by(out) for _, out, _ in answered), ended
            assert all("another memscan trigger waits" in err and not out for _, out, err in refused), ended
        target.well()


def test_files_rotate(folder):
    with Triggered(folder, "idle") as target:
        for n in range(FILES):
            target.strike()
            assert [p.name for p in target.files()] == [f"tombstone_{i:02}" for i in range(n + 1)]
        ages = {p: p.stat().st_mtime_ns for p in target.files()}
        os.utime(target.files()[5], ns=(1, 1))  # the oldest
        os.kill(target.pid, SIGNAL)
        wait_until(lambda: target.files()[5].stat().st_mtime_ns > 1, what="a file replaced")
        changed = [p.name for p in target.files() if p.stat().st_mtime_ns != ages[p]]
        assert changed == ["tombstone_05"] and len(target.files()) == FILES
        assert all(target.named_by(text) for text in target.answers())
        target.well()


# ---- children ----

@pytest.mark.parametrize("blocks", (0, MANY), ids=("idle", "answering"))
def test_a_forked_child_answers_for_itself(folder, blocks):
    with Triggered(folder, "idle", blocks) as target:
        assert target.named_by(trigger(target.pid).stdout)
        asked = start_trigger(target.pid) if blocks else None
        child = int(target.ask("fork\n").split()[1])
        answer = trigger(child)
        assert answer.status == SCANNED_CLEAN and target.named_by(answer.stdout), str(answer)
        assert f"process {child}" in answer.stdout or str(child) in answer.stdout, answer.stdout
        if asked:
            assert target.named_by(finish_trigger(asked)[1])
        assert target.named_by(trigger(target.pid).stdout)
        kill(child)
        wait_until(lambda: state_of(child) == "Z", what="the child's end")
        target.quiet()


def test_a_signal_before_a_child_has_begun_is_answered(folder):
    with Triggered(folder, "idle", static=True, env={"RAISE_IN_CHILD": "1"}) as target:
        child = int(target.ask("fork\n").split()[1])
        wait_until(target.files, what="a file")
        target.quiet()
        assert len(target.files()) == 1
        assert f"process {child} " in target.answers()[0] and target.named_by(target.answers()[0])
        kill(child)
        target.quiet()


def test_a_child_of_vfork_leaves_its_parents_memory_alone(folder):
    with Triggered(folder, "idle", MANY) as target:
        child = int(target.ask("vfork\n").split()[1])
        asked = start_trigger(target.pid)
        while asked.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, SIGNAL)
            time.sleep(0.001)
        status, out, err = finish_trigger(asked)
        assert status == SCANNED_CLEAN and target.named_by(out), (status, out, err)
        target.well()


@pytest.mark.parametrize("moment_ms", (0, 5, 20, 50))
def test_the_program_exits_meanwhile(folder, moment_ms):
    with Triggered(folder, "idle", MANY) as target:
        asked = start_trigger(target.pid)
        time.sleep(moment_ms / 1000)
        target.popen.stdin.write(b"exit\n")
        target.popen.stdin.flush()
        assert target.popen.wait(20) == 0
        finish_trigger(asked)
        wait_until(lambda: not [p for p in support.all_pids() if support.command_of(p) == HELPER and
                                str(target.folder) in maps_of(p)], what="the end of the process beside")


def maps_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/maps").read_text()
    return ""


# ---- hammers ----

@pytest.mark.parametrize("mode", ("malloc", "forks", "calls", "tiny"))
def test_hammer(folder, mode):
    with Triggered(folder, mode) as target:
        for n in range(TRIGGERS):
            os.kill(target.pid, SIGNAL)
            if n % 50 == 0:
                time.sleep(random.random() / 50)
        # the last signal is answered, also when it came while an answer was being made
        wait_until(target.files, what="a file")
        target.quiet()
        assert target.files() and all(target.named_by(text) for text in target.answers())
        assert target.named_by(trigger(target.pid).stdout)
        target.well()


@pytest.mark.parametrize("mode", ("malloc", "idle"))
def test_the_process_beside_is_killed(folder, mode):
    with Triggered(folder, mode, MANY // 4) as target:
        before, killed = None, 0
        for _ in range(max(TRIGGERS // 8, 10)):
            os.kill(target.pid, SIGNAL)
            time.sleep(random.random() / 20)
            for pid in helpers(target.pid):
                kill(pid)
                killed += 1
            wait_until(lambda: not helpers(target.pid), what="its end")
            assert target.running(), target.said()
            before = before or mapped_mib(target.pid)
        assert killed
        answer = trigger(target.pid)
        assert answer.status == SCANNED_CLEAN and target.named_by(answer.stdout), str(answer)
        # what a killed one had not yet noted where the next finds it is lost, but no more
        assert mode == "malloc" or mapped_mib(target.pid) < before + killed + 10, "what a killed one had mapped is still there"
        target.well()


def test_the_process_beside_never_uses_malloc(folder):
    """It has a copy of a thread's caches, which two must not use."""
    preload = f"{LIBRARY} {support.compile_special('whose_malloc.c', '-shared', '-fPIC')}"
    for bad in ({}, {"MEMUNREACHABLE_FOLDER": "/nonexistent"}, {"MEMUNREACHABLE_MEMSCAN": "/nonexistent"}):
        with Triggered(folder, "idle", env={"LD_PRELOAD": preload, **bad}) as target:
            os.kill(target.pid, SIGNAL)
            wait_until(lambda: "folder" in target.said() or target.files(), what="an answer")
            target.quiet()
            # one that fails, as the second tracer is refused
            told = False
            while not told:  # strace may come while the last answer's freeze still goes on
                with Process(["strace", "-o", "/dev/null", "-p", str(target.pid)],
                             stderr=subprocess.PIPE) as strace:
                    wait_until(lambda: support.tracer_of(target.pid) or strace.popen.poll() is not None,
                               60, "a tracer")
                    told = strace.popen.poll() is None
                    if told:
                        trigger(target.pid)
            subprocess.run([MEMSCAN, "trigger", "--stacks", str(target.pid)], capture_output=True)
            target.quiet()
            assert "malloc of another process" not in target.said(), target.said()
            target.well()


def refused_by(target, *words):
    """What memscan trigger says of a process that cannot answer: two lines, and nothing else."""
    status, out, err = finish_trigger(start_trigger(target.pid, *words))
    assert (status, out) == (COULD_NOT_SCAN, ""), (status, out, err)
    lines = err.splitlines()
    assert len(lines) == 2 and all(re.match("memscan: [^:]+", line) for line in lines), err
    return err


@pytest.mark.parametrize("words", ([], ["--stacks"]), ids=("leaks", "stacks"))
def test_an_answer_that_is_an_error(folder, words):
    with Triggered(folder, "idle") as target:
        told = False
        while not told:  # strace may come while the last answer's freeze still goes on
            with Process(["strace", "-o", "/dev/null", "-p", str(target.pid)], stderr=subprocess.PIPE) as strace:
                wait_until(lambda: support.tracer_of(target.pid) or strace.popen.poll() is not None, 60, "a tracer")
                told = strace.popen.poll() is None
                if told:
                    err = refused_by(target, *words)
                    assert f"traced already, by process {strace.pid} (strace)" in err
        assert trigger(target.pid).status == SCANNED_CLEAN
        target.well()


def test_stacks_that_cannot_be_told(folder):
    missing = folder / "no-memscan"
    for text, program in (("no program memscan", "/nonexistent"), ("ended with status 127", missing),
                          ("ended with status 9", missing)):
        if program is missing:
            missing.write_text("no program\n" if "127" in text else "#!/bin/sh\nexit 9\n")
            missing.chmod(0o755)
        with Triggered(folder, "idle", env={"MEMUNREACHABLE_MEMSCAN": str(program)}) as target:
            assert text in refused_by(target, "--stacks")
            target.well()


def test_a_file_of_an_error_has_no_marks(folder):
    with Triggered(folder, "idle", env={"MEMUNREACHABLE_MEMSCAN": "/nonexistent"}) as target:
        assert support.libc.sigqueue(target.pid, SIGNAL, STACKS) == 0
        wait_until(target.files, what="a file")
        assert re.fullmatch("memscan: no program memscan .*\nmemscan: set MEMUNREACHABLE_MEMSCAN .*\n",
                            target.files()[0].read_text())
        target.well()


# ---- size and clock ----

def test_interval(folder):
    with Triggered(folder, "idle", env={"MEMUNREACHABLE_INTERVAL": "1"}) as target:
        wait_until(lambda: len(target.files()) >= 2, 60, "two files")
        assert all(target.named_by(text) for text in target.answers())
        child = int(target.ask("fork\n").split()[1])
        wait_until(lambda: any(f" {child}" in text for text in target.answers()), 60, "the child's file")


def test_size(folder):
    with Triggered(folder, "idle", env={"MEMUNREACHABLE_RSS": "32M"}) as target:
        for files in (1, 2):
            time.sleep(2.5)
            assert len(target.files()) == files - 1, "it has not grown by 32 MiB since"
            assert target.ask("grow\n") == "grown 0"
            wait_until(lambda: len(target.files()) == files, 60, "a file")
        time.sleep(2.5)
        assert len(target.files()) == files, "it has not grown since"


@pytest.mark.parametrize("name", ("RSS", "INTERVAL"))
@pytest.mark.parametrize("value", ("x", "-1", "0", "1T", "5 ", "99999999999999999999", "18446744073709551615"))
def test_nonsense_is_said_and_left_out(folder, name, value):
    with Triggered(folder, "idle", env={f"MEMUNREACHABLE_{name}": value}) as target:
        assert f"MEMUNREACHABLE_{name} takes a number" in target.said() and f"'{value}'" in target.said()
        assert len(support.threads_of(target.pid)) == 1
        assert target.named_by(trigger(target.pid).stdout)
        target.well()


# ---- what stands in the way ----

def check_refused(target):
    """It is told, and not signalled, of which it might die."""
    answer = trigger(target.pid)
    assert answer.status == COULD_NOT_SCAN and "has no handler" in answer.stderr, str(answer)
    assert len(answer.stderr.splitlines()) == 2 and not answer.stdout
    time.sleep(0.1)
    assert target.running()


def test_without_handler(folder):
    with Triggered(folder, "idle", env={"LD_PRELOAD": ""}) as target:
        assert target.ask("leave\n") == "left 0"
        check_refused(target)
        target.well()


def test_switched_off(folder):
    with Triggered(folder, "idle", env={"MEMUNREACHABLE_TRIGGER": "0"}) as target:
        check_refused(target)
    with Triggered(folder, "own", env={"MEMUNREACHABLE_TRIGGER": "0"}) as target:
        check_refused(target)
        assert target.ask("count\n") == "count 0"


@pytest.mark.parametrize("static", (False, True), ids=("preloaded", "linked"))
def test_a_program_keeps_its_own_handler(folder, static):
    with Triggered(folder, "own", static=static) as target:
        os.kill(target.pid, SIGNAL)
        wait_until(lambda: target.ask("count\n") == "count 1")
        target.quiet()
        assert not target.files()
        target.well()


def test_an_ignored_signal_stays_so(folder):
    def ignore():
        signal.signal(SIGNAL, signal.SIG_IGN)

    with Triggered(folder, "idle", preexec_fn=ignore) as target:
        check_refused(target)
        target.well()


@pytest.mark.parametrize("there", (False, True), ids=("missing", "a-file"))
def test_a_folder_that_is_none(folder, there):
    bad = folder / "none"
    if there:
        bad.write_text("")
    with Triggered(folder, "idle", env={"MEMUNREACHABLE_FOLDER": str(bad)}) as target:
        os.kill(target.pid, SIGNAL)
        wait_until(lambda: f"cannot write to the folder '{bad}'" in target.said(), what="a message")
        answer = trigger(target.pid)
        assert answer.status == COULD_NOT_SCAN and str(bad) in answer.stderr, str(answer)
        target.well()


@root_only
def test_an_unwritable_folder(folder):
    bad = folder / "bad"
    bad.mkdir(mode=0o555)
    with Triggered(folder, "idle", env={"MEMUNREACHABLE_FOLDER": str(bad)}, user=NOBODY) as target:
        os.kill(target.pid, SIGNAL)
        wait_until(lambda: f"cannot write to the folder '{bad}': Permission denied" in target.said(),
                   what="a message")
        target.well()


@pytest.mark.parametrize("bad", ("/tmp/" + "x" * 200, "relative"), ids=("long", "relative"))
def test_a_folder_that_cannot_be_used(folder, bad):
    with Triggered(folder, "idle", env={"MEMUNREACHABLE_FOLDER": bad}) as target:
        assert "MEMUNREACHABLE_FOLDER takes" in target.said() and "/tmp is used" in target.said()
        assert target.named_by(trigger(target.pid).stdout)  # there, too
        target.well()


def test_a_stopped_program(folder):
    with Triggered(folder, "idle") as target:
        os.kill(target.pid, signal.SIGSTOP)
        answer = trigger(target.pid)
        assert answer.status == COULD_NOT_SCAN and "does not answer" in answer.stderr, str(answer)
        assert len(answer.stderr.splitlines()) == 2
        os.kill(target.pid, signal.SIGCONT)
        wait_until(target.files, seconds=60, what="the answer that nobody waits for any more")
        target.well()


@root_only
def test_no_more_processes(folder):
    """Without a process to be had the program goes on, and says why there is no answer."""
    folder.chmod(0o777)
    with Triggered(folder, "idle", user=NOBODY) as target:
        def limit(n):
            subprocess.run(["prlimit", f"--pid={target.pid}", f"--nproc={n}:"], user=NOBODY, check=True)

        limit(0)
        os.kill(target.pid, SIGNAL)
        wait_until(lambda: "cannot start the process that answers: Resource" in target.said(), what="a message")
        limit(64)
        assert target.named_by(target.strike())
        target.well()


@root_only
def test_others_are_not_answered(folder):
    """One who is neither root nor the process's user waits in vain, and a file is written."""
    folder.chmod(0o777)
    with Triggered(folder, "idle") as target:
        name = folder / f".memunreachable.{target.pid}"
        code = ("import os, socket, sys\n"
                "s = socket.socket(socket.AF_UNIX)\n"
                f"s.bind({str(name)!r})\n"
                "os.chmod(s.getsockname(), 0o666); s.listen(1); print('bound', flush=True)\n"
                "c, _ = s.accept(); print(len(c.recv(1 << 20)), flush=True)\n")
        with Process(["/usr/bin/python3", "-c", code], user=NOBODY) as other:
            assert other.line() == "bound"
            assert target.named_by(target.strike())
            assert other.line() == "0"
        name.unlink()
        answer = subprocess.run([support.for_all(MEMSCAN), "trigger", str(target.pid)], user=NOBODY,
                                capture_output=True, text=True)
        assert answer.returncode == COULD_NOT_SCAN and "may not be signalled" in answer.stderr
        messages.check(answer.returncode, answer.stderr)
        target.well()


@root_only
def test_a_name_that_someone_else_took(folder):
    """In a folder that all may write to, another user's file stands in nobody's way, and nothing is put into it."""
    folder.chmod(0o1777)
    code = ("import os, sys\nfor line in sys.stdin:\n"
            f" open({str(folder)!r} + '/.tombstone.' + line.strip(), 'w').close(); print('made', flush=True)\n")
    with Process(["/usr/bin/python3", "-c", code], user=NOBODY, stdin=subprocess.PIPE) as other, \
            Triggered(folder, "idle", user=NOBODY - 1) as target:
        other.popen.stdin.write(f"{target.pid}\n".encode())
        other.popen.stdin.flush()
        assert other.line() == "made"
        assert target.named_by(target.strike())
        taken = folder / f".tombstone.{target.pid}"
        assert taken.stat().st_size == 0
        taken.unlink()
        target.well()


def is_pending(pid, number):
    """Whether the signal waits for the process, or for its first thread."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return any(int(mask, 16) >> number - 1 & 1 for mask in re.findall(r"^S\w+Pnd:\s*(\w+)", status, re.M))


@pytest.mark.parametrize("number", (signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
def test_an_asker_that_is_ended(folder, number):
    """It leaves no socket, save when killed; and the next finds its way past that."""
    with Triggered(folder, "idle") as target:
        os.kill(target.pid, signal.SIGSTOP)
        asked = start_trigger(target.pid)
        wait_until(lambda: list(folder.glob(".memunreachable.*")), what="a socket")
        wait_until(lambda: is_pending(target.pid, SIGNAL), what="the asker's signal")
        asked.send_signal(number)
        assert finish_trigger(asked)[0] == -number
        assert bool(list(folder.glob(".memunreachable.*"))) == (number == signal.SIGKILL)
        os.kill(target.pid, signal.SIGCONT)
        wait_until(target.files, what="a file instead")
        assert target.named_by(trigger(target.pid).stdout)
        target.well()


def test_an_answer_that_is_cut_off_is_no_answer(folder):
    with Triggered(folder, "idle", MANY) as target:
        asked = start_trigger(target.pid)
        pid = wait_until(lambda: helpers(target.pid), what="the process beside")[0]
        kill(pid)
        status, out, err = finish_trigger(asked)
        assert (status, "cut off" in err or "does not answer" in err) == (COULD_NOT_SCAN, True), (status, out, err)
        assert target.named_by(trigger(target.pid).stdout)
        target.well()


# ---- processes that lie ----

@contextlib.contextmanager
def liar(folder, answer, user=NOBODY):
    """A process of another user's that has the handler's sign, and answers what it likes."""
    more = {"user": user} if os.getuid() == 0 else {}
    program = support.for_all(support.HOSTILE / "answers.py")
    with Process(["/usr/bin/python3", program, folder, answer], **more) as process:
        assert process.line() == "READY"
        yield process


@pytest.mark.parametrize("refused", ("", r"\x01"), ids=("answer", "refusal"))
def test_no_answer_commands_the_terminal(folder, refused):
    folder.chmod(0o1777)
    answer = refused + (r"a\x1b]52;c;ZXZpbA==\x07\nb\x1b[2J\x9b2J\xc2\x9b\rc\xe2\x80\xaed\xe2\x81\xa6\xc3\xa9")
    with liar(folder, answer) as process:
        done = subprocess.run([MEMSCAN, "trigger", str(process.pid)], capture_output=True, timeout=60)
    text = (done.stdout + done.stderr).decode()
    assert "a?]52;c;ZXZpbA==?" in text and "b?[2J\ufffd2J??c?d?\u00e9" in text
    assert not [c for c in text if (ord(c) < 32 or 127 <= ord(c) < 160 or 0x202a <= ord(c) <= 0x2069) and c != "\n"]


def test_long_lines_stay_whole(folder):
    """Also where a piece ends in the middle of a character."""
    folder.chmod(0o1777)
    euros, rest = 5000 * "\u20ac", "y" + 30000 * "z"
    line = "x" + euros + rest
    with liar(folder, "x" + "".join(f"\\x{byte:02x}" for byte in euros.encode()) + rest) as process:
        done = subprocess.run([MEMSCAN, "trigger", str(process.pid)], capture_output=True, timeout=60)
    assert done.stdout.decode() == line, done.stderr


@root_only
@pytest.mark.parametrize("bad, said", (("theirs", "belongs to another user"), ("link", "cannot wait for an answer in the folder"),
                                       ("link/below", "cannot wait for an answer in the folder"),
                                       ("theirs/../safe", "cannot wait for an answer in the folder")))
def test_folders_that_another_user_may_exchange(folder, bad, said):
    """Nothing is put there, and nothing there is changed."""
    theirs = folder / "theirs"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    (folder / "safe").mkdir()
    (folder / "safe" / "below").mkdir()
    (folder / "link").symlink_to(folder / "safe")
    with liar(folder / bad, "an answer") as process:
        done = subprocess.run([MEMSCAN, "trigger", str(process.pid)], capture_output=True, text=True, timeout=60)
    assert done.returncode == COULD_NOT_SCAN and said in done.stderr, done.stderr
    messages.check(done.returncode, done.stderr)
    assert not list(theirs.iterdir()) and [p.name for p in (folder / "safe").iterdir()] == ["below"]


@root_only
def test_no_other_file_becomes_writable(folder):
    """A user who exchanges the socket for a link, again and again, changes no mode."""
    theirs = folder / "theirs"
    theirs.mkdir()
    secret = folder / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)
    swap = shutil.copy(support.compile_hostile("swap.c"), folder / "swap")
    os.chown(theirs, NOBODY, NOBODY)
    for sticky in (False, True):
        theirs.chmod(0o1777 if sticky else 0o755)
        with liar(theirs, "an answer") as process, \
                Process([swap, theirs / f".memunreachable.{process.pid}", secret], user=NOBODY) as swapper:
            assert swapper.line() == "READY"
            for _ in range(SWAPS):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    subprocess.run([MEMSCAN, "trigger", str(process.pid)], capture_output=True, timeout=0.03)
    assert secret.stat().st_mode & 0o777 == 0o600
