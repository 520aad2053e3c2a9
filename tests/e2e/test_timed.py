# SPDX-License-Identifier: Apache-2.0
"""Time-outs go on while a process is scanned: each call ends when it was asked to.

The target has a thread in each call that takes a time-out and says how long each
took. Ten percent is the promise; a busy machine gets some more room.
"""

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


def scan_until_over(timed, every_s, *args):
    """Scan at these intervals till behind all time-outs; the longest time between two scans, in ms."""
    ends = []
    begun = time.monotonic()
    while time.monotonic() < begun + 1.6 * ASKED_MS / 1000:
        since = time.monotonic()
        check_scanned(scan(timed.pid, *args))
        ends.append(time.monotonic())
        time.sleep(max(0, every_s - (time.monotonic() - since)))
    return len(ends), round(1000 * max(b - a for a, b in zip(ends, ends[1:])))


@pytest.mark.parametrize("how", ["fork", "copy"])
def test_every_call_ends_in_time_though_scanned_every_100_ms(how, notes):
    with Process([compile_target("timed"), ASKED_MS]) as timed:
        assert timed.line() == "READY"
        scans, gap_ms = scan_until_over(timed, 0.1, "--snapshot", how)
        took = outcome(timed)
    notes.append(f"timed {how}: {scans} scans, asked {ASKED_MS} ms: "
                 + ", ".join(f"{name} {ms}" for name, (ms, _) in took.items()))
    check(took, LATE_MS, LATE_MS + gap_ms, 2 * LATE_MS)


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


@pytest.mark.parametrize("suite,variant", [("bullseye", "dynamic"), ("sid", "dynamic"), (HOST, "static")])
def test_every_call_ends_in_time_elsewhere(suite, variant):
    # glibc has strerrorname_np() since 2.32
    flags = ["-Dstrerrorname_np=strerror"] if suite == "bullseye" else []
    with Process([compile_target("timed", suite, variant, flags=flags), ASKED_MS]) as timed:
        assert timed.line() == "READY"
        _, gap_ms = scan_until_over(timed, 0.2)
        took = outcome(timed)
    check(took, LATE_MS, LATE_MS + gap_ms, 2 * LATE_MS)
