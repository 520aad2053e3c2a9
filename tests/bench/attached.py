# SPDX-License-Identifier: Apache-2.0
"""The part `attach` of bench: what sampling costs a process that was started without it.

A pair of malloc and free is measured as in shim.py, inside of the process; each tool is attached
to it while it waits for its first round. Tools that are not there, or do not work here, are a
line, as one is that hangs: it is ended, and the process with it, after a time.
"""

import contextlib
import os
import re
import select
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

import shim
import support

SAMPLE = 524288
LIMIT_S = 60
TURNS = 7
STOPS = 9   # of each kind

# Nearly as the agent: a stack for a sample, and which samples live.
BPF = """
uprobe:LIBC:malloc /pid == PID/ {{
	@left[tid] += arg0;
	if (@left[tid] > {sample}) {{ @left[tid] = 0; @due[tid] = 1; }}
}}
uretprobe:LIBC:malloc /@due[tid]/ {{ @due[tid] = 0; @live[retval] = 1; @stacks[ustack] = count(); }}
uprobe:LIBC:free /@live[arg0]/ {{ delete(@live[arg0]); }}
BEGIN {{ printf("begun\\n"); }}
"""
PLAIN_BPF = """
uprobe:LIBC:malloc /pid == PID/ {{ @bytes[tid] += arg0; }}
BEGIN {{ printf("begun\\n"); }}
"""


class Unavailable(Exception):
    """A tool that is not there, or does not do it here."""


def libc_of(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        return next(line.split()[-1] for line in maps if "/libc" in line)


@contextlib.contextmanager
def helper(argv, word, folder):
    """Another tool, once it has said @word; all that it starts ends with it."""
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True, cwd=folder)
    said, end = b"", time.monotonic() + LIMIT_S
    try:
        while word not in said:
            ready = select.select([process.stdout], [], [], max(0, end - time.monotonic()))[0]
            more = os.read(process.stdout.fileno(), 4096) if ready else b""
            if not more:
                raise Unavailable(said.decode(errors="replace").strip().splitlines()[-1:] or "it said nothing")
            said += more
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)   # the group is the tool's own
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()


@contextlib.contextmanager
def nothing(_pid, _folder):
    yield


