# SPDX-License-Identifier: Apache-2.0
"""libmalloc_debug.so, preloaded: planted bugs told as documented, programs at work as without.

Never preloaded into the test runner: only into what a test starts.
"""

import pathlib
import re
import signal
import subprocess
import time

import pytest

import support
from support import BUILD, Process, compile_target

LIBRARY = BUILD / "libmalloc_debug.so"
DIVIDER = " ".join(["***"] * 16)
RT = signal.SIGRTMAX
USAGE = ["For malloc debug option descriptions go to:",
         "  https://android.googlesource.com/platform/bionic/+/main/libc/malloc_debug/README.md"]
FRAME = re.compile(r" {10}#(\d\d)  pc ([0-9a-f]{16})  (\S+)(?: \((.+)\+\d+\))?$")

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not built")


def environment(options, **more):
    return {"LD_PRELOAD": str(LIBRARY), **({"LIBC_DEBUG_MALLOC_OPTIONS": options} if options else {}), **more}


def debugged():
    return compile_target("debugged")


class Run:
    """A finished program: its status, its output, and what the shim logged."""

    def __init__(self, argv, options, tag="malloc_debug", **more):
        with Process(argv, environment(options, **more), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            out, err = process.popen.communicate(timeout=60)
            self.pid, self.status = process.pid, process.popen.returncode
        self.out, self.err = out.decode().splitlines(), err.decode().splitlines()
        self.log = [line.removeprefix(f"{tag}: ") for line in self.err]
        assert all(line.startswith((f"{tag}: ", "libc: ")) for line in self.err), self.err

    def told(self):
        """The log without frames of other modules, the frames as their functions, the block as P."""
        lines = []
        for line in self.log:
            frame = FRAME.match(line)
            if frame and frame[3].endswith("/debugged") and frame[4] != "_start":
                lines.append(f"#{frame[4]}")
            elif not frame:
                lines.append(line.replace(self.out[0], "P"))
        return lines


def run(name, options, **more):
    return Run([debugged(), name], options, **more)


def block(*lines):
    return [DIVIDER, *lines, DIVIDER]


FAILED_IN = lambda *functions: ["Backtrace at time of failure:", *(f"#{f}" for f in functions), "#main"]
FREED_IN = lambda *functions: ["Backtrace of original free:", *(f"#{f}" for f in functions), "#main"]


# ---- planted bugs ----

@pytest.mark.parametrize("name, options, expected", (
    ("write_before", "guard", block(
        "+++ ALLOCATION P SIZE 100 HAS A CORRUPTED FRONT GUARD", "  allocation[-15] = 0x02 (expected 0xaa)",
        "  allocation[-1] = 0x03 (expected 0xaa)", *FAILED_IN("release", "write_before"))),
    ("write_before", "front_guard=1", block(
        "+++ ALLOCATION P SIZE 100 HAS A CORRUPTED FRONT GUARD", "  allocation[-15] = 0x02 (expected 0xaa)",
        "  allocation[-1] = 0x03 (expected 0xaa)", *FAILED_IN("release", "write_before"))),
    # the header is all that stands there
    ("write_before", "rear_guard free_track", block(
        "+++ ALLOCATION P HAS INVALID TAG 1ee7d00d (free)", *FAILED_IN("release", "write_before"))),
    ("write_after", "guard", block(
        "+++ ALLOCATION P SIZE 100 HAS A CORRUPTED REAR GUARD", "  allocation[100] = 0x41 (expected 0xbb)",
        "  allocation[131] = 0x42 (expected 0xbb)", *FAILED_IN("release", "write_after"))),
    ("write_after", "rear_guard=31", block(
        "+++ ALLOCATION P SIZE 100 HAS A CORRUPTED REAR GUARD", "  allocation[100] = 0x41 (expected 0xbb)",
        *FAILED_IN("release", "write_after"))),
    ("write_after_realloc", "guard", block(
        "+++ ALLOCATION P SIZE 100 HAS A CORRUPTED REAR GUARD", "  allocation[100] = 0x41 (expected 0xbb)",
        *FAILED_IN("write_after_realloc"))),
    ("write_after", "expand_alloc=32", []),
    ("use_after_free", "free_track", block(
        "+++ ALLOCATION P USED AFTER FREE", "  allocation[20] = 0xaf (expected 0xef)",
        "Backtrace at time of free:", "#release", "#use_after_free", "#main")),
    ("use_after_free", "free_track guard free_track_backtrace_num_frames=0", block(
        "+++ ALLOCATION P USED AFTER FREE", "  allocation[20] = 0xaf (expected 0xef)")),
    ("use_after_free", "free_track free_track_backtrace_num_frames=1", block(
        "+++ ALLOCATION P USED AFTER FREE", "  allocation[20] = 0xaf (expected 0xef)",
        "Backtrace at time of free:", "#release")),
    ("use_after_free", "fill_on_free=20 free_track", []),
    ("header_after_free", "guard free_track", block(
        "+++ ALLOCATION P HAS CORRUPTED HEADER TAG 0x1cc7dc00 AFTER FREE")),
    ("double_free", "guard", block(
        "+++ ALLOCATION P USED AFTER FREE (free)", *FAILED_IN("release", "double_free"))),
    ("double_free", "guard free_track", block(
        "+++ ALLOCATION P USED AFTER FREE (free)", *FREED_IN("release", "double_free"),
        *FAILED_IN("release", "double_free"))),
    ("double_free", "free_track", block(
        "+++ ALLOCATION P UNKNOWN POINTER (free)", *FREED_IN("release", "double_free"),
        *FAILED_IN("release", "double_free"))),
    ("double_free", "verify_pointers", block(
        "+++ ALLOCATION P UNKNOWN POINTER (free)", *FAILED_IN("release", "double_free"))),
    ("wild_free", "verify_pointers", block(
        "+++ ALLOCATION P UNKNOWN POINTER (free)", *FAILED_IN("release", "wild_free"))),
    ("wild_free", "guard", block(
        "+++ ALLOCATION P HAS INVALID TAG 0 (free)", *FAILED_IN("release", "wild_free"))),
    ("wild_free", "guard record_allocs", block(
        "+++ ALLOCATION P HAS INVALID TAG 0 (free)", *FAILED_IN("release", "wild_free"))),
    ("unmapped_free", "guard", block(
        "+++ ALLOCATION P HAS INVALID TAG 0 (free)", *FAILED_IN("release", "unmapped_free"))),
    ("realloc_freed", "guard", block(
        "+++ ALLOCATION P USED AFTER FREE (realloc)", *FAILED_IN("realloc_freed"))),
    ("realloc_freed", "free_track", block(
        "+++ ALLOCATION P UNKNOWN POINTER (realloc)", *FREED_IN("release", "realloc_freed"),
        *FAILED_IN("realloc_freed"))),
    ("size_of_freed", "front_guard", block(
        "+++ ALLOCATION P USED AFTER FREE (malloc_usable_size)", *FAILED_IN("size_of_freed"))),
    ("leak", "leak_track", ["+++ debugged leaked block of size 1024 at P (leak 1 of 1)"]),
    ("leak", "leak_track backtrace", [
        "+++ debugged leaked block of size 1024 at P (leak 1 of 1)", "Backtrace at time of allocation:",
        "#allocate_leak", "#leak", "#main"]),
    ("leak", "leak_track guard bt=1", [
        "+++ debugged leaked block of size 1024 at P (leak 1 of 1)", "Backtrace at time of allocation:",
        "#allocate_leak"]),
    ("leak", "leak_track bt bt_min_sz=1025", ["+++ debugged leaked block of size 1024 at P (leak 1 of 1)"]),
    ("write_after", " ", []),
))
def test_planted_bug_is_told_as_documented(name, options, expected):
    done = run(name, options)
    assert done.told() == expected
    assert done.status == 0 and done.out[-1] == "done"


def test_frame_names_the_planted_line():
    done = run("double_free", "guard free_track")
    pcs = [FRAME.match(line)[2] for line in done.log if "(double_free+" in line]
    lines = subprocess.run(["addr2line", "-e", debugged(), *pcs], stdout=subprocess.PIPE, text=True, check=True).stdout
    numbers = [int(line.split(":")[1].split()[0]) for line in lines.splitlines()]
    source = pathlib.Path(support.TARGETS, "debugged.c").read_text().splitlines()
    assert [source[n - 1].strip() for n in numbers] == ["release(p);"] * 2 and numbers[1] == numbers[0] + 1


@pytest.mark.parametrize("name", ("write_after", "double_free", "use_after_free"))
def test_aborts_on_error(name):
    done = run(name, "guard free_track abort_on_error")
    assert done.status == -signal.SIGABRT and done.log[-1] == DIVIDER
    assert run("leak", "leak_track abort_on_error").status == 0


def test_full_backtrace_has_its_own_form():
    done = run("leak", "leak_track backtrace=2 backtrace_full")
    assert re.fullmatch(r" {10}#0  pc [0-9a-f]{16}  \S+/debugged \(allocate_leak\+\d+\)", done.log[2]), done.log
    assert re.fullmatch(r" {10}#1  pc [0-9a-f]{16}  \S+/debugged \(leak\+\d+\)", done.log[3])


# ---- fills and sizes ----

@pytest.mark.parametrize("options, expected", (
    ("fill", "eb eb 00 40"), ("fill_on_alloc=39", "eb 00 00 40"), ("fill_on_free", "00 00 00 40"),
    ("guard fill", "eb eb 00 40"), ("expand_alloc=24 fill", "eb eb 00 72"), ("expand_alloc guard", "00 00 00 40"),
))
def test_fills_and_sizes(options, expected):
    assert run("bytes", options).out[0] == expected


# ---- options ----

@pytest.mark.parametrize("options, error", (
    ("guard nonsense", "unknown option nonsense"), ("=5", "unknown option "),
    ("bt_sz", "bad value for option 'bt_sz'"), ("guard=0", "bad value for option 'guard', value must be >= 1: 0"),
    ("verbose=1", "value set for option 'verbose' which does not take a value"),
))
def test_wrong_option_is_told_and_the_program_runs_without(options, error):
    done = run("bytes", options)
    assert done.log == [f"debugged: {error}", *USAGE, "libc: debugged: failed to enable malloc debug"]
    assert done.status == 0 and done.out[-1] == "done"


def test_verbose_tells_the_signals():
    done = run("bytes", "verbose backtrace_enable_on_signal record_allocs=10 log_allocator_stats_on_signal "
               "check_unreachable_on_signal")
    kill = lambda n: f"debugged: Run: 'kill -{n} {done.pid}'"
    assert done.log == [f"{kill(45)} to enable backtracing.", f"{kill(47)} to dump the backtrace.",
                        f"{kill(46)} to dump the allocation records.", f"{kill(49)} to log allocator stats.",
                        f"{kill(48)} to check for unreachable memory.", "debugged: malloc debug enabled"]


def test_configuration_file(tmp_path):
    file = tmp_path / "malloc_debug.conf"
    for text, options, enabled in (
            ("libc.debug.malloc.options=verbose guard\n", None, True),
            ("libc.debug.malloc.options=verbose\nlibc.debug.malloc.program=bugg\n", None, True),
            ("libc.debug.malloc.options=verbose\nlibc.debug.malloc.program=other\n", None, False),
            ("libc.debug.malloc.options=nonsense\n", "verbose", True),
            ("libc.debug.malloc.program=other\n", "verbose", True)):
        file.write_text(text)
        assert run("bytes", options, MALLOC_DEBUG_CONFIG=str(file)).log == (
            ["debugged: malloc debug enabled"] if enabled else []), text
    file.write_text("libc.debug.malloc=10\n")
    told = run("write_after", None, MALLOC_DEBUG_CONFIG=str(file)).told()
    assert told[1] == "+++ ALLOCATION P SIZE 100 HAS A CORRUPTED REAR GUARD"


# ---- signals, dumps, records ----

class Interactive(Process):
    def __init__(self, options, log):
        self.log = log
        self.stderr = open(log, "wb")
        super().__init__([debugged(), "interactive"], environment(options), stderr=self.stderr)
        assert self.line() == "READY"

    def signal(self, below):
        self.popen.send_signal(RT - below)

    def logged(self):
        return [line.removeprefix("malloc_debug: ") for line in self.log.read_text().splitlines()]

    def stop(self):
        super().stop()
        self.stderr.close()


def records_of(dump):
    """{size: (count, frames)}"""
    found = re.findall(r"^z 0  sz +(\d+)  num    (\d+)  bt((?: [0-9a-f]+)*)$", dump, re.M)
    return {int(size): (int(n), len(bt.split())) for size, n, bt in found}


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


def test_unreachable_memory_beside_shared_memory():
    with Process([debugged(), "shared_memory"], environment("check_unreachable_on_signal"),
                 stderr=subprocess.PIPE) as target:
        out, err = target.popen.communicate(timeout=60)
    told = [line.removeprefix("libmemunreachable: ") for line in err.decode().splitlines()]
    assert target.popen.returncode == 0 and out == b"done\n", err.decode()
    assert "unreachable memory detection done" in told and told[-1].startswith("0 bytes in 0 allocations"), told


# ---- the public functions, forks, threads ----

def test_public_functions():
    done = run("api", "guard backtrace=4")
    assert done.out == [
        "info 1 1 4", "record 1 1", "record 1 1", "frames 2 1 0", "iterate 0 1", "dump 1", done.out[6],
        "mallopt 1 0 1", "mallinfo 1", "aligned 1 1 1", "done"]
    assert re.fullmatch(r'<malloc version="debug-malloc-1"><allocation nr="0"><size>77777</size><total>2</total>'
                        r'</allocation>(<allocation nr="\d+"><size>\d+</size><total>\d+</total></allocation>)*</malloc>',
                        done.out[6])
    assert done.log == ["get_malloc_leak_info: At least one invalid parameter."]
    assert run("api", "guard").log[1] == ("get_malloc_leak_info: Allocations not being tracked, to enable set the "
                                          "option 'backtrace'.")


def test_disable_keeps_others_out():
    assert run("disabled", "guard backtrace").out[0] == "disabled 0, then 1"


ALL = "guard fill expand_alloc free_track verify_pointers backtrace record_allocs=100000"


@pytest.mark.parametrize("options", ("guard", "backtrace", ALL))
def test_forks_while_threads_allocate(options):
    assert run("forks", options).out == ["0 failed", "done"]


@pytest.mark.parametrize("options", ("leak_track guard", ALL))
def test_ends_while_threads_allocate(options):
    done = run("others_at_exit", options)
    assert done.status == 0 and done.out[-1] == "done"


@pytest.mark.parametrize("options", ("backtrace", "free_track", "backtrace_sample=100"))
def test_low_descriptors_are_the_program_s(options):
    done = run("descriptors", options)
    assert done.out == [*(f"{fd}: word, at 0 of 4" for fd in range(3, 9)), "done"] and done.log == []


# ---- real programs ----

SQL = ("create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<2000) insert into t "
       "select x, hex(x*x) from c; create index i on t(b); select count(*), sum(length(b)), max(b) from t;")
PYTHON = ("import json,re,threading,subprocess; d=[json.loads(json.dumps({'a':list(range(50))})) for _ in range(50)];"
          "ts=[threading.Thread(target=lambda:[re.compile('a%d+b*'%i) for i in range(20)]) for _ in range(4)];"
          "[t.start() for t in ts]; [t.join() for t in ts];"
          "print(len(d), subprocess.run(['echo','hi'],capture_output=True).stdout)")
PROGRAMS = {
    "bash": ["bash", "-c", 'for i in $(seq 20); do a[$i]=$(echo $i); done; echo "${a[@]}"; (exit 3); echo $?; exit 5'],
    "sqlite3": ["sqlite3", ":memory:", SQL],
    "jq": ["jq", "-n", '[range(500)|{a:.,b:(.|tostring)}]|map(.b)|join(",")|length'],
    "git": ["git", "hash-object", "--stdin-paths"],
    "gcc": ["gcc", "-O2", "-S", "-o", "-", str(support.TARGETS / "demo_leaky.c")],
    "python3": ["/usr/bin/python3", "-c", PYTHON],
}
OPTIONS = (" ", "guard", "front_guard=100", "rear_guard", "backtrace", "backtrace_full backtrace=4", "fill",
           "expand_alloc", "free_track", "verify_pointers", "record_allocs=1000000", "backtrace_sample=4096", ALL)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_works_as_without(name):
    def outcome(env):
        given = "\n".join(str(f) for f in sorted(support.TARGETS.glob("*.c"))) if name == "git" else ""
        with Process(PROGRAMS[name], env, stderr=subprocess.PIPE) as process:
            out, err = process.popen.communicate(given.encode(), timeout=60)
            return process.popen.returncode, out, err

    plain = outcome({})
    assert plain[1], "the program has nothing to tell"
    for options in OPTIONS:
        assert outcome(environment(options)) == plain, options
    status, out, _ = outcome(environment("leak_track"))
    assert (status, out) == plain[:2]


# ---- under memscan ----

@pytest.mark.parametrize("options", ("backtrace verify_pointers", "record_allocs=100000 leak_track"))
def test_its_tables_hold_no_leak(options):
    target = compile_target("leaks")
    with support.Target([target, "chain"], environment(options), stderr=subprocess.DEVNULL) as process:
        report = support.check_scanned(support.scan(process.scan_pid, "--no-fold"))
        missed = process.leaks().keys() - support.addresses(report).keys()
        assert process.leaks() and not missed, f"{len(missed)} of {len(process.leaks())} leaks are held"
