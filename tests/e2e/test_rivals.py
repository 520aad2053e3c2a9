# SPDX-License-Identifier: Apache-2.0
"""Allocators that memscan does not read: named, and the other heaps are read all the same."""

import pathlib
import subprocess

import pytest

import support
from attach_support import refused
from support import Process, Target, check_scanned, compile_target, scan
from test_attach_kinds import OWN_MALLOC


def scudo(kind):
    found = sorted(pathlib.Path("/usr/lib").glob(f"llvm-*/lib/clang/*/lib/linux/libclang_rt.{kind}-x86_64.so"))
    if not found:
        pytest.skip("no scudo; tools/install-deps check")
    return found[-1]


@pytest.mark.parametrize("kind", ["scudo_standalone", "scudo"])
@pytest.mark.parametrize("how", ["fork", "copy"])
def test_the_heaps_beside_it_are_read(kind, how):
    """What its blocks hold is alive; its own blocks are neither seen nor told."""
    with Target([compile_target("two_heaps")], {"LD_PRELOAD": str(scudo(kind))}) as target:
        report = check_scanned(scan(target.pid, "--no-fold", "--snapshot", how))
        assert f"libclang_rt.{kind}-x86_64.so (scudo), which memscan does not read" in report["warnings"][0]
        assert [heap["allocator"] for heap in report["heaps"]] == ["glibc"]
        support.check_truth(report, target)
        support.check_untouched(target.pid)
        assert target.finish() == 0


def test_where_it_has_all_blocks_nothing_is_told():
    with Target([compile_target("leaks"), "chain"], {"LD_PRELOAD": str(scudo("scudo_standalone"))}) as target:
        done = scan(target.pid)
        assert done.status == support.COULD_NOT_SCAN, str(done)
        assert "scudo_standalone-x86_64.so (scudo), which memscan does not read" in done.stderr
        support.check_untouched(target.pid)


def test_nothing_of_it_is_sampled():
    """It passes no call on: there is nothing to attach to."""
    with Target([compile_target("leaks"), "chain"], {"LD_PRELOAD": str(scudo("scudo_standalone"))}) as target:
        refused(target.pid, "is not the C library's", "scudo_standalone-x86_64.so has another")
        support.check_untouched(target.pid)
        assert target.finish() == 0


def test_nothing_of_the_programs_own_malloc_is_sampled(folder):
    program = f"{folder}/own"
    subprocess.run(["gcc", "-O1", "-w", "-rdynamic", "-x", "c", "-", "-o", program], input=OWN_MALLOC, text=True,
                   check=True)
    with Process([program]) as target:
        assert target.line() == "READY"
        refused(target.pid, "is not the C library's", "own has another")
        target.finish()
