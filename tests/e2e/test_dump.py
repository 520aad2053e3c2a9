# SPDX-License-Identifier: Apache-2.0
"""memscan dump: the core of a running process, which gdb opens and memscan core scans."""

import contextlib
import os
import pathlib
import re
import signal
import stat
import subprocess

import pytest

import support
from support import COULD_NOT_SCAN, MEMSCAN, USAGE, Target, check_scanned, compile_target, memscan
from test_i386 import BY_CHANCE, LEFT_OUT

UNWRITTEN = 4


def dump(pid, core, *args, **more):
    return memscan("dump", pid, "-o", core, *args, **more)


def check_dumped(done, core):
    assert done.status == 0, str(done)
    assert stat.S_IMODE(core.stat().st_mode) == 0o600
    assert not list(core.parent.glob(".*memscan*")), "a temporary file is left"


def scan_core(core, *args):
    return check_scanned(memscan("core", core, "--json", "--limit", "all", "--no-merge", *args))


PROGRAMS = ["leaks", "roots", "mappings", "heap_shapes", "ended", "large_tls"]


@pytest.mark.spread
@pytest.mark.parametrize("how", ["fork", "copy"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_its_core_has_the_leaks_of_the_process(name, how, tmp_path):
    for scenario in support.scenarios(name):
        core = tmp_path / scenario
        with Target([compile_target(name), scenario], {"HOLDER_LIBRARY": str(support.holder_library())}) as target:
            check_dumped(dump(target.scan_pid, core, "--snapshot", how), core)
            support.check_untouched(target.scan_pid)
            report = scan_core(core, "--no-fold")
            support.check_truth(report, target)
            assert report["target"]["pid"] == target.scan_pid
        core.unlink()


def check_i386_core(name, variant, scenario, how, core, randomized):
    with Target([compile_target(name, variant=variant), scenario],
                {"HOLDER_LIBRARY": str(support.holder_library("-m32"))}, randomized=randomized) as target:
        check_dumped(dump(target.scan_pid, core, "--snapshot", how), core)
        support.check_untouched(target.scan_pid)
        report = scan_core(core, "--no-fold")
        core.unlink()
        support.check_truth(report, target, held=BY_CHANCE.get(scenario, 0))
        assert (report["target"]["pid"], report["target"]["arch"]) == (target.scan_pid, "i386")


@pytest.mark.spread
@pytest.mark.parametrize("variant", support.I386_VARIANTS)
@pytest.mark.parametrize("how", ["fork", "copy"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_core_of_i386_has_the_leaks_of_the_process(name, how, variant, tmp_path):
    support.compile_32_bit()
    for scenario in set(support.scenarios(name, variant)) - LEFT_OUT.keys():
        if support.is_chosen(scenario, variant, how):
            support.not_by_chance(check_i386_core, name, variant, scenario, how, tmp_path / scenario)


def backtraces(*args):
    """Of each thread, functions and lines as gdb prints them."""
    done = subprocess.run(["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off",
                           "-ex", "thread apply all bt", *map(str, args)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
    threads = re.split(r"^Thread \d+ \(.*?LWP (\d+).*?$", done.stdout, flags=re.M)[1:]
    return {int(tid): re.findall(r"^#\d+ .*", text, flags=re.M) for tid, text in zip(threads[::2], threads[1::2])}


def wait_until_all_pause(pid):
    """They may be on their way there when it says that it is ready."""
    poll, pause = {7, 168}, {34, 29}  # of x86_64, of i386
    support.wait_until(lambda: all(support.call_of(tid) in (poll if tid == pid else pause)
                                   for tid in support.threads_of(pid)), 20, "its threads pause")


@pytest.mark.parametrize("variant", ["dynamic", "i386"])
def test_gdb_prints_the_same_backtraces(tmp_path, variant):
    core = tmp_path / "core"
    program = compile_target("leaks", variant=variant)
    with Target([program, "threads_stay"]) as target:
        wait_until_all_pause(target.pid)
        check_dumped(dump(target.pid, core), core)
        live = backtraces("-p", target.pid)
        assert len(live) > 1 and all(live.values())
        assert backtraces(target.argv[0], core) == live


@pytest.fixture(scope="module")
def leaking():
    with Target([compile_target("demo_leaky")], stdin=subprocess.PIPE) as target:
        yield target


def live_leaks(target):
    return support.addresses(check_scanned(support.scan(target.pid, "--no-fold")))


def test_compressed(leaking, tmp_path):
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    check_dumped(dump(leaking.pid, plain), plain)
    check_dumped(dump(leaking.pid, packed, "--compress", "zstd"), packed)
    assert packed.stat().st_size < plain.stat().st_size // 4
    subprocess.run(["zstd", "-q", "-t", packed], check=True)
    assert support.addresses(scan_core(packed, "--no-fold")) == live_leaks(leaking)


def test_untouched_memory_takes_no_place(tmp_path):
    """The program has reserved terabytes, and written to little of it."""
    core = tmp_path / "core"
    with Target([compile_target("mappings"), "sparse"]) as target:
        check_dumped(dump(target.pid, core), core)
        assert core.stat().st_blocks * 512 < 64 << 20
        support.check_truth(scan_core(core, "--no-fold"), target)


def test_a_file_is_replaced_by_one_that_nobody_else_reads(leaking, tmp_path):
    core = tmp_path / "core"
    core.write_text("an old one")
    core.chmod(0o644)
    check_dumped(dump(leaking.pid, core), core)
    assert core.read_bytes()[:4] == b"\x7fELF"


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", folder], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("only root mounts a small disk")
    yield folder
    subprocess.run(["umount", folder], check=True)


def check_unwritten(done, core, *words):
    assert done.status == UNWRITTEN, str(done)
    assert all(word in done.stderr for word in words), str(done)
    assert len(done.stderr.splitlines()) == 2, str(done)
    assert not core.exists() and not list(core.parent.iterdir()), list(core.parent.iterdir())


@pytest.fixture(scope="module")
def large():
    with Target([compile_target("deep_list"), "live", 1_500_000]) as target:
        yield target


def test_a_disk_that_is_too_small_is_found_out_before(large, small_disk):
    done = dump(large.pid, small_disk / "core")
    check_unwritten(done, small_disk / "core", "MB free for", "--compress zstd")


def test_a_disk_that_becomes_full_keeps_nothing(large, small_disk):
    # how much a compressed core takes is not known before
    fill = subprocess.Popen(["head", "-c", str(23 << 20), "/dev/urandom"], stdout=subprocess.PIPE)
    (small_disk / "filler").write_bytes(fill.communicate()[0])
    done = dump(large.pid, small_disk / "core", "--compress", "zstd")
    (small_disk / "filler").unlink()
    check_unwritten(done, small_disk / "core", "No space left", "on a disk that has space")


def test_a_limit_of_the_length_of_files(large, tmp_path):
    done = dump(large.pid, tmp_path / "core", under=["prlimit", "--fsize=1000000"])
    check_unwritten(done, tmp_path / "core", "File too large", "ulimit -f")


def is_writing(pid, folder):
    """Whether it has a file open there that has some bytes, and no name yet."""
    for link in pathlib.Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):
            if os.readlink(link).startswith(f"{folder}/") and link.stat().st_size:
                return True
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_nothing(large, tmp_path, number):
    core = tmp_path / "core"
    for _ in range(10):
        popen = subprocess.Popen([MEMSCAN, "dump", str(large.pid), "-o", core, "--compress", "zstd"],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        support.our_children.add(popen.pid)
        while not is_writing(popen.pid, tmp_path):
            assert popen.poll() is None
        popen.send_signal(number)
        assert support.wait_for(popen, 20) == -number
        support.our_children.discard(popen.pid)
        support.check_untouched(large.pid)
        if not core.exists():
            break
        # it came when all had been written
        subprocess.run(["zstd", "-q", "-t", core], check=True)
        core.unlink()
    assert not list(tmp_path.iterdir())
    assert large.running()


def test_bad_calls(leaking, tmp_path):
    for args in ((), (leaking.pid,), ("-o", tmp_path / "core"), (leaking.pid, 1, "-o", tmp_path / "core"),
                 ("x", "-o", tmp_path / "core"), (leaking.pid, "-o", ""),
                 (leaking.pid, "-o", tmp_path / "core", "--compress", "gzip")):
        done = memscan("dump", *args)
        assert done.status == USAGE and len(done.stderr.splitlines()) == 2, str(done)
    assert not list(tmp_path.iterdir())


def test_files_that_are_none(leaking, tmp_path):
    for path, word in ((tmp_path, "Is a directory"), (tmp_path / "no" / "core", "No such file"),
                       (pathlib.Path("/dev/null"), "no regular file")):
        done = dump(leaking.pid, path)
        assert done.status == UNWRITTEN and word in done.stderr, str(done)
        assert len(done.stderr.splitlines()) == 2, str(done)


def test_no_such_process(tmp_path):
    done = dump(2**22 + 1, tmp_path / "core")
    assert done.status == COULD_NOT_SCAN and "no process or thread" in done.stderr, str(done)
    assert not list(tmp_path.iterdir())


def test_help():
    done = memscan("dump", "--help")
    assert done.status == 0 and "--compress" in done.stdout and not done.stderr
