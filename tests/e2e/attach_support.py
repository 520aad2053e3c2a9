# SPDX-License-Identifier: Apache-2.0
"""How the tests of memscan attach attach, look at what is attached, and do it in rounds or while it is killed.

ATTACH_ROUNDS is how often each is attached and detached, ATTACH_KILLS how often memscan is killed.
"""

import contextlib
import functools
import os
import pathlib
import random
import re
import subprocess
import time

import support
from support import HOST, MEMSCAN, Process, compile_target, memscan
from test_kills import check_unharmed, end_of, no_orphans, start_command, wait_until_free

ROUNDS = int(os.environ.get("ATTACH_ROUNDS") or 1)
KILLS = int(os.environ.get("ATTACH_KILLS") or 3)
SEED = int(os.environ.get("ATTACH_SEED") or time.time())

ATTACHED, NOT_ATTACHED, REFUSED = 0, 1, 3
STUCK_S = 20
TEXT_BYTES = 24576
TEXT_MAGIC = b"memscan agent"


class Stormy(Process):
    def __init__(self, mode, suite=HOST, program=None, **more):
        self.mode = mode
        super().__init__([program or compile_target("stormy", suite), mode], **more)
        # its session's processes give way to memscan's, with which the kernel would have them share equally
        with contextlib.suppress(OSError):
            pathlib.Path(f"/proc/{self.pid}/autogroup").write_text("10")
        assert self.line() == "READY"

    def beat(self):
        """Its counters, after this call."""
        fd = self.popen.stdout.fileno()
        while support.select.select([fd], [], [], 0)[0]:
            more = os.read(fd, 1 << 16)
            assert more, f"{self.mode} ended, status {self.popen.wait(10)}: {self.unread[-300:]!r}"
            self.unread += more
        assert b"WRONG" not in self.unread, self.unread[self.unread.index(b"WRONG"):][:200]
        self.unread = self.unread[self.unread.rfind(b"\n") + 1:]
        line = self.line(STUCK_S)
        assert line.startswith("beat"), line
        return [int(n) for n in line.split()[1::2]]

    def check(self):
        """It goes on: all that it counts grows."""
        before = self.beat()
        end = time.monotonic() + STUCK_S
        while self.mode != "sleeps" and any(a <= b for a, b in zip(self.beat(), before) if b):
            assert time.monotonic() < end, f"{self.mode} is stuck"
        support.check_untouched(self.pid)

    def check_unharmed(self):
        """The same, and nothing of memscan is left."""
        wait_until_free(self)
        support.wait_until(no_orphans, STUCK_S, "processes of memscan are left over")
        self.check()

    def end(self):
        assert self.finish(STUCK_S) == 0


def attach(pid, *args, status=ATTACHED):
    done = memscan("attach", pid, *args)
    assert done.status == status, str(done)
    return done.stdout if status != REFUSED else done.stderr


def detach(pid, *args, status=0):
    done = memscan("detach", pid, *args)
    assert done.status == status, str(done)
    return done.stdout if status != REFUSED else done.stderr


def status_of(pid):
    done = memscan("attach", "--status", pid)
    assert done.status in (ATTACHED, NOT_ATTACHED), str(done)
    assert ("not attached" in done.stdout) == (done.status == NOT_ATTACHED), str(done)
    return done.status == ATTACHED


def texts_of(pid):
    """Where the agents' texts of a process are, one that was not written to its end included.

    A program that compiles as it runs has anonymous code of its own.
    """
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
    found = []
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for begin, end in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) r-xp 00000000 00:00 0 *$", maps, re.M):
            length = int(end, 16) - int(begin, 16)
            at = int(end, 16) - TEXT_BYTES
            if length > TEXT_BYTES:
                memory.seek(at)
            if length == TEXT_BYTES or length > TEXT_BYTES and memory.read(len(TEXT_MAGIC)) == TEXT_MAGIC:
                found.append(at)
    return found


def agents_of(pid):
    return len(texts_of(pid))


def check_given_back_all(pid):
    """Where threads could not be looked through in time, memory stays, which detach says, and the next one gives it back."""
    for _ in range(20):
        if not agents_of(pid):
            return
        said = detach(pid)
    assert not agents_of(pid), said


def text_of(pid):
    return texts_of(pid)[0]


def table_magic(pid):
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        memory.seek(text_of(pid) + TEXT_BYTES)
        return memory.read(16)


FUNCTIONS = ("malloc", "free")
GLIBC_FILE = r"/\S*/libc[.-][^/\s]*"
MUSL_FILE = r"/\S*musl\S*libc\S*"


def loaded(pid, path):
    """(address, path) of the first file that a process has mapped whose path is such."""
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
    found = re.search(rf"^([0-9a-f]+)-\S+ \S+ 00000000 .* ({path})$", maps, re.M)
    return int(found[1], 16), found[2]


