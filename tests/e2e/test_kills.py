# SPDX-License-Identifier: Apache-2.0
"""memscan's three processes are killed at any moment of a scan; the target must not notice.

The target computes, allocates, sleeps, forks and serves, and checks itself all
the while (tests/targets/busy.c). KILLS is how often each process is killed at a
random moment with each kind of snapshot (2,000 by hand); strace then kills the
collection process at every single one of its ptrace calls, or with fewer than 30 KILLS at
each fifth.
"""

import collections
import contextlib
import os
import pathlib
import random
import re
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest

import support
from support import MEMSCAN, Process, check_scanned, children_by_thread, compile_target, scan

KILLS = int(os.environ.get("KILLS") or 12)
SEED = int(os.environ.get("KILLS_SEED") or time.time())

BEAT_MS, LIVE = 20, 120_000
# What stands still stands for ever; beside other tests, what runs may wait for a processor.
STUCK_S = 5
MOST_CALLS = 400
STEP = 1 if KILLS >= 30 else 5
ORIGINAL, COLLECTION, SWEEPER, CLONE = "memscan", "memscan-collect", "memscan-sweep", "memscan-clone"


SNAPSHOTS = support.snapshots()
EACH_SNAPSHOT = [word for word in SNAPSHOTS if word != "auto"]

# A collection process that dies while it leads a thread out of malloc leaves its
# breakpoints behind. How often is printed; False once it cannot happen any more.
TRAPS_KNOWN = True


# ---- the target ----

class Caller(threading.Thread):
    """Connects again and again: how long until the far end is closed?"""

    def __init__(self, name):
        super().__init__(daemon=True)
        self.address, self.ended = "\0" + name, threading.Event()
        self.calls, self.longest, self.failure = 0, 0.0, None

    def call(self):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(STUCK_S)
            start = time.monotonic()
            peer.connect(self.address)
            peer.sendall(b"x")
            assert peer.recv(2) == b"x"
            assert peer.recv(1) == b"", "no end of the connection"
            self.calls += 1
            self.longest = max(self.longest, time.monotonic() - start)

    def run(self):
        while not self.ended.wait(0.002):
            try:
                self.call()
            except (OSError, AssertionError) as error:
                if not self.ended.is_set():
                    self.failure = self.failure or f"connection {self.calls}: {error!r}"
                return

    def stop(self):
        self.ended.set()
        self.join(10)


class Busy(Process):
    """tests/targets/busy with somebody who calls; its beats are read as they come."""

    def __init__(self, *mode, variant="dynamic"):
        super().__init__([compile_target("busy", variant=variant), BEAT_MS, LIVE, *mode])
        self.threads, self.counts, self.caller = len(mode), {}, None
        word, name = self.line().split()
        assert word == "READY"
        if not mode:
            self.caller = Caller(name)
            self.caller.start()

    def beat(self):
        """The newest beat, no older than this call; all counters."""
        fd = self.popen.stdout.fileno()
        while select.select([fd], [], [], 0)[0]:
            more = os.read(fd, 1 << 16)
            assert more, f"the target ended, status {self.popen.wait(10)}: {self.unread[-300:]!r}"
            self.unread += more
        if b"WRONG" in self.unread:
            raise AssertionError(f"the target computes wrong: {self.unread[self.unread.index(b'WRONG'):]!r}")
        self.unread = self.unread[self.unread.rfind(b"\n") + 1:]
        line = self.line(STUCK_S)
        assert line.startswith("beat"), f"the target said: {line}"
        words = line.split()
        self.counts = {words[i]: int(words[i + 1]) for i in range(0, len(words), 2)}
        return self.counts

    def workers(self):
        idle = () if self.caller else ("malloc", "compute", "process", "serve", "alarms")
        return {k: n for k, n in self.counts.items() if k not in ("eintr", "strange", *idle)}

    def stop(self):
        if self.caller:
            self.caller.stop()
        super().stop()


def is_free(pid):
    """No thread is traced, none is stopped."""
    tids = []
    with contextlib.suppress(FileNotFoundError):
        tids = support.threads_of(pid)
    for tid in tids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            text = pathlib.Path(f"/proc/{pid}/task/{tid}/status").read_text()
            if not re.search(r"TracerPid:\t0\n", text) or re.search(r"State:\s*[tT]", text):
                return False
    return True


def wait_until_free(busy):
    support.wait_until(lambda: not busy.running() or is_free(busy.pid), STUCK_S, "the target is still traced, or stopped")


