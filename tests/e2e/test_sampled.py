# SPDX-License-Identifier: Apache-2.0
"""Blocks that were sampled while they were made: their stacks, and what these stand for.

The program samples itself, with the agent's table; what it leaked it says. Functions are told by
addr2line, from the program before it was stripped.
"""

import collections
import subprocess

import pytest

import support
from support import BUILD, Target, check_folded, check_scanned, compile_special, memscan, scan, stripped
from test_backtraces import function_at

HOW = ["copy", "fork"]
SOURCE = (f"-I{support.ROOT}/src", f"-I{support.ROOT}/include", "-pthread")
VARIANTS = {
    "pie": ("-O2", "-fomit-frame-pointer", "-pie"),
    "fixed": ("-O1", "-fno-omit-frame-pointer", "-no-pie"),
    "late": ("-O2", "-fomit-frame-pointer", "-pie", "-DLATE_US=200000"),
}
WAYS = {"small_leak": ("small", 104), "large_leak": ("large", 30008), "mixed_leak": ("mixed", None)}
EVERY = 0
ERRORS = 6  # by which an estimate may be wrong: hardly ever


def program(variant):
    return compile_special("sampled.c", *VARIANTS[variant], *SOURCE, tag="-" + variant)


def start(variant, interval, threads, *mode):
    return Target([stripped(program(variant)), str(interval), str(threads), *mode])


def truth(target):
    return {kind: n for kind, _, n in target.facts if kind != "mapping"}


def calls(variant, stack):
    """The program's functions, innermost first."""
    own = [frame for frame in stack if frame["module"].endswith("-stripped") and not frame.get("inlined")]
    return [function_at(program(variant), frame["offset"]) for frame in own]


def sums(variant, entries, field):
    """By the innermost function: estimates of all its stacks."""
    told = collections.defaultdict(collections.Counter)
    for entry in entries:
        name = calls(variant, entry["backtrace"])[0]
        estimate = entry[field]
        for what in ("samples", "count", "bytes"):
            told[name][what] += estimate[what]
        for what in ("count_error", "bytes_error"):
            told[name][what] += estimate[what] ** 2
    return told


def check_agent_is_unseen(report, target):
    """Its memory is no root, no block, and no mapping that nothing points to."""
    at = next(address for kind, address, _ in target.facts if kind == "mapping")
    for mapping in report["unreachable_mappings"]:
        begin = int(mapping["address"], 16)
        assert not begin - 24576 <= at < begin + mapping["size"], mapping


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("variant", VARIANTS)
def test_stacks_of_a_stripped_program_are_whole_and_stand_for_what_it_leaked(variant, how):
    with start(variant, 16384, 3) as target:
        report = check_scanned(scan(target.pid, "--snapshot", how, merge=True))
    check_folded(report)
    check_agent_is_unseen(report, target)
    sampling = report["sampling"]
    assert sampling["interval"] == 16384 and sampling["dropped"] == 0
    assert sampling["samples"] == sampling["live"] > 100, sampling
    assert report["warnings"] == []
    for stack in report["sampled_stacks"]:
        names = calls(variant, stack["backtrace"])
        assert names[0] in WAYS and names[1:3] == ["by_turns", "work"], names
        in_thread = "libc" in stack["backtrace"][-1]["module"]
        assert in_thread != (names[-1] == "_start"), stack["backtrace"]
    told = sums(variant, report["sampled_stacks"], "leaked")
    assert told.keys() == WAYS.keys()
    for name, (kind, size) in WAYS.items():
        n = truth(target)[kind]
        estimate = told[name]
        assert abs(estimate["count"] - n) < ERRORS * estimate["count_error"] ** 0.5, (name, n, estimate)
        if size:
            error = estimate["bytes_error"] ** 0.5
            assert abs(estimate["bytes"] - n * size) < ERRORS * error, (name, n * size, estimate)


@pytest.mark.parametrize("form", ["folded", "html"])
def test_other_formats_have_the_estimates_too(form):
    """The stacks of samples stand for what was not sampled: all together are what was found."""
    with start("pie", 65536, 2) as target:
        report = check_scanned(scan(target.pid, merge=True))
        done = memscan("--pid", target.pid, "-f", form)
    estimated = sum(leak["sampled"]["bytes"] for leak in report["leaks"] if "sampled" in leak)
    assert estimated > 3 * sum(leak["size"] + leak["similar_size"] for leak in report["leaks"] if "sampled" in leak)
    if form == "html":
        assert f"amounts under stacks are estimated from {report['sampling']['live']} samples" in done.stdout
        return
    folded = [line.rpartition(" ") for line in done.stdout.splitlines()]
    under_stacks = sum(int(amount) for calls, _, amount in folded if "sampled-pie" in calls)
    assert 0.99 * estimated < under_stacks < 1.01 * estimated, (under_stacks, estimated)
    whole = max(report["totals"]["leaked_bytes"], estimated)
    assert 0.99 * whole < sum(int(amount) for _, _, amount in folded) < 1.05 * whole, (folded, report["totals"])


