# SPDX-License-Identifier: Apache-2.0
"""Bad calls and unusual targets: each with its exit status and its two lines.

What cannot be scanned is refused in one line that says what and a second that
says what to do; whatever happens, the target runs on as if nothing had been.
"""

import ctypes
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

import containers
import support
from support import (COULD_NOT_SCAN, COULD_NOT_WRITE, MEMSCAN, USAGE, Process, Target,
                     check_scanned, compile_special, compile_target, memscan, scan)

PTRACE_DETACH, PTRACE_SEIZE = 17, 0x4206
# ptrace(2) by hand; the result is a long
support.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
support.libc.ptrace.restype = ctypes.c_long


def check_refused(done, *words, status=COULD_NOT_SCAN):
    """The status; nothing on stdout; two lines, which say these words."""
    assert done.status == status, str(done)
    assert done.stdout == "", f"a report on stdout: {done}"
    lines = done.stderr.strip().split("\n")
    assert len(lines) == 2 and all(lines), f"not two lines: {done}"
    assert lines[0] != lines[1]
    for word in words:
        assert str(word).lower() in done.stderr.lower(), f"{word!r} is not said: {done}"


def start_leaky(*scenario):
    return Target([compile_target("leaks"), *(scenario or ("among_freed",))])


def check_works(target):
    """It still runs, is not stopped, and ends as it would have."""
    support.wait_until(lambda: support.state_of(target.pid) in "SRD", 5, "the target runs")
    support.check_untouched(target.scan_pid)
    assert target.finish() == 0


# ---- the call was wrong ----

@pytest.mark.parametrize("args", [
    [], ["--pid"], ["--pid", "abc"], ["--pid", "0"], ["--pid", "-5"], ["--pid", "1.5"], ["--pid", "99999999999"],
    ["--name"], ["--name", "x", "--pid", "1"], ["--nonsense"], ["nonsense"], ["--pid", "1", "nonsense"],
    ["--pid", "1", "--limit", "many"], ["--pid", "1", "--limit", "-1"], ["--pid", "1", "--min-size", "4q"],
    ["--pid", "1", "--format", "nonsense"], ["--pid", "1", "--color", "pink"], ["--pid", "1", "--timeout", "0"],
    ["--pid", "1", "--timeout", "soon"], ["--pid", "1", "--snapshot", "nonsense"], ["--pid", "1", "--output"],
], ids=" ".join)
def test_wrong_calls(args):
    done = memscan(*args)
    assert done.status == USAGE, str(done)
    assert done.stdout == "" and done.stderr.strip(), str(done)


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["scan", "--help"], ["help"], ["version"],
                                  ["help", "why"]], ids=" ".join)
def test_help_goes_to_stdout(args):
    done = memscan(*args)
    assert done.status == 0 and done.stdout.strip() and not done.stderr, str(done)


@pytest.mark.parametrize("args,same", [(["help"], ["--help"]), (["version"], ["--version"]),
                                       (["help", "stacks"], ["stacks", "--help"])], ids=str)
def test_words_for_options(args, same):
    assert memscan(*args).stdout == memscan(*same).stdout


# ---- no such target ----

def test_no_such_process():
    gone = Process(["true"])
    gone.stop()
    check_refused(scan(gone.pid), gone.pid)


def test_no_such_name():
    check_refused(memscan("--name", "no-such-program-here", "--json"), "no-such-program-here")


def test_kernel_thread():
    if not pathlib.Path("/proc/2/comm").exists() or pathlib.Path("/proc/2/comm").read_text() != "kthreadd\n":
        pytest.skip("no kernel threads are seen in this pid namespace")
    check_refused(scan(2), "kernel")


