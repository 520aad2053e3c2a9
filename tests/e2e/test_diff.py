# SPDX-License-Identifier: Apache-2.0
"""--heap, and memscan diff: what grew in a server among noise, and what cannot be compared."""

import json

import pytest

import support
from support import COULD_NOT_SCAN, Process, check_scanned, compile_target, memscan, scan

NOTHING_GREW, GREW = 0, 1
REQUESTS, NODE, LOST = 1000, 200, 152


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Two scans of tests/targets/grows.c, of which all requests but the first 1000 lie between."""
    folder = tmp_path_factory.mktemp("reports")
    files = [folder / "old.json", folder / "new.json"]
    with Process([compile_target("grows")]) as server:
        assert server.line() == "READY"
        for file, lines in zip(files, (1, 4)):
            for _ in range(lines):
                assert server.ask("serve\n") == "SERVED"
            memscan("--pid", server.pid, "--heap", "--json", "--limit", "all", "-o", file)
        assert server.finish() == 0
    return files


def diff(*args):
    return memscan("diff", *args)


def compared(old, new, *args):
    done = diff(old, new, "--json", *args)
    assert done.status in (NOTHING_GREW, GREW) and not done.stderr, str(done)
    told = support.read_answer(done.stdout)
    assert told["grew"] == (done.status == GREW)
    return told


def is_of(row, size):
    """glibc gives a block up to 16 bytes more."""
    return size <= row["size"] <= size + 24


def test_names_the_planted_growth_first(reports):
    told = compared(*reports)
    first = told["live"][0]
    assert told["grew"] and first["change"] == "grown" and is_of(first, NODE), told["live"][:3]
    assert 4 * REQUESTS <= first["new_allocations"] - first["old_allocations"] <= 4 * REQUESTS + 20
    assert first["growth_bytes"] == first["new_bytes"] - first["old_bytes"]
    assert len(told["live"]) == 20 and told["unlisted"]["live"] > 20, "there was no noise"
    assert told["warnings"] == []


def test_names_the_planted_leak_first(reports):
    told = compared(*reports)
    leak = told["leaks"][0]
    assert leak["change"] == "grown" and is_of(leak, LOST), told["leaks"]
    # an old address may stand on a stack for a while
    more = leak["new_allocations"] - leak["old_allocations"]
    assert abs(more - 4 * (REQUESTS // 3 + 1)) <= 5
    assert "signature" in leak


def test_the_first_line_answers(reports):
    done = diff(*reports)
    assert done.status == GREW and not done.stderr
    verdict = done.stdout.splitlines()[0]
    # the program has debug information
    assert verdict.startswith("Live heap grew by ") and f" x node ({NODE} bytes) more are live" in verdict, verdict
    assert f" x {LOST} bytes more are leaked" in verdict, verdict


def test_the_other_way_round_it_shrank(reports):
    told = compared(*reversed(reports))
    assert told["elapsed_ns"] < 0 and "swapped" in told["warnings"][0]
    assert told["leaks"][0]["change"] == "shrunk" and not told["grew"]
    forwards = compared(*reports, "--limit", "all")
    backwards = compared(*reversed(reports), "--limit", "all")
    for which in ("leaks", "live"):
        assert (sorted(row["growth_bytes"] for row in forwards[which]) ==
                sorted(-row["growth_bytes"] for row in backwards[which]))


def test_a_report_and_itself(reports):
    told = compared(reports[0], reports[0])
    assert told["live"] == told["leaks"] == told["warnings"] == [] and not told["grew"]
    assert diff(reports[0], reports[0]).stdout.startswith("Live heap did not grow; nothing more is leaked\n")


def test_growth_of_all_rows_is_that_of_the_heap(reports):
    told = compared(*reports, "--limit", "all")
    growth = told["new"]["allocation_bytes"] - told["old"]["allocation_bytes"]
    assert sum(row["growth_bytes"] for row in told["live"]) == growth
    assert sum(heap["growth_bytes"] for heap in told["heaps"]) == growth
    assert sum(row["growth_bytes"] for row in told["leaks"]) == (
        told["new"]["leaked_bytes"] - told["old"]["leaked_bytes"])


def test_the_output_goes_to_a_file(reports, tmp_path):
    done = diff(*reports, "-o", tmp_path / "diff.txt")
    assert done.status == GREW and not done.stdout
    assert (tmp_path / "diff.txt").read_text() == diff(*reports).stdout
    assert diff(*reports, "-o", tmp_path / "no" / "diff.txt").status == support.COULD_NOT_WRITE


# ---- histograms ----

def check_histogram(report):
    totals = report["totals"]
    for field, all_of in (("allocations", "allocations"), ("bytes", "allocation_bytes"),
                          ("leaked_allocations", "leaked_allocations"), ("leaked_bytes", "leaked_bytes")):
        assert sum(row.get(field, 0) for row in report["histogram"]) == totals[all_of], field
    sizes = [row["bytes"] for row in report["histogram"]]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("how", ["fork", "copy"])
@pytest.mark.parametrize("more", [[], ["--possible", "--no-fold"], ["--confirm=0.1"], ["--min-size", "1000000"]],
                         ids=lambda options: " ".join(options) or "plain")
def test_a_histogram_adds_up(classes, how, more):
    report = check_scanned(scan(classes.pid, "--heap", "--snapshot", how, "--limit", 1, *more))
    check_histogram(report)
    named = {row["type"]["name"] for row in report["histogram"] if "type" in row}
    assert "Session" in named, named


@pytest.fixture(scope="module")
def classes():
    with support.Target([compile_target("held.cc", compiler="g++")]) as target:
        yield target


def test_there_is_none_unless_it_is_asked_for(classes):
    assert "histogram" not in check_scanned(scan(classes.pid))
    assert "Live blocks" not in memscan("--pid", classes.pid).stdout


def test_people_get_the_largest(classes):
    report = check_scanned(scan(classes.pid, "--heap"))
    text = memscan("--pid", classes.pid, "--heap", "--limit", 2).stdout
    table = text.split("\nLive blocks by type and size, most bytes first:\n\n")[1].splitlines()
    assert [int(row.split()[0]) for row in table[1:3]] == [row["bytes"] for row in report["histogram"][:2]]
    assert table[4] == f"{len(report['histogram']) - 2} more rows are not listed: --limit all lists them"


def test_run_has_one_too(tmp_path):
    file = tmp_path / "report.json"
    memscan("run", "--heap", "--json", "-o", file, "--", support.BUILD / "targets/demo_leaky")
    check_histogram(support.read_report(file.read_text()))


# ---- what cannot be compared ----

def changed(tmp_path, file, old, new, name="changed.json"):
    text = file.read_text()
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new, 1))
    return tmp_path / name


def check_unread(done, *words):
    """Two lines on standard error, what and what to do, and nothing else."""
    assert done.status == COULD_NOT_SCAN and not done.stdout, str(done)
    lines = done.stderr.splitlines()
    assert len(lines) == 2 and all(line.startswith("memscan: ") for line in lines), str(done)
    for word in words:
        assert str(word) in done.stderr, str(done)


def test_what_is_no_report_is_refused(reports, tmp_path):
    old, new = reports
    check_unread(diff(tmp_path / "none.json", new), "none.json", "No such file")
    check_unread(diff(old, tmp_path), "Is a directory")
    (tmp_path / "empty").write_text("")
    check_unread(diff(tmp_path / "empty", new), "empty", "it is empty")
    (tmp_path / "text").write_text("memscan 0.1.0: process 1\n")
    check_unread(diff(tmp_path / "text", new), "text, line 1", "memscan --json")
    text = new.read_text()
    far = tmp_path / ("far" * 40)
    far.mkdir()
    (far / "cut.json").write_text(text[:len(text) // 2])
    check_unread(diff(old, far / "cut.json"), "cut.json, line ", "ends in the middle")
    (tmp_path / "diff.json").write_text(diff(old, new, "--json").stdout)
    check_unread(diff(old, tmp_path / "diff.json"), "memscan.diff/1", "memscan.report/1")
    check_unread(diff(old, changed(tmp_path, new, "report/1", "report/2")), "memscan.report/2", "version")
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    check_unread(diff(tmp_path / "binary", new), "binary")


def test_a_report_of_a_later_memscan_is_read(reports, tmp_path):
    later = changed(tmp_path, reports[1], '"unlisted":', '"later":[{"x":1}],"unlisted":')
    assert compared(reports[0], later)["live"] == compared(*reports)["live"]


def test_what_is_unlike_is_compared_with_a_warning(reports, tmp_path):
    other = changed(tmp_path, reports[1], "/grows", "/shrinks")
    told = compared(reports[0], other)
    assert "different programs" in told["warnings"][0] and told["live"]
    without = json.loads(reports[1].read_text())
    del without["histogram"]
    (tmp_path / "without.json").write_text(json.dumps(without))
    told = compared(reports[0], tmp_path / "without.json")
    assert "live" not in told and "--heap" in told["warnings"][0] and told["leaks"]
    cut = changed(tmp_path, reports[1], '"unlisted":{"leaks":0', '"unlisted":{"leaks":7', "cut.json")
    assert "7 leaks are not listed in the new report" in compared(reports[0], cut)["warnings"][0]
    assert "  warning: 7 leaks" in diff(reports[0], cut).stdout


# ---- what roots hold: reports of memscan retained ----

def held(pid, time, *roots):
    """A report of memscan retained, of roots as (name, bytes)."""
    weight = {"count": 1, "bytes": sum(size for _, size in roots)}
    entries = [{"root": {"kind": "data", "address": "0x404040", "offset": 16448, "module": "/opt/server", "symbol": name},
                "words": 1, "retained_count": 1, "retained_bytes": size, "length": 0, "chain": []}
               for name, size in roots]
    return {"schema": "memscan.retained/1", "target": {"pid": pid, "exe": "/opt/server"}, "scan": {"time": time},
            "totals": {"reachable": weight, "unreachable": {"count": 0, "bytes": 0}, "roots": len(roots)},
            "by_root": entries, "shared": [], "by_type": [], "by_block": [], "warnings": []}


def test_roots_are_compared_by_name(reports, tmp_path):
    files = [tmp_path / "old.json", tmp_path / "new.json"]
    files[0].write_text(json.dumps(held(1, 0, ("g_cache", 5000), ("g_log", 100))))
    files[1].write_text(json.dumps(held(1, 600 * 10 ** 9, ("g_cache", 9000), ("g_log", 100), ("g_new", 7))))
    told = compared(*files)
    assert [(row["root"]["symbol"], row["growth_bytes"]) for row in told["roots"]] == [("g_cache", 4000), ("g_new", 7)]
    assert told["grew"] and told["leaks"] == [] and told["warnings"] == []
    assert diff(*files).stdout.startswith("Live heap grew by 4007 bytes in 10 min; 4000 bytes more are held by g_cache in "
                                          "server (data); nothing more is leaked\n")
    check_unread(diff(files[0], reports[0]), "memscan.retained/1", "one command")
    files[0].write_text(files[0].read_text()[:-40])
    check_unread(diff(*files), "old.json, line 1", "ends in the middle")