@contextlib.contextmanager
def memscan(pid, _folder):
    done = subprocess.run([support.MEMSCAN, "attach", "--sample", str(SAMPLE), str(pid)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout
    yield


def heaptrack(pid, folder):
    return helper(["heaptrack", "-o", f"{folder}/heaptrack.{pid}", "-p", str(pid)], b"injection finished", folder)


def bpftrace(program):
    def attach(pid, folder):
        text = program.format(sample=SAMPLE).replace("LIBC", libc_of(pid)).replace("PID", str(pid))
        return helper(["bpftrace", "-e", text], b"begun", folder)
    return attach


class Way:
    """A tool: its name, how it is attached, what is to be set against it, what it gets less to do."""

    def __init__(self, name, attach=nothing, base="none", divisor=1, **environment):
        self.name, self.attach, self.base, self.divisor, self.environment = name, attach, base, divisor, environment

    def run(self, bench, shape, threads, folder):
        """Median ns of a pair."""
        argv = [str(bench.HELPERS / "pairs"), shape, str(threads), str(max(1, shim.PAIRS // self.divisor)),
                str(shim.ROUNDS), "wait"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("LIBC_DEBUG", "MALLOC_"))}
        with support.Process(argv, env={**environment, **self.environment}) as target:
            assert target.line() == "READY"
            with self.attach(target.pid, folder):
                target.popen.stdin.write(b"\n")
                target.popen.stdin.flush()
                try:
                    times = [float(target.line(LIMIT_S).split()[0]) for _ in range(shim.ROUNDS)]
                except (AssertionError, ValueError) as error:
                    raise Unavailable("its process hangs, or has ended") from error
        return statistics.median(times)


def ways(bench):
    yield Way("none")
    yield Way("memscan attach", memscan)
    yield shim_way()
    yield Way("heaptrack -p", heaptrack, divisor=shim.SLOW) if shutil.which("heaptrack") else "heaptrack: not installed"
    if shutil.which("bpftrace"):
        yield Way("bpftrace, bytes summed", bpftrace(PLAIN_BPF), divisor=shim.SLOW)
        yield Way("bpftrace, stacks of live samples", bpftrace(BPF), divisor=shim.SLOW)
    else:
        yield "bpftrace: not installed"
    jemalloc = shim.installed("/usr/lib/*/libjemalloc.so.2")
    if jemalloc and shim.jemalloc_profiles(bench.HELPERS, jemalloc):
        yield Way("jemalloc", LD_PRELOAD=jemalloc)
        yield Way("jemalloc's profiler", base="jemalloc", LD_PRELOAD=jemalloc,
                  MALLOC_CONF="prof:true,lg_prof_sample:19")
    else:
        yield "jemalloc's profiler: " + ("its library is built without" if jemalloc else "not installed")


def shim_way():
    return Way("libmalloc_debug, preloaded", LD_PRELOAD=str(shim.LIBRARY),
               LIBC_DEBUG_MALLOC_OPTIONS=f"backtrace_sample={SAMPLE}")


def take_turns(bench, shape, threads, tools, folder):
    """Times by name; a tool that fails once is out."""
    seen, failed = {way.name: [] for way in tools}, {}
    for _ in range(TURNS):
        for way in tools:
            if way.name in failed:
                continue
            try:
                seen[way.name].append(way.run(bench, shape, threads, folder))
            except (Unavailable, OSError, subprocess.SubprocessError) as error:
                failed[way.name] = error
    return seen, failed


def measure_pairs(bench, folder):
    found = list(ways(bench))
    tools = [way for way in found if isinstance(way, Way)]
    for way in found:
        if not isinstance(way, Way):
            bench.fact("", way)
    for shape in shim.SHAPES:
        for threads in (1, 2):
            seen, failed = take_turns(bench, shape, threads, tools, folder)
            for way in tools[1:]:
                what = f"{shape}, {threads} thread{'s' * (threads > 1)}, {way.name}"
                if way.name in failed:
                    bench.fact(what, f"does not work here: {failed[way.name]}")
                    continue
                aim = 1.1 if way.attach is memscan and shape == "window" else None
                bench.row(what, bench.Sample(seen[way.name]), bench.Sample(seen[way.base]), aim,
                          note="" if way.base == "none" else f"without: {way.base}")


# ---- pauses ----

def attach_once(pid):
    """ns that all threads stood."""
    done = subprocess.run([support.MEMSCAN, "attach", str(pid)], stdout=subprocess.PIPE, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout
    subprocess.run([support.MEMSCAN, "detach", str(pid)], stdout=subprocess.DEVNULL, timeout=LIMIT_S, check=True)
    return float(re.search(r"all ([0-9.]+) ms", done.stdout)[1]) * 1e6


def stop_once(bench, pid, threads):
    done = subprocess.run([bench.HELPERS / "stop", str(pid)], stdout=subprocess.PIPE, text=True, timeout=LIMIT_S,
                          check=True)
    ns, _, n = done.stdout.split()
    assert int(n) == threads, f"{n} of {threads} threads"
    return float(ns)


def measure_pauses(bench):
    for threads in (0, 50, 500, 2000):
        with bench.Heap("tree", 10000, 64, threads) as heap:
            ours, stops = [], []
            for _ in range(STOPS):
                ours.append(attach_once(heap.pid))
                stops.append(stop_once(bench, heap.pid, threads + 1))
        bench.row(f"pause, {threads + 1} threads", bench.Sample(ours), bench.Sample(stops))


def measure(bench):
    """The whole part. @bench: the module that prints and knows the helpers."""
    bench.head(f"a pair of malloc and free: one sample in {SAMPLE} bytes against without; {TURNS} turns, the median "
               "round of each\n(first column: with the tool; second: without)")
    with tempfile.TemporaryDirectory(dir=bench.SCRATCH) as folder:
        measure_pairs(bench, folder)
    bench.head(f"pause of memscan attach against one stop of all threads by ptrace; {STOPS} turns")
    measure_pauses(bench)
