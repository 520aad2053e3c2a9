# SPDX-License-Identifier: Apache-2.0
"""CPython's allocator of small objects, under CPythons of four suites."""

import json
import os
import re
import subprocess
import sys

import pytest

import support
from support import GLIBC, HOST, Process, check_scanned, scan, suite_program

SCANS = int(os.environ.get("SCANS", 6))


def start(suite, text, *args, env=None, **more):
    env = dict(env or {})
    if suite != HOST:
        env["PYTHONHOME"] = f"{support.suite_root(suite)}/usr"
    isolation = ["-S"] if "PYTHONMALLOC" in env else ["-I", "-S"]
    return Process([*suite_program(suite, "python3"), *isolation, "-c", text, *args], env=env, **more)


def pymalloc(report):
    return [heap for heap in report["heaps"] if heap["allocator"] == "pymalloc"]


# ---- what CPython says itself ----

COUNTS = """
import sys, time
kept = [str(i) * (i % 60) for i in range(40000)] + [{i: [i]} for i in range(5000)]
del kept[::3]
sys._debugmallocstats()
print("READY", flush=True)
time.sleep(600)
"""


def stated(text, what):
    return int(re.search(rf"^# {what} *= *([0-9,]+)$", text, re.MULTILINE)[1].replace(",", ""))


@pytest.mark.parametrize("suite", GLIBC)
def test_the_heap_is_what_cpython_counts(suite, tmp_path):
    errors = tmp_path / "stats"
    with open(errors, "w") as stderr, start(suite, COUNTS, stderr=stderr) as python:
        assert python.line() == "READY"
        report = check_scanned(scan(python.pid))
        [heap] = pymalloc(report)
        stats = errors.read_text()
        arenas = re.search(r"^(\d+) arenas \* (\d+) bytes/arena", stats, re.MULTILINE)
        assert heap["mapped_bytes"] == int(arenas[1]) * int(arenas[2])
        # to print and to sleep takes an object or two
        assert abs(heap["allocation_bytes"] - stated(stats, "bytes in allocated blocks")) < 2000
        assert heap["allocations"] > 30000
        assert report["totals"]["leaked_allocations"] == 0, report["leaks"][:5]


# ---- leaks of an extension ----

LOSE = """
import sys
sys.path.insert(0, sys.argv[1])
import pyleak
pyleak.lose()
print("READY", flush=True)
sys.stdin.read()
"""


def rounded(size):
    return (size + 15) // 16 * 16


@pytest.mark.parametrize("suite", GLIBC)
def test_an_extensions_leaks_are_told_exactly(suite):
    module = support.compile_special("pyleak.c", "-shared", "-fPIC", tag=".abi3.so")
    with start(suite, LOSE, module.parent) as python:
        blocks = {"leak": {}, "kept": {}, "inner": {}}
        while (line := python.line()) != "READY":
            what, at, size = line.split()
            blocks[what][int(at, 16)] = rounded(int(size))
        assert len(blocks["leak"]) == 40
        for how in ("fork", "copy"):
            report = check_scanned(scan(python.pid, "--no-fold", "--possible", "--snapshot", how))
            told = support.addresses(report)
            assert told == blocks["leak"], support.hexes(set(told) ^ set(blocks["leak"]))
            possible = support.addresses(report, "possible")
            # objects are pointed to behind their begins: that is no doubt in this heap
            assert not possible.keys() & (blocks["kept"].keys() | blocks["inner"].keys())


@pytest.mark.parametrize("suite, told", [(HOST, 40), ("trixie", 0)])
def test_at_the_end(suite, told, tmp_path):
    """From 3.12 on the interpreter loses objects of its own then, by the thousand."""
    module = support.compile_special("pyleak.c", "-shared", "-fPIC", tag=".abi3.so")
    report = tmp_path / "report"
    env = {**os.environ, **({} if suite == HOST else {"PYTHONHOME": f"{support.suite_root(suite)}/usr"})}
    subprocess.run([support.MEMSCAN, "run", "-q", "--no-fold", "--json", "-o", report,
                    *suite_program(suite, "python3"), "-S", "-c", LOSE, module.parent],
                   env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=120, check=True)
    report = json.loads(report.read_text())
    assert len(report["leaks"]) == told
    assert len(pymalloc(report)) == (told > 0)
    assert any("at a program's end" in warning for warning in report["warnings"]) == (told == 0)


# ---- an interpreter at work ----

