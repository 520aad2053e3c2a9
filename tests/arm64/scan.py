#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""scan.py BUILD PROGRAM...: scan each scenario of small programs that know their own leaks.

By a clone and by a copy the report must list exactly the blocks that the program says are
unreachable, with their sizes, of heaps that are verified; and the program must live on. It is what
tests/e2e/test_targets.py does, as far as a Python without packages in an emulator can.
"""

import json
import pathlib
import subprocess
import sys

CANNOT = 3
LIMIT_S = 300  # the emulator may get little of a processor


def truth_of(program):
    """What a program prints until it is ready: which process to scan, its unreachable blocks, their kinds."""
    leaks, kinds, pid = {}, {}, program.pid
    for line in program.stdout:
        words = line.split()
        if words[0] == "READY":
            return pid, leaks, kinds
        if words[0] == "pid":
            pid = int(words[1])
        elif words[0] in ("leak", "leak-direct", "leak-indirect", "unaligned"):
            leaks[int(words[1], 16)] = int(words[2])
        if words[0] in ("leak-direct", "leak-indirect"):
            kinds[int(words[1], 16)] = words[0].removeprefix("leak-")
    return pid, None, None


def scan(build, pid, how):
    """The leaks of one scan with size and kind, and what is wrong with it."""
    try:
        done = subprocess.run([build / "memscan", "--pid", str(pid), "--json", "--no-fold", "--limit", "all",
                               "--snapshot", how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return {}, {}, "memscan hung"
    if done.returncode not in (0, 1):
        return {}, {}, f"status {done.returncode}: {done.stderr.strip()}"
    report = json.loads(done.stdout)
    wrong = "" if all(heap["verified"] for heap in report["heaps"]) else "not verified"
    if report["scan"]["source"] != how and not any("none of its threads is fit" in w for w in report["warnings"]):
        wrong = f"source {report['scan']['source']}: {report['warnings']}"
    leaks = {int(leak["address"], 16): leak for leak in report["leaks"] if leak["kind"] != "possible"}
    return ({at: leak["size"] for at, leak in leaks.items()}, {at: leak["kind"] for at, leak in leaks.items()}, wrong)


def check(build, name, scenario):
    """What is wrong with both scans; None: nothing; CANNOT: the scenario wants what is not here."""
    program = subprocess.Popen([build / "targets" / name, scenario], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        pid, truth, kinds = truth_of(program)
        if truth is None:
            return CANNOT
        for how in ("fork", "copy"):
            told, told_kinds, wrong = scan(build, pid, how)
            missed, false = truth.keys() - told.keys(), told.keys() - truth.keys()
            wrong += "".join(f" {at:#x} is not {kind}" for at, kind in kinds.items() if told_kinds.get(at, kind) != kind)
            if wrong or missed or false or truth != told:
                program.kill()
                return (f"{how}: {wrong} missed {[hex(a) for a in missed][:4]}, not leaked {[hex(a) for a in false][:4]}; "
                        f"the program says: {program.stdout.read()!r}")
            if program.poll() is not None:
                return f"{how}: the program ended, {program.returncode}: {program.stdout.read()}"
        return None
    finally:
        program.kill()
        program.communicate()


def main():
    build, failed, n, left_out = pathlib.Path(sys.argv[1]).resolve(), 0, 0, []
    for name in sys.argv[2:]:
        for scenario in subprocess.run([build / "targets" / name, "list"], stdout=subprocess.PIPE, text=True,
                                       check=True).stdout.split():
            wrong = check(build, name, scenario)
            if wrong == CANNOT:
                left_out.append(f"{name} {scenario}")
                continue
            n += 1
            failed += wrong is not None
            if wrong:
                print(f"{name} {scenario}: {wrong}", flush=True)
    print(f"{n - failed} of {n} scenarios right by clone and by copy; not started: {', '.join(left_out) or 'none'}")
    return failed > 0 or not n


sys.exit(main())
