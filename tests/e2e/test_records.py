# SPDX-License-Identifier: Apache-2.0
"""memscan records: recordings of our own and of devices, and what is no recording."""

import json
import os
import re
import shutil
import subprocess
import threading

import pytest

from shim_support import environment
from support import COULD_NOT_SCAN, COULD_NOT_WRITE, ROOT, USAGE, compile_special, memscan

GOLDEN = ROOT / "tests/golden/records"


def records(*args, status=0, told="", **more):
    done = memscan("records", *args, **more)
    assert done.status == status, str(done)
    if status:
        assert done.stdout == ""
        assert re.fullmatch(r"memscan: .+\nmemscan: .+\n", done.stderr), done.stderr
    else:
        assert done.stderr == told
    return done


def report_of(*args, **more):
    report = json.loads(records("--json", *args, **more).stdout)
    assert report["schema"] == "memscan.records/1"
    return report


# ---- golden ----

CASES = [
    ("threads.text", ["threads.txt"]),
    ("threads.json", ["--json", "threads.txt"]),
    ("threads.peak.text", ["--at", "peak", "threads.txt"]),
    ("threads.at.json", ["--at", "1000000999", "-f", "json", "threads.txt"]),
    ("old.text", ["-l", "2", "old.txt"]),
    ("old.json", ["--limit", "all", "-f", "json", "old.txt"]),
    ("present.text", ["present.txt"]),
]


@pytest.mark.parametrize("expected, args", CASES, ids=[case[0] for case in CASES])
def test_golden(expected, args):
    done = records(*args, cwd=GOLDEN)
    path = GOLDEN / "expected" / expected
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(done.stdout)
    assert done.stdout == path.read_text()


def test_every_golden_is_used():
    assert {p.name for p in (GOLDEN / "expected").iterdir()} == {case[0] for case in CASES}


# ---- what was recorded here ----

def record(command, folder, **more):
    """Run it, and return the file with its operations."""
    env = {**os.environ, **environment(f"record_allocs record_allocs_on_exit record_allocs_file={folder}/record")}
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, env=env, timeout=120, **more)
    return max(folder.glob("record.*"), key=lambda path: path.stat().st_size)


@pytest.fixture(scope="module")
def program():
    return compile_special("recorded.c", "-pthread")


def test_a_program_that_is_known(program, tmp_path):
    file = record([program], tmp_path)
    report = report_of("--limit", "all", file)
    sizes = {entry["size"]: entry for entry in report["live_sizes"]}
    assert sizes[10007] == {"size": 10007, "live_blocks": 3, "live_bytes": 30021, "allocations": 10}
    assert sizes[30013] == {"size": 30013, "live_blocks": 2, "live_bytes": 60026, "allocations": 2}
    assert sizes[1009]["live_blocks"] == 8
    assert sizes[100011]["live_blocks"] == 1 and 20011 not in sizes
    totals = report["totals"]
    assert (totals["threads"], totals["freed_by_other_thread"]) == (2, 3)
    assert (totals["freed_unseen"], totals["lost"]) == (0, 0)
    assert totals["resized"] == 8
    longest = report["most_resized"][0]
    assert (longest["first_size"], longest["size"], longest["resized"]) == (20011, 100011, 8)
    assert longest["copied_bytes"] == totals["copied_bytes"]
    other, = (thread for thread in report["threads"] if thread["ended"])
    assert (other["live_blocks"], other["live_bytes"], other["frees"]) == (2, 60026, 3)
    assert report["oldest"][-1]["size"] == 30013
    at_peak = report_of("--at", "peak", "--limit", "all", file)
    assert at_peak["live"] == at_peak["peak"] == report["peak"]


