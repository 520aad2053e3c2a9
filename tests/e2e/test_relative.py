# SPDX-License-Identifier: Apache-2.0
"""Blocks whose addresses memory does not show, only how far they are.

The program frees them at its end, and counts: a block that is told as leaked and
freed later is a false leak. The one it has lost is told, however it is asked.
"""

import pathlib

import pytest

import support
from support import Target, check_scanned, compile_special, scan

CASES = {"patterns": 198, "nodes": 400}


def start(what, env=None):
    target = Target([compile_special("relative.c", "-ldl", "-Wno-pedantic"), what], env)
    assert target.blocks("leak"), "it made nothing"
    return target


@pytest.mark.parametrize("how", ["copy", "fork"])
@pytest.mark.parametrize("what", CASES)
def test_what_distances_keep_is_possible(what, how, notes):
    with start(what) as target:
        report = check_scanned(scan(target.pid, "--no-fold", "--possible", "--snapshot", how))
        support.check_truth(report, target)
        relative = [leak for leak in report["leaks"] if leak.get("reason") == "relative"]
        assert len(relative) >= CASES[what], report["totals"]
        assert all(leak["kind"] == "possible" for leak in relative)
        assert any(f"{len(relative)} allocations" in warning for warning in report["warnings"]), report["warnings"]
        report = check_scanned(scan(target.pid, "--no-fold", "--snapshot", how))
        support.check_truth(report, target)
        assert "possible_allocations" not in report["totals"]
        assert any("--possible" in warning for warning in report["warnings"]), report["warnings"]
        target.popen.stdin.close()
        freed = int(target.line().removeprefix("freed "))
        assert freed >= len(relative)
        assert target.finish() == 0
        notes.append(f"{what}: {len(relative)} blocks kept by distances, possible; {freed} freed later")


LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")


@pytest.mark.parametrize("how", ["copy", "fork"])
@pytest.mark.parametrize("library", ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2.0"])
def test_patterns_of_other_allocators_are_possible(library, how):
    """These have an extent for each size, with granules of that."""
    if not (LIBRARIES / library).exists():
        pytest.skip(f"no {library}")
    with start("patterns", {"LD_PRELOAD": str(LIBRARIES / library)}) as target:
        report = check_scanned(scan(target.pid, "--no-fold", "--possible", "--snapshot", how))
        relative = [leak for leak in report["leaks"] if leak.get("reason") == "relative"]
        assert len(relative) >= CASES["patterns"], report["totals"]
        # beside the one that it has lost, one of 8 bytes that a library makes when it is loaded
        assert report["totals"]["leaked_allocations"] <= 2, report["leaks"][:5]
        assert target.finish() == 0


def test_text_has_the_reason(tmp_path):
    with start("nodes") as target:
        done = support.memscan("--pid", target.pid, "--possible", "--limit", "all", "--no-merge")
        assert done.stdout.count("   reason: only self-relative pointers lead to it\n") >= CASES["nodes"], str(done)
        assert target.finish() == 0
