# SPDX-License-Identifier: Apache-2.0
"""Time-outs go on while a process is scanned: each call ends when it was asked to.

The target has a thread in each call that takes a time-out and says how long each
took. Ten percent is the promise; a busy machine gets some more room.
"""

import contextlib
import pathlib
import time

import pytest

from support import HOST, Process, check_scanned, compile_target, scan

pytestmark = pytest.mark.alone

ASKED_MS = 3000
EARLY_MS = 1  # both ends are cut to whole milliseconds
LATE_MS = ASKED_MS * 15 // 100

# a socket's time-out is ended by a scan
SOCKETS = {"accept", "recv", "recv_udp", "read_socket", "send", "recv_again"}
# the kernel shortens these itself, and leaves out how long the process stood
KERNELS = {"select", "ppoll"}


def outcome(timed):
    """What each call took, in milliseconds, and said."""
    took = {}
    while (line := timed.line(10 * ASKED_MS / 1000)) != "done":
        name, *words = line.split()
        took[name] = (int(words[0]), words[-1])
    assert timed.finish() == 0
    assert took.pop("changed")[0] == 0, "the program's own time-out was changed"
    return took


def check(took, late_ms, socket_ms, kernel_ms):
    limits = {name: socket_ms if name in SOCKETS else kernel_ms if name in KERNELS else late_ms for name in took}
    assert not {name: said for name, (_, said) in took.items() if said == "EINTR"}
    assert not {name: ms for name, (ms, _) in took.items() if ms < ASKED_MS - EARLY_MS}, "ended early"
    assert not {name: ms for name, (ms, _) in took.items() if ms > ASKED_MS + limits[name]}, "ended late"


def scan_until_over(several, every_s):
    """Scan each (process, options) in turn at these intervals till behind all time-outs; the times of each one's scans."""
    ends = [[] for _ in several]
    begun = time.monotonic()
    while time.monotonic() < begun + 1.6 * ASKED_MS / 1000:
        since = time.monotonic()
        for (timed, args), times in zip(several, ends):
            check_scanned(scan(timed.pid, *args))
            times.append(time.monotonic())
        time.sleep(max(0, every_s - (time.monotonic() - since)))
    return ends


def check_each(programs, every_s, notes):
    """(label, program, options): nearly all of the time is waiting, so that they wait together."""
    with contextlib.ExitStack() as stack:
        several = [(stack.enter_context(Process([program, ASKED_MS])), args) for _, program, args in programs]
        for timed, _ in several:
            assert timed.line() == "READY"
        ends = scan_until_over(several, every_s)
        took = [outcome(timed) for timed, _ in several]
    for (label, *_), mine, times in zip(programs, took, ends):
        notes.append(f"timed {label}: {len(times)} scans, asked {ASKED_MS} ms: "
                     + ", ".join(f"{name} {ms}" for name, (ms, _) in mine.items()))
        gap_ms = round(1000 * max(b - a for a, b in zip(times, times[1:])))
        check(mine, LATE_MS, LATE_MS + gap_ms, 2 * LATE_MS)


def test_every_call_ends_in_time_though_scanned_every_100_ms(notes):
    check_each([(how, compile_target("timed"), ("--snapshot", how)) for how in ("fork", "copy")], 0.1, notes)


def test_what_passed_before_the_first_scan_counts(notes):
    if not pathlib.Path("/proc/self/sched").exists():
        pytest.skip("this kernel does not say when a thread last ran")
    with Process([compile_target("timed"), ASKED_MS]) as timed:
        assert timed.line() == "READY"
        time.sleep(ASKED_MS * 2 / 3 / 1000)
        check_scanned(scan(timed.pid))
        took = outcome(timed)
    notes.append("timed, one scan after two thirds: " + ", ".join(f"{name} {ms}" for name, (ms, _) in took.items()))
    check(took, LATE_MS, ASKED_MS, 2 * LATE_MS)


def test_every_call_ends_in_time_elsewhere(notes):
    # glibc has strerrorname_np() since 2.32
    flags = {"bullseye": ["-Dstrerrorname_np=strerror"]}
    check_each([(f"{suite} {variant}", compile_target("timed", suite, variant, flags=flags.get(suite, ())), ())
                for suite, variant in (("bullseye", "dynamic"), ("sid", "dynamic"), (HOST, "static"))], 0.2, notes)
