# SPDX-License-Identifier: Apache-2.0
"""Valgrind's memcheck and memscan on the same program at the same moment.

Each program runs twice, under Valgrind and by itself, to the same point; there
Valgrind is asked for a leak check (vgdb), and memscan scans the second one.
Definitely and indirectly lost blocks must be as many as ours; where they are
not, the reason is one of DIFFERENCES and stands in the table.
"""

import re
import shutil
import subprocess

import pytest

import support
from support import Process, Target, check_scanned, compile_target, scan

# (program, scenario): (blocks that Valgrind calls lost - blocks that we do, why)
DIFFERENCES = {}

OWN = [(p, name) for p in ("leaks","roots","mappings") for name in support.scenarios(p)]


@pytest.fixture(scope="module")
def need_valgrind():
    if not shutil.which("valgrind") or not shutil.which("vgdb"):
        pytest.skip("valgrind is not installed; tools/install-deps check")


def under_valgrind(argv):
    return ["valgrind", "--vgdb=yes", "--vgdb-error=0", "--leak-check=no", "--log-file=/dev/null", *map(str, argv)]


def lost_by_valgrind(pid):
    """Blocks: (definitely and indirectly lost, possibly lost)."""
    done = subprocess.run(["vgdb", f"--pid={pid}", "leak_check", "summary", "any"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    found = dict(re.findall(r"(definitely|indirectly|possibly) lost: [\d,]+ bytes in ([\d,]+) blocks", done.stdout))
    if "All heap blocks were freed" in done.stdout:
        return 0, 0
    assert found, done.stdout
    count = {kind: int(n.replace(",", "")) for kind, n in found.items()}
    return count["definitely"] + count["indirectly"], count["possibly"]


def row(notes, name, theirs, possibly, ours, why=""):
    if not notes or "valgrind" not in notes[-1]:
        notes.append(f"{'valgrind against memscan':<34} {'lost':>6} {'possibly':>8} {'ours':>6}")
    notes.append(f"valgrind: {name:<24} {theirs:>6} {possibly:>8} {ours:>6} {why}")


@pytest.mark.parametrize("name,scenario", OWN, ids=["/".join(pair) for pair in OWN])
def test_own_targets(need_valgrind, notes, name, scenario):
    program = compile_target(name)
    env = {"HOLDER_LIBRARY": str(support.holder_library())}
    with Target(under_valgrind([program, scenario]), env) as target:
        theirs, possibly = lost_by_valgrind(target.pid)
    with Target([program, scenario], env) as target:
        ours = check_scanned(scan(target.pid))["totals"]["leaked_allocations"]
    difference, why = DIFFERENCES.get((name, scenario), (0, ""))
    row(notes, f"{name} {scenario}", theirs, possibly, ours, why)
    assert theirs - ours == difference
