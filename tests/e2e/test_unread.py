# SPDX-License-Identifier: Apache-2.0
"""A scan that says nothing about most of the memory does not pass for one without leaks."""

import shutil

import pytest

import support
from support import Target, compile_target, memscan

COULD_NOT_SCAN = 3
MUCH = 32 << 20


@pytest.mark.parametrize("name", ["kept", "lost", "both"])
def test_much_memory_that_is_not_read(name):
    with Target([compile_target("unread"), name]) as target:
        done = memscan("--pid", target.pid, *support.SNAPSHOT)
        report = support.scan(target.pid)
    assert done.status == COULD_NOT_SCAN and report.status == COULD_NOT_SCAN, str(done)
    assert done.stderr.startswith("memscan: nothing can be said about 32 MiB of process"), str(done)
    assert ("unreachable mappings" in done.stderr) == (name != "kept"), str(done)
    headline, answer = done.stdout.splitlines()[(at := next(
        i for i, line in enumerate(done.stdout.splitlines()) if line.startswith("Nothing can be said"))):at + 2]
    assert "32 MB" in headline and answer.startswith("0 bytes in 0 allocations unreachable"), str(done)
    assert ("unreachable mappings are below" in headline) == (name != "kept")
    totals = report.report["totals"]
    assert MUCH <= totals["unread_bytes"] < MUCH + (1 << 20), totals


@pytest.mark.skipif(not shutil.which("valgrind"), reason="needs valgrind")
def test_program_under_valgrind():
    with Target(["valgrind", "-q", compile_target("demo_leaky")]) as target:
        done = memscan("--pid", target.pid, *support.SNAPSHOT)
    assert done.status == COULD_NOT_SCAN, str(done)
    assert "vgdb(1)'s leak_check" in done.stderr, str(done)


def test_run_says_that_it_was_not_scanned():
    done = memscan("run", "--", compile_target("unread"), "kept")
    assert "was not scanned: nothing can be said about 32 MiB of process" in done.stderr, str(done)
