# SPDX-License-Identifier: Apache-2.0
"""Leaks made from outside in programs that nobody prepared.

A debugger calls malloc in a running program and drops the result; python calls
it through ctypes and only prints it. The report afterwards has each of these
addresses, and besides them only what it had before.

malloc may hand out memory that a forgotten slot somewhere still points to; then
no conservative scan can call it lost. So the test looks through all of the
process's memory by itself: an address to which no word points must be told.
"""

import re
import shutil
import subprocess

import pytest

import support
from support import Process, check_scanned, scan

# Of many sizes, so that some come from bins, some from top, and some by mmap.
SIZES = [24, 40, 72, 100, 200, 300, 500, 700, 1000, 1100, 1500, 1700, 3000, 3100, 5000, 5100, 9000, 20000, 21000,
         60000, 70000, 100000, 300000, 400000]


def malloc_by_gdb(pid, sizes):
    """Call malloc in the process; the addresses it returned."""
    calls = []
    for size in sizes:
        calls += ["-ex", f"print/x (unsigned long)((void *(*)(unsigned long))malloc)({size})"]
    done = subprocess.run(["gdb", "-q", "-nx", "-batch", "-p", str(pid), *calls], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    if "Couldn't write extended state status" in done.stdout:
        pytest.skip("this gdb cannot set registers on a machine with AMX, so it calls nothing")
    found = [int(address, 16) for address in re.findall(r"^\$\d+ = (0x[0-9a-f]+)$", done.stdout, re.M)]
    assert len(found) == len(sizes), done.stdout
    return found


def check_found(pid, before, after, made, sizes, notes):
    old, new = support.addresses(before), support.addresses(after)
    grown = new.keys() - old.keys()
    # malloc rounds up, and so does what counts as inside
    held = support.words_into(pid, {address: size + 24 for address, size in zip(made, sizes)})
    lost = set(made) - held.keys()
    assert not lost - grown, f"not found, though no word points there: {support.hexes(lost - grown)}"
    assert not grown - set(made), f"told besides: {support.hexes(grown - set(made))}"
    assert not old.keys() - new.keys(), "a leak of before is gone"
    assert len(set(made) & grown) > len(made) / 2, f"found {len(set(made) & grown)} of {len(made)}"
    for address, size in zip(made, sizes):
        assert address not in grown or size <= new[address] < size + 4096 + 16
    notes.append(f"made from outside in {support.command_of(pid)}: {len(set(made) & grown)} of {len(made)} found, none besides; "
                 f"words still point to {len(held)}")


def gdb_leaks(process, notes, idle):
    before = check_scanned(scan(process.pid, "--no-fold"))
    made = malloc_by_gdb(process.pid, SIZES)
    after = check_scanned(scan(process.pid, "--no-fold"))
    check_found(process.pid, before, after, made, SIZES, notes)
    assert idle() is True


def need_gdb():
    if not shutil.which("gdb"):
        pytest.skip("gdb is not installed; tools/install-deps check")


def test_gdb_in_bash(notes):
    need_gdb()
    with Process(["bash", "--norc", "-s"]) as bash:
        assert bash.ask("for ((i = 0; i < 2000; i++)); do a[$i]=text$i; done; echo ${#a[@]}\n") == "2000"
        gdb_leaks(bash, notes, lambda: bash.ask("echo ${a[1999]}\n") == "text1999")
        assert bash.finish() == 0


def test_gdb_in_sqlite3(notes):
    need_gdb()
    with Process(["sqlite3", "-batch", ":memory:"]) as sqlite:
        assert sqlite.ask("create table t(a, b); insert into t values (1, 'x'), (2, 'y');"
                          " select count(*) from t;\n") == "2"
        gdb_leaks(sqlite, notes, lambda: sqlite.ask("select b from t where a = 2;\n") == "y")
        assert sqlite.finish() == 0


def test_gdb_in_python(notes):
    need_gdb()
    with Process(["/usr/bin/python3", "-I", "-i", "-q", "-c", "table = {i: str(i) for i in range(5000)}"],
                 stderr=subprocess.DEVNULL) as python:
        assert python.ask("print(len(table))\n") == "5000"
        gdb_leaks(python, notes, lambda: python.ask("print(table[4711])\n") == "4711")


CTYPES = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
libc.memset.restype = None
def leak(size):
    p = libc.malloc(size)
    libc.memset(p, 0x11, size)
    print(hex(p), flush=True)
print("READY", flush=True)
for line in sys.stdin:
    leak(int(line))
"""


def test_ctypes_in_python(notes):
    with Process(["/usr/bin/python3", "-I", "-c", CTYPES]) as python:
        assert python.line() == "READY"
        before = check_scanned(scan(python.pid, "--no-fold"))
        made = [int(python.ask(f"{size}\n"), 16) for size in SIZES]
        last = int(python.ask("17\n"), 16)
        after = check_scanned(scan(python.pid, "--no-fold"))
        check_found(python.pid, before, after, [*made, last], [*SIZES, 17], notes)
        assert python.finish() == 0
