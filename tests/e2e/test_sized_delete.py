# SPDX-License-Identifier: Apache-2.0
"""Blocks that are deleted with a wrong size stand in lists of that size: it is said, and the rest is scanned."""

import pathlib

import pytest

import support
from support import Target, check_scanned, compile_target, scan

LIB = pathlib.Path("/usr/lib/x86_64-linux-gnu")
WARNING = "operator delete leaves them when it is given a wrong size"


# jemalloc's flush of a full cache damages the heap: there no more than one holds
@pytest.mark.parametrize("n", [5, 100])
def test_the_rest_is_scanned_under_jemalloc(n):
    library = LIB / "libjemalloc.so.2"
    if not library.exists():
        pytest.skip(f"needs {library}")
    program = compile_target("sized_delete.cc", compiler="g++", flags=("-fsized-deallocation",))
    with Target([program, str(n)], {"LD_PRELOAD": str(library)}) as target:
        report = check_scanned(scan(target.pid, "--no-fold"))
        truth = target.leaks()
    [heap] = [heap for heap in report["heaps"] if heap["allocator"] == "jemalloc"]
    assert heap["verified"], heap
    assert support.addresses(report) == truth
    # one block goes round; what was in a list of its own size before is given out first
    assert any(WARNING in warning for warning in report["warnings"]), report["warnings"]


# in a thread's cache, in transfer slots and on spans' lists, too; and none
@pytest.mark.parametrize("n", [5, 40, 3000, 0])
@pytest.mark.parametrize("library", ["libtcmalloc_minimal.so.4", "libtcmalloc.so.4"])
def test_the_rest_is_scanned(library, n):
    if not (LIB / library).exists():
        pytest.skip(f"needs {library}")
    program = compile_target("sized_delete.cc", compiler="g++", flags=("-fsized-deallocation",))
    with Target([program, str(n)], {"LD_PRELOAD": str(LIB / library)}) as target:
        report = check_scanned(scan(target.pid, "--no-fold"))
        truth = target.leaks()
    [heap] = [heap for heap in report["heaps"] if heap["allocator"] == "tcmalloc"]
    assert heap["verified"], heap
    leaks = [leak for leak in report["leaks"] if leak.get("type", {}).get("name") != "MallocExtension"]
    assert support.addresses({"leaks": leaks}) == truth
    assert any(WARNING in warning for warning in report["warnings"]) == (n > 0), report["warnings"]
