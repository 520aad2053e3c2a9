# SPDX-License-Identifier: Apache-2.0
"""Cores: the same process scanned by pid, by gcore's core and by the kernel's, gives the same leaks.

The kernel's core is that of SIGABRT. Where core_pattern does not put it beside the process it is
changed for these tests, which then run alone, and put back.
"""

import contextlib
import glob
import os
import resource
import shutil
import signal
import struct
import subprocess

import pytest

import support
from allocators import ALLOCATORS
from servers import Postgres, accepts, free_port, need, nginx_worker, start_nginx
from support import HOST, Process, Target, check_scanned, compile_target, memscan, scan
from test_i386 import BY_CHANCE
from test_kills import no_orphans

PATTERN = "/proc/sys/kernel/core_pattern"
OURS = "core"
with open(PATTERN, encoding="ascii", errors="replace") as file:
    BEFORE = file.read().rstrip("\n")
BESIDE = not BEFORE.startswith(("|", "/"))

pytestmark = pytest.mark.spread if BESIDE else pytest.mark.alone

PROGRAMS = ("leaks", "roots", "mappings", "heap_shapes", "ended", "large_tls")
# What the scan by pid knows from the kernel, and a core cannot say.
OF_KERNEL = {"epoll_data", "timer_values", "queued_signals"}
# Memory of a private memfd: whether it is shared a core does not say.
IN_DOUBT = {"memfd_private"}
# gdb cannot read what MADV_GUARD_INSTALL guards, and leaves all around out. Zeros may be what it
# could not read: so a mapping of zeros alone, as there are in split ones, is doubt.
NOT_BY_GDB = {"guarded_page", "split_mappings"}
# Of i386 gdb 13 waits for ever at a library in a memfd, and writes no upper halves of zmm registers.
# In static programs, of whatever words, closed_page has a mapping of zeros alone.
NOT_BY_GDB_I386 = NOT_BY_GDB | {"memfd_library", "wide_vector_registers", "closed_page"}
# Its threads come and go between the scan and the core.
RESTLESS = {"thread_churn"}
# They leak what is large enough for a signal stack, of which a core does not say where they are.
MAY_BE_STACKS = {"look_alikes", "look_alikes_beside", "look_alikes_shared", "look_alike_twins", "signal_stacks_given_up"}
# Gigabytes of address space, which gdb writes as zeros and the kernel takes long for.
TOO_LARGE = {"sparse", "terabytes", "many_threads", "cached_stacks"}
ALWAYS = {"signal_stacks_of_threads", "signal_stacks_before_handlers", "guarded_page"}
EVERY = [(name, scenario) for name in PROGRAMS for scenario in support.scenarios(name)
         if scenario not in OF_KERNEL | TOO_LARGE | IN_DOUBT | MAY_BE_STACKS
         and (support.is_chosen(scenario) or scenario in ALWAYS)]


@pytest.fixture
def core_pattern():
    if BESIDE:
        yield
        return
    try:
        with open(PATTERN, "w", encoding="ascii") as file:
            file.write(OURS)
    except OSError:
        pytest.skip("core_pattern does not put cores beside the process, and cannot be changed")
    yield
    with open(PATTERN, "w", encoding="ascii") as file:
        file.write(BEFORE)


def start(name, scenario, folder, variant="dynamic", **more):
    narrow = ["-m32"] if variant in support.I386_VARIANTS else []
    return Target([compile_target(name, variant=variant), scenario], {"HOLDER_LIBRARY": str(support.holder_library(*narrow))}, cwd=folder,
                  **more)


def by_gdb(pid, folder):
    need("gcore")
    done = subprocess.run(["gcore", "-o", f"{folder}/gdb", str(pid)], capture_output=True, check=False)
    path = f"{folder}/gdb.{pid}"
    assert os.path.exists(path), done
    return path


