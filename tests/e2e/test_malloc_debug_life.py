# SPDX-License-Identifier: Apache-2.0
"""libmalloc_debug.so in front of programs that do nothing wrong: it is not seen, and tells nothing."""

import pytest

from shim_support import ALL, Run, needs_library
from support import compile_target

pytestmark = needs_library

OPTIONS = (None, " ", "guard", "rear_guard free_track", "verify_pointers backtrace=4", "backtrace_sample=1000",
           "record_allocs=1000 expand_alloc", ALL)
PROGRAMS = ("resizes_aligned", "edges", "huge", "freed_by_others", "thread_ends", "vforks", "handlers", "forks",
            "exits_disabled", "opens")


def live(name, options, **more):
    return Run([compile_target("debugged_life"), name], options, **more)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("options", OPTIONS)
def test_right_program_runs_as_without(name, options):
    done = live(name, options)
    full = ["Maximum number of records added, all new operations will be dropped."]
    assert (done.status, done.out[-1]) == (0, "done"), done.out
    assert done.log in ([], full if "record_allocs" in (options or "") else [])


@pytest.mark.parametrize("options", OPTIONS)
def test_disabled_calls_wait_in_the_same_thread(options):
    """As Android's tests of malloc_disable() want it; without Malloc Debug there is none."""
    done = live("waits_disabled", options)
    assert (done.status, done.out) == (0, [" ".join(4 * ["passes" if options is None else "waits"]), "done"])


@pytest.mark.parametrize("options, rounded", ((None, False), ("verify_pointers", False), ("guard", True), (ALL, True)))
def test_alignment_that_is_no_power_of_two(options, rounded):
    """With a header it is made one; without, it is the C library's to judge."""
    out = live("odd_alignment", options).out
    assert out[-1] == "done" and (out[0] == "1" or not rounded)


@pytest.mark.parametrize("options", (" ", "guard", "verify_pointers", "verify_pointers free_track", "leak_track backtrace",
                                     "backtrace_sample=1000", ALL))
def test_no_memory_for_its_tables(options):
    """Every block is served, and none that the table has no room for is taken for a wild pointer."""
    done = live("limited", options)
    assert (done.status, done.out) == (0, ["done"])
    full = "Maximum number of records added, all new operations will be dropped."
    rest = [line for line in done.log if line not in ("Unable to track all blocks: out of memory.", full)]
    assert "leak_track" in options or not rest, rest


@pytest.mark.parametrize("options", OPTIONS)
def test_program_with_a_malloc_of_its_own(options):
    done = Run([compile_target("debugged_own")], options and f"{options} leak_track log_allocator_stats_on_exit")
    assert (done.status, done.out) == (7, ["1", "debugged_own", "1"])
    assert [line for line in done.log if not line.startswith("arena ")] == (
        ["Logging allocator stats..."] if options else [])
