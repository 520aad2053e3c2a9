#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""guest.py ROUNDS RESULTS [NAME...]: what check.py has every kernel do, run there by itself; NAMEs choose.

Writes a line of JSON to RESULTS for each check: its name, whether it passed (null: skipped), what it found.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import attach_support  # noqa: E402
import support  # noqa: E402
from support import BUILD, MEMSCAN, Process, Target, check_scanned, check_truth, compile_hostile, compile_target, memscan  # noqa: E402

LIMIT_S = 300  # an emulator gets little of a processor
SLEEPER_SCANS = 20
MANY = 3000  # descriptors
API_CASES = [("c_api", case) for case in ("clean", "global_reference", "thread_specific", "many_and_limit", "cycle")]
API_CASES += [("android_api", case) for case in ("twice", "leak_lots", "referenced")]
WORDS = {True: "ok  ", None: "skip", False: "FAIL"}
HAS_DISPATCH = (5, 11)
HAS_DISPATCH_QUESTION = (6, 4)

release = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))
checks = []


def check(function):
    checks.append(function)
    return function


def scan(pid, *args, how=None):
    snapshot = ["--snapshot", how] if how else []
    return check_scanned(memscan("--pid", pid, "--json", "--limit", "all", "--no-fold", "--no-merge", *snapshot, *args,
                                 timeout=LIMIT_S))


def expect_source(report, source):
    assert report["scan"]["source"] == source, f"{report['scan']['source']}: {report['warnings']}"


def totals(report):
    return f"{report['totals']['leaked_bytes']} B in {report['totals']['leaked_allocations']}"


def built(name):
    return BUILD / "targets" / name


def demo(**env):
    """It does not tell its leaks; how many there are is known."""
    process = Process([built("demo_leaky"), "600"], env)  # an emulator is slow
    while process.line(LIMIT_S) != "READY":
        pass
    return process


def expect_demo(report):
    assert totals(report) == "156976 B in 162", totals(report)


def by_each_way(target):
    said = []
    for how in ("auto", "copy", "fork"):
        report = scan(target.scan_pid, how=how)
        check_truth(report, target)
        if how != "auto":
            expect_source(report, how)
        said.append(totals(report))
    assert target.running()
    return ", ".join(sorted(set(said)))


@check
def demo_scanned():
    with demo() as target:
        for how in ("auto", "copy", "fork"):
            report = scan(target.pid, how=how)
            expect_demo(report)
            assert how == "auto" or report["scan"]["source"] == how, report["warnings"]
        return totals(report)


@check
def heap_of_200_mb():
    with Target([support.compile_special(ROOT / "tests/kernels/large.c", f"-I{support.TARGETS}")]) as target:
        report = scan(target.pid)
        check_truth(report, target)
        expect_source(report, "fork")
        return f"{totals(report)}, pause {report['scan']['pause_ns'] / 1e6:.0f} ms"


@check
def static_glibc():
    with Target([built("leaks-static"), "chain"]) as target:
        return by_each_way(target)


@check
def musl():
    with Target([compile_target("leaks", tag="-musl", libc_flags=support.musl_flags), "chain"]) as target:
        return by_each_way(target)


@check
def program_of_32_bits():
    with Target([compile_target("leaks", variant="i386"), "chain"]) as target:
        return by_each_way(target)


@check
def many_descriptors():
    """Closed one by one before 5.9."""
    with Process([compile_hostile("descriptors.c", "-pthread"), MANY, 10, 10]) as target:
        assert target.line(LIMIT_S) == "READY"
        report = scan(target.pid, how="fork")
        expect_source(report, "fork")
        assert target.finish(LIMIT_S) == 0
        return f"pause {report['scan']['pause_ns'] / 1e6:.0f} ms"


