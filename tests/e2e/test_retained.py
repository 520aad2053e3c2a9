# SPDX-License-Identifier: Apache-2.0
"""memscan retained: the culprit comes first, and what is held adds up.

The program (tests/targets/hoard.cc) holds most of its memory in one of several ways; it is
asked as it was built, and stripped.
"""

import os

import pytest

import support
from support import COULD_NOT_SCAN, SNAPSHOT, Target, compile_target, memscan

ANSWERED, USAGE = 0, support.USAGE
PLANTED, ENTRIES = 1000 * 2000, 1000


def build(stripped):
    plain = compile_target("hoard.cc", compiler="g++")
    return support.stripped(plain) if stripped else plain


def retained(target, *args):
    done = memscan("retained", "--pid", target.pid, "--json", *SNAPSHOT, *args)
    assert done.status == ANSWERED, str(done)
    answer = support.read_answer(done.stdout)
    assert answer["schema"] == "memscan.retained/1" and answer["target"]["pid"] == target.pid
    check_sums(answer)
    return answer


def check_sums(answer):
    """Nothing is counted twice, and nothing is missing."""
    totals = answer["totals"]
    for what in ("count", "bytes"):
        assert totals["by_root"][what] + totals["shared"][what] == totals["reachable"][what], totals
        if len(answer["by_root"]) == totals["roots"]:
            assert sum(entry[f"retained_{what}"] for entry in answer["by_root"]) == totals["by_root"][what]
        if len(answer["by_type"]) == totals["types"]:
            assert sum(entry[what] for entry in answer["by_type"]) == totals["reachable"][what]
    for name in ("by_root", "shared", "by_type", "by_block"):
        sizes = [entry["retained_bytes"] for entry in answer[name]]
        assert sizes == sorted(sizes, reverse=True), name
    for entry in answer["by_root"] + answer["by_block"] + answer["shared"]:
        above = entry["retained_bytes"]
        for step in entry["chain"]:
            assert step["retained_bytes"] <= above
            above = step["retained_bytes"]


def chain_types(entry):
    return [step["type"]["name"] for step in entry["chain"] if "type" in step]


def check_cache(first):
    assert first["root"]["kind"] == "data" and first["words"] == 3
    assert "Session" in chain_types(first) or first["chain"][0]["retained_bytes"] < first["retained_bytes"]


def check_tls(first):
    root = first["root"]
    assert root["kind"] == "tls" and root["thread_name"] == "keeper" and root["offset"] < 0, root
    assert os.path.basename(root["module"]).startswith("hoard")


def check_kernel(first):
    assert first["root"] == {"kind": "kernel"}
    # the closure, what it has captured, the vector's buffer
    assert [step["size"] for step in first["chain"]][-1] >= ENTRIES * 8 and first["length"] in (2, 3), first


def check_cycle(first):
    assert first["root"]["kind"] == "data" and first["length"] == ENTRIES, first["root"]
    assert len(first["chain"]) == 20 and first["chain"][10]["omitted"] == ENTRIES - 20


def check_table(first):
    assert first["root"]["kind"] == "data" and first["words"] == 64


CASES = {"cache": (check_cache, "g_state"), "tls": (check_tls, None), "epoll": (check_kernel, None),
         "timer": (check_kernel, None), "cycle": (check_cycle, "g_ring"), "table": (check_table, "g_table")}


@pytest.mark.parametrize("stripped", [False, True], ids=["symbols", "stripped"])
@pytest.mark.parametrize("how", CASES)
def test_the_culprit_comes_first(how, stripped):
    check, name = CASES[how]
    with Target([build(stripped), how]) as target:
        answer = retained(target)
    first = answer["by_root"][0]
    assert PLANTED <= first["retained_bytes"] < PLANTED * 1.2, first
    assert first["retained_count"] >= ENTRIES
    check(first)
    assert first["root"].get("symbol") == (None if stripped else name), first["root"]
    # the vector of 50 comes second: its buffer alone holds them
    second = answer["by_root"][1]
    assert 50 * 2000 <= second["retained_bytes"] < 72 * 2000 and second["root"]["kind"] == "data", second
    assert answer["totals"]["unreachable"]["count"] == 3


def test_what_two_roots_share_is_of_neither():
    with Target([build(False), "shared"]) as target:
        answer = retained(target, "--limit", "all")
        few = retained(target, "--limit", "1")
        text = memscan("retained", "--pid", target.pid, *SNAPSHOT).stdout
    assert answer["totals"]["shared"]["bytes"] >= PLANTED
    shared = answer["shared"][0]
    assert shared["places"] == 2 and shared["size"] == 24 and shared["retained_bytes"] >= PLANTED, shared
    assert shared["length"] == 1 and shared["chain"][0]["size"] >= ENTRIES * 8
    assert all(entry["root"].get("symbol") not in ("g_one", "g_two") for entry in answer["by_root"])
    assert len(few["by_root"]) == len(few["by_type"]) == len(few["by_block"]) == 1
    assert few["totals"]["roots"] == answer["totals"]["roots"] and few["by_root"] == answer["by_root"][:1]
    assert "\nShared: what several roots hold\n" in text and "held from 2 places\n" in text


def test_types_and_blocks():
    with Target([build(False), "cache"]) as target:
        answer = retained(target, "--limit", "all")
        text = memscan("retained", "--pid", target.pid, *SNAPSHOT).stdout
    sessions = next(entry for entry in answer["by_type"] if entry.get("type", {}).get("name") == "Session")
    assert sessions["count"] == ENTRIES and sessions["retained_count"] == 2 * ENTRIES, sessions
    assert sessions["retained_bytes"] - sessions["bytes"] >= PLANTED
    nodes = answer["by_block"][0]
    assert PLANTED / 8 < nodes["retained_bytes"] < PLANTED * 1.2 and nodes["length"] == len(nodes["chain"])
    assert f": {ENTRIES} × Session, " in text and "  g_state" in text.replace(": g_state", ":  g_state")


def test_calls_that_are_wrong(tmp_path):
    with Target([build(False), "epoll"]) as target:
        for args, text in (([], "no process was given"), (["--pid", target.pid, "0x1000"], "not an option"),
                           (["--pid", target.pid, "--all"], "there is no option"),
                           (["--pid", target.pid, "--possible"], "there is no option"),
                           (["--pid", target.pid, "--limit", "few"], "--limit takes a number")):
            done = memscan("retained", *args)
            assert done.status == USAGE and text in done.stderr and len(done.stderr.splitlines()) == 2, str(done)
        out = tmp_path / "retained.json"
        done = memscan("retained", target.pid, "--json", "-o", out, *SNAPSHOT)
        assert done.status == ANSWERED and not done.stdout, str(done)
        assert support.read_answer(out.read_text())["by_root"][0]["root"]["kind"] == "kernel"
        done = memscan("retained", "--pid", target.pid, "-o", "/dev/full", *SNAPSHOT)
        assert done.status == support.COULD_NOT_WRITE, str(done)
    done = memscan("retained", "--pid", target.pid)
    assert done.status == COULD_NOT_SCAN, str(done)
