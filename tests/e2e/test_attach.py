# SPDX-License-Identifier: Apache-2.0
"""memscan attach and detach: programs that allocate in every way go on right, whatever happens.

The program checks all that it gets from malloc (tests/targets/stormy.c). ATTACH_ROUNDS is how
often each is attached and detached, ATTACH_KILLS how often memscan is killed meanwhile.
"""

import collections
import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest

import servers
import support
from attach_support import (ATTACHED, GLIBC_FILE, KILLS, NOT_ATTACHED, REFUSED, ROUNDS, SEED, STUCK_S, TEXT_BYTES, Stormy,
                            agents_of, attach, check_given_back_all, clean, detach, kill_at_random, loaded, malloc_code,
                            offsets_of, refused, run_rounds, status_of, table_magic, text_of, write_code)
from support import HOST, MEMSCAN, Process, compile_target, memscan
from test_kills import Busy, end_of, start_command

MODES = ("loops", "single", "forks", "spawns", "threads", "signals", "routines", "sleeps")
OTHERS = [suite for suite in support.GLIBC if suite != HOST]
SLOTS_AT = 12288
NOBODY = 65534


# ---- rounds ----

@pytest.mark.parametrize("mode", MODES)
def test_rounds(mode):
    with Stormy(mode) as target:
        run_rounds(target, ROUNDS, 4096)
        run_rounds(target, ROUNDS // 4, 1)
        target.end()


@pytest.mark.parametrize("mode", MODES if ROUNDS > 2 else MODES[:1])
@pytest.mark.parametrize("suite", OTHERS)
def test_rounds_under_other_glibcs(suite, mode):
    with Stormy(mode, suite) as target:
        run_rounds(target, ROUNDS, 4096)
        target.end()


def test_nginx_under_load(folder):
    servers.need("/usr/sbin/nginx")
    pages = {f"{i}.txt": os.urandom(3000 * (i + 1)).hex().encode() for i in range(4)}
    port = servers.free_port()
    with servers.start_nginx(folder, port, pages) as nginx:
        support.wait_until(lambda: servers.accepts(port) and len(support.children_of(nginx.pid)) == 2, 30, "nginx answers")
        load = servers.Load(port, pages)
        load.start()
        try:
            workers = support.children_of(nginx.pid)
            for _ in range(ROUNDS):
                for pid in workers:
                    attach(pid, "--sample", 8192)
                before = load.right
                support.wait_until(lambda: load.right > before + 20 or load.wrong, STUCK_S, "answers")
                for pid in workers:
                    detach(pid)
        finally:
            load.ended = True
            load.join(STUCK_S)
        assert not load.wrong, load.wrong
        assert set(support.children_of(nginx.pid)) == set(workers), "a worker died"


PYTHON = """
import hashlib, threading, sys
def work(seed):
    while not done.is_set():
        words = [bytes([i % 251]) * (i * 37 % 3000) for i in range(seed, seed + 200)]
        if hashlib.md5(b"".join(words)).digest() != wanted[seed]: print("WRONG", flush=True); sys.exit(1)
        counts[seed] += 1
done, counts = threading.Event(), [0] * 4
wanted = [hashlib.md5(b"".join(bytes([i % 251]) * (i * 37 % 3000) for i in range(s, s + 200))).digest() for s in range(4)]
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for t in threads: t.start()
print("READY", flush=True)
for line in sys.stdin: print(min(counts), flush=True)
done.set()
"""


def test_python_with_threads():
    with Process([shutil.which("python3", path="/usr/bin"), "-c", PYTHON]) as python:
        assert python.line() == "READY"
        for _ in range(ROUNDS):
            attach(python.pid, "--sample", 16384)
            before = int(python.ask("\n"))
            support.wait_until(lambda: int(python.ask("\n")) > before, STUCK_S, "it computes")
            detach(python.pid)
        assert python.finish(STUCK_S) == 0


def test_two_thousand_threads(notes):
    """All stand at once; and each counts for itself from then on."""
    pauses = []
    with Stormy("many") as target:
        assert len(support.threads_of(target.pid)) == 2001
        for _ in range(ROUNDS):
            said = attach(target.pid, "--sample", 512)
            pauses.append(float(re.search(r"all ([0-9.]+) ms", said)[1]))
            target.check()
            known = memscan("attach", "--status", target.pid).stdout
            assert int(re.search(r"(\d+) samples", known)[1]) > 0, known
            said = detach(target.pid)
            pauses.append(float(re.search(r"all stood ([0-9.]+) ms", said)[1]))
            target.check()
        check_given_back_all(target.pid)
        target.end()
    notes.append(f"2,000 threads: {len(pauses)} pauses, median {sorted(pauses)[len(pauses) // 2]} ms, "
                 f"longest {max(pauses)} ms")


LONGEST_MS = 2000


def stacked(*args):
    target = Process([compile_target("stacked"), *args])
    assert target.line() == "READY"
    target.ask("\n")
    return target


def longest_ms(target):
    """How long a thread of it stood still since it was asked last."""
    return int(target.ask("\n").split()[1]) / 1e6


# threads, bytes of each one's stack: in one block, of 52, 340 and 10 MB
@pytest.mark.parametrize("args", [(800, 65536), (32, 10 << 20), (1000, 10000, "same")], ids=str)
def test_stacks_of_coroutines_in_one_block(args, notes):
    """Beyond each stack pointer lies more memory than can be looked through while all threads stand."""
    with stacked(*args) as target:
        for command in (attach, detach):
            said = command(target.pid)
            stood = longest_ms(target)
            assert stood < LONGEST_MS, said
            notes.append(f"{args}: {command.__name__}, longest gap {stood:.1f} ms: {said.strip()}")
        assert agents_of(target.pid) == ("stays" in said)
        detach(target.pid)
        assert target.finish() == 0


def calls_in_stops(path):
    """The calls of each process that stopped threads, from the first that it interrupted to the first that it let go."""
    stops = {}
    for line in pathlib.Path(path).read_text().splitlines():
        pid, call = line.split(None, 1)
        if "PTRACE_INTERRUPT" in call and pid not in stops:
            stops[pid] = []
        if pid in stops and not (stops[pid] and stops[pid][-1] is None) and re.match(r"\w+\(", call):
            stops[pid].append(None if "PTRACE_DETACH" in call else call)
    return [[call for call in calls if call] for calls in stops.values()]


def test_calls_by_thread(folder):
    """While all stand, one that sleeps costs four calls besides waiting for it: to seize it, interrupt it, see where it
    stands and whether it has slept since its stack was looked through; or five, to look through it again."""
    threads = 100  # few, so that all are looked at before the stop, however slowly
    with stacked(threads, 0) as target:
        tasks = support.threads_of(target.pid)
        support.wait_until(lambda: [support.state_of(task) for task in tasks].count("S") >= threads, 30, "they sleep")
        for command in ("attach", "detach"):
            done = subprocess.run(["strace", "-f", "-q", "-o", f"{folder}/calls", "-e",
                                   "trace=ptrace,process_vm_readv,pread64,pwrite64", MEMSCAN, command,
                                   str(target.pid)], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr
            most = max(calls_in_stops(f"{folder}/calls"), key=len)
            assert 3 * threads < len(most) < 7 * threads, (command, len(most))


# ---- what the commands say and do ----

def test_status_counts_samples():
    with Stormy("single") as target:
        attach(target.pid, "--sample", 1)
        target.check()
        samples, live, said = 0, 0, ""

        def has_live():  # it frees all now and then
            nonlocal samples, live, said
            said = memscan("attach", "--status", "--pid", target.pid).stdout
            samples, live = map(int, re.search(r"(\d+) samples, (\d+) of them live, \d+ dropped", said).groups())
            return live
        support.wait_until(has_live, what="a sample that lives")
        assert samples > live, said
        assert "1 sample in 1 bytes" in said
        detach(target.pid)
        target.end()


def test_a_new_distance_counts_at_once():
    """What a thread has left to count from an earlier attach is forgotten."""
    with Stormy("single") as target:
        attach(target.pid, "--sample", 1 << 30)
        target.check()
        detach(target.pid)
        attach(target.pid, "--sample", 1)
        assert table_magic(target.pid).startswith(b"memscan agent 3")
        target.check()
        said = memscan("attach", "--status", target.pid).stdout
        assert int(re.search(r"(\d+) samples", said)[1]) > 0, said
        detach(target.pid)
        target.end()


def test_not_attached_is_no_failure():
    with Stormy("sleeps") as target:
        assert not status_of(target.pid)
        assert "was not attached" in detach(target.pid)
        assert memscan("detach", "--pid", target.pid, "-q").stdout == ""


def test_attached_twice():
    with Stormy("loops") as target:
        attach(target.pid)
        assert "attached already" in attach(target.pid, status=REFUSED)
        assert agents_of(target.pid) == 1
        target.check()
        detach(target.pid)
        target.end()


def test_for_a_time():
    with Stormy("loops") as target:
        said = attach(target.pid, "--for", "0.3")
        assert "is attached" in said and "is detached" in said
        assert not status_of(target.pid)
        target.end()


def test_for_a_time_that_a_signal_ends():
    with Stormy("loops") as target, Process([MEMSCAN, "attach", "--for", "1h", target.pid]) as waiting:
        assert "is attached" in waiting.line()
        assert status_of(target.pid)
        waiting.popen.send_signal(signal.SIGTERM)
        assert waiting.popen.wait(STUCK_S) == -signal.SIGTERM
        assert not status_of(target.pid)
        target.end()


def test_for_a_time_in_which_the_program_ends():
    with Stormy("loops") as target, Process([MEMSCAN, "attach", "--for", "1h", target.pid]) as waiting:
        assert "is attached" in waiting.line()
        target.end()
        assert waiting.line() == f"process {target.pid} has ended"
        assert waiting.popen.wait(STUCK_S) == 0


@pytest.mark.parametrize("args", [(), ("--pid", "0"), ("1", "2"), ("--sample", "0", "1"), ("--for", "1y", "1"),
                                  ("--for", "", "1"), ("--status", "--for", "1", "1"), ("--pid", "1", "--name", "x")])
def test_usage_errors(args):
    done = memscan("attach", *args)
    assert done.status == support.USAGE and len(done.stderr.splitlines()) == 2, done


def test_help_lists_what_there_is():
    for command in "attach", "detach":
        done = memscan(command, "--help")
        assert done.status == 0 and f"memscan {command} [OPTION]... PID" in done.stdout


# ---- what a program does meanwhile ----

def test_a_child_has_an_agent_of_its_own():
    program = ("import os,sys,signal\nprint('READY',flush=True)\nsys.stdin.readline()\n"
               "pid=os.fork()\nif not pid: signal.pause()\nprint(pid,flush=True)\nsys.stdin.readline()\nos.kill(pid,9)\n"
               "print(os.waitpid(pid,0)[1],flush=True)")
    with Process(["/usr/bin/python3", "-c", program]) as parent:
        assert parent.line() == "READY"
        attach(parent.pid, "--sample", 1000)
        child = int(parent.ask("\n"))
        assert status_of(child)
        detach(child)
        assert status_of(parent.pid) and not status_of(child)
        detach(parent.pid)
        assert parent.ask("\n") == "9"
        assert parent.finish() == 0


def test_programs_that_are_executed_meanwhile(folder):
    """The same process, ever another program: each attach meets one or is refused."""
    script = pathlib.Path(folder, "again.py")
    script.write_text("import os,sys\nn=int(sys.argv[1])\nif n % 50 == 0: print(n, flush=True)\n"
                      "os.execv(sys.executable, [sys.executable, '-S', '-E', sys.argv[0], str(n + 1)])")
    with Process(["/usr/bin/python3", "-S", "-E", script, 1]) as target:
        target.line()
        for _ in range(4 * ROUNDS):
            assert memscan("attach", target.pid).status in (ATTACHED, REFUSED)
        target.unread = b""
        target.line()
        assert target.running()


class Naps(Stormy):
    """Its handler waits, wherever it came."""

    def __init__(self, mode="naps"):
        super().__init__(mode)
        self.beat()  # it has its handler only then

    def tell(self, word):
        self.popen.stdin.write(b"x")
        self.popen.stdin.flush()
        support.wait_until(lambda: self.line(STUCK_S) == word, STUCK_S, word)


def test_attach_waits_until_a_thread_can_map_memory():
    """Nothing is known of the stack on which its only thread handles a signal."""
    with Naps("naps_apart") as target:
        target.tell("NAP")
        later = threading.Timer(0.5, target.tell, ["WOKE"])
        later.start()
        attach(target.pid)
        later.join()
        detach(target.pid)
        target.end()


def test_a_thread_that_stays_inside():
    """A handler that sleeps in the middle of malloc keeps the agent's memory, which then serves again."""
    with Naps() as target:
        for _ in range(50):
            attach(target.pid, "--sample", 1)
            target.tell("NAP")
            said = detach(target.pid, "--timeout", 0.5)
            if "stays" in said:
                break
            target.tell("WOKE")
        assert f"thread {target.pid} has not come back" in said, said
        assert agents_of(target.pid) == 1 and not status_of(target.pid)
        assert table_magic(target.pid) == bytes(16), "blocks are freed unseen, and its table can be read"
        assert "has not come back" in attach(target.pid, "--timeout", 0.5, status=REFUSED)
        target.tell("WOKE")
        attach(target.pid, "--sample", 1)
        assert agents_of(target.pid) == 1
        target.check()
        detach(target.pid)
        assert agents_of(target.pid) == 0
        target.end()


FORK = 56  # clone(), x86-64


@contextlib.contextmanager
def delayed(command, target, *args):
    """memscan, stopped before it makes the process for the first stop, for three seconds: (Popen, its output)."""
    popen, said = start_command(["strace", "-f", "-q", "-o", os.devnull, "-e", "trace=clone", "-e",
                                 "inject=clone:delay_enter=3s:when=1", MEMSCAN, command, *map(str, args), target.pid])
    support.wait_until(lambda: any(support.command_of(pid) == "memscan-inject" and support.call_of(pid) == FORK
                                   for pid in support.descendants_of(popen.pid)))
    yield popen, said


def test_where_memory_was_mapped_meanwhile_it_goes_elsewhere():
    """The target takes the place for the agent after that was chosen, and before the first thread is stopped."""
    with Process([compile_target("takes_room")]) as target:
        assert target.line() == "READY"
        with delayed("attach", target) as (popen, said):
            assert target.ask("\n") == "TAKEN"
            said = end_of(popen, said)
        assert popen.returncode == ATTACHED, said
        assert agents_of(target.pid) == 1
        detach(target.pid)
        assert target.finish() == 0


# ---- another program ----

def executing():
    """A shell that executes stormy when it is told to."""
    return Process(["/bin/sh", "-c", 'echo READY; read word; exec "$0" sleeps', compile_target("stormy")])


@pytest.mark.parametrize("attached", [False, True])
def test_a_program_that_is_executed_meanwhile(attached):
    """All is looked up once more, and done in the new program."""
    command = "detach" if attached else "attach"
    with executing() as target:
        assert target.line() == "READY"
        if attached:
            attach(target.pid)
        with delayed(command, target) as (popen, said):
            assert target.ask("\n") == "READY"
            said = end_of(popen, said)
        assert popen.returncode == 0, said
        assert status_of(target.pid) == (not attached)
        detach(target.pid)
        assert target.finish() == 0


def test_programs_that_are_executed_all_the_time():
    """Whatever it met, it is not another tool's doing, nor a fault of memscan's."""
    with Process([support.compile_hostile("exec_storm.c"), "20"]) as target:
        assert target.line() == "READY"
        for _ in range(ROUNDS + 2):
            for command in ("attach", "detach"):
                done = memscan(command, "--timeout", 1, target.pid)
                assert "another tool" not in done.stderr and "report it" not in done.stderr, str(done)
        assert target.finish() == 0


# ---- killed ----

CALLS = ("ptrace", "process_vm_writev", "pwrite64")
MOST_CALLS = 400


def kill_at_call(busy, command, call, number):
    """What the process was killed instead of; None: it makes fewer of these calls."""
    with tempfile.TemporaryDirectory() as folder:
        popen, file = start_command(["strace", "-f", "-q", "-o", f"{folder}/calls", "-e", f"trace={call}", "-e",
                                     f"inject={call}:signal=SIGKILL:when={number}", MEMSCAN, command, busy.pid])
        said = end_of(popen, file)
        lines = [line.split(None, 1) for line in pathlib.Path(folder, "calls").read_text().splitlines()]
    victims = [pid for pid, text in lines if "killed by SIGKILL" in text]
    if not victims:
        assert popen.returncode == 0, said
        return None
    made = [text for pid, text in lines if pid == victims[0] and re.match(r"\w+\(", text)]
    return made[-1]


def made_calls(busy, command):
    """(call, number) of those that one process makes, and some more: a busy target makes more, or less, each time."""
    with tempfile.NamedTemporaryFile("r") as file:
        done = subprocess.run(["strace", "-f", "-q", "-o", file.name, "-e", "trace=" + ",".join(CALLS), MEMSCAN, command,
                               str(busy.pid)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        made = collections.Counter(re.match(r"(\d+) +(\w+)\(", line).groups() for line in file
                                   if re.match(r"\d+ +\w+\(", line))
    most = {call: max(n for (_, made_call), n in made.items() if made_call == call) for call in CALLS}
    return [(call, number) for call in CALLS for number in range(1, most[call] + 4)]


@pytest.mark.parametrize("command", ["attach", "detach"])
def test_killed_at_each_call(command, notes):
    """strace counts the calls of each process by itself; of all, as many are tried as there are to be kills."""
    chance, tally = random.Random(f"{SEED} {command}"), collections.Counter()
    with Busy() as busy:
        busy.beat()
        code = malloc_code(busy.pid)
        if command == "detach":
            attach(busy.pid)
        calls = made_calls(busy, command)
        detach(busy.pid)
        for call, number in calls if len(calls) <= KILLS else chance.sample(calls, KILLS):
            if command == "detach":
                attach(busy.pid, "--sample", 4096)
            instead = kill_at_call(busy, command, call, number)
            try:
                clean(busy, code)
            except AssertionError as error:
                raise AssertionError(f"{command}, killed instead of {call} {number}, {instead}: {error}") from None
            tally[call] += instead is not None
        assert busy.finish() == 0
    notes.append(f"{command} killed instead of a call: {dict(tally)} of {len(calls)}; seed {SEED}")


WRITES = ("the mark", "the text", "the slots", "the magic word")


def mapped_bytes(pid):
    return int(re.search(r"^VmSize:\s+(\d+) kB$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1]) << 10


@pytest.mark.parametrize("again", ["detach", "attach"])
@pytest.mark.parametrize("number", range(2, len(WRITES) + 1))
def test_killed_while_it_maps_the_agent(number, again):
    """Whatever is there of the agent, it is known for one, and given back."""
    with Stormy("sleeps") as target:
        before = mapped_bytes(target.pid)
        assert kill_at_call(target, "attach", "pwrite64", number), WRITES[number - 1]
        assert agents_of(target.pid) == (number > 1)
        said = memscan("attach", "--status", target.pid)
        assert said.status == NOT_ATTACHED and "memory of an earlier attach" in said.stdout, str(said)
        if again == "attach":
            attach(target.pid)
            assert agents_of(target.pid) == 1 and status_of(target.pid)
        detach(target.pid)
        assert agents_of(target.pid) == 0 and mapped_bytes(target.pid) == before
        assert "was not attached\n" in detach(target.pid)
        target.check()
        target.end()


@pytest.mark.parametrize("command", ["attach", "detach"])
def test_killed_at_random(command, notes):
    with Busy() as busy:
        busy.beat()
        kill_at_random(busy, command, notes)
        assert busy.finish() == 0


# ---- refused ----

def test_a_process_that_is_stopped():
    with Stormy("loops") as target:
        os.kill(target.pid, signal.SIGSTOP)
        support.wait_until(lambda: support.state_of(target.pid) == "T", 10, "it is stopped")
        said = attach(target.pid, status=REFUSED)
        assert "is stopped by a signal" in said and f"kill -CONT {target.pid}" in said
        assert support.state_of(target.pid) == "T"
        os.kill(target.pid, signal.SIGCONT)
        run_rounds(target, 1, 4096)


def test_a_filter_that_forbids_to_map_memory():
    with Stormy("filtered") as target:
        refused(target.pid, "seccomp filter answers mmap with KILL_PROCESS")
        target.end()


# It would fit with 10 MiB nowhere, with 60 only into what the program itself may want.
@pytest.mark.parametrize("room", [10, 60])
@pytest.mark.parametrize("limit,used", [("as", "VmSize"), ("data", "VmData")])
def test_little_memory_left_to_map(limit, used, room):
    with Stormy("single") as target:
        def allow(room):
            status = pathlib.Path(f"/proc/{target.pid}/status").read_text()
            use = int(re.search(rf"^{used}:\s+(\d+) kB$", status, re.M)[1]) << 10
            subprocess.run(["prlimit", "--pid", str(target.pid), f"--{limit}={use + (room << 20)}:"], check=True)
        allow(room)
        refused(target.pid, f"RLIMIT_{limit.upper()}", f"prlimit --{limit}=")
        assert agents_of(target.pid) == 0
        target.check()
        allow(200)
        attach(target.pid)
        target.check()
        detach(target.pid)
        target.end()


def test_little_room_in_its_memory_cgroup(memory_group):
    group, limit, usage = memory_group

    def enter():
        (group / "cgroup.procs").write_text(str(os.getpid()))
    with Stormy("single", preexec_fn=enter) as target:
        for room, sample, status in ((1 << 20, 4096, REFUSED), (1 << 28, 4096, ATTACHED)):
            (group / limit).write_text(str(int((group / usage).read_text()) + room))
            said = attach(target.pid, "--sample", sample, status=status)
            assert ("memory cgroup" in said) == (status == REFUSED), said
            target.check()
        detach(target.pid)
        target.end()


def test_a_process_whose_first_thread_has_ended():
    with support.Target([compile_target("zombie_leader")]) as target:
        said = attach(target.pid)
        assert "is attached" in said
        detach(target.pid)
        assert agents_of(support.threads_of(target.pid)[-1]) == 0


def test_the_parent_of_vfork():
    with support.Target([compile_target("vfork_parent")]) as target:
        support.wait_until(lambda: support.state_of(target.pid) == "D", 5, "it waits for its child")
        said = attach(target.pid, "--timeout", 0.5, status=REFUSED)
        assert "made by vfork" in said and str(target.pid) in said
        assert target.finish() == 0


def test_a_signal_that_comes_before_it_is_refused():
    with support.Target([compile_target("vfork_parent")]) as target:
        support.wait_until(lambda: support.state_of(target.pid) == "D", 5, "it waits for its child")
        popen, file = start_command([MEMSCAN, "attach", "--timeout", "1", target.pid])
        time.sleep(0.3)
        popen.send_signal(signal.SIGTERM)
        assert re.search("made by vfork|a signal ended", end_of(popen, file))
        assert popen.returncode == -signal.SIGTERM
        assert target.finish() == 0


def test_code_that_another_tool_has_changed():
    with Stormy("sleeps") as target:  # nobody calls malloc meanwhile
        at, code = malloc_code(target.pid)
        write_code(target.pid, at + 6, bytes([code[6] ^ 1]))
        refused(target.pid, "malloc", "changed already by another tool")
        write_code(target.pid, at + 6, code[6:7])
        attach(target.pid)
        ours = malloc_code(target.pid)[1]
        write_code(target.pid, at + 6, bytes([ours[6] ^ 1]))
        refused(target.pid, "malloc", "changed already by another tool", command="detach")
        write_code(target.pid, at + 6, ours[6:7])
        detach(target.pid)
        assert malloc_code(target.pid) == (at, code)
        target.end()


def test_words_that_another_tool_uses():
    with Stormy("sleeps") as target:
        said = subprocess.run(["gdb", "-q", "-batch", "-p", str(target.pid), "-ex", "p/x $fs_base"],
                              capture_output=True, text=True, check=True).stdout
        at = int(re.search(r"\$1 = (0x[0-9a-f]+)", said)[1], 16)
        write_code(target.pid, at + 0x90, b"\1")
        refused(target.pid, "leaves free in the control block")
        assert agents_of(target.pid) == 0
        write_code(target.pid, at + 0x90, b"\0")
        attach(target.pid)
        target.end()


def test_an_attach_that_was_not_completed():
    """As a kill leaves it: the next one completes it, unless the agent is another's."""
    with Stormy("sleeps") as target:
        at, code = malloc_code(target.pid)
        attach(target.pid)
        write_code(target.pid, at, code)
        said = memscan("attach", "--status", target.pid)
        assert said.status == ATTACHED and "attached in part" in said.stdout
        assert "before_attach" in support.scan(target.pid).report["sampling"]
        attach(target.pid)
        assert agents_of(target.pid) == 1
        assert "before_attach" not in support.scan(target.pid).report["sampling"], "some were not counted"
        text = text_of(target.pid)
        write_code(target.pid, text + TEXT_BYTES, b"\0")  # the table's magic word
        assert "attached in part" in memscan("attach", "--status", target.pid).stdout
        attach(target.pid)
        assert "attached:" in memscan("attach", "--status", target.pid).stdout
        write_code(target.pid, at, code)
        write_code(target.pid, text + SLOTS_AT + 255, b"\1")  # behind what stands for malloc
        refused(target.pid, "another memscan version")
        detach(target.pid)
        assert malloc_code(target.pid) == (at, code) and agents_of(target.pid) == 0
        target.end()


# ---- beside other tools ----

def test_a_breakpoint_at_the_begin_of_malloc():
    with Stormy("sleeps") as target:
        at, code = malloc_code(target.pid)
        write_code(target.pid, at, b"\xcc")
        attach(target.pid)
        assert malloc_code(target.pid)[1][:1] == b"\xcc"
        write_code(target.pid, at, code[:1])
        detach(target.pid)
        assert malloc_code(target.pid) == (at, code)
        attach(target.pid)
        write_code(target.pid, at, b"\xcc")
        detach(target.pid)
        assert malloc_code(target.pid)[1] == b"\xcc" + code[1:]
        write_code(target.pid, at, code[:1])
        target.end()


@contextlib.contextmanager
def uprobe(pid, name):
    """The kernel's probe on a function of the C library, in one process."""
    path = loaded(pid, GLIBC_FILE)[1]
    offset = offsets_of(path, (name,), "-D")[0]
    try:
        kind = int(pathlib.Path("/sys/bus/event_source/devices/uprobe/type").read_text())
    except OSError:
        pytest.skip("the kernel's probes cannot be had here")
    c_path = support.ctypes.create_string_buffer(path.encode())
    # struct perf_event_attr: type, size, config, …, config1, config2
    attr = support.ctypes.create_string_buffer(120)
    attr[0:8] = kind.to_bytes(4, "little") + (120).to_bytes(4, "little")
    attr[56:72] = support.ctypes.addressof(c_path).to_bytes(8, "little") + offset.to_bytes(8, "little")
    fd = support.libc.syscall(298, attr, pid, -1, -1, 0)
    if fd < 0:
        pytest.skip(f"no probe: {os.strerror(support.ctypes.get_errno())}")
    try:
        yield lambda: int.from_bytes(os.read(fd, 8), "little")
    finally:
        os.close(fd)


@pytest.mark.parametrize("name", ["malloc", "free"] if ROUNDS > 1 else ["malloc"])
def test_probes_of_the_kernel(name):
    """Before, while attached, and set before and gone while attached."""
    with Stormy("single") as target:
        with uprobe(target.pid, name) as count:
            attach(target.pid, "--sample", 4096)
            target.check()
            before = count()
            target.check()
            assert count() > before
            detach(target.pid)
            target.check()
        attach(target.pid, "--sample", 4096)
        with uprobe(target.pid, name) as count:
            target.check()
            assert count() > 0
            detach(target.pid)
            target.check()
        attach(target.pid)
        target.check()
        detach(target.pid)
        target.end()


def test_a_debugger_afterwards():
    with Stormy("loops") as target:
        attach(target.pid, "--sample", 1000)
        done = subprocess.run(["gdb", "-q", "-batch", "-p", str(target.pid), "-ex", "thread apply all bt",
                               "-ex", "print *(char *)malloc(5000) = 77"], capture_output=True, text=True, timeout=60)
        assert "= 77" in done.stdout, done.stdout + done.stderr
        target.check()
        detach(target.pid)
        target.end()


LOCK = """
import fcntl, os, sys
try:
    fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
    print("LOCKED", flush=True)
except PermissionError:
    print("DENIED", flush=True)
sys.stdin.read()
"""


def locker(path, **user):
    return Process([sys.executable, "-c", LOCK, path], **user)


def check_is_quick(target):
    timeout = 40
    begun = time.monotonic()
    attach(target.pid, "--timeout", timeout)
    detach(target.pid, "--timeout", timeout)
    assert time.monotonic() - begun < timeout


def test_another_user_cannot_delay_it():
    """A user who may not trace the process cannot open the file that is locked."""
    with Stormy("loops") as target, locker(f"/proc/{target.pid}", user=NOBODY) as folder, \
            locker(f"/proc/{target.pid}/mem", user=NOBODY) as memory:
        assert folder.line() == "LOCKED" and memory.line() == "DENIED"
        check_is_quick(target)
        target.end()


def test_one_that_does_not_end_its_turn_is_not_waited_for_without_end():
    """Root, or the owner of the process."""
    with Stormy("loops") as target, locker(f"/proc/{target.pid}/mem") as memory:
        assert memory.line() == "LOCKED"
        check_is_quick(target)
        target.end()


def test_what_is_changed_in_the_turn_of_another_is_looked_at_again():
    with Stormy("sleeps") as target, locker(f"/proc/{target.pid}/mem") as memory:
        assert memory.line() == "LOCKED"
        at, code = malloc_code(target.pid)
        write_code(target.pid, at + 6, bytes([code[6] ^ 1]))
        popen, file = start_command([MEMSCAN, "attach", target.pid])
        time.sleep(4.5)
        write_code(target.pid, at + 6, code[6:7])
        said = end_of(popen, file)
        assert popen.returncode == ATTACHED, said
        detach(target.pid)
        target.end()


def test_what_another_has_not_finished_is_left_to_it():
    with Stormy("sleeps") as target:
        at, code = malloc_code(target.pid)
        attach(target.pid)
        with locker(f"/proc/{target.pid}/mem") as memory:
            assert memory.line() == "LOCKED"
            write_code(target.pid, at, code)
            done = memscan("attach", target.pid, "--timeout", 2)
            assert done.status == REFUSED and "another memscan is attaching" in done.stderr, done.stderr
        attach(target.pid)
        detach(target.pid)
        check_given_back_all(target.pid)
        target.end()


def test_two_at_once():
    with Stormy("loops") as target:
        for _ in range(ROUNDS):
            both = [start_command([MEMSCAN, "attach", target.pid]) for _ in range(2)]
            said = [end_of(*one) for one in both]
            statuses = [popen.returncode for popen, _ in both]
            assert sorted(statuses) == [ATTACHED, REFUSED], (statuses, said)
            assert "is attached already" in "".join(said), said
            assert status_of(target.pid)
            target.check()
            detach(target.pid)
            check_given_back_all(target.pid)
            target.check()
        target.end()