@check
def sleepers():
    with Process([built("blocked")]) as blocked:
        assert blocked.line(LIMIT_S) == "READY"
        threads = support.threads_of(blocked.pid)
        for i in range(SLEEPER_SCANS):
            scan(blocked.pid, how=("auto", "fork", "copy")[i % 3])
        assert support.threads_of(blocked.pid) == threads
        support.check_untouched(blocked.pid)
        said = blocked.ask("stop\n", LIMIT_S)
        assert said == "eintr 0", said
        assert blocked.popen.wait(LIMIT_S) == 0
        return f"{len(threads)} threads, {SLEEPER_SCANS} scans, {said}"


def run(*args):
    return subprocess.run([MEMSCAN, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=LIMIT_S)


@check
def command_run():
    with tempfile.TemporaryDirectory() as folder:
        done = run("run", "--json", "--limit", "all", "--no-fold", "-o", f"{folder}/report", built("demo_leaky"))
        assert done.returncode == 0, done.stderr
        report = support.read_report(pathlib.Path(f"{folder}/report").read_text())
        assert report["totals"]["leaked_allocations"] > 100, totals(report)
        done = run("run", "-q", "--json", "--follow", "-o", f"{folder}/%p-followed", "--", "sh", "-c",
                   f"{built('demo_leaky')} < /dev/null; exit 3")
        assert done.returncode == 3, done.stderr
        followed = list(pathlib.Path(folder).glob("*-followed"))
        assert len(followed) == 2, followed
        return f"{totals(report)}; {len(followed)} followed"


@check
def command_stacks():
    with demo() as target:
        done = memscan("stacks", target.pid, timeout=LIMIT_S)
        assert done.status == 0 and "main" in done.stdout, str(done)
        return f"{done.stdout.count(' pc ')} frames"


@check
def commands_why_and_retained():
    with demo() as target:
        leak = scan(target.pid)["leaks"][0]
        done = memscan("why", "--pid", target.pid, leak["address"], timeout=LIMIT_S)
        assert done.status in (0, 1) and done.stdout, str(done)
        done = memscan("retained", "--pid", target.pid, "--json", timeout=LIMIT_S)
        assert done.status == 0, str(done)
        return f"{support.read_answer(done.stdout)['totals']['reachable']['bytes']} B reachable"


@check
def commands_dump_and_core():
    with tempfile.TemporaryDirectory() as folder, demo() as target:
        done = memscan("dump", target.pid, "-o", f"{folder}/core", timeout=LIMIT_S)
        assert done.status == 0, str(done)
        report = check_scanned(memscan("core", "--json", "--limit", "all", "--no-fold", f"{folder}/core", timeout=LIMIT_S))
        expect_demo(report)
        return totals(report)


@check
def command_attach():
    with demo() as target:
        for _ in range(5):
            done = memscan("attach", target.pid, timeout=LIMIT_S)
            assert done.status == attach_support.ATTACHED, str(done)
            expect_demo(scan(target.pid))
            done = memscan("detach", target.pid, timeout=LIMIT_S)
            assert done.status == 0, str(done)
        assert not attach_support.agents_of(target.pid) and target.finish(LIMIT_S) == 0
        return "5 times"


@check
def programs_that_search_themselves():
    for name, case in API_CASES:
        done = subprocess.run([BUILD / "api" / name, case], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=LIMIT_S)
        assert (done.returncode, done.stdout) == (0, "ok\n"), f"{name} {case}: {done}"
    return f"{len(API_CASES)} cases"


def reap_adopted():
    for pid in support.own_children():
        if pid not in support.our_children and support.state_of(pid) == "Z":
            os.waitpid(pid, 0)


@check
def command_trigger():
    library = BUILD / "libmemunreachable.so"
    with tempfile.TemporaryDirectory() as folder:
        env = {"MEMUNREACHABLE_FOLDER": folder, "LD_PRELOAD": str(library)}
        with Target([compile_target("triggered"), "idle"], env) as target:
            done = run("trigger", target.pid)
            assert done.returncode in (0, 1), str(done)
            # the process beside was an orphan, and this one adopts orphans
            support.wait_until(lambda: reap_adopted() or support.own_children() == [target.pid], LIMIT_S, "adopted orphans")
            assert all(f"{size} bytes unreachable at {address:x}" in done.stdout for address, size in target.leaks().items()), str(done)
            assert target.finish(LIMIT_S) == 0
        return f"{len(target.leaks())} leaks"


@check
def malloc_debug():
    with demo(LD_PRELOAD=str(BUILD / "libmalloc_debug.so"), LIBC_DEBUG_MALLOC_OPTIONS="backtrace") as target:
        report = scan(target.pid)
        known = [leak for leak in report["leaks"] if "main" in [frame.get("function") for frame in leak.get("backtrace", ())]]
        assert report["leaks"] and len(known) == len(report["leaks"]), f"{len(known)} of {len(report['leaks'])} come from main"
        return f"{len(known)} leaks with backtraces"


# ---- what a kernel may not say ----

def unharmed(target, rounds, refused):
    """Scanned by a clone where that can be, and attached, so often; why memory was copied, or "cloned"."""
    said = set()
    for _ in range(rounds):
        report = scan(target.pid, how="fork")
        warned = " ".join(report["warnings"])
        said.add("cloned" if report["scan"]["source"] == "fork" else next((word for word in refused if word in warned), warned))
        assert target.running(), f"it ended with {target.popen.wait()} behind a scan: {warned}"
    for _ in range(rounds):
        done = memscan("attach", target.pid, timeout=LIMIT_S)
        assert target.running(), f"it ended with {target.popen.wait()} behind attach: {done}"
        if done.status == attach_support.ATTACHED:
            said.add("attached")
            done = memscan("detach", target.pid, timeout=LIMIT_S)
            assert done.status == 0 and target.running(), str(done)
        else:
            assert any(word in done.stderr for word in refused), str(done)
    return said


def refuse(scenario):
    return Target([compile_target("refuse"), scenario])


def dispatched(scenario, why, rounds):
    if release < HAS_DISPATCH:
        return "no such calls here"
    with refuse(scenario) as target:
        said = unharmed(target, rounds, (why,))
        assert said == {why}, said
        assert target.finish(LIMIT_S) == 0
        return f"unharmed by {rounds} scans and attaches: {why}"


@check
def dispatched_calls():
    return dispatched("dispatched", "dispatched by itself", rounds)


@check
def dispatched_calls_with_a_handler():
    why = "dispatched by itself" if release >= HAS_DISPATCH_QUESTION else "handles SIGSYS"
    return dispatched("dispatched_handled", why, max(1, rounds // 5))


@check
def sigsys_handled():
    """Copied only where it might be for dispatched calls."""
    unknown = HAS_DISPATCH <= release < HAS_DISPATCH_QUESTION
    with refuse("handles_sigsys") as target:
        report = scan(target.pid, how="fork")
        expect_source(report, "copy" if unknown else "fork")
        assert target.finish(LIMIT_S) == 0
        return report["scan"]["source"]


@check
def restartable_sequences():
    with Process([compile_hostile("sequences.c")]) as target:
        assert target.line(LIMIT_S) == "READY"
        said = unharmed(target, rounds, ("computing",))
        target.popen.stdin.close()
        line = target.line(LIMIT_S)
        done, aborted, broken = map(int, re.fullmatch(r"sequences (\d+) aborted (\d+) broken (\d+)", line).groups())
        assert done and aborted and not broken, line
        return f"{line}; {', '.join(sorted(said))}"


rounds = int(sys.argv[1])


def main():
    with open(sys.argv[2], "a", encoding="utf-8") as results:
        for function in checks:
            if sys.argv[3:] and function.__name__ not in sys.argv[3:]:
                continue
            began = time.monotonic()
            try:
                passed, said = True, function()
            except pytest.skip.Exception as error:
                passed, said = None, f"skipped: {error}"
            except Exception as error:  # pylint: disable=broad-except
                passed, said = False, f"{type(error).__name__}: {error}"
            seconds = time.monotonic() - began
            results.write(json.dumps({"name": function.__name__, "passed": passed, "said": said, "seconds": seconds}) + "\n")
            results.flush()
            print(f"{WORDS[passed]} {function.__name__} ({seconds:.0f} s): {said}", flush=True)


if __name__ == "__main__":
    main()
