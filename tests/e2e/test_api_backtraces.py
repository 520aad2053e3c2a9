# SPDX-License-Identifier: Apache-2.0
"""Programs that search themselves, with libmalloc_debug.so preloaded.

The cases of tests/targets/api, which say "ok" or what was wrong; in whatever order the
two libraries stand. Without the shim test_api.py runs the same cases.
"""

import re
import signal

import pytest

from shim_support import LIBRARY as SHIM, environment, needs_library
from support import BUILD, Process, compile_target
from test_api import cases, run_case

LIBRARY = BUILD / "libmemunreachable.so"
ALL = "backtrace guard free_track fill expand_alloc verify_pointers"

pytestmark = needs_library


def check(name, variant, case, options, *preload):
    more = {"LD_PRELOAD": " ".join(map(str, preload))} if preload else {}
    run_case(name, variant, case, environment(options, **more))


BACKTRACES = [(name, variant, case) for name in ("c_backtraces", "cc_backtraces")
              for variant in ("shared", "archived") for case in cases(name, variant)]


@pytest.mark.parametrize("options", ("backtrace", "backtrace guard", ALL, "guard"))
@pytest.mark.parametrize("name,variant,case", BACKTRACES,
                         ids=["-".join(parts[:2]) + ":" + parts[2] for parts in BACKTRACES])
def test_backtraces(name, variant, case, options):
    check(name, variant, case, options)


@pytest.mark.parametrize("first", ("shim", "library"))
@pytest.mark.parametrize("case", cases("c_backtraces", "shared"))
def test_in_both_orders(case, first):
    preload = (SHIM, LIBRARY) if first == "shim" else (LIBRARY, SHIM)
    check("c_backtraces", "shared", case, "backtrace guard", *preload)


# Guards alone change nothing that a program is told, for sizes are exact as they were asked for.
GUARDED = [(name, case) for name in ("c_api", "c_contexts", "c_holders", "android_api")
           for case in cases(name, "shared")]


@pytest.mark.parametrize("name,case", GUARDED, ids=[":".join(parts) for parts in GUARDED])
def test_everything_else_behind_guards(name, case):
    check(name, "shared", case, "guard")


def test_by_signal(tmp_path):
    """check_unreachable_on_signal: the shim's own search tells the stacks that it keeps."""
    with open(tmp_path / "log", "wb") as log, Process(
            [compile_target("loses")],
            environment("check_unreachable_on_signal backtrace guard", LD_LIBRARY_PATH=str(BUILD)), stderr=log) as target:
        assert target.line() == "READY"
        for _ in range(2):
            target.ask("4000\n")
            target.popen.send_signal(signal.SIGRTMAX - 16)
            target.ask("0\n")
        assert target.finish() == 0
    lines = (tmp_path / "log").read_text().splitlines()
    starts = [i for i, line in enumerate(lines) if line == "malloc_debug: Starting to check for unreachable memory."]
    assert len(starts) == 2, lines
    for n, part in enumerate((lines[:starts[1]], lines[starts[1]:])):
        text = "\n".join(part)
        assert re.search(r"^libmemunreachable: \d+ bytes in \d+ allocations? unreachable out of ", text, re.M), text
        assert "libmemunreachable:   4000 bytes unreachable at " in text, text
        assert text.count("(lose+") == 1, text
        assert ("and 4000 similar unreachable bytes in 1 allocation" in text) == (n == 1), text
        assert re.search(r"^libmemunreachable:           #00  pc [0-9a-f]{16}  \S+/loses \(\w+\+\d+\)$", text,
                         re.M), text
