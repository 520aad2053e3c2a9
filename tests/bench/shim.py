# SPDX-License-Identifier: Apache-2.0
"""The part `shim` of bench: what a pair of malloc and free costs with malloc_debug and its peers.

What is measured is time inside of the process, by tests/bench/pairs.c: its threads' own
clocks around many pairs. What a tool does in other processes, or at the end, is not in it.
All run the same program, in turns, so that a busy machine is busy for all of them.
"""

import contextlib
import glob
import os
import statistics
import subprocess
import tempfile

import support

LIBRARY = support.BUILD / "libmalloc_debug.so"
SAMPLING = "backtrace_sample=524288"
OPTIONS = (None, SAMPLING, "verify_pointers", "guard", "backtrace=16")
SHAPES = {"window": "4096 live blocks", "deep": "20 functions deep"}
PAIRS, ROUNDS, TURNS = 5000, 60, 9   # rounds so short that another process seldom interrupts one
SLOW = 10   # what is so slow gets that much less to do
EVERYTHING = str(1 << 50)


class Tool:
    """A way to start the program."""

    def __init__(self, name, program="pairs", before=(), divisor=1, **more):
        self.name, self.program, self.before, self.divisor, self.more = name, program, before, divisor, more

    def run(self, helpers, shape, threads):
        """Median ns of a pair, and what was written to standard error."""
        argv = [*self.before, str(helpers / self.program), shape, str(threads), str(PAIRS // self.divisor),
                str(ROUNDS)]
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("LIBC_DEBUG", "MALLOC_"))}
        done = subprocess.run(argv, env={**environment, **self.more}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=900)
        times = [float(line.split()[0]) for line in done.stdout.splitlines() if line.endswith(" ns")]
        assert done.returncode == 0 and len(times) == ROUNDS, f"{self.name}: {done.returncode} {done.stderr[-300:]}"
        return statistics.median(times), done.stderr


def ours(options):
    return Tool(options or "no option", LD_PRELOAD=str(LIBRARY),
                **({"LIBC_DEBUG_MALLOC_OPTIONS": options} if options else {}))


def installed(*patterns):
    return next((path for pattern in patterns for path in sorted(glob.glob(pattern))), None)


@contextlib.contextmanager
def read_away(folder):
    """A pipe that a process of its own reads, as heaptrack's script has one."""
    fifo = os.path.join(folder, "heaptrack")
    os.mkfifo(fifo)
    hold = os.open(fifo, os.O_RDWR)   # between two runs it must not end
    reader = subprocess.Popen(["cat", fifo], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    support.our_children.add(reader.pid)
    try:
        yield fifo
    finally:
        os.close(hold)
        reader.kill()
        reader.wait()
        support.our_children.discard(reader.pid)


def in_turns(helpers, shape, threads, tools):
    """Times by tool's name, one of each turn."""
    seen = {tool.name: [] for tool in tools}
    for _ in range(TURNS):
        for tool in tools:
            seen[tool.name].append(tool.run(helpers, shape, threads)[0])
    return seen


def measure_ours(bench, shape, threads):
    none = Tool("none")
    seen = in_turns(bench.HELPERS, shape, threads, [none, *map(ours, OPTIONS)])
    for option in OPTIONS:
        name = option or "no option"
        aim = 1.1 if option == SAMPLING and shape == "window" else None
        bench.row(f"{shape}, {threads} thread{'s' * (threads > 1)}, {name}", bench.Sample(seen[name]),
                  bench.Sample(seen["none"]), aim)


def added(seen, name, base):
    """What a tool adds to a pair, turn by turn; a tenth of a nanosecond at least."""
    return [max(0.1, with_it - without) for with_it, without in zip(seen[name], seen[base])]


def compare_added(bench, shape, threads, peer, option, aim=None, base=None):
    """A row of what @peer adds to @base, or to the plain program, against what @option adds."""
    base = base or Tool("none")
    seen = in_turns(bench.HELPERS, shape, threads,
                    [Tool("none"), ours(option), peer, *([base] if base.name != "none" else [])])
    bench.row(f"{shape}, {threads} thread{'s' * (threads > 1)}, {option}", bench.Sample(added(seen, option, "none")),
              bench.Sample(added(seen, peer.name, base.name)), aim, shorter=True, note=f"peer: {peer.name}")


def jemalloc_profiles(helpers, path):
    """Whether its allocator was built with its profiler."""
    tool = Tool("jemalloc", LD_PRELOAD=path, MALLOC_CONF="prof:true")
    return "Invalid conf" not in tool.run(helpers, "tight", 1)[1]


def peers(bench, folder, fifo):
    """Tool, our option to set against it, the aim, what it is to be compared with: all that are installed."""
    heaptrack = installed("/usr/lib/heaptrack/libheaptrack_preload.so", "/usr/lib/*/heaptrack/libheaptrack_preload.so")
    tcmalloc = installed("/usr/lib/*/libtcmalloc.so.4")
    jemalloc = installed("/usr/lib/*/libjemalloc.so.2")
    if heaptrack:
        yield Tool("heaptrack, its pipe read and thrown away", LD_PRELOAD=heaptrack,
                   DUMP_HEAPTRACK_OUTPUT=fifo), "backtrace=16", 3, None
        yield Tool("heaptrack, writing to /dev/null", LD_PRELOAD=heaptrack,
                   DUMP_HEAPTRACK_OUTPUT="/dev/null"), "backtrace=16", None, None
    else:
        bench.fact("heaptrack", "not installed")
    yield Tool("LeakSanitizer", program="pairs-lsan", LSAN_OPTIONS="detect_leaks=0"), "backtrace=16", None, None
    if tcmalloc:
        yield Tool("gperftools' heap profiler", divisor=SLOW, LD_PRELOAD=tcmalloc, HEAPPROFILE=os.path.join(folder, "tcmalloc"),
                   HEAP_PROFILE_ALLOCATION_INTERVAL=EVERYTHING, HEAP_PROFILE_INUSE_INTERVAL=EVERYTHING), \
            "backtrace=16", None, Tool("tcmalloc", LD_PRELOAD=tcmalloc)
    else:
        bench.fact("gperftools' heap profiler", "not installed")
    if jemalloc and jemalloc_profiles(bench.HELPERS, jemalloc):
        yield Tool("jemalloc's profiler", LD_PRELOAD=jemalloc, MALLOC_CONF="prof:true,lg_prof_sample:19"), \
            SAMPLING, None, Tool("jemalloc", LD_PRELOAD=jemalloc)
    else:
        bench.fact("jemalloc's profiler", f"{jemalloc} is built without it" if jemalloc else "not installed")
    if installed("/usr/bin/valgrind"):
        yield Tool("Valgrind's memcheck", before=("valgrind", "-q", "--leak-check=no"), divisor=SLOW), \
            "backtrace=16", None, None
    else:
        bench.fact("Valgrind's memcheck", "not installed")


def measure(bench):
    """The whole part. @bench: the module that prints and knows the helpers."""
    bench.head(f"a pair of malloc and free: with malloc_debug against without; {TURNS} turns, the median round of each")
    for shape in SHAPES:
        for threads in (1, 2):
            measure_ours(bench, shape, threads)
    bench.head("what is added to a pair: by malloc_debug (memscan), and by others (peer)")
    with tempfile.TemporaryDirectory(dir=bench.SCRATCH) as folder, read_away(folder) as fifo:
        for peer, option, aim, base in peers(bench, folder, fifo):
            for shape in SHAPES:
                for threads in (1, 2):
                    compare_added(bench, shape, threads, peer, option, aim, base)
