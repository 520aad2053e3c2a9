# SPDX-License-Identifier: Apache-2.0
"""Programs of i386 under the 64-bit memscan: the scenarios, and what must not happen to a target.

The report is that of any other, whether they are cloned or copied.
"""

import json

import pytest

import support
import test_blocked
import test_clone_refusals
import test_kills
import test_spin
import test_targets
import test_timed
from support import COULD_NOT_SCAN, GLIBC, HOST, Process, Target, check_scanned, compile_target, scan

PROGRAMS = test_targets.PROGRAMS
# glibc has strerrorname_np() since 2.32; where it is missing it only words a failure
NAMELESS = {"bullseye": ["-Dstrerrorname_np=strerror"]}


def program(name, suite=HOST, variant="i386", flags=()):
    return compile_target(name, suite, variant, flags=flags)


# What is no scenario of 32 bits.
LEFT_OUT = {
    "sparse": "more address space than there is",
    "terabytes": "more address space than there is",
}
# Any number may be an address, and constants of the C library (random()'s, what the processor can do)
# are in blocks so large or so many in each run, as round numbers are in those that are aligned to 1 MiB.
BY_CHANCE = {"aligned": 2, "big": 1, "grown": 2, "split_mappings": 2, "many_heaps": 3, "many_threads": 30, "sizes": 3}


def scenarios(name, variant):
    try:
        return [scenario for scenario in support.scenarios(name, variant) if scenario not in LEFT_OUT]
    except OSError:
        return []


# Linked by this ld, threads of a static program do not start with sid's C library.
WAYS = [(suite, variant) for suite in GLIBC for variant in support.I386_VARIANTS
        if (suite, variant) != ("sid", "i386-static")]
EVERY = [(suite, variant, name, scenario)
         for suite, variant in WAYS for name in PROGRAMS for scenario in scenarios(name, variant)]


def start(suite, variant, name, scenario, **more):
    env = {"HOLDER_LIBRARY": str(support.holder_library("-m32"))}
    if scenario in test_targets.ENVIRONMENT:
        env["GLIBC_TUNABLES"] = test_targets.ENVIRONMENT[scenario]
    return Target([compile_target(name, suite, variant), scenario], env, **more)


def check(suite, variant, name, scenario, randomized):
    with start(suite, variant, name, scenario, randomized=randomized) as target:
        check_target(target, BY_CHANCE.get(scenario, 0))
        assert target.finish() == 0


def check_target(target, by_chance):
    report = check_scanned(scan(target.scan_pid, "--no-fold", "--snapshot", "fork"))
    assert (report["target"]["arch"], report["target"]["word_size"]) == ("i386", 4)
    # coroutines' stacks, and those of signals, of the only thread
    unfit = any("none of its threads is fit" in warning for warning in report["warnings"])
    assert report["scan"]["source"] == ("copy" if unfit else "fork"), report["warnings"]
    support.check_unfolded(report)
    support.check_truth(report, target, held=by_chance)
    test_targets.check_kinds(report, target)
    test_targets.check_mappings(report, target)
    folded = check_scanned(scan(target.scan_pid, "--snapshot", "copy"))
    assert folded["scan"]["source"] == "copy"
    support.check_folded(folded)
    assert test_targets.lost(folded) == test_targets.lost(report), "scanned twice, different totals"
    if target.blocks("possible", "interior"):
        test_targets.check_possible(target)
    if target.blocks("unaligned"):
        report = check_scanned(scan(target.scan_pid, "--no-fold", "--unaligned"))
        support.check_truth(report, target, unaligned=True)
    support.check_untouched(target.scan_pid)


@pytest.mark.spread
@pytest.mark.parametrize("suite,variant,name,scenario", EVERY,
                         ids=["-".join(parts[:2]) + ":" + "/".join(parts[2:]) for parts in EVERY])
def test_tells_exactly_the_lost_blocks(suite, variant, name, scenario):
    support.not_by_chance(check, suite, variant, name, scenario)


# ---- a target is not harmed ----

