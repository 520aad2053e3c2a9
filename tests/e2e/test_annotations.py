# SPDX-License-Identifier: Apache-2.0
"""Programs annotated for LeakSanitizer, linked against libmemunreachable instead.

memscan knows nothing of annotations: what they say must be in what the library
keeps in the scanned process's memory.
"""

import os
import re
import subprocess

import pytest

import support
from support import BUILD, Process, Target, check_scanned, compile_special, compile_target, scan

LIBRARY = BUILD / "libmemunreachable.so"
INCLUDE = support.ROOT / "include"
# before the sources in compile_special(): what nothing is missing for yet would be left out
LINK = ("-Wl,--no-as-needed", f"-L{BUILD}", "-lmemunreachable", f"-Wl,-rpath,{BUILD}")

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not built")


def annotated():
    return compile_target("annotated", libs=LINK, tag="-linked")


def preloadable():
    return compile_target("annotated")


def scenarios():
    done = subprocess.run([preloadable(), "list"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                          text=True, check=True)
    return done.stdout.split()


def check_told(target):
    for how in ("fork", "copy"):
        report = check_scanned(scan(target.scan_pid, "--no-fold", "--possible", "--snapshot", how))
        support.check_truth(report, target)
        reasons = {int(leak["address"], 16): leak.get("reason") for leak in report["leaks"]}
        told = {a for a in support.addresses(report, "possible") if reasons[a] == "mapping"}
        assert told == target.blocks("possible").keys()
    support.check_untouched(target.scan_pid)


# Lines on stderr about wrong calls.
COMPLAINTS = {"unmatched": 2}


@pytest.mark.parametrize("how", ("linked", "preloaded"))
@pytest.mark.parametrize("scenario", scenarios())
def test_tells_what_is_not_annotated(scenario, how):
    argv, env = ([annotated(), scenario], {}) if how == "linked" else (
        [preloadable(), scenario], {"LD_PRELOAD": str(LIBRARY)})
    with Target(argv, env, stderr=subprocess.PIPE) as target:
        check_told(target)
        assert target.finish() == 0
        complaints = target.popen.stderr.read().decode().splitlines()
    assert all(line.startswith("libmemunreachable: ") for line in complaints), complaints
    assert len(complaints) == COMPLAINTS.get(scenario, 0), complaints


# ---- LeakSanitizer's own verdict ----

SOURCES = {"gcc": "lsan_c.c", "g++": "lsan_cxx.cc"}


def sanitized(compiler):
    return compile_special(SOURCES[compiler], "-fsanitize=leak", "-fno-omit-frame-pointer", "-pthread", compiler=compiler, tag="-lsan")


def linked(compiler):
    return compile_special(SOURCES[compiler], "-pthread", *LINK, compiler=compiler, tag="-linked")


def lsan_sizes(program, env=None):
    """The sizes of the leaks that LeakSanitizer tells, each as often as it does."""
    done = subprocess.run([program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env={**os.environ, **(env or {})}, timeout=60)
    told = re.findall(r"leak of (\d+) byte\(s\) in (\d+) object", done.stderr)
    return done.returncode, sorted(int(size) // int(n) for size, n in told for _ in range(int(n)))


def memscan_sizes(process):
    report = check_scanned(scan(process.pid, "--no-fold", "--possible"))
    # what only an unreachable mapping holds is a leak for LeakSanitizer
    return sorted(leak["size"] for leak in report["leaks"] if leak.get("reason") in (None, "mapping"))


@pytest.mark.parametrize("compiler", SOURCES)
def test_agrees_with_leak_sanitizer(compiler):
    status, sizes = lsan_sizes(sanitized(compiler))
    assert status == 23 and sizes
    with Process([linked(compiler)]) as process:
        assert process.line() == "READY"
        assert memscan_sizes(process) == sizes
        assert process.finish() == 0


@pytest.mark.parametrize("compiler", SOURCES)
def test_leaves_a_sanitized_program_its_sanitizer(compiler):
    """Linked with both, and with detect_leaks=1, which asks us for a check at exit too."""
    both = compile_special(SOURCES[compiler], "-fsanitize=leak", "-fno-omit-frame-pointer", "-pthread", *LINK,
                           compiler=compiler, tag="-both")
    assert lsan_sizes(both, {"LSAN_OPTIONS": "detect_leaks=1"}) == lsan_sizes(sanitized(compiler))
    # with this it goes on behind its check, to where ours would be
    done = subprocess.run([both], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "LSAN_OPTIONS": "detect_leaks=1:exitcode=0"}, timeout=60)
    assert done.returncode == 0 and "LeakSanitizer" in done.stderr
    assert not re.search("libmemunreachable:|unreachable allocation", done.stderr)


# ---- checks that a program makes itself ----

AT_EXIT = {"MEMUNREACHABLE_AT_EXIT": "1"}
LEAK_REPORT = re.compile(r"unreachable allocation")


def can_check():
    done = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], stdout=subprocess.PIPE, text=True)
    return " GetUnreachableMemory" in done.stdout


