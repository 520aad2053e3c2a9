# SPDX-License-Identifier: Apache-2.0
"""libmalloc_debug.so, preloaded: planted bugs told as documented, programs at work as without.

Here what is wrong with a block and what the functions answer; options, files, and blocks' lives
have files of their own.
"""

import pathlib
import re
import signal
import subprocess

import pytest

import support
from shim_support import ALL, DIGITS, DIVIDER, FRAME, NARROW, block, debugged, environment, needs_library, not_for_32_bits, program, run
from support import Process

pytestmark = needs_library


# ---- planted bugs ----

USABLE = 108 if NARROW else 104  # of a block of 100 bytes

FAILED_IN = lambda *functions: ["Backtrace at time of failure:", *(f"#{f}" for f in functions), "#main"]
FREED_IN = lambda *functions: ["Backtrace of original free:", *(f"#{f}" for f in functions), "#main"]

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
    # the filter of sizes is for these stacks, too
    ("double_free", f"free_track bt_min_sz={USABLE}", block(
        "+++ ALLOCATION P UNKNOWN POINTER (free)", *FREED_IN("release", "double_free"),
        *FAILED_IN("release", "double_free"))),
    ("double_free", f"free_track bt_min_sz={USABLE + 1}", block(
        "+++ ALLOCATION P UNKNOWN POINTER (free)", *FAILED_IN("release", "double_free"))),
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
    ("size_of_wild", "verify_pointers", block(
        "+++ ALLOCATION P UNKNOWN POINTER (malloc_usable_size)", *FAILED_IN("size_of_wild"))),
    ("realloc_wild", "guard", block(
        "+++ ALLOCATION P HAS INVALID TAG 12345678 (realloc)", *FAILED_IN("realloc_wild"))),
    ("write_around", "guard", [*block(
        "+++ ALLOCATION P SIZE 100 HAS A CORRUPTED FRONT GUARD", "  allocation[-1] = 0x01 (expected 0xaa)",
        *FAILED_IN("release", "write_around")), *block(
        "+++ ALLOCATION P SIZE 100 HAS A CORRUPTED REAR GUARD", "  allocation[100] = 0x02 (expected 0xbb)",
        *FAILED_IN("release", "write_around"))]),
    ("realloc_to_nothing", "guard", block(
        "+++ ALLOCATION P SIZE 100 HAS A CORRUPTED REAR GUARD", "  allocation[101] = 0x41 (expected 0xbb)",
        *FAILED_IN("realloc_to_nothing"))),
    # what was written behind the larger block is inside no guard any more
    ("shrink", "guard", block(
        "+++ ALLOCATION P SIZE 50 HAS A CORRUPTED REAR GUARD", "  allocation[50] = 0x42 (expected 0xbb)",
        *FAILED_IN("release", "shrink"))),
    # Android has a whole report for each 512 KiB in which something is wrong
    ("use_large_after_free", "free_track", block(
        "+++ ALLOCATION P USED AFTER FREE", "  allocation[20] = 0x01 (expected 0xef)",
        "  allocation[2000000] = 0x02 (expected 0xef)", "Backtrace at time of free:", "#release",
        "#use_large_after_free", "#main")),
    ("use_two_after_free", "free_track=1 free_track_backtrace_num_frames=0", [*block(
        "+++ ALLOCATION P USED AFTER FREE", "  allocation[1] = 0x11 (expected 0xef)"), *block(
        "+++ ALLOCATION Q USED AFTER FREE", "  allocation[2] = 0x12 (expected 0xef)")]),
    ("leak_moved", "leak_track backtrace", [
        "+++ debugged leaked block of size 5000 at P (leak 1 of 1)", "Backtrace at time of allocation:",
        "#move_leak", "#leak_moved", "#main"]),
    ("leak_moved", "leak_track guard expand_alloc backtrace", [
        "+++ debugged leaked block of size 5000 at P (leak 1 of 1)", "Backtrace at time of allocation:",
        "#move_leak", "#leak_moved", "#main"]),
    ("leak_moved", "leak_track expand_alloc", ["+++ debugged leaked block of size 5000 at P (leak 1 of 1)"]),
    ("leak_of_nothing", "leak_track", ["+++ debugged leaked block of size 1 at P (leak 1 of 1)"]),
    ("leaks_in_order", "leak_track backtrace bt_max_sz=1000", [
        "+++ debugged leaked block of size 5000 at Q (leak 1 of 4)",
        "+++ debugged leaked block of size 300 at P (leak 2 of 4)", "Backtrace at time of allocation:",
        "#allocate", "#leaks_in_order", "#main",
        "+++ debugged leaked block of size 300 at R (leak 3 of 4)", "Backtrace at time of allocation:",
        "#leaks_in_order", "#main",
        "+++ debugged leaked block of size 15 at S (leak 4 of 4)", "Backtrace at time of allocation:",
        "#leaks_in_order", "#main"]),
    ("leaks_in_order", "leak_track backtrace bt_sz=15", [
        "+++ debugged leaked block of size 5000 at Q (leak 1 of 4)",
        "+++ debugged leaked block of size 300 at P (leak 2 of 4)",
        "+++ debugged leaked block of size 300 at R (leak 3 of 4)",
        "+++ debugged leaked block of size 15 at S (leak 4 of 4)", "Backtrace at time of allocation:",
        "#leaks_in_order", "#main"]),
    ("leaves_at_once", "leak_track free_track", []),
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