@pytest.mark.parametrize("suite,variant", [(HOST, "i386"), (HOST, "i386-static"), ("bullseye", "i386"), ("sid", "i386")])
@pytest.mark.parametrize("snapshot", test_kills.EACH_SNAPSHOT)
def test_no_sleeping_call_sees_eintr(suite, variant, snapshot, notes):
    scans = test_blocked.SCANS if suite == HOST else max(10, test_blocked.SCANS // 10)
    blocked = program("blocked", suite, variant, NAMELESS.get(suite, ()))
    test_blocked.check_no_call_returns(notes, f"{suite} {variant} {snapshot}", blocked, scans, "--snapshot", snapshot)


def test_signals_in_flight_arrive():
    test_blocked.check_signals_arrive(program("signals"))


@pytest.mark.alone
def test_every_call_ends_in_time(notes):
    """But those of sockets, which a 32-bit program begins anew with each scan: here that ends them late."""
    seconds = 1.6 * test_timed.ASKED_MS / 1000
    with Process([program("timed"), test_timed.ASKED_MS]) as timed:
        assert timed.line() == "READY"
        test_timed.scan_until_over([(timed, ())], 0.2)
        took = test_timed.outcome(timed)
    notes.append("timed i386: " + ", ".join(f"{name} {ms}" for name, (ms, _) in took.items()))
    test_timed.check(took, test_timed.LATE_MS, 1000 * (seconds + 1), 2 * test_timed.LATE_MS)


@pytest.mark.alone
@pytest.mark.parametrize("variant", support.I386_VARIANTS)
@pytest.mark.parametrize("threads,size", [(1, 10_000), (4, 400)])
@pytest.mark.parametrize("snapshot", test_kills.EACH_SNAPSHOT)
def test_nothing_live_is_told_under_allocation(variant, threads, size, snapshot, notes):
    test_spin.check_spin(notes, f"{variant} ({snapshot}), {threads} threads, up to {size} bytes",
                         program("spin", HOST, variant), threads, size, test_spin.SCANS, "--snapshot", snapshot)


@pytest.mark.alone
@pytest.mark.parametrize("snapshot", test_kills.EACH_SNAPSHOT)
@pytest.mark.parametrize("role", [test_kills.ORIGINAL, test_kills.COLLECTION, test_kills.SWEEPER])
def test_killed_at_random(snapshot, role, notes):
    many = test_kills.Round(snapshot, role, variant="i386")
    many.run(test_kills.KILLS)
    notes.append(f"i386: {many}")


@pytest.mark.parametrize("mode", [("quiet",), ("quiet", 3), ()], ids=["1 thread", "3 threads", "busy"])
def test_killed_at_each_call(mode, notes):
    test_kills.check_killed_at_each_call(test_kills.Round("fork", test_kills.COLLECTION, mode, "i386"), notes)


# ---- it is cloned where it can be ----

@test_clone_refusals.ROOT_ONLY
@pytest.mark.parametrize("action", ["kill_process", "trap", "errno", "trace"])
def test_filter_that_answers_clone(action):
    with test_clone_refusals.start(f"clone_{action}", "i386") as target:
        test_clone_refusals.check_copied(target, f"seccomp filter answers clone with {action.upper()}")


@test_clone_refusals.ROOT_ONLY
def test_filter_that_lets_clone_through():
    with test_clone_refusals.start("clone_allow", "i386") as target:
        test_clone_refusals.check_cloned(target)


@test_clone_refusals.ROOT_ONLY
@pytest.mark.parametrize("call", ["prctl", "wait4", "exit", "close_range", "rt_sigreturn"])
def test_filter_that_kills_for_another_call_of_ours(call):
    test_clone_refusals.check_killed_for(call, "i386")


@pytest.mark.parametrize("variant", support.I386_VARIANTS)
def test_is_cloned(variant):
    with test_clone_refusals.start("plain", variant) as target:
        test_clone_refusals.check_cloned(target)


# ---- what a libmalloc_debug of 32 bits keeps ----

def debugged(name, options, *args):
    library = support.BUILD / "32" / "libmalloc_debug.so"
    if not library.exists():
        pytest.skip(f"{library} is not built")
    return Target([program(name), *args], {"LD_PRELOAD": str(library), "LIBC_DEBUG_MALLOC_OPTIONS": options})


def check_registry(report):
    found = [line.split() for heap in report["heaps"] for line in heap["evidence"] if "registry 1:" in line]
    assert len(found) == 1 and found[0][3] == found[0][5], report["heaps"]
    assert not any("malloc_debug" in warning for warning in report["warnings"]), report["warnings"]


def test_leaks_have_their_stacks():
    with debugged("demo_leaky", "backtrace") as target:
        report = check_scanned(scan(target.scan_pid))
    check_registry(report)
    told = [[frame.get("function") for frame in leak.get("backtrace", ())] for leak in report["leaks"]]
    assert told and all(stack[-1] == "_start" and "main" in stack and "serve" in stack for stack in told), told
    assert {"session_open", "journal_add", "load_and_unload_users"} == {stack[0] for stack in told}, told


def test_leaks_are_as_large_as_was_asked_for():
    with debugged("asked", "guard free_track fill_on_free=8", "freed") as target:
        report = check_scanned(scan(target.scan_pid, "--no-fold"))
        check_registry(report)
        support.check_truth(report, target, held=BY_CHANCE["sizes"])
        assert any("50 blocks kept after free()" in line for heap in report["heaps"] for line in heap["evidence"])
        assert target.finish() == 0


# ---- what is refused, and said ----

@pytest.mark.parametrize("command", ["attach", "detach"])
def test_commands_for_64_bit_programs_refuse(command):
    with Process([support.compile_32_bit()]) as target:
        assert target.line() == "READY"
        done = support.memscan(command, target.pid)
        assert done.status == COULD_NOT_SCAN and "32-bit process (i386)" in done.stderr, str(done)
        assert len(done.stderr.splitlines()) == 2, str(done)
        support.check_untouched(target.pid)
        assert target.finish() == 0


def test_a_program_is_scanned_at_its_end():
    program = support.compile_32_bit()
    report = support.memscan("run", "-q", "--json", "-o", "/dev/stderr", "--", program)
    assert report.status == 0, str(report)
    told = json.loads(report.stderr)
    assert told["target"]["arch"] == "i386" and told["totals"]["leaked_allocations"] > 0, told
