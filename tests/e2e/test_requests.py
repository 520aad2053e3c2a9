# SPDX-License-Identifier: Apache-2.0
"""Blocks that only requests of io_uring hold, which the kernel does not show while they are in flight."""

import subprocess

import pytest

import support
from support import Target, check_scanned, compile_special, memscan, scan

HELD = 3  # requests, each with a block that has another

EACH = pytest.mark.parametrize("how", ["copy", "fork"])


@pytest.fixture(scope="module")
def program():
    made = compile_special("in_flight.c")
    tried = subprocess.run([made, "waiting"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    if tried.returncode == 77:
        pytest.skip("the kernel has no io_uring for us")
    return made


def kept(report):
    return {leak["address"] for leak in report["leaks"] if leak.get("reason") == "requests"}


@EACH
def test_what_requests_in_flight_may_hold_is_possible(program, how):
    with Target([program, "waiting"]) as target:
        report = check_scanned(scan(target.pid, "--no-fold", "--possible", "--snapshot", how))
        support.check_truth(report, target)
        assert kept(report) == {hex(at) for at in target.blocks("live")} and len(kept(report)) == 2 * HELD
        assert report["totals"]["leaked_allocations"] == 0
        report = check_scanned(scan(target.pid, "--snapshot", how))
        assert any(f"{2 * HELD} allocations" in warning and "io_uring" in warning
                   for warning in report["warnings"]), report["warnings"]


@EACH
def test_more_leaks_than_requests_are_leaks(program, how):
    with Target([program, "waiting", "40"]) as target:
        report = check_scanned(scan(target.pid, "--no-fold", "--snapshot", how))
        found = support.addresses(report)
        assert set(target.leaks()) <= set(found)
        assert report["totals"]["leaked_allocations"] == 40 + 2 * HELD
        assert any(f"io_uring has requests in flight ({HELD})" in warning
                   for warning in report["warnings"]), report["warnings"]


@EACH
def test_leaks_of_another_size_are_leaks(program, how):
    with Target([program, "waiting", "40", "200"]) as target:
        report = check_scanned(scan(target.pid, "--no-fold", "--possible", "--snapshot", how))
        support.check_truth(report, target)
        assert kept(report) == {hex(at) for at in target.blocks("live")} and len(kept(report)) == 2 * HELD


@EACH
def test_answers_that_were_not_read_hold_blocks(program, how):
    with Target([program, "unread", "5"]) as target:
        report = check_scanned(scan(target.pid, "--no-fold", "--snapshot", how))
        support.check_truth(report, target)
        assert not report["warnings"]


@EACH
def test_a_ring_without_requests_holds_nothing(program, how):
    with Target([program, "read", "1"]) as target:
        report = check_scanned(scan(target.pid, "--no-fold", "--snapshot", how))
        support.check_truth(report, target)
        assert report["totals"]["leaked_allocations"] == 1 + 2 * HELD
        # where memscan itself gets little of a processor
        assert not [said for said in report["warnings"] if "checked only just before" not in said]


def test_a_dump_has_how_many_are_in_flight(program, tmp_path):
    with Target([program, "waiting"]) as target:
        core = tmp_path / "core"
        done = memscan("dump", target.pid, "-o", core)
        assert done.status == 0, str(done)
        report = check_scanned(memscan("core", core, "--no-fold", "--possible", "--limit", "all", "--json"))
        assert kept(report) == {hex(at) for at in target.blocks("live")} and len(kept(report)) == 2 * HELD