def by_kernel(pid, cwd, coredump_filter=None):
    """Ends the process; its core is in its working folder."""
    with contextlib.suppress(PermissionError):  # see unlimited_cores
        resource.prlimit(pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if coredump_filter is not None:
        with open(f"/proc/{pid}/coredump_filter", "w", encoding="ascii") as file:
            file.write(hex(coredump_filter))
    os.kill(pid, signal.SIGABRT)
    support.wait_until(lambda: (support.state_of(pid) or "X") in "ZX", 60, "the core")
    found = glob.glob(f"{cwd}/*core*")
    assert len(found) == 1, f"{found} in {os.listdir(cwd)}"
    return found[0]


def scan_core(path, *args, **more):
    return memscan("core", path, "--json", "--limit", "all", "--no-merge", *args, **more)


def told(report):
    return sorted((leak["address"], leak["size"], leak["kind"], leak.get("signature")) for leak in report["leaks"])


def check_same(core, live):
    assert core["scan"]["source"] == "core" and core["scan"]["pause_ns"] == 0
    assert told(core) == told(live), core["warnings"]
    for name, n in live["totals"].items():
        if name not in ("allocations", "allocation_bytes"):
            assert core["totals"][name] == n, name
    for name in ("pid", "exe", "threads", "arch", "word_size"):
        assert core["target"][name] == live["target"][name], name


@pytest.mark.parametrize("name,scenario", EVERY)
def test_a_core_has_the_leaks_of_its_process(folder, core_pattern, name, scenario):
    with start(name, scenario, folder) as target:
        live = check_scanned(scan(target.scan_pid, "--no-fold"))
        cores = [by_kernel(target.scan_pid, folder)] if scenario in NOT_BY_GDB else [
            by_gdb(target.scan_pid, folder), by_kernel(target.scan_pid, folder)]
    for path in cores:
        report = check_scanned(scan_core(path, "--no-fold"))
        support.check_truth(report, target)
        check_same(report, live)


# One of each, and of each way into a program; glibc's is in all others.
OTHER_ALLOCATORS = [a for a in ALLOCATORS if a.suite == HOST and a.name != "glibc" and not (a.tag or a.built)]


@pytest.mark.parametrize("allocator", OTHER_ALLOCATORS, ids=str)
def test_cores_under_other_allocators(folder, core_pattern, allocator):
    plain = [] if allocator.keeps_aligned else ["plain"]
    with allocator.start("churn", "1000", *plain, cwd=folder) as target:
        live = check_scanned(scan(target.scan_pid, "--no-fold"))
        dumped = f"{folder}/dumped"
        assert memscan("dump", target.scan_pid, "-o", dumped).status == 0
        cores = [dumped, by_gdb(target.scan_pid, folder), by_kernel(target.scan_pid, folder)]
    for path in cores:
        report = check_scanned(scan_core(path, "--no-fold"))
        assert [heap["allocator"] for heap in report["heaps"]] == [heap["allocator"] for heap in live["heaps"]]
        support.check_truth(report, target, listed=allocator.listed)
        check_same(report, live)


def scenarios_of(variant):
    try:
        return [(variant, name, scenario) for name in PROGRAMS for scenario in support.scenarios(name, variant)
                if scenario not in OF_KERNEL | TOO_LARGE | IN_DOUBT | MAY_BE_STACKS
                and support.is_chosen(scenario, "i386")]
    except OSError:
        return []


def check_i386_cores(folder, variant, name, scenario, randomized):
    with start(name, scenario, folder, variant, randomized=randomized) as target:
        live = check_scanned(scan(target.scan_pid, "--no-fold"))
        cores = [by_kernel(target.scan_pid, folder)] if scenario in NOT_BY_GDB_I386 else [
            by_gdb(target.scan_pid, folder), by_kernel(target.scan_pid, folder)]
    for path in cores:
        report = check_scanned(scan_core(path, "--no-fold"))
        os.unlink(path)
        support.check_truth(report, target, held=BY_CHANCE.get(scenario, 0))
        if scenario not in RESTLESS:
            check_same(report, live)
        assert (report["target"]["arch"], report["target"]["word_size"]) == ("i386", 4)
        assert not any("thread-local storage" in warning for warning in report["warnings"]), report["warnings"]


@pytest.mark.spread
@pytest.mark.parametrize("variant,name,scenario", [row for variant in support.I386_VARIANTS for row in scenarios_of(variant)])
def test_a_core_of_i386_has_the_leaks_of_its_process(folder, core_pattern, variant, name, scenario):
    support.not_by_chance(check_i386_cores, folder, variant, name, scenario)


@pytest.mark.parametrize("variant", ["dynamic", "static", "static-pie", *support.I386_VARIANTS])
@pytest.mark.parametrize("coredump_filter", [0x33, 0x1])
def test_what_the_filter_left_out_comes_from_the_files(folder, core_pattern, variant, coredump_filter):
    with start("leaks", "chain", folder, variant) as target:
        live = check_scanned(scan(target.scan_pid, "--no-fold"))
        path = by_kernel(target.scan_pid, folder, coredump_filter)
    report = check_scanned(scan_core(path, "--no-fold"))
    check_same(report, live)
    assert not any("not in the core" in warning for warning in report["warnings"]), report["warnings"]
    assert report["heaps"][0].get("version") == live["heaps"][0].get("version")
    assert report["target"]["cmdline"] == target.argv


@pytest.mark.parametrize("variant", ["dynamic", "i386"])
@pytest.mark.parametrize("command", [("zstd", "-q"), ("lz4", "-q"), ("xz",)])
def test_a_compressed_core_is_unpacked(folder, core_pattern, command, variant):
    need(command[0])
    with start("leaks", "chain", folder, variant) as target:
        path = by_kernel(target.scan_pid, folder)
    plain = check_scanned(scan_core(path))
    with open(path, "rb") as core, open(f"{folder}/packed", "wb") as packed:
        subprocess.run([*command, "-c"], stdin=core, stdout=packed, check=True)
    os.unlink(path)
    report = check_scanned(scan_core(f"{folder}/packed"))
    assert report["leaks"] == plain["leaks"] and report["totals"] == plain["totals"]
    # one that was cut off counts as far as it goes
    size = os.path.getsize(f"{folder}/packed")
    os.truncate(f"{folder}/packed", size * 99 // 100)
    done = scan_core(f"{folder}/packed")
    if done.status == 3:
        # all of it was one block, or the heap is missing
        assert "cut off" in done.stderr or "cannot be decompressed" in done.stderr, done
        return
    report = check_scanned(done)
    assert any("the compressed core ends" in warning for warning in report["warnings"]), report["warnings"]
    assert not report["leaks"]


def test_a_full_disk_is_said(folder, core_pattern):
    need("zstd")
    with start("leaks", "chain", folder) as target:
        path = by_kernel(target.scan_pid, folder)
    subprocess.run(["zstd", "-q", path], check=True)
    small = f"{folder}/small"
    os.mkdir(small)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "small", small], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("only root mounts a small disk")
    try:
        done = scan_core(f"{path}.zst", env={**os.environ, "TMPDIR": small})
    finally:
        subprocess.run(["umount", small], check=True)
    assert done.status == 3, str(done)
    assert "has no room for the decompressed core" in done.stderr and "TMPDIR" in done.stderr, str(done)


def test_a_core_that_was_cut_tells_no_leak_for_sure(folder, core_pattern):
    with start("leaks", "chain", folder) as target:
        path = by_kernel(target.scan_pid, folder)
    size, seen = os.path.getsize(path), 0
    for percent in range(95, 0, -10):
        os.truncate(path, size * percent // 100)
        done = scan_core(path, "--possible")
        if done.status == 3:
            # memory is missing without which there is no heap to be found
            assert "cut off" in done.stderr or "damaged" in done.stderr, done
            continue
        report = check_scanned(done)
        seen += 1
        assert any("the core is cut off" in warning for warning in report["warnings"]), report["warnings"]
        assert report["totals"]["leaked_allocations"] == 0, f"{percent} %: {report['leaks']}"
        assert report["totals"]["possible_allocations"] == len(target.leaks())
        assert {leak["reason"] for leak in report["leaks"]} == {"unseen"}
    assert seen >= 3


def test_a_heap_that_was_cut_is_not_verified(folder, core_pattern):
    with start("leaks", "big", folder) as target:
        path = by_kernel(target.scan_pid, folder)
    size = os.path.getsize(path)
    for percent in (70, 40):
        os.truncate(path, size * percent // 100)
        done = scan_core(path)
        if done.status != 3:
            assert done.status == 0 and not done.report["leaks"], done
            assert not all(heap["verified"] for heap in done.report["heaps"]), done


def test_a_thread_inside_malloc_is_said(folder, core_pattern):
    """Nobody can lead it out: what it was at is not proved, and all that is reported is."""
    with start("restless", "4", folder) as target:
        path = by_kernel(target.scan_pid, folder)
    done = scan_core(path, "--no-fold")
    if done.status == 3:
        assert "is inside malloc" in done.stderr and "take another core" in done.stderr, done
    elif all(heap["verified"] for heap in done.report["heaps"]):
        support.check_truth(check_scanned(done), target)


@pytest.mark.parametrize("scenario", sorted(OF_KERNEL))
def test_what_only_the_kernel_held_is_said(folder, core_pattern, scenario):
    with start("mappings", scenario, folder) as target:
        path = by_kernel(target.scan_pid, folder)
    report = check_scanned(scan_core(path))
    assert any("a core does not have what" in warning for warning in report["warnings"]), report["warnings"]


@pytest.mark.parametrize("scenario", sorted(IN_DOUBT))
def test_what_may_be_shared_and_is_missing_is_doubt(folder, core_pattern, scenario):
    with start("mappings", scenario, folder) as target:
        path = by_kernel(target.scan_pid, folder)
    report = check_scanned(scan_core(path, "--possible"))
    assert any("files or shared memory" in warning for warning in report["warnings"]), report["warnings"]
    assert not support.addresses(report, "direct", "indirect")
    assert target.leaks().keys() <= support.addresses(report, "possible").keys()


@pytest.mark.parametrize("variant", ["dynamic", *support.I386_VARIANTS])
@pytest.mark.parametrize("scenario", sorted(MAY_BE_STACKS))
def test_what_may_be_a_signal_stack_is_doubt(folder, core_pattern, scenario, variant):
    with start("mappings", scenario, folder, variant) as target:
        path = by_kernel(target.scan_pid, folder)
    report = check_scanned(scan_core(path, "--possible", "--no-fold"))
    assert any("where signal stacks are" in warning for warning in report["warnings"]), report["warnings"]
    leaks = target.leaks()
    sure, possible = (support.addresses(report, *kinds) for kinds in (("direct", "indirect"), ("possible",)))
    assert sure.keys() <= leaks.keys() <= sure.keys() | possible.keys()
    assert possible.keys() & leaks.keys()


# ---- files elsewhere ----

def copy_to(root, *paths):
    for path in paths:
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy(os.path.realpath(path), root + path)


def mapped_files(pid):
    with open(f"/proc/{pid}/maps", encoding="ascii") as file:
        return sorted({line.split()[5] for line in file if len(line.split()) > 5 and line.split()[5][0] == "/"})


@pytest.mark.parametrize("variant", ["dynamic", "i386"])
def test_files_of_another_machine_are_below_root(folder, core_pattern, variant):
    os.mkdir(f"{folder}/run")
    program = shutil.copy(compile_target("leaks", variant=variant), f"{folder}/run/program")
    with Target([program, "chain"], cwd=f"{folder}/run") as target:
        live = check_scanned(scan(target.scan_pid, "--no-fold"))
        copy_to(f"{folder}/root", *mapped_files(target.scan_pid))
        path = by_kernel(target.scan_pid, f"{folder}/run")
    os.unlink(program)
    there = check_scanned(scan_core(path, "--no-fold", "--root", f"{folder}/root"))
    check_same(there, live)
    assert not any("not in the core" in warning for warning in there["warnings"]), there["warnings"]
    os.mkdir(f"{folder}/empty")
    absent = check_scanned(scan_core(path, "--no-fold", "--root", f"{folder}/empty"))
    check_same(absent, live)
    said = [warning for warning in absent["warnings"] if "not in the core" in warning]
    assert any("/run/program" in warning and "--exe" in warning for warning in said), said
    assert any("libc.so.6" in warning and "--root" in warning for warning in said), said


@pytest.mark.parametrize("variant", ["dynamic", "i386"])
def test_the_program_itself_is_given(folder, core_pattern, variant):
    os.mkdir(f"{folder}/run")
    program = shutil.copy(compile_target("leaks", variant=variant), f"{folder}/run/program")
    with Target([program, "chain"], cwd=f"{folder}/run") as target:
        path = by_kernel(target.scan_pid, f"{folder}/run")
    os.rename(program, f"{folder}/elsewhere")
    without = check_scanned(scan_core(path))
    assert any("/run/program are not in the core" in warning for warning in without["warnings"]), without["warnings"]
    given = check_scanned(scan_core(path, "--exe", f"{folder}/elsewhere"))
    assert not any("not in the core" in warning for warning in given["warnings"]), given["warnings"]
    other = scan_core(path, "--exe", compile_target("roots", variant=variant))
    assert other.status == 3 and "is not the program that the core is of" in other.stderr, other
    # a file of its name that is another build is not read
    shutil.copy(compile_target("roots", variant=variant), program)
    replaced = check_scanned(scan_core(path))
    assert any("the file is another build" in warning for warning in replaced["warnings"]), replaced["warnings"]


# ---- questions ----

def test_questions_are_answered_from_a_core(folder, core_pattern):
    with start("leaks", "chain", folder) as target:
        path = by_kernel(target.scan_pid, folder)
    leak = next(iter(target.blocks("leak-direct")))
    done = memscan("why", "--core", path, hex(leak))
    assert done.status == 0 and "no root leads to it" in done.stdout, done
    done = memscan("retained", "--core", path)
    assert done.status == 0 and "By root" in done.stdout, done
    done = memscan("live", "--core", path)
    assert done.status == 3 and "were not sampled" in done.stderr, done
    done = memscan("--core", path)
    assert done.status == 1 and "source core" in done.stdout and "paused" not in done.stdout, done
    done = memscan("core", path, "--heap", "--json")
    assert done.status == 1 and done.report["histogram"], done


def test_functions_are_named_from_a_core(folder, core_pattern):
    """Stacks that libmalloc_debug kept."""
    shim = support.MEMSCAN.parent / "libmalloc_debug.so"
    with Target([compile_target("leaks"), "chain"], {"LD_PRELOAD": str(shim), "LIBC_DEBUG_MALLOC_OPTIONS": "backtrace"},
                cwd=folder) as target:
        live = check_scanned(scan(target.scan_pid))
        path = by_kernel(target.scan_pid, folder)
    report = check_scanned(scan_core(path))

    def stacks(report):
        return [(leak["address"], [(frame.get("function"), frame.get("line"), frame["offset"])
                                   for frame in leak["backtrace"]]) for leak in report["leaks"]]
    assert stacks(live) and stacks(report) == stacks(live)


# ---- programs from packages ----

PYTHON = """
import json, sys, threading
kept = [json.loads(json.dumps({str(i): list(range(i % 50)) for i in range(2000)}))]
threading.Thread(target=threading.Event().wait, daemon=True).start()
print("READY", flush=True)
sys.stdin.readline()
"""


def test_python_is_the_same_by_its_core(folder, core_pattern):
    with Process(["/usr/bin/python3", "-c", PYTHON], cwd=folder) as python:
        assert python.line() == "READY"
        support.wait_until(lambda: support.state_of(python.pid) == "S", 20, "it has nothing more to do")
        live = check_scanned(scan(python.pid))
        cores = [by_gdb(python.pid, folder), by_kernel(python.pid, folder)]
    for path in cores:
        report = check_scanned(scan_core(path))
        assert [heap["allocator"] for heap in report["heaps"]] == [heap["allocator"] for heap in live["heaps"]]
        assert report["totals"]["allocations"] == live["totals"]["allocations"]
        check_same(report, live)


def test_nginx_is_the_same_by_its_core(folder):
    need("nginx")
    port = free_port()
    with start_nginx(folder, port, {"page": b"x" * 1000}) as nginx:
        support.wait_until(lambda: accepts(port), 10, "nginx listens")
        worker = nginx_worker(nginx)
        live = check_scanned(scan(worker))
        path = by_gdb(worker, folder)
    report = check_scanned(scan_core(path))
    check_same(report, live)
    assert any("epoll" in warning for warning in report["warnings"]), report["warnings"]


def test_postgresql_is_the_same_by_its_core(folder):
    with Postgres(folder) as server:
        live = check_scanned(scan(server.pid))
        path = by_gdb(server.pid, folder)
        report = check_scanned(scan_core(path))
        check_same(report, live)
        server.shut_down()


@pytest.fixture
def unlimited_cores(core_pattern):
    """For what is started from now on: root may not be allowed to change it of another user's process."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    if before[1] != resource.RLIM_INFINITY:
        pytest.skip("cores are limited here")
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, before)


@pytest.mark.parametrize("coredump_filter", [0x33, 0x1])
def test_nginx_is_the_same_by_the_kernels_core(folder, unlimited_cores, coredump_filter):
    need("nginx")
    port = free_port()
    with start_nginx(folder, port, {"page": b"x" * 1000}, cwd=folder) as nginx:
        support.wait_until(lambda: accepts(port), 10, "nginx listens")
        worker = nginx_worker(nginx)
        live = check_scanned(scan(worker))
        path = by_kernel(worker, folder, coredump_filter)
    report = check_scanned(scan_core(path))
    check_same(report, live)
    # what workers share is of no kind that this filter has
    shared = [warning for warning in report["warnings"] if "shared memory that the program may" in warning]
    assert bool(shared) == (coredump_filter == 0x1), report["warnings"]
    assert not any("another build" in warning for warning in report["warnings"]), report["warnings"]


@pytest.mark.parametrize("coredump_filter", [0x3b, 0x33, 0x1])
def test_postgresql_is_the_same_by_the_kernels_core(folder, unlimited_cores, coredump_filter):
    """Its shared memory is in a file, too, which is bit 3: without, nothing is leaked for sure."""
    with Postgres(folder) as server:
        live = check_scanned(scan(server.pid, "--possible"))
        path = by_kernel(server.pid, f"{folder}/data", coredump_filter)
    support.wait_until(no_orphans, 30, "the server's processes end")
    report = check_scanned(scan_core(path, "--possible"))
    assert not any("another build" in warning for warning in report["warnings"]), report["warnings"]
    if coredump_filter & 1 << 3:
        check_same(report, live)
        return
    assert any("shared memory that the program may" in warning for warning in report["warnings"]), report["warnings"]
    assert report["totals"]["leaked_allocations"] == 0
    assert {leak[:2] for leak in told(live)} <= {leak[:2] for leak in told(report)}


# ---- bad input ----

def header(machine=62, kind=4, elf_class=2, data=1):
    ident = b"\x7fELF" + bytes([elf_class, data, 1]) + bytes(9)
    return ident + struct.pack("<HHIQQQIHHHHHH", kind, machine, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)


def note(kind, content, maker=b"CORE\0"):
    return struct.pack("<III", len(maker), len(content), kind) + maker.ljust(8, b"\0") + content + bytes(-len(content) % 4)


def core_of(notes, loads=((0x400000, 4096),), size=None):
    """A core with these notes; @size of the segment with notes as the header says it."""
    headers = [struct.pack("<IIQQQQQQ", 4, 4, 4096, 0, 0, len(notes) if size is None else size, 0, 4)]
    headers += [struct.pack("<IIQQQQQQ", 1, 6, 1 << 20, at, 0, length, length, 4096) for at, length in loads]
    head = bytearray(header())
    struct.pack_into("<H", head, 56, len(headers))
    return (bytes(head) + b"".join(headers)).ljust(4096, b"\0") + notes


STATUS = note(1, bytes(336))
BAD = [
    ("empty", b"", "is empty", "give a core"),
    ("text", b"hello\n" * 100, "is not a core", "give a core"),
    ("gzip", b"\x1f\x8b" + bytes(100), "compressed by gzip", "gunzip"),
    ("bzip2", b"BZh9" + bytes(100), "compressed by bzip2", "bunzip2"),
    ("zstd", b"\x28\xb5\x2f\xfd" + b"nonsense" * 10, "cannot be decompressed", "anew"),
    ("lz4", b"\x04\x22\x4d\x18" + b"nonsense" * 10, "cannot be decompressed", "anew"),
    ("xz", b"\xfd7zXZ\0" + b"nonsense" * 10, "cannot be decompressed", "anew"),
    ("program", header(kind=3) + bytes(100), "not a core: a program", "give a core"),
    ("aarch64", header(machine=183) + bytes(100), "for aarch64", "cores of 64-bit x86-64 and of i386 programs"),
    ("i386 of 64 bits", header(machine=3) + bytes(100), "for i386", "cores of 64-bit x86-64 and of i386 programs"),
    ("x32", header(elf_class=1) + bytes(100), "for x32", "cores of 64-bit x86-64 and of i386 programs"),
    ("big-endian", header(machine=0x1500, data=2) + bytes(100), "big-endian", "cores of 64-bit x86-64 and of i386 programs"),
    ("half a header", header()[:40], "ends within its ELF header", "gcore PID"),
    ("no program headers", header(), "program headers lie behind its end", "gcore PID"),
    ("no notes", core_of(b"", size=0), "no registers of any thread", "gcore PID"),
    ("notes behind its end", core_of(b"", size=100), "notes lie behind its end", "gcore PID"),
    ("a note that is too long", core_of(struct.pack("<III", 5, 1 << 30, 1) + b"CORE\0\0\0\0"), "no registers", "gcore PID"),
    ("a short status", core_of(note(1, bytes(100))), "no registers", "gcore PID"),
    ("no memory", core_of(STATUS, ()), "no memory of the process", "gcore PID"),
    ("memory over memory", core_of(STATUS, ((0x400000, 8192), (0x401000, 4096))), "over each other", "gcore PID"),
    ("memory beyond all", core_of(STATUS, (((1 << 64) - 4096, 8192),)), "makes no sense as memory", "gcore PID"),
    ("files without end", core_of(STATUS + note(0x46494c45, struct.pack("<QQ", 1 << 60, 4096))), "no allocator", "cut off"),
]


@pytest.mark.parametrize("content,refusal,advice", [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_input_is_refused(tmp_path, content, refusal, advice):
    path = tmp_path / "core"
    path.write_bytes(content)
    done = memscan("core", path)
    assert done.status == 3, done
    first, second = done.stderr.splitlines()
    assert refusal in first and advice in second, done


@pytest.mark.parametrize("path,refusal", [("/dev/null", "not a regular file"), ("/tmp", "not a regular file"),
                                          ("/nonexistent", "No such file"), ("/dev/full", "not a regular file")])
def test_what_is_no_file_is_refused(path, refusal):
    done = memscan("core", path)
    assert done.status == 3 and refusal in done.stderr and len(done.stderr.splitlines()) == 2, done


@pytest.mark.parametrize("args,refusal", [
    (("core",), "no core was given"),
    (("core", "a", "b"), "more than one core was given"),
    (("core", "a", "--pid", "1"), "--pid"),
    (("core", "a", "--snapshot", "fork"), "--snapshot"),
    (("--core", "a", "--pid", "1"), "--core and --pid exclude each other"),
    (("--core", "a", "--name", "x"), "--core and --name exclude each other"),
    (("--core", "a", "--confirm"), "--confirm is for processes alone"),
    (("--core", "a", "--snapshot", "copy"), "--snapshot is for processes alone"),
    (("--pid", "1", "--root", "/"), "--root is for cores alone"),
    (("why", "--pid", "1", "--exe", "/x", "0x1"), "--exe is for cores alone"),
    (("run", "--core", "a", "--", "true"), "--core"),
    (("--core", "a", "--root", "/nonexistent"), "--root takes a folder"),
])
def test_wrong_calls(args, refusal):
    done = memscan(*args)
    assert done.status == 2 and refusal in done.stderr and len(done.stderr.splitlines()) == 2, done
