# SPDX-License-Identifier: Apache-2.0
"""Programs under a preloaded malloc_debug, scanned from outside.

Whatever malloc_debug does to blocks, the leaks told are the program's own, where the
program has them and as long as it asked for, and nothing besides. tests/targets/asked
tells sizes as asked for; other targets tell what they may use.
"""

import os
import subprocess

import pytest

import support
from shim_support import environment, needs_library
from support import Process, Target, addresses, check_scanned, compile_target, scan
from test_api import cases, program
from test_spin import is_said_doubt
from test_targets import ENVIRONMENT

ALL = ("backtrace", "backtrace guard", "leak_track", "free_track fill_on_free=8",
       "guard free_track fill_on_free=8 backtrace", "rear_guard=16 verify_pointers", "front_guard=100 backtrace",
       "backtrace expand_alloc=100 record_allocs")
SAMPLED = "backtrace_sample=300"
SCANS = int(os.environ.get("SCANS") or 8)

pytestmark = needs_library


def start(options, name, scenario):
    env = environment(options, HOLDER_LIBRARY=str(support.holder_library()))
    if scenario in ENVIRONMENT:
        env["GLIBC_TUNABLES"] = ENVIRONMENT[scenario]
    return Target([compile_target(name), scenario], env)


def evidence(report):
    found = [line for heap in report["heaps"] for line in heap["evidence"] if line.startswith("malloc_debug registry 1:")]
    assert len(found) == 1, report["heaps"]
    return found[0]


def check_registry(report):
    """The registry was found, every entry is a live block, and nothing is to be warned of."""
    words = evidence(report).split()
    assert words[3] == words[5], words
    assert not [warning for warning in report["warnings"] if "malloc_debug" in warning], report["warnings"]


def check_exact(target, *args):
    report = check_scanned(scan(target.scan_pid, "--no-fold", *args))
    check_registry(report)
    support.check_unfolded(report)
    support.check_truth(report, target)
    assert not report.get("unreachable_mappings") or target.blocks("mapping"), report["unreachable_mappings"][:4]
    return report


@pytest.mark.parametrize("options", ALL)
@pytest.mark.parametrize("scenario", ("shapes", "freed"))
def test_tells_sizes_as_asked_for(options, scenario):
    with start(options, "asked", scenario) as target:
        reports = [check_exact(target, "--snapshot", how, *more) for how in ("fork", "copy")
                   for more in ((), ("--possible",))]
        assert reports[0]["totals"] == reports[2]["totals"]
        assert f"{50 if scenario == 'freed' else 0} blocks kept" in evidence(reports[0]) \
            or scenario == "shapes" or "free_track" not in options
        assert target.finish() == 0


def test_freed_blocks_are_gone_and_what_they_hold_is_lost():
    with start("free_track fill_on_free=8", "asked", "freed") as target:
        report = check_exact(target)
        assert evidence(report).endswith("50 blocks kept after free()")


@pytest.mark.parametrize("options", ("backtrace", "front_guard", SAMPLED))
def test_what_is_behind_the_size_may_be_used(options):
    """Without guards behind, a program may use what malloc_usable_size() says."""
    with start(options, "asked", "slack") as target:
        report = check_scanned(scan(target.scan_pid, "--no-fold"))
        assert addresses(report).keys() == target.leaks().keys()


@pytest.mark.parametrize("options", ("backtrace", "leak_track", "backtrace_sample=1"))
@pytest.mark.parametrize("how", ("fork", "copy"))
def test_what_is_behind_the_size_keeps_nothing_alive(options, how):
    """Unless the program asked malloc_usable_size() whether it may use that."""
    with start(options, "asked", "residual") as target:
        for more in ((), ("--possible",), ("--unaligned",)):
            report = check_scanned(scan(target.scan_pid, "--no-fold", "--snapshot", how, *more))
            assert addresses(report) == target.leaks()
        assert target.finish() == 0


def usable(size):
    return max(24, (size + 8 + 15) // 16 * 16 - 8)


def test_sampled_blocks_alone_have_exact_sizes():
    with start(SAMPLED, "asked", "threads") as target:
        report = check_scanned(scan(target.scan_pid, "--no-fold"))
        assert "sampled entries" in evidence(report)
        told, truth = addresses(report), target.leaks()
        assert told.keys() == truth.keys()
        assert all(told[a] in (truth[a], usable(truth[a])) for a in told)


@pytest.mark.parametrize("options", ("backtrace", "backtrace guard free_track fill_on_free=8", SAMPLED))
def test_threads_that_never_rest_lose_nothing(options, notes):
    doubted = 0
    with start(options, "asked", "threads") as target:
        for nth in range(SCANS):
            done = scan(target.scan_pid, "--no-fold", "--snapshot", ("fork", "copy")[nth % 2])
            # on a busy machine the time to lead a thread out of malloc can be over too soon
            if doubted < max(2, SCANS // 8) and is_said_doubt(done):
                doubted += 1
                continue
            report = check_scanned(done)
            evidence(report)
            assert addresses(report).keys() == target.leaks().keys(), f"scan {nth}"
            assert options == SAMPLED or addresses(report) == target.leaks()
    notes.append(f"{SCANS - doubted} of {SCANS} scans of threads that allocate under {options!r}: exactly the {len(target.leaks())} leaks")


@pytest.mark.parametrize("options", ("backtrace", "leak_track guard free_track"))
@pytest.mark.parametrize("name,scenario", [(name, scenario) for name in ("leaks", "heap_shapes", "roots")
                                           for scenario in support.scenarios(name)])
def test_tells_exactly_the_lost_blocks(options, name, scenario):
    with start(options, name, scenario) as target:
        report = check_scanned(scan(target.scan_pid, "--no-fold"))
        check_registry(report)
        told, truth = addresses(report), target.leaks()
        assert told.keys() == truth.keys()
        assert all(told[a] <= truth[a] for a in told), "told larger than malloc_usable_size() says"


# ---- programs that lose nothing ----

OPTIONS = ("backtrace", "leak_track", "record_allocs", "free_track", "guard", SAMPLED, "verify_pointers fill")
CLEAN = {
    "c": lambda: [str(compile_target("leaks")), "none"],
    "cat": lambda: ["cat"],
    "bash": lambda: ["bash", "--norc", "-c", "for i in {1..300}; do a[$i]=text$i; done; echo READY; read"],
    "python": lambda: ["/usr/bin/python3", "-I", "-c",
                       "table = {i: str(i) for i in range(3000)}\nprint('READY', flush=True)\ninput()"],
}


def lost(argv, env):
    with Process(argv, env, stderr=subprocess.DEVNULL) as process:
        if argv[0] == "cat":
            assert process.ask("READY\n") == "READY"
        else:
            assert process.line() == "READY"
        report = check_scanned(scan(process.pid, "--no-fold"))
        return len(report["leaks"]), report


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("program", CLEAN)
def test_malloc_debug_itself_loses_nothing(program, options):
    argv = CLEAN[program]()
    alone, _ = lost(argv, {})
    n, report = lost(argv, environment(options))
    check_registry(report)
    assert n <= alone, [leak for leak in report["leaks"]]


# ---- from inside ----

@pytest.mark.parametrize("case", cases("c_api", "shared"))
def test_programs_search_themselves_as_without(case):
    with Process([program("c_api", "shared"), case], environment("guard free_track"), stdin=subprocess.DEVNULL,
                 stderr=subprocess.PIPE) as process:
        out, err = (text.decode(errors="replace") for text in process.popen.communicate(timeout=120))
        assert (process.popen.returncode, out) == (0, "ok\n"), err[-2000:]
