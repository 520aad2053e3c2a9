# SPDX-License-Identifier: Apache-2.0
"""Small programs that know their own leaks, under four glibcs, three ways linked.

For each scenario the report must tell exactly the blocks that the program
knows to be unreachable, with their sizes and none besides; its totals must add
up, folded and not; every heap must be verified; and a second scan must tell the
same, for the first may leave nothing behind, and a clone is no other process than
a copy.
"""

import os
import re

import pytest

import support
from support import GLIBC, HOST, Target, check_scanned, compile_target, scan

pytestmark = pytest.mark.spread

PROGRAMS = ("leaks", "roots", "mappings", "heap_shapes", "ended", "large_tls")
VARIANT_SCENARIOS = {(name, variant): support.scenarios(name, variant)
                     for name in PROGRAMS for variant in support.VARIANTS}
EVERY = [(suite, variant, name, scenario)
         for suite in GLIBC for variant in support.VARIANTS for name in PROGRAMS
         for scenario in VARIANT_SCENARIOS[name, variant]]

# Tunables that a scenario must be started with.
ENVIRONMENT = {
    "tcache_off": "glibc.malloc.tcache_count=0",
    "tcache_long": "glibc.malloc.tcache_count=100",
    "tcache_max": "glibc.malloc.tcache_max=65536",
    "one_arena": "glibc.malloc.arena_max=1",
    "low_mmap_threshold": "glibc.malloc.mmap_threshold=4096",
    "mxfast": "glibc.malloc.mxfast=160",
    "perturbed": "glibc.malloc.perturb=165",
    "top_pad": "glibc.malloc.top_pad=1000000",
    "huge_pages": "glibc.malloc.hugetlb=1",
}


def start(suite, variant, name, scenario):
    env = {"HOLDER_LIBRARY": str(support.holder_library())}
    if scenario in ENVIRONMENT:
        env["GLIBC_TUNABLES"] = ENVIRONMENT[scenario]
    return Target([compile_target(name, suite, variant), scenario], env)


def check_kinds(report, target):
    kinds = support.kinds(report)
    for kind in ("direct", "indirect"):
        wrong = [a for a in target.blocks(f"leak-{kind}") if kinds[a] != kind]
        assert not wrong, f"not {kind}: {support.hexes(wrong)}"


def check_mappings(report, target):
    told = [(int(m["address"], 16), m["size"]) for m in report.get("unreachable_mappings", [])]
    for address, size in target.blocks("mapping").items():
        assert any(begin <= address and address + size <= begin + length for begin, length in told), (
            f"mapping {address:#x} is not listed: {told}")


def check_possible(target):
    """With --possible, what only interior pointers, lost mappings or parts of stacks hold."""
    report = check_scanned(scan(target.scan_pid, "--no-fold", "--possible"))
    support.check_truth(report, target)
    told = support.addresses(report, "possible")
    reasons = {int(leak["address"], 16): leak.get("reason") for leak in report["leaks"]}
    for kind, reason in (("possible", "mapping"), ("interior", "interior"), ("doubtful", "stack")):
        for address in target.blocks(kind):
            assert address in told, f"{kind} block {address:#x} is not told with --possible"
            assert reasons[address] == reason
    assert report["totals"]["possible_allocations"] == len(told)
    assert report["totals"]["possible_bytes"] == sum(told.values())


def lost(report):
    """The totals of what was lost; a target that runs may change the others."""
    return {name: n for name, n in report["totals"].items() if name not in ("allocations", "allocation_bytes")}


def check_clone_and_copy(target):
    """Two ways to hold memory, one answer; and on however many threads. The clone's is returned."""
    reports = {}
    for how, jobs in (("fork", 3), ("copy", 1)):
        report = support.scan_as_asked(target.scan_pid, "--no-fold", "--snapshot", how, "--jobs", jobs)
        # a thread on a stack of the program's own, and no other, cannot be asked to clone
        unfit = any("none of its threads is fit" in warning for warning in report["warnings"])
        assert report["scan"]["source"] == ("copy" if unfit else how), report["warnings"]
        reports[how] = report
    for field in ("leaks", "totals", "unreachable_mappings"):
        one, other = (lost(r) if field == "totals" else r[field] for r in reports.values())
        assert one == other, f"{field} of a clone and of a copy differ:\n{one}\n{other}"
    return reports["fork"]


def check_target(target):
    report = check_clone_and_copy(target)
    support.check_unfolded(report)
    support.check_truth(report, target)
    check_kinds(report, target)
    check_mappings(report, target)
    folded = check_scanned(scan(target.scan_pid))
    support.check_folded(folded)
    assert lost(folded) == lost(report), "scanned twice, different totals"
    if target.blocks("possible", "interior", "doubtful"):
        check_possible(target)
    if target.blocks("unaligned"):
        report = check_scanned(scan(target.scan_pid, "--no-fold", "--unaligned"))
        support.check_truth(report, target, unaligned=True)
    support.check_untouched(target.scan_pid)


@pytest.mark.parametrize("suite,variant,name,scenario", EVERY,
                         ids=["-".join(parts[:2]) + ":" + "/".join(parts[2:]) for parts in EVERY])
def test_tells_exactly_the_lost_blocks(suite, variant, name, scenario):
    # The heap of a program linked at fixed addresses begins so low that a plain
    # number may point into it by chance; not three times.
    for left in (2, 1, 0):
        with start(suite, variant, name, scenario) as target:
            try:
                check_target(target)
                assert target.finish() == 0
                return
            except AssertionError:
                if not left or not (variant == "static" or has_round_address(target)):
                    raise


