# SPDX-License-Identifier: Apache-2.0
"""The part `served` of bench: what clients of unchanged servers notice of memscan attach.

Clients ask a server without rest (tests/e2e/at_work). In turns all of its processes are attached
for a while, and none is: how many pieces of work are done in a second, and how long one takes.
BENCH_SERVED_SECONDS is how long each server is attached in all, 600 for a claim; BENCH_SERVERS names
those that are asked, where not all are.
"""

import os
import statistics
import subprocess
import tempfile
import time

import pytest

import at_work
import support

SERVERS = ("nginx", "apache-event", "haproxy", "php-fpm", "mariadb", "redis", "postgres", "memcached")
SECONDS = float(os.environ.get("BENCH_SERVED_SECONDS") or 30)
TURNS = 5


class Timed(at_work.Place):
    """Knows when each piece of work was done, and how long that took."""

    def __init__(self, folder):
        super().__init__(folder, {})
        self.done = []

    def busy(self, work, n=1):
        def timed(i, turn):
            begin = time.monotonic()
            work(i, turn)
            self.done.append((begin, time.monotonic() - begin))
        super().busy(timed, n)

    def window(self, seconds):
        """The times, in ns, of what was begun from now on."""
        begin = time.monotonic()
        time.sleep(seconds)
        return [1e9 * took for at, took in list(self.done) if begin <= at]


def memscan(command, pid):
    return subprocess.run([support.MEMSCAN, command, str(pid)], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def attach(pids):
    """Those that could be: a process of a server may end at any time."""
    done = [pid for pid in pids if memscan("attach", pid)]
    assert done or not any(support.state_of(pid) for pid in pids), "none could be attached"
    return done


def take_turns(place, pids, seconds):
    """Windows without, and windows with; how many processes were attached."""
    windows, n = ([], []), 0
    place.window(2)
    for _ in range(TURNS):
        windows[0].append(place.window(seconds))
        held = attach(pids())
        n = max(n, len(held))
        windows[1].append(place.window(seconds))
        for pid in held:
            memscan("detach", pid)
        assert not place.wrong, place.wrong[:3]
    return windows, n


def measure_server(bench, program):
    with tempfile.TemporaryDirectory(prefix="memscan-bench-") as folder:
        os.chmod(folder, 0o755)
        place = Timed(folder)
        with place.stack:
            running = program.run(place)
            without_and_with, n = take_turns(place, next(running), SECONDS / TURNS)
            next(running, None)
    without, with_it = without_and_with
    kinds = (("all time by all work", lambda times: 1e9 * SECONDS / TURNS / len(times)),
             ("median", statistics.median), ("99th percentile", lambda times: statistics.quantiles(times, n=100)[98]))
    for kind, figure in kinds:
        bench.row(f"{program.name}, {kind}", bench.Sample(map(figure, with_it)), bench.Sample(map(figure, without)),
                  note=f"{n} processes" if kind == kinds[0][0] else "")


def measure(bench):
    """The whole part. @bench: the module that prints and knows the helpers."""
    bench.head(f"clients of servers: attached for {SECONDS:g} s against without; {TURNS} windows of each in turns\n"
               "(first column: attached; second: without)")
    known = {program.name: program for program in at_work.programs}
    for name in os.environ.get("BENCH_SERVERS", "").split() or SERVERS:
        try:
            assert name in known, f"no such server; there are {', '.join(SERVERS)}"
            measure_server(bench, known[name])
        except (Exception, pytest.skip.Exception) as error:  # pylint: disable=broad-except
            bench.fact(name, f"{type(error).__name__}: {error}")
