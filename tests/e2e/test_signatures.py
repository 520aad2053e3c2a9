# SPDX-License-Identifier: Apache-2.0
"""One mistake, one entry: leaks of one signature are one, and it is the same in another run or build."""

import collections
import re
import subprocess

import pytest

import support
from shim_support import environment
from support import SPECIAL, Process, check_folded, check_scanned, check_unfolded, memscan, scan

BUILDS = {
    "-O2": ["-O2"],
    "-O0": ["-O0"],
    "more in front": ["-O1", "-DFRONT"],
    "no PIE": ["-O2", "-DFRONT", "-no-pie"],
}
MADE = {"Session": 300, "Record": 300, "reply": 40, "timer": 60}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The program's builds, each of the same name in a folder of its own."""
    made = {}
    for name, flags in BUILDS.items():
        made[name] = tmp_path_factory.mktemp("build") / "mistakes"
        subprocess.run(["g++", "-std=gnu++17", *flags, f"-I{support.ROOT}/tests/targets", "-o", made[name],
                        SPECIAL / "mistakes.cc"], check=True)
    return made


def started(program):
    process = Process([program])
    while process.line() != "READY":
        pass
    return process


@pytest.fixture(scope="module")
def target(programs):
    with started(programs["-O2"]) as process:
        yield process


def by_signature(report):
    """How many leaks each signature stands for."""
    counts = collections.Counter()
    for leak in report["leaks"]:
        counts[leak["signature"]] += 1 + leak["similar_count"]
    return counts


def name_of(leak):
    """Which of the mistakes it is: Records are not typed, replies hold a text, timers nothing."""
    if "type" in leak:
        return leak["type"]["name"]
    if leak["size"] != 40:
        return "Record"
    return "reply" if leak["referenced_count"] else "timer"


@pytest.mark.parametrize("how", ["fork", "copy"])
def test_a_mistake_is_an_entry(target, how):
    report = check_scanned(scan(target.pid, "--snapshot", how, merge=True))
    check_folded(report)
    assert {name_of(leak): 1 + leak["similar_count"] for leak in report["leaks"]} == MADE
    assert len(report["leaks"]) == len(by_signature(report)) == len(MADE)
    assert report["totals"]["direct_allocations"] == sum(MADE.values())
    assert report["unlisted"] == {"leaks": 0, "small_leaks": 0}


def test_each_leak_is_listed_if_they_are_not_to_be_merged(target):
    merged = check_scanned(scan(target.pid, merge=True))
    apart = check_scanned(scan(target.pid))
    check_folded(apart)
    assert apart["totals"] == merged["totals"]
    assert all(leak["similar_count"] == 0 for leak in apart["leaks"])
    assert len(apart["leaks"]) == sum(MADE.values())
    assert by_signature(apart) == by_signature(merged)
    for entry in merged["leaks"]:
        same = [leak for leak in apart["leaks"] if leak["signature"] == entry["signature"]]
        first = min(same, key=lambda leak: int(leak["address"], 16))
        assert {name_of(leak) for leak in same} == {name_of(entry)}
        for field in ("address", "size", "referenced_count", "referenced_size"):
            assert entry[field] == first[field]
        for field in ("size", "referenced_count", "referenced_size"):
            assert entry[f"similar_{field}"] == sum(leak[field] for leak in same) - first[field]


def test_blocks_are_listed_by_themselves_all_the_same(target):
    report = check_scanned(scan(target.pid, "--no-fold", merge=True))
    check_unfolded(report)
    assert all("signature" in leak for leak in report["leaks"])


def test_a_signature_is_the_same_in_another_run(programs):
    seen = []
    for _ in range(3):
        with started(programs["-O2"]) as process:
            report = check_scanned(scan(process.pid, merge=True))
        seen.append(({leak["address"] for leak in report["leaks"]}, by_signature(report)))
    assert seen[0][1] == seen[1][1] == seen[2][1]
    assert not seen[0][0] & seen[1][0], "where the system lays everything out as before this shows nothing"


@pytest.mark.parametrize("build", [name for name in BUILDS if name != "-O2"])
def test_a_signature_is_the_same_in_another_build(programs, target, build):
    with started(programs[build]) as process:
        other = check_scanned(scan(process.pid, merge=True))
    assert by_signature(other) == by_signature(check_scanned(scan(target.pid, merge=True)))


def test_a_program_of_another_name_has_others(programs, target, tmp_path):
    program = tmp_path / "others"
    program.write_bytes(programs["-O2"].read_bytes())
    program.chmod(0o755)
    with started(program) as process:
        other = check_scanned(scan(process.pid, merge=True))
    assert not by_signature(other).keys() & by_signature(check_scanned(scan(target.pid, merge=True))).keys()


def test_two_mistakes_of_one_size_are_two(target):
    report = check_scanned(scan(target.pid, merge=True))
    same_size = [leak for leak in report["leaks"] if leak["size"] == 40]
    assert sorted(1 + leak["similar_count"] for leak in same_size) == [MADE["reply"], MADE["timer"]]


def test_the_text_opens_with_the_largest(target):
    report = check_scanned(scan(target.pid, merge=True))
    text = memscan("--pid", target.pid).stdout
    before, after = re.split(r"\n\d+ bytes in \d+ allocations unreachable out of .*\n", text)
    rows = before.split("\nLargest leaks:\n")[1].splitlines()
    biggest = report["leaks"][0]
    assert 2 <= len(rows) <= len(MADE), text
    assert rows[0] == (f"  300 x {'Session' if 'type' in biggest else ''}{', ' if 'type' in biggest else ''}"
                       f"{biggest['size']} bytes each, with what they hold {round(biggest['total_size'] / 1024)} KB")
    assert any(row.startswith("  300 x Session, ") for row in rows), text
    assert after.count(" bytes unreachable at ") == len(MADE)
    assert "Largest leaks:" not in memscan("--pid", target.pid, "--no-merge").stdout


def test_small_is_what_all_of_an_entry_is(target):
    entries = check_scanned(scan(target.pid, merge=True))["leaks"]
    least = sorted(leak["total_size"] for leak in entries)[1]
    report = check_scanned(scan(target.pid, "--min-size", least, merge=True))
    assert report["leaks"] == entries[:-1]
    assert report["unlisted"] == {"leaks": 0, "small_leaks": 1}
    report = check_scanned(memscan("--pid", target.pid, "--json", "--limit", 1))
    assert report["leaks"] == entries[:1]
    assert report["unlisted"] == {"leaks": len(MADE) - 1, "small_leaks": 0}


def test_confirmed_and_suppressed_ones_are_as_ever(target, tmp_path):
    entries = check_scanned(scan(target.pid, merge=True))["leaks"]
    known = tmp_path / "known"
    known.write_text("leak:^Session$\n")
    report = check_scanned(scan(target.pid, "--confirm=0.05", "--suppressions", known, merge=True))
    assert report["totals"]["unconfirmed_allocations"] == 0
    assert report["suppressions"][0]["allocations"] == MADE["Session"]
    assert by_signature(report) == by_signature({"leaks": [leak for leak in entries if "type" not in leak]})


def test_leaks_with_a_stack_have_a_signature_too():
    seen = []
    for _ in range(2):
        with support.Target([support.BUILD / "targets/demo_leaky"], environment("backtrace")) as process:
            report = check_scanned(scan(process.pid, merge=True))
        assert any("backtrace" in leak for leak in report["leaks"])
        seen.append(sorted((leak["signature"], leak["similar_count"]) for leak in report["leaks"]))
    assert seen[0] == seen[1]