def test_memscan_itself():
    done = subprocess.run(["sh", "-c", f"exec '{MEMSCAN}' --pid $$ --json"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60)
    check_refused(support.Scan(done.returncode, done.stdout, done.stderr, 0), "itself")


def test_zombie():
    with Process(["true"]) as ended:
        support.wait_until(lambda: support.state_of(ended.pid) == "Z", 10, "it is a zombie")
        check_refused(scan(ended.pid), ended.pid)


ENDING = """
import ctypes, os, signal, time
if ctypes.CDLL(None).unshare(0x20000000):  # CLONE_NEWPID
    raise SystemExit('no namespace')
first = os.fork()
if not first:
    time.sleep(1000)
second = os.fork()
if not second:
    time.sleep(1000)
os.kill(first, signal.SIGKILL)
while open(f'/proc/{first}/maps').read():
    time.sleep(0.01)
print(first, flush=True)
input()
os.waitpid(second, 0)
os.waitpid(first, 0)
print('ended', flush=True)
"""


@pytest.mark.parametrize("args", [["--pid"], ["live", "--pid"], ["dump", "-o", "core"], ["attach"], ["detach"],
                                  ["attach", "--status"]], ids=" ".join)
def test_a_process_that_ends_has_no_memory(args, tmp_path):
    """The first process of a namespace waits for the others at its end, when it has given its memory back."""
    containers.can_have("pid")
    with Process(["/usr/bin/python3", "-c", ENDING]) as parent:
        pid = int(parent.line())
        assert support.state_of(pid) not in (None, "Z")
        done = memscan(*args, pid, cwd=tmp_path)
        assert parent.ask("\n") == "ended"
        check_refused(done, f"process {pid} ended")
        assert not any(tmp_path.iterdir())


# ---- not permitted ----

@pytest.fixture
def binary_for_all():
    """A copy of memscan where any user can run it."""
    folder = tempfile.mkdtemp(prefix="memscan-e2e-")
    os.chmod(folder, 0o755)
    path = shutil.copy(MEMSCAN, folder)
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(folder)


def test_process_of_another_user(binary_for_all):
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    with start_leaky() as target:
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", binary_for_all,
                               "--pid", str(target.pid), "--json"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60, cwd="/")
        check_refused(support.Scan(done.returncode, done.stdout, done.stderr, 0), "user 0", "65534")
        check_works(target)


def test_own_process_of_an_ordinary_user(binary_for_all):
    """No root, no capability: what belongs to the user can be scanned."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    yama = pathlib.Path("/proc/sys/kernel/yama/ptrace_scope")
    if yama.exists() and yama.read_text().strip() != "0":
        pytest.skip("Yama forbids it")
    leaks = shutil.copy(compile_target("leaks"), pathlib.Path(binary_for_all).parent)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    with Target([*nobody, leaks, "among_freed"], cwd="/") as target:
        done = subprocess.run([*nobody, binary_for_all, "--pid", str(target.pid), "--json", "--no-fold",
                               "--limit", "all"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=60, cwd="/")
        support.check_truth(check_scanned(support.Scan(done.returncode, done.stdout, done.stderr, 0)), target)
        check_works(target)


def test_traced_already():
    with start_leaky() as target:
        assert support.libc.ptrace(PTRACE_SEIZE, target.pid, None, None) == 0
        name = pathlib.Path("/proc/self/comm").read_text().strip()
        check_refused(scan(target.pid), os.getpid(), name)
        assert support.tracer_of(target.pid) == os.getpid()
        # a seized thread must be stopped to be detached: by its end, then
        assert target.finish() == 0


def test_traced_by_gdb():
    with start_leaky() as target:
        with Process(["gdb", "-q", "-nx", "-batch", "-p", target.pid, "-ex", "echo ATTACHED\\n",
                      "-ex", "shell sleep 60"], stderr=subprocess.DEVNULL) as gdb:
            while "ATTACHED" not in gdb.line():
                pass
            check_refused(scan(target.pid), gdb.pid, "gdb")
            assert support.tracer_of(target.pid) == gdb.pid


# ---- unusual, but scanned ----

@pytest.mark.parametrize("scenario", ["among_freed", "threads_stay"])
def test_stopped_process_stays_stopped(scenario):
    with start_leaky(scenario) as target:
        os.kill(target.pid, signal.SIGSTOP)
        support.wait_until(lambda: support.state_of(target.pid) == "T", 5, "it is stopped")
        for _ in range(5):
            report = check_scanned(scan(target.pid, "--no-fold"))
            support.check_truth(report, target)
            for tid in support.threads_of(target.pid):
                assert support.state_of(f"{target.pid}/task/{tid}") == "T"
                assert support.tracer_of(target.pid, tid) == 0
        time.sleep(0.1)
        assert support.state_of(target.pid) == "T"
        os.kill(target.pid, signal.SIGCONT)
        check_works(target)


def test_zombie_leader():
    with Target([compile_target("zombie_leader")]) as target:
        assert support.state_of(target.pid) == "Z"
        for _ in range(3):
            support.check_truth(check_scanned(scan(target.pid, "--no-fold")), target)
        assert target.finish() == 0


def test_vfork_parent_does_not_hang():
    """It cannot be stopped: refused in time, or scanned all the same."""
    with Target([compile_target("vfork_parent")]) as target:
        support.wait_until(lambda: support.state_of(target.pid) == "D", 5, "it waits for its child")
        done = scan(target.pid, "--no-fold", "--timeout", 2, timeout=30)
        if done.status == COULD_NOT_SCAN:
            check_refused(done)
        else:
            support.check_truth(check_scanned(done), target)
        assert target.finish() == 0


@pytest.mark.parametrize("how", ["copy", "fork"])
def test_probed_by_the_kernel(how):
    """The page in which the kernel runs a probed instruction is none of the program's."""
    with Process([compile_special("uprobed.c")]) as target:
        if target.popen.stdout.readline().strip() not in ("READY", b"READY"):
            pytest.skip("the kernel's probes cannot be had here")
        assert "[uprobes]" in pathlib.Path(f"/proc/{target.pid}/maps").read_text()
        report = check_scanned(scan(target.pid, "--snapshot", how))
        assert report["warnings"] == [] and report["unreachable_mappings"] == [], report["warnings"]
        assert target.finish() == 0


