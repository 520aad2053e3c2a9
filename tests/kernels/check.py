#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check.py RELEASE...: memscan's main commands, and what may hurt a target, on packaged kernels.

Each is booted in an emulator by RUN_KERNEL, and guest.py does its checks there, by the programs that
are built here. Prints a table of them all; the last line is "N passed, N failed".
KERNEL_ROUNDS is how often programs that must not be hurt are scanned and attached (50),
KERNEL_CHECKS chooses checks by their names.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import support  # noqa: E402

RUN_KERNEL = os.environ.get("RUN_KERNEL", str(ROOT / "tools" / "run-kernel"))
ROUNDS = os.environ.get("KERNEL_ROUNDS") or "50"
CHECKS = (os.environ.get("KERNEL_CHECKS") or "").split()
WORDS = {True: "ok", None: "skipped", False: "FAILED"}


def build():
    """Here, and not by a compiler in an emulator."""
    support.compile_special(ROOT / "tests/kernels/large.c", f"-I{support.TARGETS}")
    support.compile_target("leaks", tag="-musl", libc_flags=support.musl_flags)
    support.compile_target("leaks", variant="i386")
    support.compile_target("triggered")
    support.compile_target("refuse")
    support.compile_hostile("sequences.c")
    support.compile_hostile("descriptors.c", "-pthread")


def run(release):
    """The results of a kernel by their names, and what went wrong besides."""
    with tempfile.TemporaryDirectory(prefix="memscan-kernel-") as folder:
        guest = ["/usr/bin/python3", "-B", str(ROOT / "tests/kernels/guest.py"), ROUNDS, "/ctl/results", *CHECKS]
        done = subprocess.run([RUN_KERNEL, release, folder, *guest], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        print(f"== Linux {release}\n{done.stdout}", end="", flush=True)
        results = pathlib.Path(folder, "results")
        lines = results.read_text().splitlines() if results.exists() else []
        if done.returncode:
            console = pathlib.Path(folder, "console")
            print(f"status {done.returncode}; the console's end:", *(console.read_text(errors="replace").splitlines()[-15:]
                                                                    if console.exists() else ()), sep="\n", flush=True)
    return {result["name"]: result for result in map(json.loads, lines)}, done.returncode


def main():
    releases = sys.argv[1:]
    build()
    table, count = collections.defaultdict(dict), collections.Counter()
    for release in releases:
        results, status = run(release)
        count[False] += status != 0
        for name, result in results.items():
            table[name][release] = WORDS[result["passed"]]
            count[result["passed"]] += 1
    width = max(map(len, table), default=0)
    print(" " * width, *(f"{release:>8}" for release in releases))
    for name, row in table.items():
        print(f"{name:<{width}}", *(f"{row.get(release, '-'):>8}" for release in releases))
    print(f"{count[True]} passed, {count[False]} failed" + (f", {count[None]} skipped" if count[None] else ""))
    return count[False] > 0 or not count[True]


sys.exit(main())
