# SPDX-License-Identifier: Apache-2.0
"""--confirm: two scans, and only what is unreachable in both is a leak.

A program hides blocks in a file, behind an xor or in its child, between the scans or
only during one of them. memscan says with --verbose when the first one is over, so that
nothing here depends on how fast anything is.
"""

import contextlib
import os
import pty
import subprocess
import threading
import time

import pytest

import support
import test_targets
from support import COULD_NOT_SCAN, HOST, MEMSCAN, SCANNED_LEAKS, USAGE, Target, check_scanned, memscan, scan

PLACES = ("file", "xor", "child")


@contextlib.contextmanager
def hiding(place):
    with Target([support.compile_target("hides"), place]) as target:
        yield target


def confirmed(target, between=None, *args, seconds="0.3", json=True):
    """Scan twice; @between is called when the first scan is over."""
    command = [str(MEMSCAN), "--pid", str(target.pid), f"--confirm={seconds}", "-v"]
    if json:
        command += ["--json", "--limit", "all", *support.SNAPSHOT]
    command += map(str, args)
    start = time.monotonic()
    popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    support.our_children.add(popen.pid)
    stdout = []
    reader = threading.Thread(target=lambda: stdout.append(popen.stdout.read()))
    reader.start()
    told = []
    for line in popen.stderr:
        told.append(line)
        if between and "to be confirmed" in line:
            between()
    popen.wait(60)
    reader.join(60)
    popen.stdout.close()
    popen.stderr.close()
    support.our_children.discard(popen.pid)
    assert support.leftovers() == []
    return support.Scan(popen.returncode, stdout[0], "".join(told), time.monotonic() - start)


def check_only_true_leaks(done, target, unconfirmed):
    report = check_scanned(done)
    support.check_truth(report, target)
    totals = report["totals"]
    assert totals["leaked_allocations"] == len(target.leaks())
    assert totals["leaked_bytes"] == sum(target.leaks().values())
    assert totals["unconfirmed_allocations"] == len(unconfirmed), totals
    assert totals["unconfirmed_bytes"] == sum(unconfirmed.values()), totals
    return report


@pytest.mark.parametrize("place", PLACES)
def test_what_comes_back_is_no_leak(place):
    with hiding(place) as target:
        live = target.blocks("live")
        assert target.ask("hide\n") == "hide"
        # this is what the option is for
        told = support.addresses(check_scanned(scan(target.pid, "--no-fold")))
        assert told == {**target.leaks(), **live}
        done = confirmed(target, lambda: target.ask("show\n"), "--no-fold")
        check_only_true_leaks(done, target, live)
        # hidden at the second moment instead
        done = confirmed(target, lambda: target.ask("hide\n"), "--no-fold")
        check_only_true_leaks(done, target, live)
        target.ask("show\n")
        # and all the time in reach
        done = confirmed(target, None, "--no-fold")
        check_only_true_leaks(done, target, {})
        support.check_untouched(target.pid)
        assert target.finish() == 0


def test_leaks_are_folded_after_what_is_dropped():
    with hiding("xor") as target:
        done = confirmed(target, lambda: target.ask("hide\n"))
        report = check_scanned(done)
        support.check_folded(report)
        assert report["totals"]["leaked_allocations"] == len(target.leaks())
        assert {int(leak["address"], 16) for leak in report["leaks"]} < target.leaks().keys()
        assert all(leak["referenced_count"] == 1 for leak in report["leaks"])


def test_totals_count_what_is_not_listed():
    with hiding("xor") as target:
        target.ask("hide\n")
        done = confirmed(target, lambda: target.ask("show\n"), "--no-fold", "--limit", 3)
        report = check_scanned(done)
        assert len(report["leaks"]) == 3
        assert report["totals"]["leaked_allocations"] == len(target.leaks())
        assert report["totals"]["unconfirmed_allocations"] == len(target.blocks("live"))


@pytest.mark.parametrize("how", ["fork", "copy"])
def test_costs_are_those_of_both_scans(how):
    with hiding("file") as target:
        once = support.scan_as_asked(target.pid, "--snapshot", how)["scan"]
        report = check_scanned(confirmed(target, None, "--snapshot", how))
        facts = report["scan"]
        assert facts["confirm_ns"] == 300_000_000
        assert facts["duration_ns"] > 300_000_000 + facts["pause_ns"]
        support.check_folded(report)
        assert report["totals"]["leaked_allocations"] == len(target.leaks()), report
        # what leaks are described by is read once
        assert facts["bytes_read"] > 1.2 * once["bytes_read"], report
        assert facts["attempts"] == once["attempts"] == 1
        assert facts["source"] == how


