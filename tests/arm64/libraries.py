#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""libraries.py BUILD [NAME...]: both libraries at work in an emulator.

Programs that search themselves by libmemunreachable, shared and archived: each case of
tests/targets/api says "ok" or what is wrong. Programs under libmalloc_debug: what memscan says of
where their leaks were allocated, and what the library says of planted bugs. It is what
tests/e2e/test_api.py, test_backtraces.py and test_malloc_debug.py do, as far as a Python without
packages can; NAMEs choose programs of tests/targets/api.
"""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys

LIMIT_S = 300
FRAME = re.compile(r" {10}#\d\d  pc [0-9a-f]{16}  (\S+)(?: \((.+)\+\d+\))?$")

# Of a program of tests/targets/debugged.c under options: lines of its log, frames of it as #FUNCTION.
PLANTED = (
    ("write_before", "guard", ["HAS A CORRUPTED FRONT GUARD", "allocation[-15] = 0x02 (expected 0xaa)", "#release",
                               "#write_before", "#main"]),
    ("write_after", "guard", ["HAS A CORRUPTED REAR GUARD", "allocation[131] = 0x42 (expected 0xbb)", "#release",
                              "#write_after", "#main"]),
    ("use_after_free", "free_track", ["USED AFTER FREE", "allocation[20] = 0xaf (expected 0xef)",
                                      "Backtrace at time of free:", "#release", "#use_after_free", "#main"]),
    ("double_free", "guard free_track", ["USED AFTER FREE (free)", "Backtrace of original free:", "#release", "#double_free",
                                         "#main", "Backtrace at time of failure:", "#release", "#double_free", "#main"]),
    ("wild_free", "verify_pointers", ["UNKNOWN POINTER (free)", "#release", "#wild_free", "#main"]),
    ("leak", "leak_track backtrace", ["leaked block of size 1024", "#allocate_leak", "#leak", "#main"]),
    ("leak_moved", "leak_track guard expand_alloc backtrace", ["leaked block of size 5000", "#move_leak", "#leak_moved",
                                                               "#main"]),
)


def search_cases(build, chosen):
    """What is wrong with each case of the programs that search themselves, and how many there are."""
    wrong, n = [], 0
    for program in sorted(path for path in (build / "api").iterdir() if not path.suffix and os.access(path, os.X_OK)):
        if chosen and program.name.removesuffix("-archived") not in chosen:
            continue
        for case in subprocess.run([program, "list"], stdout=subprocess.PIPE, text=True, check=True).stdout.split():
            n += 1
            try:
                done = subprocess.run([program, case], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
                said, status, log = done.stdout.strip(), done.returncode, done.stderr.strip()[-300:]
            except subprocess.TimeoutExpired:
                said, status, log = "hangs", None, ""
            if (said, status) != ("ok", 0):
                wrong.append(f"{program.name} {case}: {status} {said!r} {log!r}")
                print(wrong[-1], flush=True)
    return wrong, n


def leaks_with_frames(build, how):
    """What is wrong with memscan's answer to where demo_leaky's leaks were allocated."""
    program = build / "targets/demo_leaky"
    env = {**os.environ, "LD_PRELOAD": str(build / "libmalloc_debug.so"), "LIBC_DEBUG_MALLOC_OPTIONS": "backtrace"}
    target = subprocess.Popen([program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        while "READY" not in (line := target.stdout.readline()):
            if not line:
                return "the program ended"
        done = subprocess.run([build / "memscan", "--pid", str(target.pid), "--json", "--limit", "all", "--no-fold",
                               "--snapshot", how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
    finally:
        target.kill()
    if done.returncode != 1:
        return f"status {done.returncode}: {done.stderr}"
    report = json.loads(done.stdout)
    if not all(heap["verified"] for heap in report["heaps"]):
        return "not verified"
    stacks = collections.Counter(
        tuple(frame.get("function", "?") for frame in leak.get("backtrace", ()) if frame["module"] == str(program))
        for leak in report["leaks"])
    without = [stack for stack in stacks if "main" not in stack]
    print(f"demo_leaky, {how}: {len(report['leaks'])} leaks; " + ", ".join(
        f"{n} of {'<'.join(stack)}" for stack, n in stacks.most_common()), flush=True)
    if without or not stacks:
        return f"stacks that do not come from main: {without}"
    if not any("session_open" in stack for stack in stacks):
        return f"no leak of session_open: {stacks}"
    return None


def planted(build, name, options, expected):
    program = build / "targets/debugged"
    env = {**os.environ, "LD_PRELOAD": str(build / "libmalloc_debug.so"), "LIBC_DEBUG_MALLOC_OPTIONS": options}
    done = subprocess.run([program, name], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
    lines = []
    for line in done.stderr.splitlines():
        frame = FRAME.match(line.removeprefix("malloc_debug: "))
        lines.append(f"#{frame[2]}" if frame and frame[1] == str(program) else line)
    rest = iter(lines)
    missing = [want for want in expected if not any(want == line or (want[0] != "#" and want in line) for line in rest)]
    return f"{missing[0]!r} is not there, or not in order: {done.stderr[-1500:]}" if missing else None


def main():
    build, chosen = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    os.environ["LD_LIBRARY_PATH"] = str(build)  # what the linker was given is a path of another machine
    wrong, n = search_cases(build, chosen)
    print(f"{n - len(wrong)} of {n} cases of programs that search themselves are ok", flush=True)
    failed = len(wrong) + (not n)
    checks = [(f"backtraces, {how}", leaks_with_frames, (how,)) for how in ("fork", "copy")]
    checks += [(f"{name} under {options}", planted, (name, options, expected)) for name, options, expected in PLANTED]
    for what, check, more in checks:
        said = check(build, *more)
        failed += said is not None
        if said:
            print(f"{what}: {said}", flush=True)
    print(f"libmalloc_debug: {len(checks)} checks", flush=True)
    return failed > 0


sys.exit(main())