# ---- no allocator that we know ----

@pytest.mark.parametrize("source,compiler,flags,word", [
    ("plain.c", "musl-gcc", ["-static"], "malloc"),
    ("no_libc.c", "gcc", ["-nostdlib", "-static", "-ffreestanding"], "malloc"),
], ids=["musl-that-never-frees", "no-libc"])
def test_no_allocator_understood(source, compiler, flags, word, request):
    program = compile_special(source, *flags, compiler=compiler, tag=request.node.callspec.id)
    with Process([program]) as target:
        assert target.line() == "READY"
        done = scan(target.pid)
        check_refused(done)
        assert word in done.stderr or "allocator" in done.stderr, str(done)
        support.check_untouched(target.pid)
        assert target.finish() == 0


# ---- another allocator answers malloc ----

def own_malloc(*flags):
    return compile_special("own_malloc.c", "-fno-builtin", *(f"-D{flag}" for flag in flags), tag="-".join(("", *flags)))


def wrapper(flag):
    return compile_special("own_malloc.c", "-fno-builtin", "-shared", "-fPIC", f"-D{flag}", tag=f"-{flag}.so")


def start_under(*preloaded, program=None, args=()):
    target = Process([program or own_malloc(), *args], {"LD_PRELOAD": ":".join(map(str, preloaded))})
    assert target.line() == "READY"
    return target


def check_rival(target, name):
    check_refused(scan(target.pid), name, "not seen")
    support.check_untouched(target.pid)
    assert target.finish() == 0


def test_a_program_that_is_being_loaded(tmp_path):
    """Its interpreter waits for the C library, which is a pipe here."""
    os.mkfifo(tmp_path / "libc.so.6")
    with Process(["sleep", "100"], env={"LD_LIBRARY_PATH": str(tmp_path)}) as target:
        wchan = pathlib.Path(f"/proc/{target.pid}/wchan")
        support.wait_until(lambda: wchan.read_text() == "wait_for_partner", what="sleep to open it")
        check_refused(scan(target.pid), "loads its program", "try again in a moment")