def has_round_address(target):
    """Half of an old pointer with zeros in the other half is an address in such a block."""
    return any(address >> 32 != address + size >> 32 for address, size in target.leaks().items())


@pytest.mark.parametrize("suite", GLIBC)
def test_many_scans_tell_the_same(suite):
    with start(suite, "dynamic", "leaks", "among_freed") as target:
        told = []
        for _ in range(10):
            report = check_scanned(scan(target.pid, "--no-fold"))
            told.append((support.addresses(report), report["totals"]))
        assert all(each == told[0] for each in told)


@pytest.mark.parametrize("fate", ["live", "lost"])
def test_a_list_of_ten_million(fate):
    n = 10_000_000
    with Target([compile_target("deep_list"), fate, n]) as target:
        report = check_scanned(scan(target.pid))
        support.check_folded(report)
        totals = report["totals"]
        assert totals["allocations"] >= n
        assert totals["leaked_allocations"] == (n if fate == "lost" else 0)
        if fate == "lost":
            [leak] = report["leaks"]
            assert leak["referenced_count"] == n - 1
            assert leak["total_size"] == totals["leaked_bytes"] == 24 * n
            assert int(leak["address"], 16) in target.leaks()


@pytest.mark.parametrize("suite,variant", [(s, v) for s in GLIBC for v in support.VARIANTS])
def test_malloc_never_called(suite, variant):
    with Target([compile_target("no_malloc", suite, variant)]) as target:
        report = check_scanned(scan(target.pid))
        assert report["leaks"] == []


def test_contents_min_size_and_limit():
    with start(HOST, "dynamic", "leaks", "sizes") as target:
        report = check_scanned(scan(target.pid, "--no-fold", "--contents", "--min-size", 1000))
        assert {leak["size"] for leak in report["leaks"]} == {s for s in target.leaks().values() if s >= 1000}
        assert all(leak["contents"] == "01" + "00" * 31 for leak in report["leaks"])
        assert report["totals"]["leaked_allocations"] == len(target.leaks())
        report = check_scanned(support.memscan("--pid", target.pid, "--json", "--no-fold", "--limit", "7"))
        assert len(report["leaks"]) == 7
        assert report["totals"]["leaked_allocations"] == len(target.leaks())
        report = check_scanned(support.memscan("--pid", target.pid, "--json", "--no-fold"))
        assert len(report["leaks"]) == 100


@pytest.mark.parametrize("limit", [3, "all"])
@pytest.mark.parametrize("least", [0, 1000])
def test_what_is_not_listed_is_counted_by_its_reason(limit, least):
    """Each line names the option that lists what it counts."""
    with start(HOST, "dynamic", "leaks", "sizes") as target:
        sizes = target.leaks().values()
        small = sum(size < least for size in sizes)
        cut = 0 if limit == "all" else len(sizes) - small - limit
        options = ["--pid", target.pid, "--no-fold", "--limit", limit, "--min-size", least]
        report = check_scanned(support.memscan(*options, "--json"))
        assert report["unlisted"] == {"leaks": cut, "small_leaks": small}
        assert len(report["leaks"]) == len(sizes) - small - cut
        text = support.memscan(*options).stdout
    found = re.findall(r"^(\d+) (more|smaller) leaks? (?:are|is) not listed: (--\S+ \w+)", text, re.M)
    expected = [(str(cut), "more", "--limit all")] * bool(cut)
    assert found == expected + [(str(small), "smaller", "--min-size 0")] * bool(small)


def test_output_file_is_whole(tmp_path):
    out = tmp_path / "report.json"
    with start(HOST, "dynamic", "leaks", "among_freed") as target:
        done = scan(target.pid, "--no-fold", "-o", out)
        assert done.status == support.SCANNED_LEAKS and done.stdout == "", str(done)
        done.stdout = out.read_text()
        support.check_truth(check_scanned(done), target)
    assert os.listdir(tmp_path) == ["report.json"]


def test_any_thread_id_names_the_process():
    with start(HOST, "dynamic", "leaks", "threads_stay") as target:
        for tid in support.threads_of(target.pid):
            report = check_scanned(scan(tid, "--no-fold"))
            assert report["target"]["pid"] == target.pid
            support.check_truth(report, target)


def test_name_chooses_the_process(tmp_path):
    program = tmp_path / "only_one_here"
    program.symlink_to(compile_target("leaks"))
    with Target([program, "chain"]) as target:
        done = support.memscan("--name", "only_one_here", "--json", "--no-fold")
        support.check_truth(check_scanned(done), target)
        with Target([program, "chain"]):
            done = support.memscan("--name", "only_one_here", "--json")
            assert done.status == support.COULD_NOT_SCAN, str(done)


def test_demo_is_told_as_text():
    with support.Process([compile_target("demo_leaky")]) as demo:
        assert demo.line() == "READY"
        report = check_scanned(scan(demo.pid))
        assert report["totals"]["leaked_allocations"] == expected_demo_leaks()
        done = support.memscan("--pid", demo.pid)
        assert done.status == support.SCANNED_LEAKS, str(done)
        assert f"{report['totals']['leaked_bytes']} bytes in" in done.stdout, str(done)


def expected_demo_leaks():
    """The demo's three mistakes, counted by its own rules."""
    slots, lost, journal = {}, 0, 0
    for number in range(1, 1001):
        old = slots.get(number % 64)
        if old is not None:
            lost += 4 * (old % 25 == 0)
            journal += number % 100 == 0 and number <= 800
        slots[number % 64] = number
    return lost + journal + 2 * 3
