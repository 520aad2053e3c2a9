# SPDX-License-Identifier: Apache-2.0
"""libmalloc_debug.so: heap dumps, records of calls, and what else signals ask for."""

import pathlib
import re

import pytest

from shim_support import RT, Interactive, debugged, environment, needs_library, records_of, run
from support import BUILD, Process

pytestmark = needs_library


def test_signals_switch_and_dump(tmp_path):
    prefix = tmp_path / "heap"
    with Interactive(f"bt_en_on_sig=5 backtrace_dump_prefix={prefix} backtrace_dump_on_exit", tmp_path / "log") as target:
        target.ask("11111\n")
        target.signal(19)
        target.ask("22222\n")
        target.signal(17)
        target.ask("33333\n")
        dump = pathlib.Path(f"{prefix}.{target.pid}.txt").read_text()
        target.signal(19)
        target.ask("44444\n")
        assert target.finish() == 0
        last = pathlib.Path(f"{prefix}.{target.pid}.exit.txt").read_text()
        assert target.logged() == [f"Dumping to file: {prefix}.{target.pid}.txt", "",
                                   f"Dumping to file: {prefix}.{target.pid}.exit.txt", ""]
    head = re.match(r"Android Native Heap Dump v1\.2\n\nBuild fingerprint: '.+'\n\nTotal memory: (\d+)\n"
                    r"Allocation records: (\d+)\nBacktrace size: 5\n\nz 0  sz ", dump)
    records = records_of(dump)
    assert head and int(head[2]) == len(re.findall("^z ", dump, re.M))
    assert int(head[1]) == sum(size * n for size, (n, _) in records.items())
    assert records[11111] == (1, 0) and records[22222] == (1, 5) and 33333 not in records
    assert re.search(r"\nMAPS\n[0-9a-f]+-[0-9a-f]+ .*\nEND\n$", dump, re.S)
    assert [records_of(last)[n * 11111][1] for n in (1, 2, 3, 4)] == [0, 5, 5, 0]


def test_samples_what_is_large_enough(tmp_path):
    prefix = tmp_path / "heap"
    # between 1 and 2000 bytes from sample to sample
    with Interactive(f"backtrace_sample=1000 bt_dmp_on_ex bt_dmp_pre={prefix}", tmp_path / "log") as target:
        for size in (5000, 5001, 1, 5002):
            target.ask(f"{size}\n")
        assert target.finish() == 0
    records = records_of(pathlib.Path(f"{prefix}.{target.pid}.exit.txt").read_text())
    assert all(records[size][0] == 1 and records[size][1] > 1 for size in (5000, 5001, 5002)), records
    assert all(frames for _, frames in records.values()), "a block without a stack is in the table"
    done = run("forks", f"backtrace_sample=300 bt_dmp_on_ex bt_dmp_pre={prefix}")
    records = records_of(pathlib.Path(f"{prefix}.{done.pid}.exit.txt").read_text())
    assert done.out == ["0 failed", "done"] and not {100, 300, *range(305, 472)} & records.keys(), records


def test_dump_tells_what_full_frames_are(tmp_path):
    prefix = tmp_path / "heap"
    done = run("leak", f"backtrace=2 backtrace_full bt_dmp_on_ex bt_dmp_pre={prefix}")
    dump = pathlib.Path(f"{prefix}.{done.pid}.exit.txt").read_text()
    assert re.search(r'^z 0  sz     1024  num    1  bt [0-9a-f]+ [0-9a-f]+\n  bt_info \{"\S+/debugged" [0-9a-f]+ '
                     r'"allocate_leak" [0-9a-f]+\} \{"\S+/debugged" [0-9a-f]+ "leak" [0-9a-f]+\}$', dump, re.M), dump


def test_dump_that_cannot_be_written(tmp_path):
    done = run("leak", f"backtrace bt_dmp_on_ex bt_dmp_pre={tmp_path}/none/heap")
    assert done.log == [f"Unable to create file: {tmp_path}/none/heap.{done.pid}.exit.txt"]


def test_records(tmp_path):
    file = tmp_path / "records"
    done = run("calls", f"record_allocs record_allocs_on_exit record_allocs_file={file}")
    a, b, c, d, e = done.out[0].split()
    lines = [re.sub(r" \d{6,}", "", line) for line in pathlib.Path(f"{file}.{done.pid}").read_text().splitlines()]
    assert lines[:9] == [f"{done.pid}: {what}" for what in (
        f"malloc {a} 16", f"calloc {b} 3 5", f"realloc {c} {a}", f"memalign {d} 64 10", f"memalign {e} 128 20",
        f"free {b}", f"free {c}", f"free {d}", f"free {e}")] or lines[2] == f"{done.pid}: realloc {c} {a} 100000", lines
    done = run("threads", f"record_allocs record_allocs_on_exit record_allocs_file={file}")
    assert len(re.findall(r"^\d+: thread_done 0x0 \d+$", pathlib.Path(f"{file}.{done.pid}").read_text(), re.M)) == 4


def test_records_by_signal_and_when_full(tmp_path):
    file = tmp_path / "records"
    with Interactive(f"record_allocs=4 record_allocs_file={file}", tmp_path / "log") as target:
        for _ in range(6):
            target.ask("500\n")
        target.signal(18)
        target.signal(18)
        target.ask("501\n")
        assert target.finish() == 0
        assert target.logged()[0] == "Maximum number of records added, all new operations will be dropped."
    assert len(file.read_text().splitlines()) <= 4


def test_stats_and_unreachable_memory_by_signal(tmp_path):
    with Interactive("log_allocator_stats_on_signal check_unreachable_on_signal log_allocator_stats_on_exit",
                     tmp_path / "log") as target:
        target.signal(15)
        target.ask("500\n")
        assert target.logged()[0] == "Logging allocator stats..." and "in use" in target.logged()[1]
        assert target.finish() == 0
        assert target.logged()[2] == "Logging allocator stats..."


def test_unreachable_memory_by_signal(tmp_path):
    env = {"LD_LIBRARY_PATH": str(BUILD)}
    with open(tmp_path / "log", "wb") as log, \
            Process([debugged(), "interactive"], environment("check_unreachable_on_signal guard", **env), stderr=log) as target:
        assert target.line() == "READY"
        target.popen.send_signal(RT - 16)
        target.ask("500\n")
        assert target.finish() == 0
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[0] == "malloc_debug: Starting to check for unreachable memory."
    assert "libmemunreachable: unreachable memory detection done" in lines, lines