def test_malloc_of_the_programs_own():
    with start_under(program=own_malloc("OWN")) as target:
        check_rival(target, "own_malloc-OWN")


def test_malloc_of_a_library():
    with start_under(wrapper("OWN")) as target:
        check_rival(target, "own_malloc-OWN.so")


def test_malloc_of_a_library_behind_another_that_passes_calls_on():
    with start_under(wrapper("WRAP_DLSYM"), wrapper("OWN")) as target:
        check_rival(target, "own_malloc-OWN.so")


@pytest.mark.parametrize("how", ["WRAP_DLSYM", "WRAP_LIBC"])
def test_what_passes_calls_on_is_no_allocator(how):
    with start_under(wrapper(how)) as target:
        report = check_scanned(scan(target.pid))
        assert report["totals"]["leaked_allocations"] >= 99
        assert not report["warnings"], report["warnings"]
        assert target.finish() == 0
    with start_under(wrapper(how), args=["no malloc"]) as target:
        report = check_scanned(scan(target.pid))
        assert "never called" in report["warnings"][0], report["warnings"]
        assert target.finish() == 0


def test_much_memory_besides_is_told_and_nothing_more():
    with start_under(program=own_malloc("MAPPED=32")) as target:
        report = check_scanned(scan(target.pid))
        assert "32 MiB" in report["warnings"][0] and "malloc" not in report["warnings"][0], report["warnings"]
        assert report["totals"]["leaked_allocations"] >= 99
        assert target.finish() == 0


# ---- the report cannot be written ----

def first_used_chunk(pid):
    """Where the heap's first chunk behind the thread cache has its size field."""
    [heap] = [line for line in open(f"/proc/{pid}/maps") if line.endswith("[heap]\n")]
    return int(heap.split("-")[0], 16) + 0x298


def test_heap_found_corrupt():
    """Somebody wrote over a chunk's size: nothing of that heap can be believed."""
    with start_leaky() as target:
        with open(f"/proc/{target.pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(first_used_chunk(target.pid))
            size = memory.read(8)
            memory.seek(-8, os.SEEK_CUR)
            memory.write(b"\x71\x77\x77\x07\0\0\0\0")
            check_refused(scan(target.pid), "corrupt", f"{first_used_chunk(target.pid) - 8:#x}")
            memory.seek(-8, os.SEEK_CUR)
            memory.write(size)
        check_scanned(scan(target.pid))
        check_works(target)


def test_output_folder_missing(tmp_path):
    with start_leaky() as target:
        missing = tmp_path / "no" / "such" / "report.json"
        check_refused(scan(target.pid, "-o", missing), missing, status=COULD_NOT_WRITE)
        check_works(target)


def test_output_is_a_folder(tmp_path):
    with start_leaky() as target:
        check_refused(scan(target.pid, "-o", tmp_path), status=COULD_NOT_WRITE)


@pytest.mark.parametrize("form", ["text", "json"])
def test_stdout_is_full(form):
    with start_leaky() as target, open("/dev/full", "wb") as full:
        done = memscan("--pid", target.pid, "--limit", "all", "--format", form, stdout=full)
        check_refused(done, "space", status=COULD_NOT_WRITE)


def test_the_reader_of_stdout_has_left():
    """As "head" does: it has what it wants, and nothing is said."""
    with start_leaky("sizes") as target:
        reader, writer = os.pipe()
        os.close(reader)
        done = memscan("--pid", target.pid, "--no-fold", "--limit", "all", stdout=writer)
        os.close(writer)
        assert done.status == COULD_NOT_WRITE and done.stderr == "", str(done)


def test_disk_is_full(tmp_path):
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path],
                             stderr=subprocess.DEVNULL)
    if mounted.returncode != 0:
        pytest.skip("cannot mount here")
    try:
        old = tmp_path / "report.json"
        old.write_text("the old report\n")
        with start_leaky("sizes") as target:
            done = scan(target.pid, "--no-fold", "-o", old)
            check_refused(done, "space", status=COULD_NOT_WRITE)
        # whole or not at all
        assert old.read_text() == "the old report\n"
        assert os.listdir(tmp_path) == ["report.json"]
    finally:
        subprocess.run(["umount", tmp_path], check=True)


