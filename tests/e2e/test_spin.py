# SPDX-License-Identifier: Apache-2.0
"""Threads that malloc and free without pause, frozen at any point of it.

Every scan must succeed with every heap verified, and tell nothing: the target
keeps all its live blocks reachable. SCANS is the number of scans for each kind
of target (500 by hand: `make check SCANS=500`).
"""

import os
import re

import pytest

import support
from support import HOST, Process, check_scanned, compile_target, scan

pytestmark = pytest.mark.alone

SCANS = int(os.environ.get("SCANS") or 30)


def spread(numbers):
    numbers = sorted(numbers)
    at = lambda part: numbers[min(len(numbers) - 1, int(part * len(numbers)))]
    return f"median {at(0.5)}, 90 % {at(0.9)}, 99 % {at(0.99)}, most {numbers[-1]}"


def is_said_doubt(done):
    """Nothing is reported as leaked, and it is said that a thread was inside malloc."""
    if done.status == support.COULD_NOT_SCAN:
        return "is inside malloc" in done.stderr
    return done.report and not done.report["leaks"] and not all(h["verified"] for h in done.report["heaps"]) \
        and "inside malloc" in str(done.report["heaps"])


def scan_often(pid, scans, most_doubted, *options):
    """Steps and tries of each scan; every one must be clean, but for so many that are in doubt."""
    steps, tries, pauses, failed = [], [], [], []
    for i in range(scans):
        done = scan(pid, "--no-fold", "--verbose", *options)
        if most_doubted and is_said_doubt(done):
            most_doubted -= 1
            continue
        try:
            report = check_scanned(done)
            assert report["heaps"] and report["leaks"] == [], f"told as leaked: {report['leaks'][:5]}"
        except AssertionError as error:
            failed.append(f"scan {i}: {error}")
            if len(failed) > 5:
                break
            continue
        tries.append(report["scan"]["attempts"])
        pauses.append(round(report["scan"]["pause_ns"] / 1e6, 1))
        if found := re.search(r"single steps (\d+)", done.stderr):
            steps.append(int(found.group(1)))
    return steps, tries, pauses, failed


def check_spin(notes, label, program, threads, size, scans, *options, most_doubted=0):
    with Process([program, threads, size]) as spin:
        assert spin.line() == "READY"
        steps, tries, pauses, failed = scan_often(spin.pid, scans, most_doubted, *options)
        ended = spin.popen.poll()
        if ended is None:
            support.check_untouched(spin.pid)
            ended = spin.finish()
    notes.append(f"spin {label}: {len(tries)} of {scans} scans clean; steps {spread(steps or [0])}; "
                 f"tries {spread(tries or [0])}; pause ms {spread(pauses or [0])}")
    # it checks all its blocks, and says 3 when one is damaged
    assert ended == 0, f"the target ended with status {ended} after {len(tries)} good scans:\n" + "\n".join(failed)
    assert not failed, f"{len(failed)} of {scans}:\n" + "\n".join(failed)


@pytest.mark.parametrize("size", [400, 10_000, 400_000])
@pytest.mark.parametrize("threads", [1, 4])
def test_nothing_live_is_told(threads, size, notes):
    check_spin(notes, f"{threads} threads, up to {size} bytes", compile_target("spin"), threads, size, SCANS)


@pytest.mark.parametrize("suite,variant", [("bullseye", "dynamic"), ("trixie", "dynamic"), ("sid", "dynamic"),
                                           (HOST, "static"), (HOST, "static-pie"), ("sid", "static")])
def test_nothing_live_is_told_elsewhere(suite, variant, notes):
    program = compile_target("spin", suite, variant)
    check_spin(notes, f"4 threads, up to 10000 bytes, {suite} {variant}", program, 4, 10_000, max(10, SCANS // 3))


@pytest.mark.parametrize("variant", ["dynamic", "static"])
@pytest.mark.parametrize("threads", [1, 4])
def test_a_long_walk_of_malloc_is_waited_for(threads, variant, notes):
    """malloc_consolidate() holds all that the fastbins had, for tens of milliseconds."""
    scans = max(10, SCANS // 3)
    # on a busy machine the time for that can be over before the walk is
    check_spin(notes, f"{threads} threads consolidating, {variant}", compile_target("consolidate", variant=variant),
               threads, 100_000, scans, most_doubted=scans // 2)


def test_a_long_walk_is_told_as_nothing_by_a_copy(notes):
    """The target stands meanwhile: what does not end soon is not verified, and nothing is reported of it."""
    verified, tries = 0, []
    with Process([compile_target("consolidate"), 2, 300_000]) as spin:
        assert spin.line() == "READY"
        for _ in range(max(10, SCANS // 6)):
            done = scan(spin.pid, "--snapshot", "copy")
            if done.status == support.COULD_NOT_SCAN:
                assert "inside malloc" in done.stderr, done.stderr
                continue
            assert done.report["totals"]["leaked_allocations"] == 0, done.report["leaks"][:5]
            verified += all(heap["verified"] for heap in done.report["heaps"])
            tries.append(done.report["scan"]["attempts"])
        assert spin.finish() == 0
    notes.append(f"spin by copies: {verified} verified; tries {spread(tries or [0])}")
    assert verified
