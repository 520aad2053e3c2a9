#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Which share of live blocks, and of their bytes, gets a type in programs from packages.

	make all build/bench/types && tests/bench/typed.py [NAME...]

The programs are as their packages have them, stripped. Of each, a line of a table; with
--types, the types of most bytes. What is not installed is left out.
The distribution's python3, as in tests/e2e/run: another one in PATH has no pytest.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import servers  # noqa: E402
import support  # noqa: E402

TYPES = ROOT / "build" / "bench" / "types"

PYTHON = """
import json, email, logging, unittest, decimal, xml.dom.minidom
kept = [{'number': i, 'text': str(i) * 5, 'set': set(range(i % 20))} for i in range(3000)]
print('READY', flush=True)
input()
"""


def measure(name, pid):
    done = subprocess.run([TYPES, str(pid)], stdout=subprocess.PIPE, text=True, check=True)
    rows = {}
    for line in done.stdout.splitlines():
        found = re.match(r"\s*(\d+)\s+(\S+)%\s+(\d+)\s+(\S+)%  (.*)", line)
        if found:
            rows.setdefault(found[5], (int(found[1]), float(found[2]), int(found[3]), float(found[4])))
    if "all blocks" not in rows or not rows["all blocks"][0]:
        print(f"{name:24} no block was found", flush=True)
        return
    blocks, _, size, _ = rows["all blocks"]
    _, named, _, named_bytes = rows["with a name"]
    _, functions, _, functions_bytes = rows["functions"]
    times = re.search(r"search (\S+) ms, walk (\S+) ms", done.stdout)
    print(f"{name:24} {blocks:9} {size:12} {named:6.1f}% {named_bytes:6.1f}% {functions:6.1f}% {functions_bytes:6.1f}%"
          f"  {times[1]:>8} {times[2]:>8}", flush=True)
    if "--types" in sys.argv:
        print("\n".join(line for line in done.stdout.splitlines()[8:40]), flush=True)


def of_program(name, argv, seconds=3, give=None):
    if not shutil.which(argv[0]):
        return
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env={**os.environ, "QT_QPA_PLATFORM": "offscreen"}) as process:
        try:
            if give:
                process.stdin.write(give)
                process.stdin.flush()
            time.sleep(seconds)
            measure(name, process.pid)
        finally:
            process.kill()


def python():
    of_program("python3", ["/usr/bin/python3", "-c", PYTHON])


def postgres():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        with servers.Postgres(folder) as server:
            server.run("pgbench", "-i", "-s", "1", "-q", "postgres")
            measure("postgres postmaster", server.pid)
            with server.start("pgbench", "-c", "2", "-T", "20", "-M", "prepared", "-n", "postgres"):
                time.sleep(3)
                backends = [pid for pid in support.children_of(server.pid) if "backend" in servers.title_of(pid)]
                measure("postgres backend", backends[0])
            server.shut_down()


def redis():
    with tempfile.TemporaryDirectory() as folder:
        of_program("redis-server", ["redis-server", "--port", "0", "--unixsocket", f"{folder}/s", "--save", ""])


def gdb():
    of_program("gdb", ["gdb", "-q", "-nx", str(ROOT / "build" / "memscan")], 12,
               b"set debuginfod enabled off\nbreak main\ninfo functions ms_types\n")


def qt():
    of_program("Qt: designer", ["/usr/lib/qt5/bin/designer"], 6)
    of_program("Qt: assistant", ["/usr/lib/qt5/bin/assistant"], 6)


def others():
    of_program("nginx", ["/usr/sbin/nginx", "-g", "daemon off; master_process off;"])
    of_program("clang++", ["clang++", "-x", "c++", "-fsyntax-only", "-"], 3, b"#include <map>\n#include <string>\n")


PROGRAMS = {f.__name__: f for f in (python, postgres, redis, qt, gdb, others)}

if __name__ == "__main__":
    print(f"{'program':24} {'blocks':>9} {'bytes':>12} {'named':>7} {'bytes':>7} {'module':>7} {'bytes':>7}"
          f"  {'search':>8} {'walk ms':>8}")
    for chosen in [arg for arg in sys.argv[1:] if arg in PROGRAMS] or PROGRAMS:
        PROGRAMS[chosen]()
