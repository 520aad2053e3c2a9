#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""harm.py BUILD [SCANS] [KILLS]: is a target harmed by scans, or by a memscan that is killed?

Sleeping calls: of a thread asleep in each of the system calls that programs sleep in, none
returns. Kills: each of memscan's three processes in turn is killed at a random moment of a scan
of a program that checks itself (tests/targets/busy.c). It is what tests/e2e/test_blocked.py and
test_kills.py do, as far as a Python without packages in an emulator can.
"""

import contextlib
import os
import pathlib
import random
import re
import select
import signal
import subprocess
import sys
import time

LIMIT_S = 300
SEED = int(os.environ.get("KILLS_SEED") or time.time())
ROLES = ("memscan", "memscan-collect", "memscan-sweep")


class Harmed(Exception):
    pass


def expect(right, what):
    if not right:
        raise Harmed(what)


class Target:
    def __init__(self, *command):
        self.popen = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid, self.unread = self.popen.pid, b""

    def line(self):
        end = time.monotonic() + LIMIT_S
        while b"\n" not in self.unread:
            if select.select([self.popen.stdout], [], [], max(0, end - time.monotonic()))[0]:
                more = os.read(self.popen.stdout.fileno(), 1 << 16)
                self.take(more)
            expect(time.monotonic() < end, "the target says nothing any more")
        line, self.unread = self.unread.split(b"\n", 1)
        expect(not line.startswith(b"WRONG"), f"the target computes wrong: {line}")
        return line.decode()

    def take(self, more):
        if not more:
            raise Harmed(f"the target ended, {self.popen.wait(LIMIT_S)}: {self.unread[-200:]}")
        self.unread += more

    def drop(self):
        self.popen.kill()
        self.popen.wait(LIMIT_S)


def memscan(build, pid, *more):
    return subprocess.Popen([build / "memscan", "--pid", str(pid), "--json", *more], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def end_of(popen):
    try:
        return popen.communicate(timeout=LIMIT_S)[1]
    except subprocess.TimeoutExpired:
        popen.kill()
        raise Harmed("memscan hung") from None


def scan(build, pid, how):
    popen = memscan(build, pid, "--snapshot", how)
    said = end_of(popen)
    expect(popen.returncode in (0, 1), f"{how}: status {popen.returncode}: {said}")


def check_calls(build, scans):
    """No sleeping call returns, by a clone and by a copy."""
    target = Target(build / "targets/blocked")
    try:
        expect(target.line() == "READY", "the target is not ready")
        threads = len(os.listdir(f"/proc/{target.pid}/task"))
        for i in range(scans):
            scan(build, target.pid, ("fork", "copy")[i % 2])
        target.popen.stdin.write(b"stop\n")
        target.popen.stdin.flush()
        said = target.line()
        if said != "eintr 0":
            said += ": " + "; ".join(target.line() for _ in range(int(said.split()[1])))
        expect(said == "eintr 0", said)
        return f"{scans} scans of {threads} threads, no call returned"
    finally:
        target.drop()


# ---- kills ----

def beat(target):
    """The next beat that was not yet there when this was called; the counters."""
    while select.select([target.popen.stdout], [], [], 0)[0]:
        target.take(os.read(target.popen.stdout.fileno(), 1 << 16))
    expect(b"WRONG" not in target.unread, f"the target computes wrong: {target.unread[-200:]}")
    target.unread = target.unread[target.unread.rfind(b"\n") + 1:]
    words = target.line().split()
    return {words[i]: int(words[i + 1]) for i in range(0, len(words), 2)}


def children(pid):
    found = set()
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found |= set(map(int, path.read_text().split()))
    return found


def comm(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def is_free(pid):
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(OSError):
            text = path.read_text()
            if not re.search(r"TracerPid:\t0\n", text) or re.search(r"State:\s*[tT]", text):
                return False
    return True


def wait_until(holds, what):
    end = time.monotonic() + LIMIT_S
    while not holds():
        expect(time.monotonic() < end, what)
        time.sleep(0.01)


def check_unharmed(target):
    wait_until(lambda: target.popen.poll() is not None or is_free(target.pid), "the target stays stopped, or traced")
    strange = children(target.pid)
    wait_until(lambda: not strange & children(target.pid), "the target keeps a strange child")
    before, now = beat(target), {}
    end = time.monotonic() + LIMIT_S
    while not now or any(now[k] <= before[k] for k in ("malloc", "compute", "sleep", "process", "alarms")):
        expect(time.monotonic() < end, f"a thread of the target stands: {before} {now}")
        now = beat(target)


def kill_one(build, target, how, role, moment):
    """One scan and one kill, @moment after its begin, or if negative, after the target is held; in which
    stage it fell; None: nothing was left to kill."""
    popen, stage = memscan(build, target.pid, "--snapshot", how), None
    if moment < 0:
        while is_free(target.pid) and popen.poll() is None:
            pass
    time.sleep(abs(moment))
    victims = [popen.pid] if role == "memscan" else [p for p in children(popen.pid) if comm(p) == role]
    if victims and popen.poll() is None:
        held = not is_free(target.pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(victims[0], signal.SIGKILL)
            stage = "held" if held else "free"
    end_of(popen)
    return stage if popen.returncode not in (0, 1) else None


def seconds_of_scan(build, pid):
    start = time.monotonic()
    scan(build, pid, "fork")
    return time.monotonic() - start


def check_kills(build, kills):
    chance, stages, eintr, missed = random.Random(SEED), [], 0, 0
    target = Target(build / "targets/busy", 100, 20000)
    try:
        expect(target.line().startswith("READY"), "the target is not ready")
        whole = sorted(seconds_of_scan(build, target.pid) for _ in range(3))[0]
        while len(stages) < kills:
            how, role = ("fork", "copy")[len(stages) % 2], ROLES[len(stages) // 2 % 3]
            # A collection process that dies while it leads a thread out of malloc leaves its
            # breakpoints in the process: of a clone that is the clone.
            if role == "memscan-collect":
                how = "fork"
            stage = kill_one(build, target, how, role,
                             chance.choice((chance.uniform(0, whole), -chance.uniform(0, 0.003))))
            try:
                check_unharmed(target)
            except Harmed as harm:
                raise Harmed(f"{role} killed ({how}, {stage}), after {len(stages)} kills, seed {SEED}: {harm}") from None
            if stage:
                stages.append(stage)
            else:
                missed += 1
                expect(missed < 5 * kills + 30, "hardly a kill finds its process")
        scan(build, target.pid, "fork")
        check_unharmed(target)
        eintr = beat(target)["eintr"]
        target.popen.stdin.close()
        expect(target.popen.wait(LIMIT_S) == 0, "the target's status")
        return (f"{kills} kills, {stages.count('held')} while the target was held; {missed} came too late; "
                f"epoll_wait returned EINTR {eintr} times")
    finally:
        target.drop()


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    counts = [int(word) for word in sys.argv[2:4]] + [20, 100][len(sys.argv[2:4]):]
    failed = False
    for name, check, n in (("sleeping calls", check_calls, counts[0]), ("kills", check_kills, counts[1])):
        if not n:
            continue
        try:
            print(f"{name}: {check(build, n)}", flush=True)
        except Harmed as harm:
            failed = True
            print(f"{name}: FAILED: {harm}", flush=True)
    return failed


sys.exit(main())