def test_entries_of_samples_are_those_of_their_stacks():
    with start("pie", 65536, 2) as target:
        report = check_scanned(scan(target.pid, merge=True))
        apart = check_scanned(scan(target.pid))
        text = memscan("--pid", target.pid).stdout
    sampled = [leak for leak in report["leaks"] if "sampled" in leak]
    assert all("backtrace" in leak for leak in sampled)
    assert not [leak for leak in report["leaks"] if "backtrace" in leak and "sampled" not in leak]
    assert sorted(leak["sampled"]["bytes"] for leak in sampled) == \
        sorted(stack["leaked"]["bytes"] for stack in report["sampled_stacks"])
    for leak in sampled:
        assert leak["sampled"]["samples"] == 1 + leak["similar_count"]
    alone = [leak for leak in apart["leaks"] if "sampled" in leak]
    assert len(alone) == report["sampling"]["live"]
    assert all(leak["sampled"]["samples"] == 1 for leak in alone)
    assert text.count("  without a stack: allocated before attach, or not sampled\n") == 1
    first = text.split("Largest leaks by the calls that allocated them, from samples:\n")[1].splitlines()
    assert first[0].startswith("  about ") and first[1].startswith("          #00  pc "), first


def test_where_each_block_is_a_sample_estimates_are_exact():
    with start("pie", EVERY, 1) as target:
        report = check_scanned(scan(target.pid, "--heap", merge=True))
    assert "interval" not in report["sampling"]
    # there is room for some thousands
    live = report["sampling"]["live"]
    assert report["sampling"]["samples"] == live and report["sampling"]["dropped"] > 0
    for stack in report["sampled_stacks"]:
        for part in ("live", "leaked"):
            assert stack[part]["count"] == stack[part]["samples"], stack
            assert stack[part]["count_error"] == stack[part]["bytes_error"] == 0, stack
    assert sum(stack["live"]["count"] for stack in report["sampled_stacks"]) == live
    without = [leak for leak in report["leaks"] if "backtrace" not in leak and leak["size"] == 88]
    assert len(without) == 1, "the block that was there before has no stack"


def test_what_an_agent_knew_that_was_taken_out_is_not_believed():
    with start("pie", 65536, 1, "magic") as target:
        report = check_scanned(scan(target.pid, merge=True))
    check_agent_is_unseen(report, target)
    assert "sampling" not in report and "sampled_stacks" not in report
    assert not [leak for leak in report["leaks"] if "backtrace" in leak]


def test_a_program_that_searches_itself_finds_its_stacks():
    own = compile_special("sampled.c", "-O2", "-DOWN", *SOURCE, "-Wl,--no-as-needed", f"-L{BUILD}", "-lmemunreachable",
                          f"-Wl,-rpath,{BUILD}", tag="-own")
    done = subprocess.run([own, "65536", "1"], stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    innermost = [line for line in done.stdout.splitlines() if "#00" in line]
    assert innermost and "large_leak" in innermost[0], done.stdout


def test_live_blocks_by_their_calls():
    with start("pie", 65536, 2) as target:
        answer = memscan("live", "--pid", target.pid, "--limit", "all", "--json")
        text = memscan("live", "--pid", target.pid, "--limit", "1")
        folded = memscan("live", target.pid, "--format", "folded")
    assert answer.status == text.status == folded.status == 0, str(answer)
    report = answer.report
    assert sums("pie", report["sampled_stacks"], "live") == sums("pie", report["sampled_stacks"], "leaked")
    by_bytes = [stack["live"]["bytes"] for stack in report["sampled_stacks"]]
    assert by_bytes == sorted(by_bytes, reverse=True) and len(by_bytes) == report["sampling"]["stacks"]
    assert sorted(int(line.rsplit(" ", 1)[1]) for line in folded.stdout.splitlines()) == sorted(by_bytes)
    assert text.stdout.count("#00") == 1
    assert f"\n{len(by_bytes) - 1} more stacks are not listed: --limit all lists them\n" in text.stdout


def test_without_samples_nothing_is_known_of_what_lives():
    with Target([BUILD / "targets/demo_leaky"]) as target:
        answer = memscan("live", "--pid", target.pid)
    assert answer.status == support.COULD_NOT_SCAN and not answer.stdout
    assert "its allocations are not sampled" in answer.stderr and f"memscan attach {target.pid}" in answer.stderr
