# SPDX-License-Identifier: Apache-2.0
"""The proof of a false leak: a block that was called a leak, and is used later.

A program runs with tests/freelog/freelog.c preloaded, which logs each block given, freed
and resized. It is scanned while it works, and ends in order. Then each leak of each scan
is looked up in the log, whatever may be argued for it:

    used later  freed or resized after the scan: somebody had its address
    not there   free already at the moment of the scan, or given later without a free
    stands      not touched again
    unknown     the log has nothing of this address: it was given before the log began
"""

import contextlib
import dataclasses
import glob
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import support
from support import COULD_NOT_SCAN, SCANNED_CLEAN, SCANNED_LEAKS

SOURCES = support.ROOT / "tests" / "freelog"
ROOM = 8 << 30  # bytes that logs may take
NOTHING, GIVEN, FREED, RESIZED = range(4)
NOWHERE = 1  # where a log's beginning is logged
OF_ALLOCATORS = ("MallocExtension",)  # what gperftools' itself loses, before any log begins


def compile_part(name, *flags):
    """Build a file of tests/freelog into build/e2e."""
    source, out = SOURCES / name, support.E2E_BUILD / "freelog" / name.replace(".c", "")
    newest = max(file.stat().st_mtime for file in SOURCES.glob("*.[ch]"))
    return support.build(out, newest, ["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g", "-pthread", "-Wall", "-Wextra",
                                       *flags, "-o", support.PART, source])


class Logs:
    """A folder for logs, and the environment that makes a program write them; with another @malloc, a file."""

    def __init__(self, malloc=""):
        # a folder in memory is several times as fast
        memory = pathlib.Path("/dev/shm")
        fits = memory.is_dir() and (s := os.statvfs(memory)).f_bavail * s.f_frsize > ROOM
        self.folder = tempfile.mkdtemp(prefix="memscan-log-", dir=memory if fits else None)
        os.chmod(self.folder, 0o1777)
        # where any user can read it
        library = shutil.copy(compile_part("freelog.c", "-shared", "-fPIC", "-fvisibility=hidden",
                                           "-Wl,-z,initfirst"),
                              f"{self.folder}/freelog.so")
        os.chmod(library, 0o755)
        self.env = {"LD_PRELOAD": f"{library} {malloc}".strip(), "FREELOG": self.folder}

    def path(self, pid):
        """The log of the program that a process has called last."""
        found = glob.glob(f"{glob.escape(self.folder)}/{pid}.*")
        return max(found, key=lambda path: int(path.rsplit(".", 1)[1]), default=None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)


# ---- scanning ----

@dataclasses.dataclass
class Told:
    """A leak of one scan; the time is that of the log."""
    pid: int
    scan: int
    time: int
    address: int
    size: int
    kind: str


@dataclasses.dataclass
class Outcome:
    name: str
    scans: int = 0
    told: list = dataclasses.field(default_factory=list)
    possible: int = 0
    refused: list = dataclasses.field(default_factory=list)
    unverified: list = dataclasses.field(default_factory=list)
    false: list = dataclasses.field(default_factory=list)
    used_later: int = 0
    unknown: int = 0
    records: int = 0
    longest_scan: float = 0.0
    longest_pause: float = 0.0
    maps: dict = dataclasses.field(default_factory=dict)
    parents: dict = dataclasses.field(default_factory=dict)

    @property
    def verified(self):
        return self.scans - len(self.refused) - len(self.unverified)

    def leaks(self):
        return len({(told.pid, told.address) for told in self.told})


def monotonic(wall):
    """The moment of the log that a wall clock's was."""
    return wall - time.time_ns() + time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def scan_once(outcome, pid):
    """One scan of a process, into the outcome; False when the process ended."""
    found = support.stat_of(pid)
    if not found:
        return False
    parent = found[1]
    done = support.scan(pid, "--no-fold", "--possible", *os.environ.get("PROGRAM_OPTIONS", "").split())
    if support.ended_meanwhile(done, pid):
        return False
    outcome.scans += 1
    outcome.parents[pid] = parent
    outcome.longest_scan = max(outcome.longest_scan, done.seconds)
    if done.status == COULD_NOT_SCAN:
        outcome.refused.append(done.stderr.strip().split("\n")[0])
        return True
    assert done.status in (SCANNED_CLEAN, SCANNED_LEAKS), str(done)
    report = done.report
    outcome.longest_pause = max(outcome.longest_pause, report["scan"]["pause_ns"] / 1e9)
    leaks = [leak for leak in report["leaks"]
             if leak["kind"] != "possible" and leak.get("type", {}).get("name") not in OF_ALLOCATORS]
    outcome.possible = max(outcome.possible, sum(leak["kind"] == "possible" for leak in report["leaks"]))
    # memscan says itself that such a report is no proof
    if not report["heaps"] or not all(heap["verified"] for heap in report["heaps"]):
        outcome.unverified.append("; ".join(report["warnings"][:2]) or "no heap")
        return True
    at = monotonic(report["scan"]["time"])
    outcome.told += [Told(pid, outcome.scans, at, int(leak["address"], 16), leak["size"], leak["kind"])
                     for leak in leaks]
    with contextlib.suppress(OSError):  # it may have ended meanwhile
        outcome.maps[pid] = pathlib.Path(f"/proc/{pid}/maps").read_text()
    return True


