# SPDX-License-Identifier: Apache-2.0
"""--strict-containers: what only the unused bytes of containers hold is a leak, and nothing else becomes one.

The program (tests/targets/stale.cc) is stripped, and uses either library of C++. $LIBCXX names a compiler that
uses LLVM's, where clang++ does not have it.
"""

import os
import shlex
import shutil
import subprocess

import pytest

import support
from support import SNAPSHOT, Target, compile_target, memscan

LIBCXX = os.environ.get("LIBCXX") or "clang++ -stdlib=libc++"


def has_libcxx():
    command = shlex.split(LIBCXX)
    if not shutil.which(command[0]):
        return False
    # the compiler may be there without the library
    done = subprocess.run([*command, "-x", "c++", "-", "-x", "none", "-o", "/dev/null"], input="#include <deque>\nint main() {}\n",
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
    return done.returncode == 0


@pytest.fixture(scope="module", params=["libstdc++", "libc++"])
def target(request):
    compiler, *flags = ["g++"] if request.param == "libstdc++" else shlex.split(LIBCXX)
    if request.param == "libc++" and not has_libcxx():
        pytest.skip("LLVM's library of C++ is not installed: its package conflicts with libunwind-dev; set LIBCXX")
    plain = compile_target("stale.cc", compiler=compiler, tag="-" + request.param, flags=flags)
    with Target([support.stripped(plain)]) as started:
        yield started


def stale(target):
    found = target.blocks("stale-vector", "stale-string", "stale-deque")
    assert len(found) == 23, target.facts
    return found


def strict_warning(report):
    return [warning for warning in report["warnings"] if warning.startswith("--strict-containers: ")]


def test_without_the_option_tails_keep_blocks(target):
    report = support.check_scanned(support.scan(target.pid, "--no-fold"))
    support.check_truth(report, target)
    assert not strict_warning(report)


@pytest.mark.parametrize("snapshot", [["--snapshot", "copy"], ["--snapshot", "fork"]], ids=lambda args: args[1])
def test_with_it_they_do_not(target, snapshot):
    report = support.check_scanned(support.scan(target.pid, "--no-fold", "--strict-containers", *snapshot))
    found = support.addresses(report)
    wanted = {**target.leaks(), **stale(target)}
    assert found == wanted, (
        f"missed {[hex(a) for a in wanted.keys() - found.keys()]}, false {[hex(a) for a in found.keys() - wanted.keys()]}"
        f" of {target.facts}; {report['warnings']}")
    assert len(strict_warning(report)) == 1
    assert " 23 pointers in " in strict_warning(report)[0]
    assert "vectors 3, strings 2, parts of deques " in strict_warning(report)[0]


def test_the_text_says_what_was_left_out(target):
    done = memscan("--pid", target.pid, "--strict-containers", *SNAPSHOT)
    assert "--strict-containers: 23 pointers in " in done.stdout, str(done)


def test_why_leaves_them_out_too(target):
    address = next(iter(stale(target)))
    held = memscan("why", "--pid", target.pid, *SNAPSHOT, f"{address:#x}")
    assert "reachable" in held.stdout.splitlines()[0], str(held)
    lost = memscan("why", "--pid", target.pid, *SNAPSHOT, "--strict-containers", f"{address:#x}")
    assert "leaked" in lost.stdout.splitlines()[0], str(lost)
