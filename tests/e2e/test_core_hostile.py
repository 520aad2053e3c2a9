# SPDX-License-Identifier: Apache-2.0
"""Cores that were made to harm: whatever they say, memscan ends in time, on SIGTERM at once, with
less than 1 GiB of memory, leaves no file behind and opens nothing that their author may not read.
"""

import contextlib
import os
import shutil
import signal
import struct
import subprocess
import time

import pytest

import support
from support import MEMSCAN, Target, compile_target, memscan
from test_core import core_of, header, note, scan_core, start
from test_kills import no_orphans

MOST_RSS_KIB = 1 << 20
LIMIT_S = 2
GRACE_S = 2 + 8  # the contract's, and this machine's load
TIB = 1 << 40

NT_FILE = 0x46494c45


def load_header(kind, flags, offset, at, there, length):
    return struct.pack("<IIQQQQQQ", kind, flags, offset, at, 0, there, length, 4096)


def files_note(entries):
    numbers = struct.pack("<QQ", len(entries), 4096) + b"".join(struct.pack("<QQQ", *entry[:3]) for entry in entries)
    return note(NT_FILE, numbers + b"".join(entry[3] + b"\0" for entry in entries))


def write_core(path, headers, notes, length=0):
    """@notes stand at a page behind the headers, which are made for the place where that is."""
    at = -(-(64 + 56 * len(headers(0))) // 4096) * 4096
    head = bytearray(header())
    struct.pack_into("<H", head, 56, len(headers(0)))
    with open(path, "wb") as file:
        file.write((bytes(head) + b"".join(headers(at))).ljust(at, b"\0") + notes)
        if length:
            file.truncate(length)
    return path


THREAD = note(1, bytes(32) + struct.pack("<i", 1000) + bytes(300))


def overlapping_notes(path):
    """2,000 times the same GiB of notes, of which 4 KiB are there."""
    return write_core(path, lambda at: [load_header(4, 4, at, 0, 1 << 30, 0)] * 2000 + [load_header(1, 6, at, 1 << 28, 4096, 4096)],
                      THREAD, 1 << 31)


def a_long_note(path):
    """A note of terabytes."""
    return write_core(path, lambda at: [load_header(4, 4, at, 0, 4 * TIB, 0), load_header(1, 6, at, 1 << 28, 4096, 4096)],
                      THREAD, 5 * TIB)


def a_changed_file(path):
    """A terabyte of holes under the name of a library, of which every page seems to be changed."""
    begin = 1 << 44
    notes = THREAD + files_note([(begin, begin + TIB, 0, b"/nonexistent/lib.so")])
    return write_core(path, lambda at: [load_header(4, 4, at, 0, len(notes), 0), load_header(1, 5, at + 4096, begin, TIB, TIB)],
                      notes, 2 * TIB)


def private_memory(path):
    """Terabytes of holes as the program's own memory, written by gdb, which leaves zeros where it cannot read."""
    begin = 1 << 44
    numbers = struct.pack("<QQQQQ", 1, 1, 1 << 40, (1 << 40) + 4096, 0)
    notes = THREAD + note(NT_FILE, numbers + b"/nonexistent\0")
    return write_core(path, lambda at: [load_header(4, 4, at, 0, len(notes), 0), load_header(1, 6, at + 4096, begin, 4 * TIB, 4 * TIB)],
                      notes, 5 * TIB)


def shared_bytes(path):
    """60,000 segments of the same megabyte."""
    return write_core(path, lambda at: [load_header(4, 4, at, 0, len(THREAD), 0)] + [
        load_header(1, 6, at + 4096, (1 << 32) + (i << 21), 1 << 20, 1 << 20) for i in range(60000)], THREAD + b"x" * (2 << 20))


def many_names(path):
    """200,000 files, each to be looked for."""
    names = [((1 << 32) + (i << 13), (1 << 32) + (i << 13) + 4096, 0, b"/nonexistent/%d" % i) for i in range(200000)]
    notes = THREAD + files_note(names)
    return write_core(path, lambda at: [load_header(4, 4, at, 0, len(notes), 0), load_header(1, 6, at, 1 << 28, 4096, 4096)], notes)


def many_threads(path):
    """More threads than a process can have."""
    notes = THREAD * 70000
    return write_core(path, lambda at: [load_header(4, 4, at, 0, len(notes), 0), load_header(1, 6, at, 1 << 28, 4096, 4096)], notes)


def pack(path, begin, filler, mib):
    """zstd of @begin and @mib MiB of @filler."""
    with open(path, "wb") as out, subprocess.Popen(["zstd", "-q"], stdin=subprocess.PIPE, stdout=out) as packer:
        packer.stdin.write(begin)
        for _ in range(mib):
            packer.stdin.write(filler * ((1 << 20) // len(filler)))
    return path


def a_bomb_of_text(path):
    return pack(path, b"", b"bombs are no cores", 2048)


def a_bomb_with_a_header(path):
    return pack(path, core_of(THREAD), b"b", 4096)


def a_bomb_of_zeros(path):
    """Its gigabytes are holes: all of it is unpacked, and takes no room."""
    return pack(path, core_of(THREAD), b"\0", 4096)


HOSTILE = [overlapping_notes, a_long_note, a_changed_file, private_memory, shared_bytes, many_names, many_threads,
           a_bomb_of_text, a_bomb_with_a_header, a_bomb_of_zeros]
COMMANDS = [("core",), ("why", "0x1000", "--core"), ("retained", "--core"), ("live", "--core")]


def start_memscan(args, temporary):
    env = dict(os.environ, TMPDIR=str(temporary))
    return subprocess.Popen([str(MEMSCAN), *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=env, text=True)


def taken_of(folder):
    """Bytes on the disk of files without a name that somebody still has open there, and names."""
    assert not os.listdir(folder), os.listdir(folder)


def finish(popen):
    """Its status, what it said and its memory with its children's."""
    said = popen.stderr.read()
    _, status, usage = os.wait4(popen.pid, 0)
    popen.returncode = os.waitstatus_to_exitcode(status)
    popen.stdout.close()
    popen.stderr.close()
    return popen.returncode, said, usage.ru_maxrss


@pytest.fixture
def temporary(tmp_path):
    path = tmp_path / "temporary"
    path.mkdir()
    return path


@pytest.mark.parametrize("make", HOSTILE, ids=lambda make: make.__name__)
def test_each_hostile_core_ends_in_time_and_memory(tmp_path, temporary, make):
    path = make(tmp_path / "core")
    for command in COMMANDS if make in (overlapping_notes, a_changed_file) else COMMANDS[:1]:
        began = time.monotonic()
        popen = start_memscan([*command, path, "--timeout", LIMIT_S], temporary)
        status, said, rss = finish(popen)
        took = time.monotonic() - began
        assert status == 3 and len(said.splitlines()) == 2, (status, said)
        assert took < LIMIT_S + GRACE_S, f"{command}: {took:.1f} s: {said}"
        assert rss < MOST_RSS_KIB, f"{command}: {rss >> 10} MiB"
        taken_of(temporary)
        assert not support.leftovers()


@pytest.mark.parametrize("make,reason", [
    (overlapping_notes, "its notes are longer than there can be"),
    (a_long_note, "its notes are longer than there can be"),
    (a_changed_file, "no allocator"),
    (shared_bytes, "segments share bytes of the file"),
    (many_threads, "more threads than there can be"),
    (a_bomb_of_text, "not a core: it does not begin as an ELF file does"),
    (a_bomb_with_a_header, "as a decompression bomb does"),
], ids=lambda value: getattr(value, "__name__", None))
def test_each_is_refused_for_a_reason(tmp_path, make, reason):
    done = memscan("core", make(tmp_path / "core"))
    assert done.status == 3 and reason in done.stderr, done


def test_zeros_of_a_compressed_core_take_no_room(tmp_path, temporary):
    """A file of 256 MiB is all that may be written to: zeros are not."""
    path = a_bomb_of_zeros(tmp_path / "core")
    popen = subprocess.Popen(["prlimit", f"--fsize={1 << 40}", str(MEMSCAN), "core", str(path)], stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=dict(os.environ, TMPDIR=str(temporary)), text=True)
    written = 0
    while popen.poll() is None:
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{popen.pid}/fd"):
                if os.readlink(f"/proc/{popen.pid}/fd/{fd}").startswith(str(temporary)):
                    written = max(written, os.stat(f"/proc/{popen.pid}/fd/{fd}").st_blocks * 512)
        time.sleep(0.005)
    assert "decompress" not in popen.stderr.read()
    popen.stderr.close()
    assert written < 1 << 20, written


# ---- SIGTERM ----

def terminate_after(popen, seconds):
    """It ends at once, and so does what it prints."""
    time.sleep(seconds)
    assert popen.poll() is None, popen.stderr.read()
    began = time.monotonic()
    popen.send_signal(signal.SIGTERM)
    status, _, _ = finish(popen)
    assert status == -signal.SIGTERM and time.monotonic() - began < 1, (status, time.monotonic() - began)


def test_sigterm_ends_it_while_it_decompresses(tmp_path, temporary):
    with open(tmp_path / "core", "wb") as out:
        out.write(pack(tmp_path / "piece", core_of(THREAD), b"\0", 1).read_bytes())
        # frames of zeros one after the other: hours of them
        frame = pack(tmp_path / "zeros", b"", b"\0", 1024).read_bytes()
        out.write(frame * 1000)
    terminate_after(start_memscan(["core", tmp_path / "core"], temporary), 0.7)
    support.wait_until(no_orphans, 5, "its processes' end")
    taken_of(temporary)


def test_sigterm_ends_it_while_files_are_looked_for(tmp_path, temporary):
    """The process that opens files stands still, as at a file system that does not answer, and ends when that does."""
    popen = start_memscan(["core", many_names(tmp_path / "core")], temporary)
    opener = stop_opener(popen.pid)
    terminate_after(popen, 0.3)
    os.kill(opener, signal.SIGCONT)
    support.wait_until(no_orphans, 5, "its processes' end")


# ---- files that become shorter ----

def stop_opener(pid):
    """Stop the process that opens files, before the first one if it can be; its id, or None when memscan has ended."""
    found = []

    def opener():
        found[:] = [child for child in support.children_of(pid) if support.command_of(child) == "memscan-open"]
        return found or support.state_of(pid) == "Z"

    support.wait_until(opener, 20, "the process that opens files")
    if not found:
        return None
    support.kill(found[0], signal.SIGSTOP)
    return found[0]


def test_a_core_that_is_truncated_meanwhile_is_said(folder, temporary):
    with start("leaks", "chain", folder) as target:
        assert memscan("dump", target.scan_pid, "-o", f"{folder}/core").status == 0
    with open(f"{folder}/core", "rb") as file:
        whole = file.read()

    def is_caught():
        with open(f"{folder}/cut", "wb") as file:
            file.write(whole)
        popen = start_memscan(["core", f"{folder}/cut"], temporary)
        opener = stop_opener(popen.pid)
        if opener:
            time.sleep(0.3)
            os.truncate(f"{folder}/cut", 0)
            support.kill(opener, signal.SIGCONT)
        status, said, _ = finish(popen)
        assert status in (0, 1, 3), (status, said)
        assert status != 3 or "made shorter while it was read" in said or "is empty" in said, said
        return "made shorter" in said

    support.wait_until(is_caught, 100, "it to be caught before it has read the core")


# ---- files that the core's author may not read ----

def is_missing(core, program, *args):
    report = scan_core(core, *args).report
    return any(f"{program} are not in the core" in warning for warning in report["warnings"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give away")
def test_a_core_leads_root_to_no_file_that_not_everyone_may_read(folder):
    private = f"{folder}/private"
    os.mkdir(private)
    os.chmod(private, 0o755)
    program = shutil.copy(compile_target("leaks"), f"{private}/program")
    os.chmod(program, 0o755)
    with Target([program, "chain"], cwd=folder) as target:
        assert memscan("dump", target.scan_pid, "-o", f"{folder}/core").status == 0
    core = f"{folder}/core"
    assert not is_missing(core, program)
    os.chmod(private, 0o700)
    assert is_missing(core, program), "a folder on the way is root's alone"
    assert not is_missing(core, program, "--exe", program), "the user has given it by hand"
    assert not is_missing(core, program, "--root", "/")
    os.chmod(private, 0o755)
    os.chmod(program, 0o700)
    assert is_missing(core, program)
    # it does not matter who has saved the core
    for owner in (0, 4711):
        os.chown(core, owner, owner)
        os.chown(program, owner, owner)
        assert is_missing(core, program), owner
