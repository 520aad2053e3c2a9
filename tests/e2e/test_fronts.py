# SPDX-License-Identifier: Apache-2.0
"""Programs that have something in front of each block, so that no pointer is to a begin."""

import pytest

import support
from support import Target, check_scanned, compile_target, scan

RULE = "are so at a few places behind it"


def scan_both_ways(target, snapshot):
    reports = [check_scanned(scan(target.pid, "--no-fold", "--snapshot", snapshot, *more)) for more in ([], ["--possible"])]
    for report in reports:
        support.check_truth(report, target)
    return reports


@pytest.mark.parametrize("snapshot", ["fork", "copy"])
@pytest.mark.parametrize("how", ["one", "two"])
def test_what_stands_in_front_makes_no_possible_leak(how, snapshot):
    with Target([compile_target("fronts"), how]) as target:
        report, listed = scan_both_ways(target, snapshot)
        assert RULE in str(report["heaps"])
        assert "interior_allocations" not in report["totals"]
        assert not support.addresses(listed, "possible")
        assert len(target.blocks("live")) == 6000


@pytest.mark.parametrize("snapshot", ["fork", "copy"])
def test_where_there_is_no_rule_all_are_possible_leaks(snapshot):
    with Target([compile_target("fronts"), "half"]) as target:
        report, listed = scan_both_ways(target, snapshot)
        assert RULE not in str(report["heaps"])
        assert report["totals"]["interior_allocations"] == 6000
        assert support.addresses(listed, "possible").keys() == target.blocks("interior").keys()
