# SPDX-License-Identifier: Apache-2.0
"""Blocks to which only words lead that are no pointers: at odd offsets as in packed structures, with a number
beside the address, shifted as interpreters keep numbers, just in front of the block, or in the kernel alone.

The program frees them at its end: one that is reported as leaked would be a false leak. The
one it has lost is reported.
"""

import json
import os

import pytest

import allocators
import support
from support import Target, check_scanned, compile_special, scan

TEXTS = 300
TAGGED = 70


@pytest.mark.parametrize("how", ["copy", "fork"])
def test_what_packed_structures_keep_is_possible(how):
    with Target([compile_special("packed.c", "-Wno-pedantic")]) as target:
        report = check_scanned(scan(target.pid, "--no-fold", "--possible", "--snapshot", how))
        support.check_truth(report, target)
        kept = [leak for leak in report["leaks"] if leak.get("reason") == "unaligned"]
        assert len(kept) == 2 * TEXTS and {leak["kind"] for leak in kept} == {"possible"}
        assert {leak["address"] for leak in kept} == {hex(at) for at in target.blocks("live")}
        report = check_scanned(scan(target.pid, "--no-fold", "--snapshot", how))
        support.check_truth(report, target)
        assert any(f"{2 * TEXTS} allocations" in warning for warning in report["warnings"]), report["warnings"]
        report = check_scanned(scan(target.pid, "--no-fold", "--unaligned", "--snapshot", how))
        support.check_truth(report, target)
        assert not report["warnings"]
        target.popen.stdin.close()
        assert target.line() == f"freed {2 * TEXTS + 1}"


@pytest.mark.parametrize("how", ["copy", "fork"])
def test_what_has_a_number_beside_its_address_is_possible(how):
    with Target([compile_special("tagged.c", "-Wno-pedantic")]) as target:
        report = check_scanned(scan(target.pid, "--no-fold", "--possible", "--snapshot", how))
        support.check_truth(report, target)
        kept = {leak["address"] for leak in report["leaks"] if leak.get("reason") == "tagged"}
        assert kept == {hex(at) for at in target.blocks("live")} and len(kept) == TAGGED
        report = check_scanned(scan(target.pid, "--no-fold", "--snapshot", how))
        support.check_truth(report, target)
        assert any(f"{TAGGED} allocations" in warning for warning in report["warnings"]), report["warnings"]
        support.check_truth(check_scanned(scan(target.pid, "--no-fold", "--unaligned", "--snapshot", how)), target)
        target.popen.stdin.close()
        assert target.line() == f"freed {TAGGED}"


JEMALLOC = f"/{allocators.LIB}/libjemalloc.so.2"
HIDDEN = {"fixnum": (["fixnum", "3", "0"], "tagged"), "fixnum with a tag": (["fixnum", "1", "1"], "tagged"),
          "fixnum of Erlang": (["fixnum", "4", "15"], "tagged"), "light userdata": (["light"], "tagged"),
          "counted from 1": (["front"], "outside")}


@pytest.mark.parametrize("kind", HIDDEN)
def test_what_no_word_leads_to_is_possible(kind):
    words, reason = HIDDEN[kind]
    with Target([compile_special("hidden.c", "-Wno-pedantic"), *words]) as target:
        report = check_scanned(scan(target.pid, "--no-fold", "--possible"))
        support.check_truth(report, target)
        live = {hex(at) for at in target.blocks("live")}
        assert live == {leak["address"] for leak in report["leaks"] if leak.get("reason") == reason}
        support.check_truth(check_scanned(scan(target.pid, "--no-fold")), target)
        target.popen.stdin.close()
        assert target.line() == f"freed {len(live)}"


@pytest.mark.skipif(not os.path.exists(JEMALLOC), reason="libjemalloc2 is not installed")
def test_in_front_of_a_block_is_the_one_before():
    """In a heap without headers; most blocks are held by chance, since what leads to the next leads into them."""
    with Target([compile_special("hidden.c", "-Wno-pedantic"), "front"], env=dict(os.environ, LD_PRELOAD=JEMALLOC)) as target:
        report = check_scanned(scan(target.pid, "--no-fold", "--possible"))
        support.check_truth(report, target)
        live = {hex(at) for at in target.blocks("live")}
        kept = {leak["address"] for leak in report["leaks"] if leak.get("reason") == "outside"}
        assert kept and kept <= live
        target.popen.stdin.close()
        assert target.line() == f"freed {len(live)}"


@pytest.mark.skipif(os.geteuid() != 0 or not os.access("/dev/fuse", os.W_OK), reason="mounts a file system of its own")
def test_what_a_file_system_gave_the_kernel_is_possible(folder):
    with Target([compile_special("serves_files.c")]) as target:
        live = {hex(at) for at in target.blocks("live")}
        report = check_scanned(scan(target.pid, "--no-fold", "--possible"))
        assert live == {leak["address"] for leak in report["leaks"] if leak.get("reason") == "fuse"}
        report = check_scanned(scan(target.pid, "--no-fold"))
        assert not report["leaks"] and any("serves a file system" in warning for warning in report["warnings"]), report
        dumped = support.memscan("dump", target.pid, "-o", f"{folder}/core")
        assert dumped.status == 0, dumped
        dumped = support.memscan("core", f"{folder}/core", "--json")
        assert not json.loads(dumped.stdout)["leaks"], dumped
        target.popen.stdin.close()
        assert target.line() == f"freed {len(live)}"
