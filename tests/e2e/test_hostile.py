# SPDX-License-Identifier: Apache-2.0
"""Programs that lie or hurt (tests/hostile), scanned again and again: they live on, and memscan ends in order.

HOSTILE_SCANS is how often each is scanned (1000 by hand).
"""

import collections
import contextlib
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import time

import pytest

import messages
import support
from support import (COULD_NOT_SCAN, MEMSCAN, SCANNED_CLEAN, SCANNED_LEAKS, Process, check_scanned, compile_hostile,
                     compile_target, memscan, scan)

EACH_SNAPSHOT = [word for word in support.snapshots() if word != "auto"]
SCANS = int(os.environ.get("HOSTILE_SCANS") or 10)


@pytest.mark.parametrize("snapshot", support.snapshots())
def test_executing_other_programs_meanwhile(snapshot):
    """What was found out about the program before it was stopped is not used on the next one."""
    seen = set()
    for milliseconds in (40, 200, 1000, 5000):  # more where memscan is slow
        with Process([compile_hostile("exec_storm.c"), milliseconds]) as target:
            assert target.line() == "READY"
            for _ in range(SCANS):
                done = scan(target.pid, "--snapshot", snapshot)
                assert target.running(), f"it ended with {target.popen.wait()}: {done}"
                assert done.status in (SCANNED_CLEAN, COULD_NOT_SCAN), str(done)
                seen.add(done.status)
            assert target.finish() == 0
        if SCANNED_CLEAN in seen:
            break
    assert SCANNED_CLEAN in seen


def start_memscan(*args, before=()):
    """Without waiting for it; what it says goes nowhere, for pipes would be held open by what is left of it."""
    popen = subprocess.Popen([*before, MEMSCAN, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, start_new_session=True)
    support.our_children.add(popen.pid)
    return popen


def reap(popen, seconds=30):
    """Wait for it, and for all that it started; its status."""
    status = support.wait_for(popen, seconds)
    support.our_children.discard(popen.pid)
    support.wait_until(lambda: not support.leftovers_alive(), 20, "processes of memscan are left over")
    support.leftovers()
    return status


def scan_and_kill(pid, longest, *args):
    popen = start_memscan("--pid", pid, "--json", *args)
    time.sleep(random.uniform(0, longest))
    popen.kill()
    reap(popen)


NEXT_TO_STACKS = ["setstack", "coroutines"]


@pytest.mark.parametrize("snapshot", support.snapshots())
@pytest.mark.parametrize("program", NEXT_TO_STACKS)
def test_live_data_next_to_stacks(program, snapshot):
    """Only what is known to be stack is free below a stack pointer, or dead; killed or not."""
    with Process([compile_hostile(program + ".c", "-pthread")]) as target:
        assert target.line() == "READY"
        longest = 0
        for _ in range(SCANS):
            done = scan(target.pid, "--possible", "--snapshot", snapshot)
            check_scanned(done)
            totals = done.report["totals"]
            assert (totals["leaked_allocations"], totals["possible_allocations"]) == (0, 0), str(done)
            longest = max(longest, done.seconds)
        for _ in range(SCANS):
            scan_and_kill(target.pid, longest, "--snapshot", snapshot)
            assert target.running()
        assert target.finish() == 0, target.line()


def wait_until_traced(pid, popen):
    """It stands for the smallest part of a scan. Its tracer; 0: memscan has ended."""
    tracer = 0
    while not tracer and support.state_of(popen.pid) != "Z":
        tracer = support.tracer_of(pid)
    return tracer


def kill_if_there(pid, number):
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def wait_while_traced(pid, popen):
    wait_until_traced(pid, popen)
    end = time.monotonic() + random.uniform(0, 0.002)
    while time.monotonic() < end:
        pass


ENDINGS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT]
WAYS = {**{snapshot: ["--json", "--snapshot", snapshot, "--pid"] for snapshot in support.snapshots()},
        "stacks": ["stacks"]}


