# SPDX-License-Identifier: Apache-2.0
"""Stacks of which a sample keeps only a part, because a frame is larger than that: they say so."""

import json

from attach_support import attach
from support import Process, check_scanned, compile_special, memscan, scan

CUT = "          (cut: the stack goes on, but no more of it was kept)\n"


def names(entry):
    return [frame.get("function") for frame in entry["backtrace"]]


def check(entries):
    """Those below the large frame are cut behind it, the others are whole."""
    stacks = {tuple(names(entry)[:2]): entry for entry in entries if entry["backtrace"]}
    below, others = stacks[("allocate", "large")], stacks[("small", "main")]
    assert below["backtrace_cut"] is True and len(below["backtrace"]) == 2, below
    assert "backtrace_cut" not in others and len(others["backtrace"]) > 2, others


def test_a_stack_that_is_cut_says_so():
    with Process([compile_special("large_frame.c")]) as process:
        assert process.line() == "READY"
        attach(process.pid, "--sample", 1)
        assert process.ask("\n") == "done"
        check(check_scanned(scan(process.pid))["leaks"])
        live = memscan("live", "-f", "json", process.pid)
        check(json.loads(live.stdout)["sampled_stacks"])
        text = memscan("live", process.pid).stdout
        assert text.count(CUT) == 1 and "(large+" in text.split(CUT)[0].splitlines()[-1], text
        assert memscan(process.pid).stdout.count(CUT) >= 1
