# SPDX-License-Identifier: Apache-2.0
"""The log of malloc and free itself: it notices a false leak, and makes none."""

import pathlib
import re

import pytest

import at_work
import free_log
import support
from free_log import FREED, GIVEN, NOTHING, RESIZED, Record
from support import Target


@pytest.mark.parametrize("how,why", [("free", "freed later"), ("realloc", "resized later"), ("keep", None)])
def test_notices_what_is_used_later(how, why):
    outcome = free_log.Outcome(how)
    with free_log.Logs() as logs:
        with Target([support.compile_target("frees_later"), how], env=logs.env) as target:
            for _ in range(3):
                assert free_log.scan_once(outcome, target.pid)
            leaks = target.leaks()
            assert {told.address: told.size for told in outcome.told} == leaks
            assert target.finish() == 0
        free_log.look_up(outcome, logs, [target.pid])
    assert outcome.leaks() == len(leaks) == 20 and outcome.verified == 3
    assert outcome.unknown == 0
    if why is None:
        assert outcome.false == []
        return
    assert len(outcome.false) == 3 * 20
    for size in leaks.values():
        told = [text for text in outcome.false if f": {size} bytes at " in text]
        assert len(told) == 3 and all(f"direct: {why}; given -" in text for text in told), outcome.false
    with pytest.raises(AssertionError, match="60 false leaks"):
        free_log.check(outcome)


def some(event):
    return Record(event, 0, 0, 0)


@pytest.mark.parametrize("before,after,why", [
    (GIVEN, NOTHING, None), (GIVEN, FREED, "freed later"), (GIVEN, RESIZED, "resized later"),
    (GIVEN, GIVEN, "given again"), (FREED, NOTHING, "was free already"), (RESIZED, GIVEN, "was free already"),
    (NOTHING, FREED, "freed later"), (NOTHING, GIVEN, "given again"), (NOTHING, NOTHING, "")])
def test_judges(before, after, why):
    assert free_log.judge(some(before), some(after)) == why




PYTHON = """
import ctypes, os, sys, threading
libc = ctypes.CDLL(None)
for name in "malloc calloc realloc reallocarray memalign aligned_alloc valloc pvalloc".split():
    getattr(libc, name).restype = ctypes.c_void_p
pointer, n = ctypes.c_void_p, ctypes.c_size_t
def all_ways(size):
    p = libc.malloc(n(size)); q = libc.realloc(pointer(p), n(100 * size)); print(p, q)
    some = [q, libc.calloc(n(3), n(size)), libc.reallocarray(None, n(2), n(size)), libc.memalign(n(256), n(size)),
            libc.aligned_alloc(n(64), n(size)), libc.valloc(n(size)), libc.pvalloc(n(size))]
    at = pointer()
    assert libc.posix_memalign(ctypes.byref(at), n(128), n(size)) == 0
    for p in [*some, at.value]:
        print(p)
        libc.free(pointer(p))
def many():
    for i in range(50000): libc.free(pointer(libc.malloc(n(1000))))
left = libc.malloc(n(123456))
print(left)
if os.fork() == 0:
    all_ways(70000)
    os._exit(0)
os.wait()
libc.free(pointer(left))
threads = [threading.Thread(target=many) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
sys.stdin.read()
"""


def test_logs_every_way_of_malloc_in_each_process():
    with free_log.Logs() as logs, support.Process(["/usr/bin/python3", "-I", "-u", "-c", PYTHON],
                                                  env=logs.env) as python:
        left, moved, *given = [python.line() for _ in range(10)]
        first, second = map(int, moved.split())
        assert python.finish() == 0
        own = logs.path(python.pid)
        child, = [path for path in map(str, pathlib.Path(logs.folder).glob("*.0")) if path != own]
        addresses = [first, *map(int, given)]
        firsts, since = [], 0
        for address in addresses:  # one may be that of a block before, which was freed
            (_, after), = free_log.histories(child, [(address, since)])[0]
            firsts, since = [*firsts, after], after.time
        assert all(record.event == GIVEN for record in firsts)
        assert [record.size for record in firsts] == [70000, 7000000, 210000, 140000, *[70000] * 5]
        ends = [(address, 1 << 62) for address in addresses[1:]]
        assert {before.event for before, _ in free_log.histories(child, ends)[0]} == {FREED}
        assert first != second
        (resized, _), = free_log.histories(child, [(first, firsts[1].time - 1)])[0]
        assert resized.event == RESIZED
        # what its parent gave it stays given, whatever that does with its own
        told = [free_log.Told(0, 1, firsts[0].time, int(left), 123456, "direct")]
        found = free_log.histories(child, [(int(left), firsts[0].time)])[0]
        assert [record.event for record in found[0]] == [NOTHING, NOTHING]
        (before, after), = free_log.with_left_by_fork(found, told, child, own)
        assert (before.event, before.size, after.event) == (GIVEN, 123456, NOTHING)
        # four threads at once: nothing is lost
        assert free_log.histories(own, [])[1] > 4 * 2 * 50000


def test_packages_of_all_programs_are_installed_by_a_word():
    text = (support.ROOT / "tools" / "install-deps").read_text()
    lists = dict(re.findall(r'^([A-Z]+)="([^"]*)"', text, re.M))
    for program in at_work.programs:
        words = lists["BUILD"] + " " + lists["CHECK"] + ("" if program.check else " " + lists["PROGRAMS"])
        known = {word.rsplit(":", 1)[-1] for word in words.split()}
        assert set(program.packages.split()) <= known, program.name