def computed(path):
    """The figures, from all operations in the order in which they took effect."""
    events = []
    for number, line in enumerate(path.read_text().splitlines()):
        tid, what, address, *rest = line.split()
        start, end = (int(rest[-2]), int(rest[-1])) if what != "thread_done" else (0, 0)
        if what in ("malloc", "calloc", "memalign") and address != "0x0":
            size = int(rest[0]) * int(rest[1]) if what == "calloc" else int(rest[-3])
            events.append((end, 1, number, address, size, tid, None))
        elif what == "free":
            events.append((start, 0, number, address, 0, tid, "free"))
        elif what == "realloc":
            old, size = rest[0], int(rest[1])
            moved = None
            if old != "0x0" and (address != "0x0" or size == 0):
                moved = (number, old)
                events.append((start, 0, number, old, 0, tid, "free" if address == "0x0" else "move"))
            if address != "0x0":
                events.append((end, 1, number, address, size, tid, moved))
    live, carried = {}, {}
    found = dict.fromkeys(("freed", "freed_by_other_thread", "freed_unseen", "resized", "allocations"), 0)
    ages = {}
    for time, comes, number, address, size, tid, more in sorted(events):
        if comes:
            born = carried.pop(number, None)
            found["resized" if born else "allocations"] += 1
            assert address not in live, (number, address)
            live[address] = (size, tid, born or time)
            continue
        block = live.pop(address, None)
        if not block:
            found["freed_unseen"] += 1
        elif more == "move":
            carried[number] = block[2]
        else:
            found["freed"] += 1
            found["freed_by_other_thread"] += block[1] != tid
            age = (time - block[2]).bit_length()
            ages[age] = ages.get(age, 0) + 1
    by_size, by_thread = {}, {}
    for size, tid, _ in live.values():
        by_size[size] = by_size.get(size, 0) + 1
        by_thread[int(tid[:-1])] = by_thread.get(int(tid[:-1]), 0) + size
    found["live"] = {address: block[0] for address, block in live.items()}
    return found, by_size, by_thread, {1 << age: n for age, n in ages.items()}


def check_against(path):
    report = report_of("--limit", "all", path)
    found, by_size, by_thread, ages = computed(path)
    live = found.pop("live")
    assert {name: report["totals"][name] for name in found} == found
    assert report["totals"]["lost"] == 0
    assert report["live"]["bytes"] == sum(live.values()) and report["live"]["blocks"] == len(live)
    assert {entry["address"]: entry["size"] for entry in report["oldest"]} == live
    assert {entry["size"]: entry["live_blocks"] for entry in report["live_sizes"]} == by_size
    assert {t["tid"]: t["live_bytes"] for t in report["threads"] if t["live_bytes"]} == {
        tid: size for tid, size in by_thread.items() if size}
    assert {entry["less_than_ns"]: entry["blocks"] for entry in report["lifetimes"] if entry["blocks"]} == ages
    assert report["totals"]["operations"] == len(path.read_text().splitlines())
    since = [entry["since_ns"] for entry in report["oldest"]]
    assert since == sorted(since)
    return report


def test_threads_that_hand_blocks_on(program, tmp_path):
    report = check_against(record([program, "busy"], tmp_path))
    assert report["totals"]["threads"] == 5 and report["totals"]["freed_by_other_thread"] > 100


@pytest.mark.parametrize("command", [
    ["/usr/bin/python3", "-S", "-c", "import json, re; json.loads('[1, [2]]' ); [str(i) for i in range(9999)]"],
    ["git", "--version"], ["sort", "--parallel=4", "-S", "1M", ROOT / "README.md"]], ids=["python3", "git", "sort"])
def test_real_programs(command, tmp_path):
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    check_against(record(command, tmp_path))


