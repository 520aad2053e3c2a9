# SPDX-License-Identifier: Apache-2.0
"""Valgrind's memcheck and memscan on the same program at the same moment.

Each program runs twice, under Valgrind and by itself, to the same point; there
Valgrind is asked for a leak check (vgdb), and memscan scans the second one.
Definitely and indirectly lost blocks must be as many as ours; where they are
not, the reason is one of DIFFERENCES and stands in the table.
"""

import os
import shutil
import subprocess

import pytest

import support
import valgrind
from support import Process, Target, check_scanned, compile_target, scan

# (program, scenario): (blocks that Valgrind calls lost and we do not, why)
DIFFERENCES = {
    ("roots", "read_only_page"): (1, "Valgrind skips pages that are read-only now"),
    ("roots", "relro"): (1, "Valgrind skips pages that are read-only now"),
    ("roots", "unreadable_page"): (1, "Valgrind skips pages that are unreadable now"),
    ("roots", "vector_registers"): (4, "Valgrind does not look into vector registers"),
    ("roots", "in_jmp_buf"): (1, "Valgrind does not undo glibc's mangling of rbp"),
    ("mappings", "epoll_data"): (20, "only the kernel holds them: epoll data"),
    ("mappings", "timer_values"): (5, "only the kernel holds them: timer values"),
    ("mappings", "queued_signals"): (3, "only the kernel holds them: signals' values"),
}

# Valgrind cannot map so much, or vgdb not enter such a process.
NOT_UNDER_VALGRIND = {"sparse", "guarded_page", "signal_stack_on_mapping", "signal_stack_on_block"}

# All of them take a minute; in CI those that say most.
FEW = ["chain", "cycle_of_cycles", "shared_child", "big", "aligned", "among_freed", "before_headers", "disguised",
       "library_leaks", "threads_joined", "cached_stacks"]
ALL = bool(os.environ.get("VALGRIND_ALL"))
OWN = [(name, scenario) for name in ("leaks", "roots", "mappings") for scenario in support.scenarios(name)
       if scenario not in NOT_UNDER_VALGRIND
       and (ALL or scenario in FEW or (name, scenario) in DIFFERENCES)]


@pytest.fixture(scope="module")
def need_valgrind():
    if not shutil.which("valgrind") or not shutil.which("vgdb"):
        pytest.skip("valgrind is not installed; tools/install-deps check")


def blocks_lost(pid):
    (lost, _), (possibly, _) = valgrind.lost(pid)
    return lost, possibly


def row(notes, name, theirs, possibly, ours, why=""):
    if not notes or "valgrind" not in notes[-1]:
        notes.append(f"{'valgrind against memscan':<34} {'lost':>6} {'possibly':>8} {'ours':>6}")
    notes.append(f"valgrind: {name:<24} {theirs:>6} {possibly:>8} {ours:>6} {why}")


def compare(notes, name, theirs, possibly, ours, expected=0, why=""):
    """
    Ours are Valgrind's, less what it cannot see (expected), and more those
    that it calls possibly lost for a word somewhere inside of them: a number,
    or the pthread structure of a thread that is gone.
    """
    more = ours - (theirs - expected)
    if more > 0:
        why += f"{', ' if why else ''}{more} of ours are Valgrind's possibly lost: dead words point inside"
    row(notes, name, theirs, possibly, ours, why)
    assert 0 <= more <= possibly, f"Valgrind {theirs} lost, {possibly} possibly; memscan {ours}; {why}"


@pytest.mark.parametrize("name,scenario", OWN, ids=["/".join(pair) for pair in OWN])
def test_own_targets(need_valgrind, notes, name, scenario):
    program = compile_target(name)
    env = {"HOLDER_LIBRARY": str(support.holder_library())}
    with Target(valgrind.under([program, scenario]), env) as target:
        theirs, possibly = blocks_lost(target.pid)
    with Target([program, scenario], env) as target:
        ours = check_scanned(scan(target.pid))["totals"]["leaked_allocations"]
    expected, why = DIFFERENCES.get((name, scenario), (0, ""))
    compare(notes, f"{name} {scenario}", theirs, possibly, ours, expected, why)


# read, poll, pselect6
WAITING = {0, 7, 270}

REAL = {
    "demo_leaky": (lambda: [compile_target("demo_leaky")], None, "READY"),
    "bash": (lambda: ["bash", "--norc", "-s"],
             "declare -A m; for ((i = 0; i < 500; i++)); do m[$i]=x$i; done; f() { local a=1; }; f; echo ${#m[@]}\n", "500"),
    "sqlite3": (lambda: ["sqlite3", "-batch", ":memory:"],
                "create table t(a, b); insert into t values (1, 'x'), (2, 'y'); select count(*) from t;\n", "2"),
    "python3": (lambda: ["/usr/bin/python3", "-I", "-i", "-q", "-S", "-c", ""],
                "d = {i: str(i) for i in range(1000)}; print(len(d))\n", "1000"),
}


def to_the_same_point(argv, question, answer):
    process = Process(argv, stderr=subprocess.DEVNULL)
    try:
        said = process.ask(question, 120) if question else process.line(120)
        assert said == answer
        # it has answered, and may be on its way back from that yet
        support.wait_until(lambda: support.call_of(process.pid) in WAITING, 30, "it waits for its input")
    except BaseException:
        process.stop()
        raise
    return process


@pytest.mark.parametrize("name", REAL)
def test_real_programs(need_valgrind, notes, name):
    make, question, answer = REAL[name]
    with to_the_same_point(valgrind.under(make()), question, answer) as process:
        theirs, possibly = blocks_lost(process.pid)
    with to_the_same_point(make(), question, answer) as process:
        ours = check_scanned(scan(process.pid))["totals"]["leaked_allocations"]
    compare(notes, name, theirs, possibly, ours)
