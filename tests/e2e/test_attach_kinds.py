# SPDX-License-Identifier: Apache-2.0
"""memscan attach where malloc is in a static program, or musl's.

ATTACH_ROUNDS is how often each is attached and detached, ATTACH_KILLS how often memscan is killed.
"""

import dataclasses
import re
import subprocess

import pytest

import support
from attach_support import (MUSL_FILE, Stormy, attach, check_given_back, check_plants, check_stripped, code_of,
                            kill_at_random, refused, run_all_rounds)
from support import Process, compile_target
from test_attach_allocators import check_each_is_counted_once, check_rounds_of_the_table

MODES = ("loops", "single", "forks", "spawns", "threads", "signals")


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
        return code_of(pid, MUSL_FILE if self.variant == "dynamic" else None)


KINDS = [Kind("glibc", "static"), Kind("glibc", "static-pie"), Kind("musl", "dynamic"), Kind("musl", "static"),
         Kind("musl", "static-pie")]


def stormy(kind, mode):
    return Stormy(mode, program=kind.compile("stormy"))


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_rounds(kind, mode):
    with stormy(kind, mode) as target:
        run_all_rounds(target, kind.code)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_diverts_malloc_and_gives_it_back(kind):
    with stormy(kind, "loops") as target:
        before = kind.code(target.pid)
        said = attach(target.pid)
        assert re.search(rf"functions of {kind.said()}[ 0-9.]*;", said), said
        check_given_back(target, before, kind.code)


def first_function(frames):
    return next((frame["function"] for frame in frames if frame.get("function") not in ("aligned", None)), None)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_leak_has_the_function_first(kind):
    with Process([kind.compile("plants")]) as target:
        check_plants(target, first_function)


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


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("command", ["attach", "detach"])
def test_killed_at_random(kind, command, notes):
    with stormy(kind, "loops") as target:
        kill_at_random(target, command, notes, kind.code, Stormy.check_unharmed)
        target.end()


# ---- refused ----

@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.variant != "dynamic"], ids=str)
def test_a_static_program_that_was_stripped(kind):
    check_stripped(kind.compile("stormy"), "is linked statically and has no symbols")


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