@functools.cache
def offsets_of(path, names, *dynamic):
    """Of functions, by a file's symbols."""
    said = subprocess.run(["nm", "--defined-only", *dynamic, path], capture_output=True, text=True, check=True).stdout
    return [int(re.search(rf"^([0-9a-f]+) [TtWV] {name}(@@.*)?$", said, re.M)[1], 16) for name in names]


def code_of(pid, library=None, names=FUNCTIONS, length=16):
    """[(address, bytes)] of functions of the program, or of a library, as they are in memory."""
    base, path = loaded(pid, library or re.escape(os.readlink(f"/proc/{pid}/exe")))
    with open(path, "rb") as file:
        if file.read(17)[16] == 2:  # ET_EXEC
            base = 0
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        found = []
        for offset in offsets_of(path, tuple(names), *(["-D"] if library else [])):
            memory.seek(base + offset)
            found.append((base + offset, memory.read(length)))
        return found


def malloc_code(pid, name="malloc", length=16):
    """(address, bytes) of a function of the C library, as it is in memory."""
    return code_of(pid, GLIBC_FILE, (name,), length)[0]


def write_code(pid, at, code):
    with open(f"/proc/{pid}/mem", "r+b", 0) as memory:
        memory.seek(at)
        memory.write(code)


# ---- rounds ----

def run_rounds(target, rounds, sample, malloc_code=malloc_code):
    code = malloc_code(target.pid)
    for _ in range(rounds):
        assert "is attached" in attach(target.pid, "--sample", sample)
        assert status_of(target.pid)
        target.check()
        said = detach(target.pid)
        assert "is detached" in said
        assert not status_of(target.pid)
        assert malloc_code(target.pid) == code
        assert agents_of(target.pid) == ("stays" in said), said
        target.check()


def run_all_rounds(target, malloc_code=malloc_code):
    """By samples that are far apart, and by each block."""
    run_rounds(target, ROUNDS, 4096, malloc_code)
    run_rounds(target, 1 + ROUNDS // 4, 1, malloc_code)
    target.end()


def check_given_back(target, code, malloc_code):
    """While attached its functions are not what they were; they are afterwards, and it goes on."""
    assert all(now != then for now, then in zip(malloc_code(target.pid), code))
    target.check()
    detach(target.pid)
    assert malloc_code(target.pid) == code
    check_given_back_all(target.pid)
    target.end()


WAYS = ("malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign")


def check_plants(target, function_of):
    """Of plants, which ends with it: each leak is its function's, by what function_of() says of the leak."""
    assert target.line() == "READY"
    attach(target.pid, "--sample", 1)
    assert target.ask("\n") == "DONE"
    report = support.scan(target.pid).report
    found = {}
    for leak in report["leaks"]:
        function = function_of(leak.get("backtrace", []))
        if function:
            found[function] = found.get(function, 0) + leak["total_size"]
    assert sorted(found, key=found.get, reverse=True) == [f"plant_{way}" for way in WAYS], (found, report)
    detach(target.pid)
    check_given_back_all(target.pid)
    assert target.finish() == 0


# ---- killed ----

def clean(busy, code, malloc_code=malloc_code, check=check_unharmed):
    """Whatever a killed memscan has left, the program is right, and detach takes it back."""
    check(busy)
    said = detach(busy.pid)
    assert "detached" in said or "was not attached" in said
    assert malloc_code(busy.pid) == code
    assert not status_of(busy.pid)
    check(busy)


def kill_at_random(target, command, notes, malloc_code=malloc_code, check=check_unharmed):
    """memscan, its helper, or the process that it has for a stop, KILLS times, each followed by clean()."""
    code = malloc_code(target.pid)
    chance = random.Random(f"{SEED} random {command}")
    killed = 0
    start = time.monotonic()
    attach(target.pid)
    whole = time.monotonic() - start
    detach(target.pid)
    for _ in range(KILLS):
        if command == "detach":
            attach(target.pid, "--sample", 4096)
        popen, file = start_command([MEMSCAN, command, target.pid])
        time.sleep(chance.uniform(0, whole))
        support.kill(chance.choice([popen.pid, *support.descendants_of(popen.pid)]))
        end_of(popen, file)
        killed += popen.returncode != 0
        clean(target, code, malloc_code, check)
    notes.append(f"{command} killed at random: {KILLS} times, {killed} before its end; seed {SEED}")


# ---- refused ----

def refused(pid, *words, command="attach"):
    """Both lines are there, and nothing was done to the process."""
    said = (attach if command == "attach" else detach)(pid, status=REFUSED)
    for word in words:
        assert word in said, said
    support.check_untouched(pid)
    return said


def check_stripped(program, *words):
    """Of stormy: without its symbols it is neither attached nor detached."""
    with Process([support.stripped(program), "sleeps"]) as target:
        assert target.line() == "READY"
        refused(target.pid, *words, "before it was stripped")
        assert memscan("detach", target.pid).status != 0
        target.finish()
