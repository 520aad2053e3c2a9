#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Which share of live blocks gets a name, and whether names are right by a debugger's view.

	make check-names, or tests/names/check.py [--drawn N] [--seed N] [--wrong] NAME…

Of each program a table's line without debug information and, where it has some, one with it: the
share of blocks and bytes that are named; and of N blocks, drawn by chance among those that are,
how many the debugger (view.py in gdb), or the program itself, knows, and of these how many names
are right. --wrong lists the others, and those that nobody knows.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "e2e")]

import judge  # noqa: E402
import programs  # noqa: E402

TYPES = ROOT / "build" / "bench" / "types"
LIMIT_S = 900

Drawn = collections.namedtuple("Drawn", "at size how sure name")
Table = collections.namedtuple("Table", "blocks bytes named named_bytes drawn")


def read_tables(text):
    """What build/bench/types printed, by title."""
    tables = {}
    for part in text.split("== ")[1:]:
        title, rest = part.split("\n", 1)
        rows, drawn = {}, []
        for line in rest.splitlines():
            row = re.match(r"\s*(\d+)\s+\S+%\s+(\d+)\s+\S+%  (.*)", line)
            one = re.match(r"drawn (\S+) (\d+) (\S+) (\S+) (.*)", line)
            if one:
                drawn.append(Drawn(int(one[1], 16), int(one[2]), one[3], one[4], one[5]))
            elif row:
                rows.setdefault(row[3], (int(row[1]), int(row[2])))
        tables[title] = Table(*rows["all blocks"], *rows["with a name"], drawn)
    return tables


def ask_gdb(pid, folder, blocks):
    out = f"{folder}/views"
    said = subprocess.run(
        ["gdb", "-q", "-nx", "-batch", "-p", str(pid), "-ex", "set debuginfod enabled off",
         "-x", str(HERE / "view.py"), "-ex", f"python main({blocks!r}, {out!r})"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False).stdout
    if not os.path.exists(out):
        sys.exit(f"gdb has no view:\n{said[-2000:]}")
    with open(out) as file:
        return {int(at, 16): views for at, views in json.load(file).items()}


def measure(program, pid, folder, options):
    blocks = f"{folder}/blocks"
    command = [TYPES, "--draw", str(options.drawn), "--seed", str(options.seed), "--blocks", blocks]
    done = subprocess.run([*command, *(["--debug"] if program.debug else []), str(pid)], stdout=subprocess.PIPE,
                          text=True, check=True, timeout=LIMIT_S)
    known = judge.Known(pid, folder, blocks, ask_gdb(pid, folder, blocks), program.own)
    for title, table in read_tables(done.stdout).items():
        print_line(program, title, table, [(drawn, *known.judge(drawn)) for drawn in table.drawn], options)


def print_line(program, title, table, verdicts, options):
    counts = collections.Counter(verdict for _, verdict, _ in verdicts)
    known = counts["right"] + counts["wrong"]
    right = f"{100 * counts['right'] / known:6.1f}%" if known else "      -"
    print(f"{program.name:20} {title:24} {table.blocks:8} {table.bytes:11} {100 * table.named / table.blocks:6.1f}% "
          f"{100 * table.named_bytes / table.bytes:6.1f}% {len(verdicts):6} {known:6} {right}", flush=True)
    for drawn, verdict, views in verdicts if options.wrong else ():
        if verdict != "right":
            print(f"    {verdict}: {drawn.at:#x} {drawn.size} {drawn.how} {drawn.sure} {drawn.name}: {views[:4]}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--drawn", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wrong", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    print(f"{'program':20} {'names by':24} {'blocks':>8} {'bytes':>11} {'named':>7} {'bytes':>7} {'drawn':>6} {'known':>6} {'right':>7}")
    for program in programs.ALL:
        if options.names and program.name not in options.names:
            continue
        why = program.missing()
        if why:
            print(f"{program.name:20} is left out: {why}")
            continue
        with tempfile.TemporaryDirectory() as folder, program.start(folder) as pid:
            measure(program, pid, folder, options)


if __name__ == "__main__":
    main()
