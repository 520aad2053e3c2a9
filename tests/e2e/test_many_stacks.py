# SPDX-License-Identifier: Apache-2.0
"""Many threads: what a scan reads grows with memory and not with threads times memory. And lateness has its reason."""

import os
import signal
import subprocess

import pytest

import support
from support import COULD_NOT_SCAN, MEMSCAN, Process, check_scanned, compile_special, scan


def bytes_read(threads):
    with Process([compile_special("coroutine_threads.c", "-pthread"), str(threads)]) as target:
        assert target.line() == "READY"
        report = check_scanned(scan(target.pid, "--snapshot", "fork"))
    assert report["totals"]["leaked_allocations"] == 0
    return report["scan"]["bytes_read"], report["totals"]["allocation_bytes"]


def test_stacks_in_one_block_are_read_once(notes):
    few, few_bytes = bytes_read(100)
    many, many_bytes = bytes_read(400)
    notes.append(f"stacks: 100 threads read {few / few_bytes:.1f} heaps, 400 threads {many / many_bytes:.1f}")
    assert many < 4.4 * few
    assert many < 5 * many_bytes


@pytest.mark.skipif(os.environ.get("COMBINATIONS") != "all", reason="takes the 32 s of the default time limit")
def test_a_scan_that_cannot_begin_does_not_blame_the_process():
    """The process that is to stop the target is itself stopped first."""
    with Process([compile_special("coroutine_threads.c", "-pthread"), "8"]) as target:
        assert target.line() == "READY"
        popen = subprocess.Popen([str(MEMSCAN), "--pid", str(target.pid)], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        support.our_children.add(popen.pid)
        try:
            found = support.wait_until(lambda: [pid for pid in support.children_of(popen.pid)
                                                if support.command_of(pid) == "memscan-collect"], 10, "it is started")
            os.kill(found[0], signal.SIGSTOP)
            if support.tracer_of(target.pid):
                pytest.skip("the target was stopped already")
            _, said = popen.communicate(timeout=60)
        finally:
            support.our_children.discard(popen.pid)
        assert popen.returncode == COULD_NOT_SCAN
        assert f"memscan was not ready to stop process {target.pid} within 30 s; it runs on" in said
        assert "did not stop" not in said
