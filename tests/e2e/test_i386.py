# SPDX-License-Identifier: Apache-2.0
"""Programs of i386 under the 64-bit memscan: the scenarios, and what must not happen to a target.

They are copied, for how to clone one is not known; the rest of the report is that of any other.
"""

import os

import pytest

import support
import test_blocked
import test_targets
from support import COULD_NOT_SCAN, GLIBC, HOST, Process, Target, check_scanned, compile_target, scan

PROGRAMS = tuple(name for name in test_targets.PROGRAMS)
# glibc has strerrorname_np() since 2.32; where it is missing it only words a failure
NAMELESS = {"bullseye": ["-Dstrerrorname_np=strerror"]}
NOT_CLONED = "the memory was copied, not cloned: it runs a program for i386"


def program(name, suite=HOST, variant="i386", flags=()):
    return support.skip_without_32_bit(compile_target(name, suite, variant, flags=flags))


def scenarios(name, variant):
    try:
        return support.scenarios(name, variant)
    except OSError:
        return []


EVERY = [(suite, variant, name, scenario)
         for suite in GLIBC for variant in support.I386_VARIANTS for name in PROGRAMS
         for scenario in scenarios(name, variant)]


def start(suite, variant, name, scenario):
    env = {"HOLDER_LIBRARY": str(support.holder_library("-m32"))}
    if scenario in test_targets.ENVIRONMENT:
        env["GLIBC_TUNABLES"] = test_targets.ENVIRONMENT[scenario]
    return Target([compile_target(name, suite, variant), scenario], env)


def check_target(target):
    report = check_scanned(scan(target.scan_pid, "--no-fold"))
    assert (report["target"]["arch"], report["target"]["word_size"]) == ("i386", 4)
    assert report["scan"]["source"] == "copy"
    support.check_unfolded(report)
    support.check_truth(report, target)
    test_targets.check_kinds(report, target)
    test_targets.check_mappings(report, target)
    folded = check_scanned(scan(target.scan_pid))
    support.check_folded(folded)
    assert test_targets.lost(folded) == test_targets.lost(report), "scanned twice, different totals"
    if target.blocks("possible", "interior"):
        test_targets.check_possible(target)
    if target.blocks("unaligned"):
        report = check_scanned(scan(target.scan_pid, "--no-fold", "--unaligned"))
        support.check_truth(report, target, unaligned=True)
    support.check_untouched(target.scan_pid)


@pytest.mark.spread
@pytest.mark.parametrize("suite,variant,name,scenario", EVERY,
                         ids=["-".join(parts[:2]) + ":" + "/".join(parts[2:]) for parts in EVERY])
def test_tells_exactly_the_lost_blocks(suite, variant, name, scenario):
    # Any number of 32 bits may be an address by chance; not three times.
    for left in (2, 1, 0):
        with start(suite, variant, name, scenario) as target:
            try:
                check_target(target)
                assert target.finish() == 0
                return
            except AssertionError:
                if not left:
                    raise