def test_any_moment_of_a_recording(program, tmp_path):
    file = record([program], tmp_path)
    whole = report_of(file)
    first, last = whole["totals"]["first_ns"], whole["totals"]["last_ns"]
    times = [first + (last - first) * i // 10 for i in range(11)]
    reports = [report_of("--at", time, file) for time in times]
    assert [r["totals"]["operations"] for r in reports] == sorted(r["totals"]["operations"] for r in reports)
    assert reports[-1]["live"] == whole["live"] and reports[-1]["until"] == {"ns": last}


# ---- what is not as it should be ----

@pytest.mark.parametrize("text, problem, advice", [
    ("", "FILE is empty", "record_allocs"),
    ("1: free 0x1", "FILE has no whole record", "record_allocs"),
    ("1: free 0x1\nnonsense\n", "FILE, line 2: Failed to process line: nonsense", "expected TID: "),
    ("1: malloc 0x1 \n", "FILE, line 1: Failed to read malloc data: 1: malloc 0x1 ",
     "expected TID: malloc 0xADDRESS SIZE [START END]; "),
    ("1: free 0x1 2\n1: free 0x1 4 3\n", "FILE, line 2: Failed to read timestamps: 1: free 0x1 4 3",
     "expected TID: free 0xADDRESS [START END]; "),
    ("\x7fELF\x02\x01\x00\x00", "FILE has no whole record", "record_allocs"),
    ("Android Native Heap Dump v1.2\n", "FILE, line 1: Failed to process line: Android Native Heap Dump v1.2",
     "this is a heap dump: memscan heapdump reads those"),
    ("x" * 10000, "FILE, line 1 is too long for a recording", "record_allocs"),
], ids=["empty", "half a line", "no line", "no size", "times", "binary", "heap dump", "long line"])
def test_files_that_are_none(text, problem, advice, tmp_path):
    (tmp_path / "FILE").write_text(text)
    told = records("FILE", cwd=tmp_path, status=COULD_NOT_SCAN).stderr.splitlines()
    assert told[0] == "memscan: " + problem
    assert advice in told[1]


def test_files_that_cannot_be_read(tmp_path):
    assert "cannot read none: No such file" in records("none", cwd=tmp_path, status=COULD_NOT_SCAN).stderr
    assert "Is a directory" in records(tmp_path, status=COULD_NOT_SCAN).stderr
    assert "line 1: Failed to process line" in records("/bin/true", status=COULD_NOT_SCAN).stderr


def test_a_file_cut_off_anywhere(tmp_path):
    whole = (GOLDEN / "threads.txt").read_bytes()
    cut = tmp_path / "cut"
    for length in range(whole.index(b"\n") + 1, len(whole)):
        cut.write_bytes(whole[:length])
        done = memscan("records", "--json", cut)
        assert done.status == 0, done
        assert json.loads(done.stdout)["totals"]["operations"] == whole[:length].count(b"\n")
        assert done.stderr.count("was cut off, and is ignored: ") == (whole[length - 1:length] != b"\n")
        if length > 300:
            break


def test_pipes(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_bytes((GOLDEN / "threads.txt").read_bytes()))
    writer.start()
    assert report_of(fifo)["totals"]["operations"] == 13
    writer.join()
    read, write = os.pipe()
    os.write(write, b"1: free 0x1\n")
    os.close(write)
    told = records("--at", "peak", f"/proc/self/fd/{read}", pass_fds=[read], status=COULD_NOT_SCAN).stderr
    os.close(read)
    assert "--at peak reads the file twice" in told


def test_moments_need_times():
    assert "old.txt has operations without times" in records(
        "--at", "5", "old.txt", cwd=GOLDEN, status=COULD_NOT_SCAN).stderr


@pytest.mark.parametrize("args, problem", [
    ([], "no recording was given"), (["a", "b"], "records takes one recording, not also 'b'"),
    (["--at", "noon", "a"], "--at takes nanoseconds or peak, not 'noon'"),
    (["-l", "-1", "a"], "--limit takes a number or all, not '-1'"),
    (["--format", "html", "a"], "--format takes text or json, not 'html'"),
    (["-f"], "--format needs its argument, text|json"), (["--symbols", "a"], "there is no option --symbols"),
    (["-o", "", "a"], "--output takes a name")])
def test_wrong_calls(args, problem):
    told = records(*args, status=USAGE).stderr.splitlines()
    assert told == ["memscan: " + problem, "memscan: usage: memscan records [OPTION]... FILE; see memscan records --help"]


def test_output(tmp_path):
    out = tmp_path / "out"
    assert records("-o", out, GOLDEN / "old.txt").stdout == ""
    assert out.read_text() == records(GOLDEN / "old.txt").stdout
    records("-o", tmp_path / "none/out", GOLDEN / "old.txt", status=COULD_NOT_WRITE)
    records("-o", "/dev/full", GOLDEN / "old.txt", status=COULD_NOT_WRITE)
    out.write_text("before")
    records("-o", out, "/dev/null", status=COULD_NOT_SCAN)
    assert out.read_text() == "before"
    assert records("--help").stdout.startswith("Usage: memscan records [OPTION]... FILE\n")


def test_names_are_harmless(tmp_path):
    file = tmp_path / "a\033[31m\n"
    shutil.copy(GOLDEN / "old.txt", file)
    assert "\033" not in records(file).stdout
    assert report_of(file)["file"] == str(file)