@pytest.mark.alone
@pytest.mark.parametrize("whom", [os.kill, os.killpg], ids=["process", "group"])
@pytest.mark.parametrize("way", WAYS)
def test_memscan_ends_by_a_signal(way, whom):
    """Whenever it comes, no call of the target's is broken off; a shell sees what ended memscan."""
    done = (SCANNED_CLEAN, SCANNED_LEAKS)
    with Process([compile_target("blocked")]) as target:
        assert target.line() == "READY"
        longest = support.memscan(*WAYS[way], target.pid).seconds
        ended = 0
        for i in range(SCANS):
            number = ENDINGS[i % len(ENDINGS)]
            popen = start_memscan(*WAYS[way], target.pid)
            if i % 4:
                wait_while_traced(target.pid, popen)
            else:
                time.sleep(random.uniform(0, longest))
            whom(popen.pid, number)
            status = reap(popen)
            assert status in (-number, *done), status
            ended += status == -number
            assert target.running()
        assert ended
        support.check_untouched(target.pid)
        said = target.ask("stop\n")
        assert said == "eintr 0", f"after {ended} signals: {said} {target.unread.decode()}"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("way", WAYS)
def test_what_holds_the_target_lets_go_in_order(way, number):
    """memscan-collect outlives memscan, and still releases the threads in order."""
    with Process([compile_target("blocked")]) as target:
        assert target.line() == "READY"
        for _ in range(SCANS):
            popen = start_memscan(*WAYS[way], target.pid)
            collection = wait_until_traced(target.pid, popen)
            kill_if_there(collection, signal.SIGSTOP)
            popen.send_signal(number)
            if number == signal.SIGKILL or way == "stacks":
                support.wait_for(popen, 10)
            kill_if_there(collection, signal.SIGCONT)
            reap(popen)
            assert target.running()
        support.check_untouched(target.pid)
        assert target.ask("stop\n") == "eintr 0", target.unread.decode()


def test_an_ignored_hangup_does_not_end_it():
    """As nohup(1) has it."""
    with Process([compile_target("blocked")]) as target:
        assert target.line() == "READY"
        longest = scan(target.pid).seconds
        for _ in range(min(SCANS, 20)):
            popen = start_memscan("--json", "--pid", target.pid, before=["nohup"])
            support.wait_until(lambda: support.command_of(popen.pid) == MEMSCAN.name, what="nohup to start memscan")
            time.sleep(random.uniform(0, longest))
            os.kill(popen.pid, signal.SIGHUP)
            assert reap(popen) in (SCANNED_CLEAN, SCANNED_LEAKS)


