# SPDX-License-Identifier: Apache-2.0
"""memscan attach where malloc is in a static program, or musl's.

ATTACH_ROUNDS is how often each is attached and detached, ATTACH_KILLS how often memscan is killed.
"""

import dataclasses
import functools
import re
import subprocess

import pytest

import support
from support import Process, compile_target, memscan
from test_attach import (ROUNDS, STUCK_S, Stormy, agents_of, attach, clean, detach, kill_at_random, refused, run_rounds)
from test_attach_allocators import check_each_is_counted_once, check_rounds_of_the_table
from test_kills import no_orphans, wait_until_free

MODES = ("loops", "single", "forks", "spawns", "threads", "signals")
WAYS = ("malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign")


@dataclasses.dataclass(frozen=True)
class Kind:
    libc: str
    variant: str

    def __str__(self):
        return f"{self.libc}-{self.variant}"

    def compile(self, program):
        if self.libc == "musl":
            return compile_target(program, variant=self.variant, tag="-musl", libc_flags=support.musl_flags)
        return compile_target(program, variant=self.variant)

    def said(self):
        return ("" if self.variant == "dynamic" else "its own ") + self.libc

    def code(self, pid):
        """(address, bytes) of malloc and free, as they are in memory."""
        dynamic = []
        lines = [line.split() for line in open(f"/proc/{pid}/maps", encoding="utf-8")]
        begin, name = next((line[0], line[5]) for line in lines
                           if line[2] == "00000000" and len(line) > 5 and
                           ("musl" in line[5] and "libc" in line[5] if self.variant == "dynamic" else line[5][0] == "/"))
        if self.variant == "dynamic":
            dynamic = ["-D"]
        return [self.read(pid, int(begin.split("-")[0], 16), at) for at in symbols(name, *dynamic)]

    def read(self, pid, base, at):
        at += 0 if self.variant == "static" else base
        with open(f"/proc/{pid}/mem", "rb", 0) as memory:
            memory.seek(at)
            return at, memory.read(16)


KINDS = [Kind("glibc", "static"), Kind("glibc", "static-pie"), Kind("musl", "dynamic"), Kind("musl", "static"),
         Kind("musl", "static-pie")]


@functools.cache
def symbols(name, *dynamic):
    said = subprocess.run(["nm", *dynamic, name], capture_output=True, text=True, check=True).stdout
    return [int(re.search(rf"^([0-9a-f]+) [TtWV] {function}$", said, re.M)[1], 16) for function in ("malloc", "free")]


def stormy(kind, mode):
    return Stormy(mode, program=kind.compile("stormy"))


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_rounds(kind, mode):
    with stormy(kind, mode) as target:
        run_rounds(target, ROUNDS, 4096, kind.code)
        run_rounds(target, 1 + ROUNDS // 4, 1, kind.code)
        target.end()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_diverts_malloc_and_gives_it_back(kind):
    with stormy(kind, "loops") as target:
        before = kind.code(target.pid)
        said = attach(target.pid)
        assert re.search(rf"functions of {kind.said()}[ 0-9.]*;", said), said
        assert all(now != then for now, then in zip(kind.code(target.pid), before))
        target.check()
        detach(target.pid)
        assert kind.code(target.pid) == before and agents_of(target.pid) == 0
        target.end()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_leak_has_the_function_first(kind):
    with Process([kind.compile("plants")]) as target:
        assert target.line() == "READY"
        attach(target.pid, "--sample", 1)
        assert target.ask("\n") == "DONE"
        leaks = support.scan(target.pid).report["leaks"]
        found = {}
        for leak in leaks:
            own = [frame["function"] for frame in leak.get("backtrace", [])
                   if frame.get("function") not in ("aligned", None)]
            if own:
                found[own[0]] = found.get(own[0], 0) + leak["total_size"]
        assert set(found) == {f"plant_{way}" for way in WAYS}, (found, leaks)
        assert sorted(found, key=found.get, reverse=True) == [f"plant_{way}" for way in WAYS]
        detach(target.pid)
        assert agents_of(target.pid) == 0
        assert target.finish() == 0


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_table_is_the_truth(kind, notes):
    with Process([kind.compile("every_way")]) as target:
        assert target.line() == "READY"
        notes.append(f"{kind}: {check_rounds_of_the_table(target)}")


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_each_block_is_counted_once(kind, notes):
    with Process([kind.compile("every_way")]) as target:
        assert target.line() == "READY"
        notes.append(f"{kind}: {check_each_is_counted_once(target)}")


def check_unharmed(target):
    wait_until_free(target)
    support.wait_until(no_orphans, STUCK_S, "processes of memscan are left over")
    target.check()


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("command", ["attach", "detach"])
def test_killed_at_random(kind, command, notes):
    with stormy(kind, "loops") as target:
        code = kind.code(target.pid)
        kill_at_random(target, command, lambda: clean(target, code, kind.code, check_unharmed), notes)
        target.end()


# ---- refused ----

@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.variant != "dynamic"], ids=str)
def test_a_static_program_that_was_stripped(kind):
    with Process([support.stripped(kind.compile("stormy")), "sleeps"]) as target:
        assert target.line() == "READY"
        refused(target.pid, "is linked statically and has no symbols", "before it was stripped")
        assert not memscan("detach", target.pid).status == 0
        target.finish()


OWN_MALLOC = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <stdint.h>
static char room[1 << 20]; static size_t used;
void *malloc(size_t n) { used = (used + 15) & -16; used += n; return room + used - n; }
void free(void *p) { (void)p; }
void *calloc(size_t m, size_t n) { return malloc(m * n); }
void *realloc(void *p, size_t n) { (void)p; return malloc(n); }
int main(void) { write(1, "READY\\n", 6); char c; return read(0, &c, 1) != 0; }
"""


def test_a_static_program_with_a_malloc_of_its_own(folder):
    program = f"{folder}/own"
    subprocess.run(["gcc", "-O1", "-w", "-static", "-x", "c", "-", "-o", program], input=OWN_MALLOC, text=True, check=True)
    with Process([program]) as target:
        assert target.line() == "READY"
        refused(target.pid, "malloc of process", "is not the C library's")
        target.finish()