@pytest.mark.parametrize("name, options, function", (
    ("write_before", "guard", "write_before"), ("write_after", "guard", "write_after"),
    ("use_after_free", "free_track", "use_after_free"), ("double_free", "guard free_track", "double_free"),
    ("double_free", "verify_pointers free_track", "double_free"), ("wild_free", "verify_pointers", "wild_free"),
    ("realloc_freed", "guard free_track", "realloc_freed"), ("leak", "leak_track backtrace", "allocate_leak"),
    ("leak", "leak_track backtrace guard", "allocate_leak"),
))
def test_report_names_the_planted_line(name, options, function):
    pcs = [FRAME.match(line)[2] for line in run(name, options).log if f"({function}+" in line]
    lines = subprocess.run(["addr2line", "-e", debugged(), *pcs], stdout=subprocess.PIPE, text=True, check=True).stdout
    source = pathlib.Path(support.TARGETS, "debugged.c").read_text().splitlines()
    planted = [n for n, line in enumerate(source, 1) if line.endswith(f"/* told: {function} */")]
    assert planted and [int(line.split(":")[1].split()[0]) for line in lines.splitlines()] == planted


@pytest.mark.parametrize("name", ("write_after", "double_free", "use_after_free"))
def test_aborts_on_error(name):
    done = run(name, "guard free_track abort_on_error")
    assert done.status == -signal.SIGABRT and done.log[-1] == DIVIDER
    assert run("leak", "leak_track abort_on_error").status == 0


@pytest.mark.parametrize("options, out", (("free_track=1", 2), ("free_track=100", 3)))
def test_freed_block_is_checked_when_it_leaves_the_list(options, out):
    done = run("use_two_after_free", f"{options} abort_on_error")
    assert done.status == -signal.SIGABRT and len(done.out) == out, done.out


def test_full_backtrace_has_its_own_form():
    done = run("leak", "leak_track backtrace=2 backtrace_full")
    assert re.fullmatch(rf" {{10}}#0  pc [0-9a-f]{{{DIGITS}}}  \S+/debugged \(allocate_leak\+\d+\)", done.log[2]), done.log
    assert re.fullmatch(rf" {{10}}#1  pc [0-9a-f]{{{DIGITS}}}  \S+/debugged \(leak\+\d+\)", done.log[3])


# ---- fills and sizes ----

PLAIN = 44 if NARROW else 40  # usable of a block of 40 bytes

@pytest.mark.parametrize("options, expected", (
    ("fill", f"eb eb 00 {PLAIN}"), ("fill_on_alloc=39", f"eb 00 00 {PLAIN}"), ("fill_on_free", f"00 00 00 {PLAIN}"),
    ("guard fill", "eb eb 00 40"), ("expand_alloc=24 fill", f"eb eb 00 {PLAIN + 32}"), ("expand_alloc guard", "00 00 00 40"),
))
def test_fills_and_sizes(options, expected):
    assert run("bytes", options).out[0] == expected


@pytest.mark.parametrize("options", ("fill", "fill guard", "fill expand_alloc", "fill_on_alloc verify_pointers", "fill front_guard"))
def test_resized_block_keeps_its_bytes_and_fills_the_rest(options):
    assert run("grown_bytes", options).out[0] == "11 11 eb eb"


