# SPDX-License-Identifier: Apache-2.0
"""Targets elsewhere: in containers, in other namespaces, of programs whose file is not where it was."""

import pytest

import support
from containers import NAMESPACES, ROOT_ONLY, Container, compile_inside
from support import GLIBC, HOST, check_scanned, scan

pytestmark = ROOT_ONLY

OTHERS = [suite for suite in GLIBC if suite != HOST]
ALL = {"root": NAMESPACES, "user": (*NAMESPACES, "user", "map-root-user")}


@pytest.fixture(params=OTHERS)
def suite(request):
    return request.param


@pytest.mark.parametrize("how", ["init", "child"])
@pytest.mark.parametrize("namespaces", ALL)
def test_a_container(folder, suite, namespaces, how):
    """With a root and a C library of its own, seen from outside; the report has both numbers."""
    program = compile_inside("leaks.c", suite)
    with Container(folder, suite, program, "among_freed", how=how, namespaces=ALL[namespaces]) as target:
        for snapshot in ("fork", "copy"):
            report = check_scanned(scan(target.scan_pid, "--no-fold", "--snapshot", snapshot))
            support.check_truth(report, target)
            assert report["scan"]["source"] == ("copy" if how == "init" else snapshot), report["warnings"]
            assert (report["target"]["pid"], report["target"]["ns_pid"]) == (target.scan_pid, target.inner_pid)
            assert report["target"]["exe"] == target.inside
        support.check_untouched(target.scan_pid)
        target.ends()
