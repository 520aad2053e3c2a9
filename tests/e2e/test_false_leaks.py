# SPDX-License-Identifier: Apache-2.0
"""Programs at work, scanned again and again: nothing that memscan tells is used later.

PROGRAMS: "all" for the whole table of at_work, or names of it, separated by commas;
without it those that are for `make check`. PROGRAM_SECONDS: how long each is scanned.
PROGRAM_MALLOC: the file of an allocator that all of them are to have. PROGRAM_OPTIONS:
options that each scan has besides, such as --strict-containers.
"""

import contextlib
import os
import pathlib
import random
import time

import pytest

import at_work
import free_log
import support
from allocators import LIB as LIBRARIES

WANTED = os.environ.get("PROGRAMS", "")
MALLOC = os.environ.get("PROGRAM_MALLOC", "")
SECONDS = float(os.environ.get("PROGRAM_SECONDS") or 2)


# In `make check` also with these.
WITH_OTHERS = (("sqlite3", "libtcmalloc_minimal.so.4"), ("haproxy", "libmimalloc.so.2.0"),
               ("mariadb", "libjemalloc.so.2"), ("php-fpm", "libjemalloc.so.2"))
# With the whole table also with these.
WITH_MORE = (("node", "libjemalloc.so.2"), ("openjdk", "libjemalloc.so.2"), ("ruby", "libjemalloc.so.2"),
             ("mariadb", "libtcmalloc_minimal.so.4"), ("mpv", "libjemalloc.so.2"), ("evince", "libjemalloc.so.2"))


def chosen():
    """Programs, each with the allocator that it is to have instead of its own; "": its own."""
    if WANTED in ("", "all"):
        found = [program for program in at_work.programs if program.check or WANTED]
    else:
        found = [program for program in at_work.programs if program.name in WANTED.split(",")]
        assert len(found) == len(WANTED.split(",")), f"of {WANTED} there are {[program.name for program in found]}"
    pairs = {"": WITH_OTHERS, "all": WITH_OTHERS + WITH_MORE}.get(WANTED, ()) if not MALLOC else ()
    others = [(program, f"/{LIBRARIES}/{file}") for name, file in pairs for program in found if program.name == name]
    return [(program, MALLOC) for program in found] + others


def title(program, malloc):
    return program.name + (f"-{pathlib.Path(malloc).name.split('.')[0]}" if malloc else "")


def scan_at_work(outcome, pids_now, logs):
    """Scan for some seconds, at moments of no pattern; the processes that were scanned."""
    # while the loader is at work there is nothing to be found
    for pid in pids_now():
        support.wait_until(lambda pid=pid: free_log.is_used(logs.path(pid)), 20, f"{outcome.name} has a heap")
    scanned, end = set(), time.monotonic() + SECONDS
    while time.monotonic() < end or outcome.scans < 3:
        for pid in pids_now():
            if free_log.scan_once(outcome, pid):
                scanned.add(pid)
        assert scanned, f"{outcome.name}: there is nothing to scan"
        time.sleep(random.uniform(0, 0.03))
    return scanned


@pytest.fixture
def orphans():
    """Orphans that programs make are not taken for memscan's; call it with a word of their environment to end them."""
    support.libc.prctl(support.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    words = []
    yield words.append
    for pid in support.all_pids():
        with contextlib.suppress(OSError):
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if any(word.encode() in environment for word in words):
                support.kill(pid)
    support.libc.prctl(support.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@pytest.mark.parametrize("program,malloc", chosen(), ids=[title(*one) for one in chosen()])
def test_no_leak_is_used_later(program, malloc, folder, outcomes, orphans):
    outcome = free_log.Outcome(title(program, malloc))
    with free_log.Logs(malloc) as logs:
        orphans(f"FREELOG={logs.folder}")
        place = at_work.Place(folder, logs.env)
        with place.stack, contextlib.closing(program.run(place)) as steps:
            try:
                pids_now = next(steps)
                scanned = scan_at_work(outcome, pids_now, logs)
                assert next(steps, None) is None
            finally:
                place.ended = True
        free_log.look_up(outcome, logs, scanned)
    outcomes.append(outcome)
    free_log.check(outcome, program.other_malloc)