WORK = """
import _thread, sys
done = _thread.allocate_lock()
class Node:
    def __init__(self, n):
        self.me, self.list, self.text = self, [n] * (n % 9), str(n) * (n % 40)
def work(n):
    kept = {}
    while done.acquire(False):
        done.release()
        for i in range(500):
            kept[i % 97] = Node(i * n), (float(i), bytes(i % 300), {i: n}), iter([i])
        if n == 0:
            large = [b"%d" % i for i in range(100000)]
            del large
for n in range(3):
    _thread.start_new_thread(work, (n,))
print("READY", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("suite", GLIBC)
def test_nothing_is_lost_while_it_works(suite):
    with start(suite, WORK) as python:
        assert python.line() == "READY"
        scanned = 0
        for _ in range(SCANS):
            done = scan(python.pid)
            assert done.status in (support.SCANNED_CLEAN, support.SCANNED_LEAKS), str(done)
            assert pymalloc(done.report), done.report["heaps"]
            assert done.report["leaks"] == []
            scanned += all(heap["verified"] for heap in done.report["heaps"])
        assert scanned >= SCANS // 2


# ---- allocators beside it ----

SLEEP = "import sys; kept = [str(i) for i in range(2000)]; print('READY', flush=True); sys.stdin.read()"


@pytest.mark.parametrize("allocator, found", [("pymalloc", 1), ("pymalloc_debug", 1), ("malloc", 0), ("malloc_debug", 0)])
def test_what_cpython_is_asked_to_use(allocator, found):
    with start(HOST, SLEEP, env={"PYTHONMALLOC": allocator}) as python:
        assert python.line() == "READY"
        report = check_scanned(scan(python.pid))
        assert len(pymalloc(report)) == found, report["heaps"]
        assert report["leaks"] == []


# ---- containers, which the collector of cycles has ----

@pytest.mark.parametrize("allocator", ["pymalloc", "malloc"])
def test_a_pointer_to_an_object_behind_its_links_is_one_to_its_begin(allocator):
    script = "import asyncio, json, os, sys\nprint('READY', flush=True)\nsys.stdin.read()\n"
    with Process([sys.executable, "-c", script], env={"PYTHONMALLOC": allocator}) as python:
        assert python.line() == "READY"
        totals = check_scanned(scan(python.pid, "--possible"))["totals"]
        assert totals["leaked_allocations"] == 0
        # values of dictionaries, which have sizes in front of them; other libraries' blocks
        assert totals["possible_allocations"] == totals["interior_allocations"], totals
        assert totals["possible_allocations"] < totals["allocations"] / 20, totals


# A reference too many of each, garbage that the collector does not get to see, and what is in use.
CONTAINERS = """
import gc, sys
sys.path.insert(0, sys.argv[1])
import pyleak
gc.disable()

class Order:
    def __init__(self, number):
        self.number, self.lines = number, [(number, "line %d" % number)]

def lose(number):
    pyleak.take({"order": Order(number), "paid": [number * 1000]})

def make_a_cycle(number):
    order = Order(number)
    order.lines.append({"back": order})

kept = [Order(i) for i in range(3000)]
for i in range(500):
    lose(i)
    make_a_cycle(i)
print("READY", flush=True)
sys.stdin.read()
"""


def name_of(block):
    return block.get("type", {}).get("name")


def with_reason(report, reason):
    return sum(1 + leak["similar_count"] for leak in report["leaks"] if leak.get("reason") == reason)


@pytest.mark.parametrize("how", ["copy", "fork"])
@pytest.mark.parametrize("suite", GLIBC)
def test_the_collector_owns_nothing(suite, how):
    module = support.compile_special("pyleak.c", "-shared", "-fPIC", tag=".abi3.so")
    with start(suite, CONTAINERS, module.parent) as python:
        assert python.line() == "READY"
        report = check_scanned(scan(python.pid, "--possible", "--snapshot", how))
        lost = [leak for leak in report["leaks"] if leak["kind"] == "direct" and name_of(leak) == "dict"]
        # residual data may hold one or another
        assert 480 <= sum(1 + leak["similar_count"] for leak in lost) <= 500, report["leaks"][:5]
        assert all(leak["references"] == 1 and "references_found" not in leak for leak in lost)
        assert 480 <= with_reason(report, "gc") <= 500 * 5, report["totals"]
        assert report["totals"]["direct_allocations"] <= 500, report["totals"]
        assert any("CPython's collector" in warning for warning in report["warnings"])
        answer = json.loads(support.memscan("retained", "--pid", python.pid, "--json").stdout)
        # or the dictionary of the module, which has the list
        most = answer["by_block"][0]
        assert name_of(most) in ("list", "dict") and most["retained_bytes"] > 3000 * 200, most
