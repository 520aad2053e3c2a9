# SPDX-License-Identifier: Apache-2.0
"""Programs that write random words into what the C library and the loader keep in their memory (hostile/scribble.c).

Whatever memscan makes of it, it ends in order, soon, and in little memory, the program goes on, and no block
that it still holds, and has not written to, is called a leak. HOSTILE_SEED repeats the words of a failure,
half of HOSTILE_SCANS is how often each is scanned.
"""

import os
import pathlib
import random
import re

import pytest

import support
from support import COULD_NOT_SCAN, SCANNED_CLEAN, SCANNED_LEAKS, Target, addresses, compile_hostile, scan
from test_hostile import EACH_SNAPSHOT, SCANS as ALL_SCANS

SCANS = max(5, ALL_SCANS // 2)
SECONDS = 10
# For the largest of memscan's processes: what it takes by itself, and so much for each byte of the target.
OWN_BYTES, TIMES = 32 << 20, 2


def count(target):
    """What the program has done by now: rounds of damage, calls, and how many of these were broken off."""
    words = target.ask("\n").split()
    return dict(zip(words[::2], map(int, words[1::2])))


def goes_on(target, before):
    now = count(target)
    return now if now["calls"] > before["calls"] else None


def resident_bytes(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def check_order(done, said):
    assert done.status in (SCANNED_CLEAN, SCANNED_LEAKS, COULD_NOT_SCAN), said
    assert not re.search(r"\bdied\b|ended by signal|ended unexpectedly", done.stderr), said
    assert done.seconds < SECONDS, said


@pytest.mark.parametrize("snapshot", EACH_SNAPSHOT)
@pytest.mark.parametrize("what", ["heap", "arenas", "threads", "images", "lists"])
def test_damage_does_no_harm(what, snapshot, notes, tmp_path):
    seed = os.environ.get("HOSTILE_SEED") or str(random.randrange(1 << 32))
    program = compile_hostile("scribble.c", "-pthread", "-fno-stack-protector", "-fno-builtin")
    peak = [compile_hostile("peak.c"), tmp_path / "peak"]
    with Target([program, what, seed]) as target:
        live = target.blocks("live")
        most = OWN_BYTES + TIMES * resident_bytes(target.pid)
        longest, largest, answered = 0, 0, 0
        before = count(target)
        for _ in range(SCANS):
            done = scan(target.pid, "--no-fold", "--snapshot", snapshot, under=peak)
            bytes_of_it = int((tmp_path / "peak").read_text()) << 10
            after = support.wait_until(lambda: goes_on(target, before), 20, "the program goes on")
            said = f"HOSTILE_SEED={seed}, round {before['rounds']} to {after['rounds']}: {done}"
            check_order(done, said)
            assert bytes_of_it < most, f"{bytes_of_it >> 20} MiB, more than {most >> 20}; {said}"
            if done.status != COULD_NOT_SCAN:
                answered += 1
                wrong = addresses(done.report).keys() & live.keys()
                assert not wrong, f"{support.hexes(wrong)} are reachable; {said}"
            assert not after["broken"], (before, said)
            longest, largest, before = max(longest, done.seconds), max(largest, bytes_of_it), after
        support.check_untouched(target.pid)
        assert target.finish() == 0
    notes.append(f"{what} damaged ({snapshot}): {answered} of {SCANS} scans answered, {longest:.2f} s, "
                 f"{largest >> 20} MiB at most")
