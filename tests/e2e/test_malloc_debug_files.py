# SPDX-License-Identifier: Apache-2.0
"""libmalloc_debug.so: heap dumps, records of calls, and what else signals ask for."""

import pathlib
import re
import time

import pytest

from shim_support import (DIVIDER, LIBRARY, NARROW, RT, Interactive, Run, debugged, environment, needs_library,
                          not_for_32_bits, records_of, run)
from support import BUILD, Process, compile_special

pytestmark = needs_library


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


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


def test_dump_is_of_the_moment_before_the_call(tmp_path):
    """What is being freed is in it; asked for three times before that call, it is written once, over the older one."""
    prefix = tmp_path / "heap"
    with Interactive(f"backtrace bt_dmp_pre={prefix}", tmp_path / "log") as target:
        file = pathlib.Path(f"{prefix}.{target.pid}.txt")
        file.write_text("older\n" * 100000)
        target.ask("11111\n")
        for _ in range(3):
            target.signal(17)
        target.ask("-0\n")
        assert target.logged() == [f"Dumping to file: {file}", ""]
        assert records_of(file.read_text())[11111][0] == 1 and "older" not in file.read_text()
        target.signal(17)
        target.ask("22222\n")
        assert not {11111, 22222} & records_of(file.read_text()).keys()
        file.unlink()
        target.signal(17)
        target.ask("33333\n")
        assert file.stat().st_mode & 0o7777 == 0o600
        file.unlink()
        file.symlink_to(tmp_path / "elsewhere")
        target.signal(17)
        target.ask("44444\n")
        assert target.logged()[-1] == f"Unable to create file: {file}"
        assert target.finish() == 0
    assert not (tmp_path / "elsewhere").exists()


def test_dump_merges_all_of_one_stack(tmp_path):
    """Android merges neighbours by address, and may have several records for one stack."""
    done = run("leaks_by_turns", f"backtrace bt_dmp_on_ex bt_dmp_pre={tmp_path}/heap")
    dump = pathlib.Path(f"{tmp_path}/heap.{done.pid}.exit.txt").read_text()
    assert re.findall(r"^z 0  sz      600  num    (\d+)  bt", dump, re.M) == ["20", "20"]
    assert re.findall(r"^z 0  sz     7000  num    (\d+)  bt", dump, re.M) == ["3"]
    sizes = [int(size) for size in re.findall(r"^z 0  sz +(\d+)", dump, re.M)]
    assert sizes == sorted(sizes, reverse=True)


def test_dump_has_blocks_that_are_filtered_out(tmp_path):
    done = run("leaks_by_turns", f"backtrace bt_min_sz=601 bt_max_sz=7000 bt_dmp_on_ex bt_dmp_pre={tmp_path}/heap")
    records = records_of(pathlib.Path(f"{tmp_path}/heap.{done.pid}.exit.txt").read_text())
    assert records[600] == (40, 0) and records[7000][0] == 3 and records[7000][1] > 1


def test_order_at_the_end(tmp_path):
    none = tmp_path / "none"
    done = run("at_exit", f"free_track leak_track record_allocs record_allocs_on_exit record_allocs_file={none}/r backtrace "
               f"bt_dmp_on_ex bt_dmp_pre={none}/h log_allocator_stats_on_exit free_track_backtrace_num_frames=0")
    assert re.match("arena .* in use", done.log[-1])
    assert done.told()[:-1] == [
        DIVIDER, "+++ ALLOCATION P USED AFTER FREE", "  allocation[20] = 0xaf (expected 0xef)", DIVIDER,
        "+++ debugged leaked block of size 1024 at Q (leak 1 of 1)", "Backtrace at time of allocation:",
        "#allocate_leak", "#at_exit", "#main",
        f"Cannot create record alloc file {none}/r.{done.pid}: No such file or directory",
        f"Unable to create file: {none}/h.{done.pid}.exit.txt", "Logging allocator stats..."]


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


@not_for_32_bits
def test_forked_child_writes_its_own_dump(tmp_path):
    Run(["bash", "-c", "(exit 0); exit 0"], f"backtrace bt_dmp_on_ex bt_dmp_pre={tmp_path}/heap")
    dumps = [file.read_text() for file in tmp_path.glob("heap.*.exit.txt")]
    assert len(dumps) == 2 and all(dump.endswith("\nEND\n") for dump in dumps)


def test_dump_tells_what_full_frames_are(tmp_path):
    prefix = tmp_path / "heap"
    done = run("leak", f"backtrace=2 backtrace_full bt_dmp_on_ex bt_dmp_pre={prefix}")
    dump = pathlib.Path(f"{prefix}.{done.pid}.exit.txt").read_text()
    assert re.search(r'^z 0  sz     1024  num    1  bt [0-9a-f]+ [0-9a-f]+\n  bt_info \{"\S+/debugged" [0-9a-f]+ '
                     r'"allocate_leak" [0-9a-f]+\} \{"\S+/debugged" [0-9a-f]+ "leak" [0-9a-f]+\}$', dump, re.M), dump


def test_dump_that_cannot_be_written(tmp_path):
    done = run("leak", f"backtrace bt_dmp_on_ex bt_dmp_pre={tmp_path}/none/heap")
    assert done.log == [f"Unable to create file: {tmp_path}/none/heap.{done.pid}.exit.txt"]