# ---- somebody dies in the middle ----

ROUNDS = int(os.environ.get("KILL_ROUNDS") or 5)


def start_memscan(target):
    return subprocess.Popen([str(MEMSCAN), "--pid", str(target.pid), "--json"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end_of(popen, seconds=45):
    """What memscan said; it must not hang, whoever died."""
    support.our_children.add(popen.pid)
    try:
        stdout, stderr = popen.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        for pid in [*support.descendants_of(popen.pid), popen.pid]:
            support.kill(pid)
        raise AssertionError(f"memscan hung: {popen.communicate()}") from None
    finally:
        support.our_children.discard(popen.pid)
    return support.Scan(popen.returncode, stdout, stderr, 0)


@pytest.mark.parametrize("how", ["killed", "exits"])
def test_target_vanishes_in_the_middle(how):
    chance, outcomes = random.Random(7), {}
    for _ in range(ROUNDS):
        with start_leaky("threads_stay") as target:
            popen = start_memscan(target)
            time.sleep(chance.uniform(0, 0.03))
            if how == "killed":
                support.kill(target.pid)
            else:
                target.popen.stdin.close()
            done = end_of(popen)
            outcomes[done.status] = outcomes.get(done.status, 0) + 1
            if done.status == COULD_NOT_SCAN:
                check_refused(done, f"process {target.pid} ")
            else:
                check_scanned(done)
            assert support.leftovers() == []
    print(f"target {how}: statuses {outcomes}")


def processes_of(popen):
    return [popen.pid, *sorted(support.descendants_of(popen.pid))]


def no_orphans():
    """Those that became our children have ended; collects them."""
    orphans = [pid for pid in support.own_children() if pid not in support.our_children]
    for pid in orphans:
        if support.state_of(pid) == "Z":
            os.waitpid(pid, 0)
    return not orphans


def settle(target):
    support.wait_until(no_orphans, 30, "memscan's processes are gone")
    support.wait_until(lambda: support.state_of(target.pid) in "SR", 30, "the target runs")
    support.check_untouched(target.pid)


@pytest.fixture(scope="module")
def large_target():
    """Large enough that a scan takes a while in each of its phases."""
    with Target([compile_target("deep_list"), "live", 6_000_000]) as target:
        yield target


@pytest.mark.parametrize("how", ["fork", "copy"])
def test_the_whole_takes_too_long(large_target, how):
    done = scan(large_target.pid, "--timeout", "0.1", "--jobs", 1, "--snapshot", how)
    check_refused(done, large_target.pid, "time limit", "--timeout")
    settle(large_target)
    check_scanned(scan(large_target.pid, "--timeout", 60, "--snapshot", how))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
@pytest.mark.parametrize("which", ["original", "a child"])
def test_one_of_the_three_dies(large_target, which, number):
    """memscan's first process, or any of its children, at any moment."""
    chance, hits = random.Random(11), 0
    whole = scan(large_target.pid).seconds
    for _ in range(ROUNDS):
        begun = time.monotonic()
        popen = start_memscan(large_target)
        support.our_children.add(popen.pid)
        time.sleep(chance.uniform(0, whole))
        group = processes_of(popen)
        if which == "original":
            victim = group[0]
        elif len(group) > 1:
            victim = chance.choice(group[1:])
        else:
            end_of(popen)
            continue
        support.kill(victim, number)
        done = end_of(popen)
        settle(large_target)
        if done.status == 0:
            support.read_report(done.stdout)
            # the first scan may have waited for other tests
            whole = min(whole, time.monotonic() - begun)
            continue
        hits += 1
        if which == "original":
            # a handler that cleans up is as good as the signal's own death
            assert done.status in (-number, COULD_NOT_SCAN, 128 + number), str(done)
        else:
            check_refused(done)
    assert hits > 0, "no round hit memscan alive"
    # and all is still as it was
    assert check_scanned(scan(large_target.pid))["totals"]["leaked_allocations"] == 0