def no_orphans():
    for pid in children_by_thread(os.getpid()) - support.our_children:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return not children_by_thread(os.getpid()) - support.our_children


def strange_children(busy):
    """Its own children live for a moment; ours would stay."""
    children = children_by_thread(busy.pid)
    with contextlib.suppress(AssertionError):
        support.wait_until(lambda: not children & children_by_thread(busy.pid), STUCK_S)
    return [(pid, support.state_of(pid), support.command_of(pid)) for pid in children & children_by_thread(busy.pid)]


def check_unharmed(busy, all_killed=False):
    """It runs as before, and nothing of memscan is left, in it or of it."""
    wait_until_free(busy)
    left = strange_children(busy)
    if left and all_killed:
        # nobody was left to have the target reap its clone: the next scan does
        assert [(state, name) for _, state, name in left] == [("Z", CLONE)], left
        check_scanned(scan(busy.pid, "--snapshot", "fork"))
        left = strange_children(busy)
    assert not left, f"the target has strange children: {left}"
    support.wait_until(no_orphans, STUCK_S, "processes of memscan are left over")
    busy.beat()
    before, end = busy.workers(), time.monotonic() + STUCK_S
    while stuck := [k for k, n in busy.workers().items() if n <= before[k]]:
        busy.beat()
        assert time.monotonic() < end, f"stuck: {stuck}"
    assert not (busy.caller and busy.caller.failure), busy.caller.failure


# ---- killing ----

def start_command(command):
    """What it says goes to a file: a pipe would be held open by whoever is left of it."""
    said = tempfile.TemporaryFile("w+")
    popen = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said)
    support.our_children.add(popen.pid)
    return popen, said


def start_memscan(busy, snapshot):
    return start_command([MEMSCAN, "--pid", busy.pid, "--json", "--snapshot", snapshot])


def end_of(popen, said):
    with said:
        try:
            support.wait_for(popen, 30)
            said.seek(0)
            return said.read()
        except subprocess.TimeoutExpired:
            for pid in [*support.descendants_of(popen.pid), popen.pid]:
                support.kill(pid)
            said.seek(0)
            raise AssertionError(f"memscan hung: {popen.wait(10)}, {said.read()}") from None
        finally:
            support.our_children.discard(popen.pid)


def parent_of(pid):
    found = support.stat_of(pid)
    return found[1] if found else None


def find(popen, role):
    """A descriptor of that process of this memscan, which no other can be mistaken for; or None."""
    pids = {popen.pid} if role == ORIGINAL else children_by_thread(popen.pid)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            fd = os.pidfd_open(pid)
            if role == ORIGINAL or support.command_of(pid) == role and parent_of(pid) == popen.pid:
                return fd
            os.close(fd)
    return None


def is_traced(pid):
    with contextlib.suppress(OSError):
        return "TracerPid:\t0\n" not in pathlib.Path(f"/proc/{pid}/status").read_text()
    return False


def wait_for_moment(chance, busy, popen, whole):
    """Any moment of the scan; or, every other time, one when the target is held or let go."""
    start = time.monotonic()
    if chance.random() < 0.5:
        time.sleep(chance.uniform(0, whole))
    else:
        while not is_traced(busy.pid) and time.monotonic() < start + whole and popen.poll() is None:
            pass
        delay = time.monotonic() + chance.uniform(0, 0.003)
        while time.monotonic() < delay:
            pass
    return time.monotonic() - start


def kill_at_random(chance, busy, snapshot, role, whole):
    """One scan and one kill. The stage in which it fell, and when; None: nothing was left to kill."""
    popen, file = start_memscan(busy, snapshot)
    stage = None
    try:
        when = wait_for_moment(chance, busy, popen, whole)
        victim = find(popen, role)
        if victim is not None and popen.poll() is None:
            held, collects = is_traced(busy.pid), COLLECTION in map(support.command_of, children_by_thread(popen.pid))
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(victim, signal.SIGKILL)
                stage = "held" if held else "before" if collects else "after"
        if victim is not None:
            os.close(victim)
        # at once, and not only when the rest of memscan has noticed
        wait_until_free(busy)
    finally:
        said = end_of(popen, file)
    if popen.returncode >= 0 and popen.returncode < support.COULD_NOT_SCAN:
        return None
    assert role != ORIGINAL or popen.returncode == -signal.SIGKILL, (popen.returncode, said)
    return stage and (stage, when)