# ---- looking up ----

@dataclasses.dataclass
class Record:
    event: int
    time: int
    size: int
    caller: int


def histories(log, questions):
    """For each (address, time) what the log has last before and first after it; and how many records it has."""
    text = "".join(f"{address:x} {moment}\n" for address, moment in questions)
    done = subprocess.run([compile_part("history.c"), log], input=text, stdout=subprocess.PIPE, text=True, check=True)
    *lines, last = done.stdout.splitlines()
    found = []
    for line in lines:
        words = line.split()
        found.append(tuple(Record(*map(int, part[:3]), int(part[3], 16)) for part in (words[:4], words[4:])))
    return found, int(last)


def is_used(log):
    """Whether a program has been given more than its first blocks."""
    return bool(log) and histories(log, [])[1] > 20


def judge(before, after):
    """Why a leak told between these two records is false; None when it stands, "" when nothing is known."""
    if after.event in (FREED, RESIZED):
        return "freed later" if after.event == FREED else "resized later"
    if before.event in (FREED, RESIZED):
        return "was free already"
    if after.event == GIVEN:
        return "given again"
    return None if before.event == GIVEN else ""


def module_of(maps, address):
    for line in maps.splitlines():
        begin, end = (int(word, 16) for word in line.split()[0].split("-"))
        if begin <= address < end:
            words = line.split(maxsplit=5)
            return f"{words[5] if len(words) > 5 else 'anonymous'}+{address - begin + int(words[2], 16):#x}"
    return hex(address)


def describe(told, before, after, why, maps):
    def ms(record):
        return f"{(record.time - told.time) / 1e6:+.3f} ms"
    text = f"scan {told.scan} of {told.pid}: {told.size} bytes at {told.address:#x}, {told.kind}: {why}"
    if before.event:
        word = "given" if before.event == GIVEN else "freed"
        text += f"; {word} {ms(before)} ({before.size} bytes, {module_of(maps, before.caller)})"
    if after.event:
        text += f"; {why} {ms(after)} ({module_of(maps, after.caller)})"
    return text


def with_left_by_fork(found, told, log, parents_log):
    """Histories of a process, where a block that it does not know has the one of its parent up to the fork."""
    unknown = [i for i, (before, _) in enumerate(found) if before.event == NOTHING]
    if not parents_log or not unknown:
        return found
    (_, begun), = histories(log, [(NOWHERE, 0)])[0]
    older, _ = histories(parents_log, [(told[i].address, begun.time) for i in unknown])
    for i, (before, _) in zip(unknown, older):
        found[i] = (before, found[i][1])
    return found


def look_up(outcome, logs, pids):
    """Compare what was told with the logs, when the program has ended."""
    for pid in pids:
        log = logs.path(pid)
        assert log, f"{outcome.name}: process {pid} wrote no log"
        mine = [told for told in outcome.told if told.pid == pid]
        found, records = histories(log, [(told.address, told.time) for told in mine])
        found = with_left_by_fork(found, mine, log, logs.path(outcome.parents[pid]))
        outcome.records += records
        for told, (before, after) in zip(mine, found):
            why = judge(before, after)
            outcome.used_later += after.event in (FREED, RESIZED)
            if why:
                outcome.false.append(describe(told, before, after, why, outcome.maps.get(pid, "")))
            elif why == "":
                outcome.unknown += 1


def check(outcome, other_malloc=False):
    """No leak is false, and there was something to be told."""
    shown = "\n".join(outcome.false[:30])
    assert not outcome.false, f"{outcome.name}: {len(outcome.false)} false leaks\n{shown}"
    assert other_malloc or not outcome.refused, f"{outcome.name}: refused\n" + "\n".join(sorted(set(outcome.refused)))
    assert outcome.scans >= 3 and (other_malloc or outcome.verified), (
        f"{outcome.name}: {outcome.scans} scans, {len(outcome.unverified)} not verified: {set(outcome.unverified)}")
    assert outcome.unknown == 0, f"{outcome.name}: {outcome.unknown} leaks that the log does not know"
    assert other_malloc or outcome.records > 50, f"{outcome.name}: only {outcome.records} records"