@pytest.mark.parametrize("snapshot", EACH_SNAPSHOT)
@pytest.mark.parametrize("entries,duplicates", [(100, 10), (2000, 3000)], ids=["files", "duplicates"])
def test_many_descriptors(entries, duplicates, snapshot, notes):
    """What only the kernel holds, of long-lived epoll instances and of new ones, is not leaked."""
    most = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 20000)
    files = most - 200 - entries - duplicates
    if files < 100:
        pytest.skip(f"no more than {most} descriptors are allowed")
    program = compile_hostile("descriptors.c", "-pthread")
    with Process([program, files, entries, duplicates]) as target:
        assert target.line() == "READY"
        pauses = []
        for _ in range(max(5, SCANS // 8)):
            done = scan(target.pid, "--snapshot", snapshot)
            check_scanned(done)
            assert done.report["totals"]["leaked_allocations"] == 0, str(done)
            pauses.append(done.report["scan"]["pause_ns"] / 1e6)
        assert target.finish() == 0, target.line()
    notes.append(f"{most} descriptors, {entries} entries, {duplicates} duplicates ({snapshot}): "
                 f"pause {min(pauses):.0f} to {max(pauses):.0f} ms")


@pytest.fixture
def hung_file(request):
    with Process([compile_hostile("hung_file.c"), request.param]) as target:
        if target.line() == "CANNOT MOUNT":
            pytest.skip("no file system may be mounted here")
        yield target
        assert target.finish() == 0
        longest = int(target.line().removeprefix("longest "))
        assert longest < 2000, f"it stood for {longest} ms"


@pytest.mark.alone
@pytest.mark.parametrize("snapshot", EACH_SNAPSHOT)
@pytest.mark.parametrize("hung_file", ["data"], indirect=True)
def test_a_page_of_a_file_that_does_not_come(hung_file, snapshot):
    """Nothing is read that is not there while the process stands, nor is it missed."""
    check_scanned(scan(hung_file.pid, "--snapshot", snapshot))


@pytest.mark.alone
@pytest.mark.parametrize("hung_file", ["code"], indirect=True)
def test_a_library_that_does_not_come(hung_file):
    """memscan does not wait for ever, and says what it waited for; what reads ends with the file system."""
    popen = subprocess.Popen([MEMSCAN, "--pid", str(hung_file.pid)], text=True, stderr=subprocess.PIPE)
    said = popen.communicate(timeout=60)[1]
    assert popen.returncode == COULD_NOT_SCAN and "could not be read for" in said and "file system" in said, said
    messages.check(popen.returncode, said)
    support.kill(support.children_of(hung_file.pid)[0])  # the file system
    support.wait_until(lambda: not support.leftovers_alive(), 20, "processes of memscan are left over")
    support.leftovers()


def in_the_midst_of_batches(log):
    """Of the calls of the process that reads the most: the number of one that has others of a megabyte around it."""
    calls = collections.defaultdict(list)
    for line in log.read_text().splitlines():
        if "process_vm_readv(" in line:
            size = re.search(r"= (\d+)$", line)
            calls[line.split()[0]].append(int(size.group(1)) if size else 0)
    large = [[i for i, size in enumerate(of_one, 1) if size > 1 << 20] for of_one in calls.values()]
    return max(large, key=len)[5]


def test_a_sweeper_that_does_not_go_on(tmp_path):
    """While it holds the memory of a process, that is let go after seconds; and memscan says so."""
    code = "import sys; b = bytearray(b'x' * (600 << 20)); print('READY', flush=True); sys.stdin.read()"
    with Process(["/usr/bin/python3", "-c", code]) as target:
        assert target.line() == "READY"
        log = tmp_path / "calls"
        traced = ["strace", "-f", "-q", "-e", "trace=process_vm_readv"]
        memscan("--snapshot", "copy", "--pid", target.pid, timeout=30, under=[*traced, "-o", log])
        # strace stops whichever process of memscan reads the most, in the midst of it
        done = memscan("--snapshot", "copy", "--pid", target.pid, timeout=30, under=[
            *traced, "-o", os.devnull, "-e",
            f"inject=process_vm_readv:signal=SIGSTOP:when={in_the_midst_of_batches(log)}"])
        assert done.status == COULD_NOT_SCAN and "(hold)" in done.stderr, str(done)
        assert not support.tracer_of(target.pid)
        assert target.finish() == 0


@pytest.mark.parametrize("how", ("private", "shared"))
@pytest.mark.parametrize("snapshot", ("copy", "auto"))
def test_one_file_mapped_many_times(how, snapshot):
    """400 MiB of memory that are 20: what is the same is held once."""
    with Process([compile_hostile("many_times.c"), 20, 20, how]) as target:
        assert target.line() == "READY"
        report = scan(target.pid, "--snapshot", snapshot).report
        assert report and report["scan"]["peak_rss_bytes"] < 120 << 20, report["scan"]
        assert target.running()


@pytest.mark.parametrize("snapshot", ("fork", "copy"))
def test_pages_that_the_target_makes_when_they_are_touched(snapshot):
    """What only absent pages hold is not called a leak: it is freed later."""
    with Process([compile_hostile("faulted.c", "-pthread")]) as target:
        ready = target.line()
        if ready == "SKIP":
            pytest.skip("userfaultfd() is not allowed here")
        assert ready == "READY"
        report = check_scanned(scan(target.pid, "--snapshot", snapshot, "--possible", "--no-fold"))
        assert report["totals"]["leaked_allocations"] == 0, report["leaks"][:3]
        assert [leak["reason"] for leak in report["leaks"]].count("unseen") == 32
        target.popen.stdin.close()
        assert target.line() == "freed 64" and target.popen.wait() == 0


@pytest.mark.parametrize("filtered", ("trace", "notify", "clone"))
@pytest.mark.parametrize("snapshot", ("fork", "copy"))
def test_calls_that_a_filter_leaves_to_others(filtered, snapshot):
    """A tracer that memscan is not, and a thread that answers, see no more and no less than without a scan."""
    with Process([compile_hostile("filtered.c", "-pthread"), filtered]) as target:
        if target.line() == "SKIP":
            pytest.skip("such a filter is not allowed here")
        sources = set()
        for _ in range(SCANS // 2):
            done = scan(target.pid, "--snapshot", snapshot)
            assert target.running(), done
            sources.add(check_scanned(done)["scan"]["source"])
        assert filtered != "clone" or sources == {"copy"}, "a filter's tracer was asked for the clone"
        target.popen.stdin.close()
        calls, wrong = re.fullmatch(r"calls (\d+) wrong (\d+)", target.line()).groups()
        assert int(calls) > 100 and int(wrong) == 0, f"{wrong} of {calls} calls were answered otherwise"


@pytest.fixture
def swap(folder):
    file = pathlib.Path(folder) / "swap"
    with open(file, "wb") as made:
        made.write(bytes(16 << 20))
    file.chmod(0o600)
    if any(subprocess.run([tool, file], capture_output=True).returncode for tool in ("mkswap", "swapon")):
        pytest.skip("no swap can be had here")
    yield
    subprocess.run(["swapoff", file], check=True)


@pytest.mark.alone
@pytest.mark.parametrize("snapshot", ("fork", "copy"))
def test_shared_memory_in_swap(swap, snapshot):
    """No page table says that it is there; what it holds is freed later."""
    with Process([compile_hostile("swapped.c")]) as target:
        if target.line() == "SKIP":
            pytest.skip("it stays in memory here")
        report = check_scanned(scan(target.pid, "--snapshot", snapshot, "--possible", "--no-fold"))
        assert report["totals"]["leaked_allocations"] == 0, report["leaks"][:3]
        assert [leak["reason"] for leak in report["leaks"]].count("unseen") == 64
        target.popen.stdin.close()
        assert target.line() == "freed 64" and target.popen.wait() == 0


@pytest.fixture
def huge_pages():
    """How many huge pages of 2 MiB are free, a few at least."""
    pool = pathlib.Path("/proc/sys/vm/nr_hugepages")

    def free():
        return int(re.search(r"HugePages_Free: *(\d+)", pathlib.Path("/proc/meminfo").read_text()).group(1))
    try:
        before = pool.read_text()
        pool.write_text(str(int(before) + 8))
    except OSError as error:
        pytest.skip(f"no huge pages can be had here: {error}")
    if not free():
        pool.write_text(before)
        pytest.skip("there is no memory for huge pages")
    yield free()
    pool.write_text(before)


@pytest.mark.alone
@pytest.mark.parametrize("led", ([], ["led"]), ids=("first thread", "another"))
@pytest.mark.parametrize("snapshot", ("auto", "fork", "copy"))
def test_huge_pages_of_which_there_are_no_more(huge_pages, snapshot, led):
    """A clone would share them; when the target writes to one there is none, and it would be killed."""
    with Process([compile_hostile("huge_pages.c", "-pthread"), huge_pages, *led]) as target:
        assert target.line() == "READY"
        for _ in range(10):
            done = scan(target.pid, "--snapshot", snapshot)
            assert target.running(), f"it ended with {target.popen.wait()}: {done}"
            report = check_scanned(done)
            assert not report["leaks"] and report["scan"]["source"] == "copy"
        assert snapshot == "copy" or "hugetlbfs" in str(report["warnings"]), report["warnings"]
        assert target.finish() == 0


# With 300 MiB all of it may be written to once more, with 200 not.
@pytest.mark.parametrize("headroom,led", [(8, []), (8, ["led"]), (40, []), (60, []), (200, []), (300, [])])
def test_little_room_in_its_memory_cgroup(memory_group, headroom, led, notes):
    """A process of 230 MiB that writes to all of it is never ended for a clone's sake."""
    group, limit, usage = memory_group
    program = compile_hostile("rewriter.c", "-pthread")

    def enter():
        (group / "cgroup.procs").write_text(str(os.getpid()))
    with Process([program, "230", *led], preexec_fn=enter) as target:
        assert target.line() == "READY"
        (group / limit).write_text(str(int((group / usage).read_text()) + (headroom << 20)))
        ways = collections.Counter()
        for nth in range(max(4, SCANS // 4)):
            done = scan(target.pid, "--snapshot", ("auto", "fork")[nth % 2])
            assert target.running(), f"it ended with {target.popen.wait()}: {done}"
            check_scanned(done)
            ways[done.report["scan"]["source"]] += 1
        (group / limit).write_text("-1" if "limit" in limit else "max")
        assert target.finish() == 0
    assert headroom >= 300 or set(ways) == {"copy"}, ways
    assert headroom < 300 or "fork" in ways, ways
    notes.append(f"{headroom} MiB of headroom in a memory cgroup, {led}: {dict(ways)}")