def histogram(moments, whole):
    bins = collections.Counter(min(int(10 * when / whole), 10) for _, when in moments)
    stages = collections.Counter(stage for stage, _ in moments)
    return (", ".join(f"{stages[s]} {text}" for s, text in (
        ("before", "before the freeze"), ("held", "while held"), ("after", "after the release")))
        + "; tenths of the scan " + " ".join(str(bins[i]) for i in range(10)) + f", later {bins[10]}")


class Round:
    """Many kills of one process, and what came of them."""

    def __init__(self, snapshot, role, mode=(), variant="dynamic"):
        self.snapshot, self.role, self.mode, self.variant = snapshot, role, mode, variant
        self.chance = random.Random(f"{SEED} {snapshot} {role} {mode}")
        self.moments, self.missed, self.trapped = [], 0, []
        self.longest = self.whole = 0.0
        self.counts = collections.Counter()
        self.busy = None

    def start(self):
        self.busy = Busy(*self.mode, variant=self.variant)
        self.busy.beat()

    def end(self):
        """Scanned once more, it is sound, and ends as it would have."""
        try:
            check_scanned(scan(self.busy.pid))
            check_unharmed(self.busy)
            assert self.busy.finish() == 0
            assert self.role == COLLECTION or not self.busy.counts["eintr"], "nobody has let go in order"
        finally:
            self.drop()

    def drop(self):
        self.counts.update({k: n for k, n in self.busy.counts.items() if k in ("eintr", "strange", "serve")})
        if self.busy.caller:
            self.longest = max(self.longest, self.busy.caller.longest)
        self.busy.stop()

    def check(self, what, all_killed=False):
        """The target is unharmed; if it died of the one known cause, that is written down."""
        try:
            check_unharmed(self.busy, all_killed)
        except AssertionError as error:
            if not (TRAPS_KNOWN and self.snapshot != "fork" and self.role == COLLECTION
                    and self.busy.popen.poll() == -signal.SIGTRAP):
                self.drop()
                raise AssertionError(f"{self.role}, {what}, after {len(self.moments)} kills, seed {SEED}: {error}"
                                     ) from None
            self.trapped.append(what)
            self.drop()
            self.start()

    def kill(self):
        try:
            return kill_at_random(self.chance, self.busy, self.snapshot, self.role, self.whole)
        except BaseException:
            self.drop()
            raise

    def run(self, kills):
        self.start()
        self.whole = sorted(scan(self.busy.pid, "--snapshot", self.snapshot).seconds for _ in range(3))[1]
        while len(self.moments) < kills:
            hit = self.kill()
            self.check(f"killed {hit}")
            if hit:
                self.moments.append(hit)
            else:
                self.missed += 1
                assert self.missed < 5 * kills + 30, "hardly a kill finds its process"
        self.end()

    def toll(self):
        return (f"epoll_wait saw EINTR {self.counts['eintr']} times; target dead of SIGTRAP {len(self.trapped)} times"
                + (f" {collections.Counter(self.trapped).most_common(5)}" if self.trapped else ""))

    def __str__(self):
        return (f"kills of {self.role} ({self.snapshot}{', quiet' if self.mode else ''}): {len(self.moments)}, "
                f"{histogram(self.moments, self.whole)} of {self.whole * 1e3:.0f} ms; {self.missed} came too late; "
                f"{self.toll()}; a strange child seen {self.counts['strange']} times; {self.counts['serve']} "
                f"connections, the longest {self.longest * 1e3:.0f} ms; seed {SEED}")