def recorded(file):
    """The lines of a file of records without their times, which are checked to be in order."""
    lines, last = [], 0
    for line in file.read_text().splitlines():
        found = re.fullmatch(r"(\d+: \w+ 0x[0-9a-f]+(?: (?:0x[0-9a-f]+|\d+)){0,2}?)((?: \d+){1,2})", line)
        assert found, line
        times = [int(time) for time in found[2].split()]
        assert last <= times[0] <= times[-1], line
        last = times[0]
        lines.append(found[1])
    return lines


def test_records(tmp_path):
    file = tmp_path / "records"
    options = f"record_allocs record_allocs_on_exit record_allocs_file={file}"
    done = run("calls", options)
    a, b, c, d, e = done.out[0].split()
    assert recorded(tmp_path / f"records.{done.pid}")[:9] == [f"{done.pid}: {what}" for what in (
        f"malloc {a} 16", f"calloc {b} 3 5", f"realloc {c} {a} 100000", f"memalign {d} 64 10", f"memalign {e} 128 20",
        f"free {b}", f"free {c}", f"free {d}", f"free {e}")]
    done = run("threads", options)
    text = (tmp_path / f"records.{done.pid}").read_text()
    assert len(re.findall(r"^\d+: thread_done 0x0 \d+$", text, re.M)) == 4


@pytest.mark.parametrize("more", ("", "guard"))
def test_records_of_calls_at_the_edges(tmp_path, more):
    """A realloc that fails leaves no record, and so does, with a header, one that stays in its place."""
    file = tmp_path / "records"
    done = run("calls_at_the_edges", f"record_allocs record_allocs_on_exit record_allocs_file={file} {more}")
    a, b, c, d, e, g, failed = done.out[0].split()
    expected = [f"{done.pid}: {what}" for what in (
        f"realloc {a} 0x0 30", f"memalign {b} 64 128", f"memalign {c} 4096 10", f"memalign {d} 4096 4096",
        f"calloc {e} 2 50", f"malloc {g} 5000", *([] if more else [f"realloc {g} {g} 4000"]),
        f"malloc 0x0 {2 ** (32 if NARROW else 64) - 4097}")]
    lines = recorded(tmp_path / f"records.{done.pid}")
    assert failed == "0" and lines[:len(expected)] == expected
    # what the program's own output took comes between
    assert [line for line in lines[len(expected):] if a in line or b in line] == [
        f"{done.pid}: realloc 0x0 {a} 0", f"{done.pid}: free {b}"]


def test_records_that_a_signal_asks_for(tmp_path):
    """Written within the handler, kept when that is not possible, and forgotten when it was."""
    file = tmp_path / "folder" / "records"
    with Interactive(f"record_allocs=1000 record_allocs_file={file}", tmp_path / "log") as target:
        target.ask("500\n")
        target.signal(18)
        target.ask("501\n")
        assert target.logged() == [f"Cannot create record alloc file {file}: No such file or directory"]
        file.parent.mkdir()
        target.signal(18)
        wait_for(lambda: file.exists() and file.read_text().endswith("\n"))
        lines = recorded(file)
        assert [line.split()[3] for line in lines if line.split()[3] in ("500", "501")] == ["500", "501"]
        assert file.stat().st_mode & 0o7777 == 0o600
        file.unlink()
        target.signal(18)
        wait_for(lambda: len(target.logged()) > 1)
        assert target.logged()[1:] == ["No alloc entries to write."] and not file.exists()
        file.symlink_to(tmp_path / "elsewhere")
        target.ask("502\n")
        target.signal(18)
        target.ask("503\n")
        assert target.logged()[2:] == [f"Cannot create record alloc file {file}: Too many levels of symbolic links"]
        assert target.finish() == 0
    assert not (tmp_path / "elsewhere").exists()


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


@not_for_32_bits
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


@not_for_32_bits
def test_unreachable_memory_without_the_library(tmp_path):
    refuser = compile_special("refuser.c", "-shared", "-fPIC")
    more = {"LD_PRELOAD": f"{LIBRARY}:{refuser}", "REFUSE_LIBRARY": "libmemunreachable.so.1"}
    with Interactive("check_unreachable_on_signal", tmp_path / "log", **more) as target:
        target.signal(16)
        target.ask("500\n")
        assert target.logged() == ["Starting to check for unreachable memory.",
                                   "Unreachable check failed, libmemunreachable.so.1 cannot be loaded."]
        assert target.finish() == 0


def test_dumps_at_once_though_no_sample_comes(tmp_path):
    """Of the calls that go straight past, the next one after the signal does not."""
    dump = tmp_path / "heap"
    with Interactive(f"backtrace_sample={1 << 30} bt_dmp_pre={dump}", tmp_path / "log") as target:
        target.ask("5\n")
        dump = tmp_path / f"heap.{target.pid}.txt"
        for _ in range(3):
            target.ask("5\n")
            assert not dump.exists()
            target.signal(17)
            target.ask("5\n")
            assert "END" in dump.read_text()
            dump.unlink()
        assert target.finish() == 0
