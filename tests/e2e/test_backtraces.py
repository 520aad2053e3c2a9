# SPDX-License-Identifier: Apache-2.0
"""Stacks of allocations in reports of memscan, from outside and at the end of a program.

The oracle of merging is the same process's unfolded list: there every block is by itself,
with its stack. That of modules and places is binutils.
"""

import collections
import pathlib
import re
import subprocess

import pytest

import support
from support import BUILD, Target, check_folded, check_scanned, memscan, scan
from shim_support import FRAME, environment

HOW = ["copy", "fork"]
DEMO = BUILD / "targets/demo_leaky"


def start(options="backtrace"):
    return Target([DEMO], environment(options))


def pcs(leak):
    """Its stack; functions that were inlined stand at the address of the one behind them."""
    return tuple(frame["pc"] for frame in leak.get("backtrace", ()) if not frame.get("inlined"))


def build_id(path):
    notes = subprocess.run(["readelf", "-n", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(r"Build ID: ([0-9a-f]+)", notes)[1]


def function_at(path, offset):
    done = subprocess.run(["addr2line", "-f", "-e", path, offset], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()[0]


@pytest.mark.parametrize("how", HOW)
def test_leaks_of_the_same_stack_are_one(how):
    with start() as target:
        folded = check_scanned(scan(target.pid, "--snapshot", how, merge=True))
        apart = check_scanned(scan(target.pid, "--snapshot", how, "--no-fold"))
    check_folded(folded)
    support.check_unfolded(apart)
    direct = collections.Counter(pcs(leak) for leak in apart["leaks"] if leak["kind"] == "direct")
    told = {pcs(leak): 1 + leak["similar_count"] for leak in folded["leaks"] if pcs(leak)}
    assert told == {stack: n for stack, n in direct.items() if stack}
    assert len([leak for leak in folded["leaks"] if pcs(leak)]) == len(told)
    for leak in folded["leaks"]:
        same = [int(other["address"], 16) for other in apart["leaks"]
                if other["kind"] == "direct" and pcs(other) == pcs(leak)]
        assert int(leak["address"], 16) == min(same)


@pytest.mark.parametrize("how", HOW)
def test_frames_are_in_the_files_that_they_name(how):
    with start() as target:
        report = check_scanned(scan(target.pid, "--snapshot", how))
    frames = [frame for leak in report["leaks"] for frame in leak["backtrace"] if not frame.get("inlined")]
    assert {frame["module"] for frame in frames} >= {str(DEMO)}
    for frame in frames:
        assert frame["build_id"] == build_id(frame["module"]), frame
    inner = {function_at(DEMO, leak["backtrace"][0]["offset"]) for leak in report["leaks"]
             if leak["backtrace"][0]["module"] == str(DEMO)}
    assert "session_open" in inner, inner


def test_the_text_has_the_frames_of_each_leak_in_order():
    with start() as target:
        report = check_scanned(scan(target.pid, merge=True))
        text = memscan("--pid", target.pid, "--limit", "all").stdout
    paragraphs = [part for part in text.split("\n\n") if " bytes unreachable at " in part]
    assert len(paragraphs) == len(report["leaks"])
    for leak, paragraph in zip(report["leaks"], paragraphs):
        lines = [line for line in paragraph.splitlines() if line.startswith("          #")]
        assert len(lines) == len(leak["backtrace"])
        for number, (line, frame) in enumerate(zip(lines, leak["backtrace"])):
            assert line.startswith(f"          #{number:02}  pc {int(frame['offset'], 16):016x}  {frame['module']}"), line


def test_text_lines_are_those_of_malloc_debug():
    with start() as target:
        text = memscan("--pid", target.pid).stdout
    lines = [line.rsplit(" ", 1)[0] if re.search(r" \S+:\d+$", line) else line
             for line in text.splitlines() if line.startswith("          #") and "[inlined]" not in line]
    assert lines
    for line in lines:
        assert FRAME.match(line), line


def test_stacks_add_up_in_the_formats_that_sum_them_up():
    with start() as target:
        totals = check_scanned(scan(target.pid, merge=True))["totals"]
        lines = memscan("--pid", target.pid, "--format", "folded").stdout.splitlines()
        page = memscan("--pid", target.pid, "--format", "html").stdout
        part = memscan("--pid", target.pid, "--format", "folded", "--limit", 1).stdout.splitlines()
        refused = memscan("why", "--pid", target.pid, "--format", "folded", "1")
    amounts = {stack: int(amount) for stack, amount in (line.rsplit(" ", 1) for line in lines)}
    assert sum(amounts.values()) == totals["leaked_bytes"]
    assert any(stack.endswith(";main;serve;session_open") for stack in amounts), lines
    assert f"<summary>{totals['leaked_bytes']} 100.00% " in page and "session_open" in page
    assert len(part) == 1 and part[0] in lines
    assert refused.status == support.USAGE and "--format takes text or json" in refused.stderr


def suppression_file(folder, *patterns):
    path = pathlib.Path(folder, "known.supp")
    path.write_text("".join(f"leak:{pattern}\n" for pattern in patterns))
    return path


@pytest.mark.parametrize("pattern", (f"{DEMO}$", "^demo_leaky$", "libc.so.6"))
def test_a_module_on_the_stack_suppresses(folder, pattern):
    known = suppression_file(folder, pattern, "nowhere")
    with start() as target:
        unknown = check_scanned(scan(target.pid))["totals"]
        report = check_scanned(scan(target.pid, "--suppressions", known))
        assert memscan("--pid", target.pid, "--suppressions", known).status == 0
    assert report["totals"]["leaked_allocations"] == 0
    assert report["totals"]["suppressed_bytes"] == unknown["leaked_bytes"]
    assert report["suppressions"][0]["allocations"] == unknown["leaked_allocations"]
    assert any("leak:nowhere matched nothing" in warning for warning in report["warnings"])


def test_without_stacks_nothing_is_suppressed_by_them(folder):
    known = suppression_file(folder, "demo_leaky")
    with Target([DEMO]) as target:
        report = check_scanned(scan(target.pid, "--suppressions", known))
    assert report["totals"]["suppressed_allocations"] == 0
    assert not any("backtrace" in leak for leak in report["leaks"])


@pytest.mark.parametrize("known", (False, True))
def test_run_knows_stacks_and_suppresses_by_them(folder, known):
    more = ["--suppressions", suppression_file(folder, "^demo_leaky$")] if known else []
    preloaded = [f"{name}={value}" for name, value in environment("backtrace").items()]
    done = memscan("run", "--json", "-o", pathlib.Path(folder, "report.json"), "--error-exitcode", "99", *more, "--",
                   "env", *preloaded, DEMO)
    assert done.status == (0 if known else 99), done
    report = support.read_report(pathlib.Path(folder, "report.json").read_text())
    assert bool(report["leaks"]) != known
    assert bool(report["totals"]["suppressed_allocations"]) == known
    for leak in report["leaks"]:
        assert leak["backtrace"]
