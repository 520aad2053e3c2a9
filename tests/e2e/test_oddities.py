# SPDX-License-Identifier: Apache-2.0
"""glibc's malloc in unusual moods, under every glibc: tunables together, a busy heap, its debug library."""

import pathlib
import re

import pytest

import support
from support import GLIBC, HOST, Target, check_scanned, compile_target, scan

pytestmark = pytest.mark.spread

# Two of them with a heap that has seen much.
TUNED = {
    # four threads in one arena: hardly one of its bins is empty
    "busy": ("arena_max=1", "churn", "all"),
    # heaps of 8 MiB, whether or not there are huge pages
    "huge": ("hugetlb=2", "churn", "all"),
    "together": ("hugetlb=1:arena_max=1:tcache_count=0:perturb=90:mmap_threshold=8192:trim_threshold=4096",
                 "leaks", "among_freed"),
    "never_mapped": ("mmap_max=0:tcache_max=65536:mxfast=160", "leaks", "among_freed"),
}


def tunables(text):
    return {"GLIBC_TUNABLES": ":".join("glibc.malloc." + one for one in text.split(":"))}


def doubted(report):
    """
    Mmapped chunks that look like others. Without a huge page to be had glibc asks for a chunk of small pages; when
    there was one, it cannot unmap a part of it: what it freed stays, and looks as it did in use.
    """
    evidence = " ".join(line for heap in report["heaps"] for line in heap["evidence"])
    return sum(int(n) for n in re.findall(r"(\d+) more mmapped chunks are among", evidence))


@pytest.mark.parametrize("suite", GLIBC)
@pytest.mark.parametrize("mood", TUNED)
def test_a_tuned_heap(suite, mood):
    settings, program, what = TUNED[mood]
    with Target([compile_target(program, suite), what], tunables(settings)) as target:
        report = check_scanned(scan(target.pid, "--no-fold"))
        huge = mood == "huge" and any("hugetlbfs" in text for text in report["warnings"])
        support.check_truth(report, target, held=doubted(report) if huge else 0)
        # where this machine has huge pages set apart, they are in use, and no clone may share them
        said = "hugetlbfs|could not be verified" if doubted(report) else "hugetlbfs"
        assert not [text for text in report["warnings"] if not huge or not re.search(said, text)], report["warnings"]


def debug_library(suite):
    """What malloc's debugging moved to with 2.34; before, it was in the C library."""
    root = pathlib.Path("/") if suite == HOST else support.suite_root(suite)
    found = root / "usr/lib/x86_64-linux-gnu/libc_malloc_debug.so.0"
    return {"LD_PRELOAD": str(found)} if found.exists() else {}


@pytest.mark.parametrize("suite", GLIBC)
def test_the_debug_library_by_itself(suite):
    with Target([compile_target("leaks", suite), "among_freed"], debug_library(suite)) as target:
        support.check_truth(check_scanned(scan(target.pid, "--no-fold")), target)


@pytest.mark.parametrize("suite", GLIBC)
def test_mtrace(suite, tmp_path):
    env = {**debug_library(suite), "MALLOC_TRACE": str(tmp_path / "trace")}
    with Target([compile_target("debugged_by_libc", suite), "mtrace"], env) as target:
        support.check_truth(check_scanned(scan(target.pid, "--no-fold")), target)


@pytest.mark.parametrize("suite", GLIBC)
def test_mcheck_holds_every_block(suite):
    with Target([compile_target("debugged_by_libc", suite), "mcheck"], debug_library(suite)) as target:
        report = check_scanned(scan(target.pid, "--no-fold"))
        assert not report["leaks"]
        assert "mcheck()" in report["warnings"][0] and len(report["warnings"]) == 1


@pytest.mark.parametrize("suite", GLIBC)
@pytest.mark.parametrize("setting", ["MALLOC_CHECK_", "tunable"])
def test_checked_blocks(suite, setting):
    """The bytes that malloc adds are not pointers, and give the requested size."""
    env = {"MALLOC_CHECK_": "3"} if setting == "MALLOC_CHECK_" else tunables("check=3")
    with Target([compile_target("leaks", suite), "among_freed"], {**debug_library(suite), **env}) as target:
        report = check_scanned(scan(target.pid, "--no-fold"))
        support.check_truth(report, target)
        assert re.search("MALLOC_CHECK_: .* say what was asked for", str(report["heaps"]))


@pytest.mark.parametrize("suite", GLIBC)
@pytest.mark.parametrize("snapshot", ["fork", "copy"])
def test_a_heap_that_the_program_itself_supplies(suite, snapshot):
    """By __morecore, which 2.34 took away: then it is an ordinary heap."""
    with Target([compile_target("own_sbrk", suite)]) as target:
        report = check_scanned(scan(target.pid, "--no-fold", "--snapshot", snapshot))
        support.check_truth(report, target)
        assert len(target.leaks()) == 100
