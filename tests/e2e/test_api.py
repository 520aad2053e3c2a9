# SPDX-License-Identifier: Apache-2.0
"""Programs that search themselves by libmemunreachable, in C and in C++.

Each case of tests/targets/api is a process of its own, which says "ok" or what was
wrong; with the library shared and archived.
"""

import os
import subprocess

import pytest

import support
from allocators import ALLOCATORS
from support import HOST

PROGRAMS = sorted(source.stem for source in (support.TARGETS / "api").glob("*.c*"))
VARIANTS = ("shared", "archived")
SECONDS = 120 + int(os.environ.get("STEADY", "0"))


def program(name, variant):
    return support.BUILD / "api" / (name + ("-archived" if variant == "archived" else ""))


def cases(name, variant):
    if not program(name, variant).exists():
        raise RuntimeError(f"{program(name, variant)} does not exist; run make targets first")
    return subprocess.run([program(name, variant), "list"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True, check=True).stdout.split()


def run_case(name, variant, case, env=None):
    run_program(program(name, variant), case, env)


def run_program(path, case, env):
    with support.Process([path, case], env, stdin=subprocess.DEVNULL,
                         stderr=subprocess.PIPE) as process:
        try:
            out, err = (text.decode(errors="replace") for text in process.popen.communicate(timeout=SECONDS))
        except subprocess.TimeoutExpired:
            states = {pid: support.state_of(pid) for pid in support.in_session(process.pid)}
            pytest.fail(f"it hangs after {SECONDS} s: {states}")
        assert (process.popen.returncode, out) == (0, "ok\n"), err[-2000:]


EVERY = [(name, variant, case) for name in PROGRAMS for variant in VARIANTS for case in cases(name, variant)]


@pytest.mark.parametrize("name,variant,case", EVERY, ids=["-".join(parts[:2]) + ":" + parts[2] for parts in EVERY])
def test_searches_itself(name, variant, case):
    run_case(name, variant, case)


# What gperftools' own start leaves behind is one leak more than the cases count.
OTHERS = [a for a in ALLOCATORS if a.suite == HOST and a.way == "preload" and not a.tag and a.name in ("jemalloc", "mimalloc")]
WITH_OTHERS = [(allocator, name, case) for allocator in OTHERS
               for name in ("c_api", "c_contexts", "c_holders", "c_steady", "c_why", "cc_merged") for case in cases(name, "shared")]


@pytest.mark.parametrize("allocator,name,case", WITH_OTHERS, ids=[f"{a}-{name}:{case}" for a, name, case in WITH_OTHERS])
def test_searches_itself_with_another_allocator(allocator, name, case):
    run_case(name, "shared", case, {"LD_PRELOAD": str(allocator.path())})