@pytest.mark.parametrize("role", [ORIGINAL, COLLECTION, SWEEPER])
@pytest.mark.parametrize("snapshot", SNAPSHOTS)
def test_killed_at_random(snapshot, role, notes):
    many = Round(snapshot, role)
    many.run(max(5, KILLS // 4) if snapshot == "auto" else KILLS)
    notes.append(str(many))


@pytest.mark.alone
@pytest.mark.parametrize("snapshot", EACH_SNAPSHOT)
def test_killed_while_the_target_sleeps(snapshot, notes):
    """A single thread, nearly always in poll() or nanosleep(): neither may be back early, or see EINTR."""
    many = Round(snapshot, COLLECTION, ("quiet",))
    many.run(max(5, KILLS // 4))
    notes.append(str(many))


# ---- killed at each single call ----

# What changes the target, or the state of its threads. strace counts each call by itself.
CALLS = ("ptrace", "process_vm_writev", "pwrite64", "kill", "tgkill")


def kill_at_call(busy, snapshot, call, number):
    """What the collection process was killed instead of; None: it makes fewer of this call."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["strace", "-f", "-q", "-o", f"{folder}/calls", "-e", f"trace={call}", "-e",
                   f"inject={call}:signal=SIGKILL:when={number}",
                   MEMSCAN, "--pid", busy.pid, "--json", "--snapshot", snapshot]
        popen, file = start_command(command)
        said = end_of(popen, file)
        lines = [line.split(None, 1) for line in pathlib.Path(folder, "calls").read_text().splitlines()]
    killed = {pid for pid, text in lines if "killed by SIGKILL" in text}
    # memscan itself may end a child of its own that has made none of these
    made = [text for pid, text in lines if pid in killed and re.match(r"\w+\(", text)]
    if not made:
        assert popen.returncode < support.COULD_NOT_SCAN, (popen.returncode, said)
        return None
    return re.match(r"(ptrace\()?(\w+)", made[-1]).group(2)


def kill_at_each(many, call):
    """Until there are no more of them; a busy target makes a few more, or less, each time."""
    found, missed, first = [], 0, random.randint(1, STEP)
    while missed < 3 and len(found) < MOST_CALLS:
        instead = kill_at_call(many.busy, many.snapshot, call, first + STEP * (len(found) + missed))
        many.check(f"instead of {instead}", all_killed=True)
        if instead:
            found.append(instead)
            missed = 0
        else:
            missed += 1
    return found


@pytest.mark.parametrize("mode", [("quiet",), ("quiet", 3), ()], ids=["1 thread", "3 threads", "busy"])
@pytest.mark.parametrize("snapshot", EACH_SNAPSHOT)
def test_killed_at_each_call(snapshot, mode, notes):
    check_killed_at_each_call(Round(snapshot, COLLECTION, mode), notes)


def check_killed_at_each_call(many, notes):
    snapshot, mode = many.snapshot, many.mode
    many.start()
    calls = collections.Counter(name for call in CALLS for name in kill_at_each(many, call))
    threads = len(support.threads_of(many.busy.pid)) if mode else 1
    many.end()
    assert min(calls["PTRACE_SEIZE"], calls["PTRACE_DETACH"]) >= threads // STEP, calls
    notes.append(f"killed at each of {calls.total()} calls of the collection process ({snapshot}, "
                 f"{' '.join(map(str, mode)) or 'busy'}): {dict(calls)}; {many.toll()}")


# ---- what the target closes is closed ----

def stop_behind_release(busy, snapshot):
    """memscan's processes, all stopped at a moment when the target runs again; or None."""
    popen, said = start_memscan(busy, snapshot)
    while not is_traced(busy.pid) and popen.poll() is None:
        pass
    while not is_free(busy.pid) and popen.poll() is None:
        pass
    pids = [popen.pid, *children_by_thread(popen.pid)]
    for pid in pids if popen.poll() is None else ():
        support.kill(pid, signal.SIGSTOP)
    if popen.poll() is None and len(pids) > 1 and is_free(busy.pid):
        return popen, said, pids
    go_on(popen, said, pids)
    return None


def go_on(popen, said, pids):
    for pid in pids:
        support.kill(pid, signal.SIGCONT)
    end_of(popen, said)


@pytest.mark.parametrize("snapshot", EACH_SNAPSHOT)
def test_connections_end_at_once_while_a_scan_stands_still(snapshot, notes):
    """An image that held the target's files would keep its peers waiting."""
    stopped, images = 0, 0
    with Busy() as busy:
        busy.beat()
        for _ in range(40):
            found = stop_behind_release(busy, snapshot)
            if found:
                calls = busy.caller.calls
                try:
                    support.wait_until(lambda: busy.caller.calls > calls + 3 or busy.caller.failure, STUCK_S, "no end")
                    assert not busy.caller.failure, busy.caller.failure
                    images += CLONE in map(support.command_of, children_by_thread(busy.pid))
                    stopped += 1
                finally:
                    go_on(*found)
            check_unharmed(busy)
            if stopped == 5:
                break
        assert busy.finish() == 0
    assert stopped, "no scan could be stopped behind the release"
    assert snapshot != "fork" or images, "no image was seen"
    notes.append(f"connections while a scan stands still ({snapshot}): {stopped} scans, {images} images seen, "
                 f"the longest {busy.caller.longest * 1e3:.0f} ms")
