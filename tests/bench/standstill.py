# SPDX-License-Identifier: Apache-2.0
"""How long a program stands at most, seen by a thread of it that does nothing but read the clock.

Against a fork() of the same process and 20 ms more, for each command that stops it. Programs in which a walk over all
that lies above the stack pointers would take seconds are among them.
"""

import contextlib
import os

import support

ROUNDS = 5
MORE_NS = 20_000_000

PROGRAMS = {
    "2,000 threads": (2000, 0),
    "800 threads on coroutine stacks of 64 KiB": (800, 65536),
    "32 threads on stacks in one block of 640 MiB": (32, 20 << 20),
    "1,000 stack pointers into 10 MB": (1000, 10000, "same"),
    "32 threads at work in such a block of 64 MiB": (32, 2 << 20, "busy"),
}


class Stacked(support.Process):
    """tests/targets/stacked.c"""

    def __init__(self, *args):
        super().__init__([support.compile_target("stacked"), *args])
        assert self.line(60) == "READY"

    def gap(self, action):
        self.ask("gap\n")
        action()
        return int(self.ask("gap\n").split()[1])

    def fork(self):
        return int(self.ask("fork\n").split()[1])


def commands(pid, folder):
    core = f"{folder}/core"
    yield "scan", ["--pid", pid, "-q"]
    yield "dump", ["dump", pid, "-o", core]
    yield "stacks", ["stacks", pid]
    yield "attach", ["attach", pid]
    yield "detach", ["detach", pid]


def run(words):
    """Attach may refuse: that is one way to keep the limit."""
    done = support.memscan(*words, timeout=120)
    if done.status not in (support.SCANNED_CLEAN, support.SCANNED_LEAKS) and words[0] != "attach":
        raise AssertionError(f"{words}: status {done.status}: {done.stderr}")
    return done.status


def measure(bench):
    bench.head("longest standstill, the worst of 5, against fork() of the same process and 20 ms")
    for name, args in PROGRAMS.items():
        with Stacked(*args) as target:
            limit = max(target.fork() for _ in range(ROUNDS)) + MORE_NS
            worst = {}
            for _ in range(ROUNDS):
                for command, words in commands(target.pid, bench.SCRATCH):
                    gap = target.gap(lambda words=words: run(words))
                    worst[command] = max(worst.get(command, 0), gap)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{bench.SCRATCH}/core")
            said = ", ".join(f"{command} {gap / 1e6:.1f}{'' if gap <= limit else ' MISS'}" for command, gap in worst.items())
            bench.fact(name, f"{said} ms; limit {limit / 1e6:.1f} ms")