def test_text_says_what_was_dropped():
    with hiding("file") as target:
        target.ask("hide\n")
        live = target.blocks("live")
        done = confirmed(target, lambda: target.ask("show\n"), json=False)
        assert done.status == SCANNED_LEAKS, str(done)
        assert (f"  confirm: scanned again after 0.3 s; not confirmed: {sum(live.values())} bytes "
                f"in {len(live)} allocations\n") in done.stdout, str(done)


def test_a_terminal_sees_that_it_waits():
    with hiding("file") as target:
        ours, theirs = pty.openpty()
        with support.Process([MEMSCAN, "--pid", target.pid, "--confirm=1.5"], stderr=theirs) as scanning:
            os.close(theirs)
            said = b""
            with contextlib.suppress(OSError):  # at its end
                while more := os.read(ours, 4096):
                    said += more
            assert scanning.popen.wait(60) == SCANNED_LEAKS
        os.close(ours)
        assert b"memscan: waiting for the second scan, " in said
        assert said.endswith(b"\r\x1b[K"), said


def test_a_target_that_ends_in_between():
    with hiding("file") as target:
        done = confirmed(target, lambda: support.kill(target.pid), seconds="60")
        assert done.status == COULD_NOT_SCAN and done.stdout == "", str(done)
        assert f"process {target.pid} ended while it was scanned" in done.stderr, str(done)
        assert done.seconds < 30


def test_nothing_lost_is_nothing_to_confirm():
    with test_targets.start(HOST, "dynamic", "leaks", "none") as target:
        done = scan(target.pid, "--confirm=60")
        report = check_scanned(done)
        assert done.seconds < 30 and report["leaks"] == []
        assert report["totals"]["unconfirmed_allocations"] == 0
        assert "confirm_ns" not in report["scan"]
        text = memscan("--pid", target.pid, "--confirm=60")
        assert "  confirm: no leaks to confirm, scanned once\n" in text.stdout, str(text)


def test_suppressions_are_for_what_is_confirmed(tmp_path):
    known = tmp_path / "known"
    known.write_text("leak:no-such-thing\n")
    with hiding("xor") as target:
        target.ask("hide\n")
        done = confirmed(target, lambda: target.ask("show\n"), "--no-fold", "--suppressions", known)
        report = check_only_true_leaks(done, target, target.blocks("live"))
        assert any("no-such-thing matched nothing" in warning for warning in report["warnings"])
        assert not any("first scan" in warning for warning in report["warnings"]), report["warnings"]


@pytest.mark.parametrize("words", [["--confirm=0.1"], ["--confirm=0.1", "--name", "hides_and_shows"]])
def test_chosen_in_any_way(words, tmp_path):
    program = tmp_path / "hides_and_shows"
    program.symlink_to(support.compile_target("hides"))
    with Target([program, "xor"]) as target:
        words = [*words] if "--name" in words else [*words, str(target.pid)]
        for command in ([], ["scan"]):
            done = memscan(*command, *words, "--json", "--no-fold", "--limit", "all")
            check_only_true_leaks(done, target, {})


@pytest.mark.parametrize("word", ["0", "-1", "", "x", "1s", "1.", "86400.1", "0.0000000001"])
def test_wrong_seconds(word):
    done = memscan("--pid", "1", f"--confirm={word}")
    assert done.status == USAGE and "--confirm" in done.stderr, str(done)


def test_makes_no_sense_at_the_end_of_a_program():
    done = memscan("run", "--confirm", "true")
    assert done.status == USAGE and "--confirm is not for memscan run" in done.stderr, str(done)
    assert "stands still" in done.stderr, str(done)


SCENARIOS = [(variant, name, scenario) for variant in ("dynamic", "static")
             for name in test_targets.PROGRAMS
             for scenario in test_targets.VARIANT_SCENARIOS[name, variant]]


@pytest.mark.spread
@pytest.mark.parametrize("variant,name,scenario", SCENARIOS, ids=["-".join(parts) for parts in SCENARIOS])
def test_true_leaks_stay(variant, name, scenario):
    """Whatever a scan tells of these, two scans tell as well."""
    with test_targets.start(HOST, variant, name, scenario) as target:
        options = ["--no-fold"]
        if target.blocks("possible", "interior"):
            options.append("--possible")
        once = check_scanned(scan(target.scan_pid, *options))
        twice = check_scanned(scan(target.scan_pid, *options, "--confirm=0.05"))
        assert twice["leaks"] == once["leaks"]
        assert twice["unreachable_mappings"] == once["unreachable_mappings"]
        assert twice["totals"].pop("unconfirmed_allocations") == 0
        assert twice["totals"].pop("unconfirmed_bytes") == 0
        assert test_targets.lost(twice) == test_targets.lost(once)
        support.check_untouched(target.scan_pid)