def run_checks(deeds, options="", env=None, flags=()):
    """Status, what it printed in one line, and how many reports it wrote."""
    tag = "-linked" + "".join(re.sub(r"\W", "_", flag) for flag in flags)
    program = compile_special("lsan_checks.c", "-rdynamic", *flags, *LINK, tag=tag)
    clean = {name: value for name, value in os.environ.items() if name not in ("LSAN_OPTIONS", *AT_EXIT)}
    done = subprocess.run([program, deeds], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=60, env={**clean, "LSAN_OPTIONS": options, **(env or {})})
    return done.returncode, " ".join(done.stdout.split()), len(LEAK_REPORT.findall(done.stderr))


# (deeds, LSAN_OPTIONS, more environment, flags, answer)
CHECKS = [
    ("", "", {}, (), (5, "end", 0)),
    ("l", "", {}, (), (5, "l0 end", 0)),
    ("c", "", {}, (), (5, "c0 end", 0)),
    ("lc", "", {}, (), (23, "", 1)),
    ("lc", "exitcode=7", {}, (), (7, "", 1)),
    ("lc", "exitcode=0", {}, (), (5, "l0 c0 end", 1)),
    ("lcc", "exitcode=0", {}, (), (5, "l0 c0 c0 end", 1)),
    ("lc", "detect_leaks=0", {}, (), (5, "l0 c0 end", 0)),
    ("lc", "detect_leaks=1", {}, (), (23, "", 1)),
    ("clc", "", {}, (), (5, "c0 l0 c0 end", 0)),
    ("rlrr", "", {}, (), (5, "r0 l0 r1 r1 end", 2)),
    ("lr", "detect_leaks=0", {}, (), (5, "l0 r0 end", 0)),
    ("lrc", "", {}, (), (23, "", 2)),
    ("l", "detect_leaks=1", {}, (), (23, "l0 end", 1)),
    ("l", "detect_leaks=1:exitcode=0", {}, (), (5, "l0 end", 1)),
    ("l", "detect_leaks=1:leak_check_at_exit=0", {}, (), (5, "l0 end", 0)),
    ("", "detect_leaks=1", {}, (), (5, "end", 0)),
    ("l", "", AT_EXIT, (), (23, "l0 end", 1)),
    ("l", "exitcode=9", AT_EXIT, (), (9, "l0 end", 1)),
    ("", "", AT_EXIT, (), (5, "end", 0)),
    ("cl", "", AT_EXIT, (), (5, "c0 l0 end", 0)),
    ("lr", "", AT_EXIT, (), (23, "l0 r1 end", 2)),
    ("l", "", AT_EXIT, ("-DTURNED_OFF=1",), (5, "l0 end", 0)),
    ("l", "", AT_EXIT, ("-DTURNED_OFF=0",), (23, "l0 end", 1)),
    ("l", "", {}, ('-DDEFAULT_OPTIONS="detect_leaks=1:exitcode=3"',), (3, "l0 end", 1)),
    ("uc", "", {}, (), (23, "", 1)),
    ("uc", "use_unaligned=1", {}, (), (5, "u0 c0 end", 0)),
    ("ur", "use_unaligned=0", {}, (), (5, "u0 r1 end", 1)),
    ("ulr", "use_unaligned=1", {}, (), (5, "u0 l0 r1 end", 1)),
    ("u", "use_unaligned=1", AT_EXIT, (), (5, "u0 end", 0)),
    ("u", "", AT_EXIT, (), (23, "u0 end", 1)),
    ("ur", "", {}, ('-DDEFAULT_OPTIONS="use_unaligned=true"',), (5, "u0 r0 end", 0)),
    ("ur", "use_unaligned=0", {}, ('-DDEFAULT_OPTIONS="use_unaligned=true"',), (5, "u0 r1 end", 1)),
    ("l", "exitcode=4", {}, ('-DDEFAULT_OPTIONS="detect_leaks=1:exitcode=3"',), (4, "l0 end", 1)),
]


@pytest.mark.skipif(not can_check(), reason="the library cannot search yet")
@pytest.mark.parametrize("deeds,options,env,flags,answer", CHECKS)
def test_checks_as_leak_sanitizer_does(deeds, options, env, flags, answer):
    assert run_checks(deeds, options, env, flags) == answer


@pytest.mark.parametrize("lost,says", [((0, 0, 0), "clean"), ((1, 0, 0), "leak"), ((0, 1, 0), "leak"),
                                       ((0, 0, 1), "leak")],
                         ids=["none", "arguments", "results", "detached"])
def test_arguments_and_results_of_threads(lost, says):
    """What a thread returned is not lost as long as it can be joined."""
    program = compile_special("thread_results.c", "-pthread", *LINK)
    done = subprocess.run([program, "10", *map(str, lost)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=300)
    assert (done.returncode, done.stdout) == (0, says + "\n"), done.stderr[-3000:]