# ---- the public functions, forks, threads ----

def test_public_functions():
    done = run("api", "guard backtrace=4")
    assert done.out == [
        "info 1 1 4", "record 1 1", "record 1 1", "frames 2 1 0", "iterate 0 1", "dump 1 1 0", done.out[6],
        "mallopt 1 0 1", "mallinfo 1", "aligned 1 1 1", "done"]
    assert re.fullmatch(r'<malloc version="debug-malloc-1"><allocation nr="0"><size>77777</size><total>2</total>'
                        r'</allocation>(<allocation nr="\d+"><size>\d+</size><total>\d+</total></allocation>)*</malloc>',
                        done.out[6])
    assert done.log == ["get_malloc_leak_info: At least one invalid parameter."] * 5 + [
        "Dumping to file: /dev/null", "", "Unable to create file: /nowhere/heap"]
    # no stack for these: one record of zeros
    assert run("api", "backtrace=4 bt_max_sz=77776").out[:3] == ["info 1 1 4", "record 2 0", "frames 0 0 0"]
    assert run("api", "guard").log[5] == ("get_malloc_leak_info: Allocations not being tracked, to enable set the "
                                          "option 'backtrace'.")


@pytest.mark.parametrize("options", (" ", "fill"))
def test_public_functions_without_a_table(options):
    done = run("untracked", options)
    assert done.out[:4] == ["iterate -1 1", "dump 0 0", "stats 1", '<malloc version="1">'], done.out
    assert len(done.log) == 1 and "in use" in done.log[0]


NO_DUMP = ["Native heap dump not available. To enable, run these commands (requires root):", "# adb shell stop",
           "# adb shell setprop libc.debug.malloc.options backtrace", "# adb shell start"]


@pytest.mark.parametrize("options, more, expected", (
    ("backtrace=4", {}, ["6 1 0: 1 4", "7 1 0", "5 1 0", "Android Native Heap Dump v1.2", "", "P", ""]),
    ("bt_en_on_sig=4", {}, ["6 1 0: 0 0", "7 1 0", "5 1 0", "Android Native Heap Dump v1.2", "", "P", ""]),
    ("guard", {}, ["6 1 0: 0 0", "7 1 0", "5 0 1", *NO_DUMP]),
    (None, {}, ["6 0 1: 1 1", "7 0 1", "5 0 1", *NO_DUMP]),
    (None, {"LIBC_HOOKS_ENABLE": "1"}, ["6 1 0: 0 0", "7 1 0", "5 0 1", *NO_DUMP]),
))
def test_android_mallopt(options, more, expected):
    done = run("mallopts", options, **more)
    refused = ["5 0 1 0 1", "6 0 1 0 1", "7 0 1 0 1", "4 0 1"]
    out = ["P" if line.startswith("Build fingerprint: '") else line for line in done.out]
    assert out == [*refused, *expected, "done"]
    assert done.log == (["get_malloc_leak_info: Allocations not being tracked, to enable set the option 'backtrace'."]
                        if options == "guard" else [])


@pytest.mark.parametrize("options", ("guard backtrace", " ", "backtrace_sample=100000000"))
def test_disable_keeps_others_out(options):
    assert run("disabled", options).out[0] == "disabled 0, then 1"


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


@not_for_32_bits
def test_unreachable_memory_beside_shared_memory():
    with Process([debugged(), "shared_memory"], environment("check_unreachable_on_signal"),
                 stderr=subprocess.PIPE) as target:
        out, err = target.popen.communicate(timeout=60)
    told = [line.removeprefix("libmemunreachable: ") for line in err.decode().splitlines()]
    assert target.popen.returncode == 0 and out == b"done\n", err.decode()
    assert "unreachable memory detection done" in told and told[-1].startswith("0 bytes in 0 allocations"), told


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


@not_for_32_bits
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
    target = program("leaks")
    with support.Target([target, "chain"], environment(options), stderr=subprocess.DEVNULL) as process:
        report = support.check_scanned(support.scan(process.scan_pid, "--no-fold"))
        missed = process.leaks().keys() - support.addresses(report).keys()
        assert process.leaks() and not missed, f"{len(missed)} of {len(process.leaks())} leaks are held"
