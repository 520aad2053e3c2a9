# SPDX-License-Identifier: Apache-2.0
"""Each command ends in time, on a signal, and in little memory, whatever the target has mapped.

`make check` has each command and each target once; COMBINATIONS=all has all of them.
"""

import os
import re
import signal
import struct
import subprocess
import time

import pytest

import support
from support import MEMSCAN, Process, compile_hostile

TIMEOUT = 3
MOST_BEYOND = 2
MOST_KIB = 1 << 20
ENTRIES = 1 << 20  # of a table of symbols
CHAIN = 4200       # symbols behind the one bucket of a hash table
# what follows a command's name, before the process's number
COMMANDS = {"scan": [], "attach": [], "status": ["--status"], "detach": [], "stacks": [], "dump": ["-o", "{core}"],
            "why": ["0x1000"], "retained": [], "live": []}
ENDED_IN_ORDER = (0, 1, 3)


def command(name, pid, timeout, core="/dev/null"):
    word = "attach" if name == "status" else name
    options = [option.format(core=core) for option in COMMANDS[name]]
    where = [str(pid)] if name in ("attach", "status", "detach", "stacks", "dump") else ["--pid", str(pid)]
    return [str(MEMSCAN), word, "--timeout", str(timeout), *where, *options]


# ---- what is mapped ----

SECTION = "<IIQQQQIIQQ"  # of ELF's 64-bit section header: name, type, flags, address, offset, size, link, …


def append(file, piece):
    file.extend(bytes(-len(file) % 16))
    file.extend(piece)
    return len(file) - len(piece)


def with_symbols(program, out):
    """A static program whose table of symbols goes on with a million entries of one long name."""
    file = bytearray(program.read_bytes())
    sections, = struct.unpack_from("<Q", file, 40)
    count, = struct.unpack_from("<H", file, 60)
    places = [sections + 64 * i for i in range(count)]
    table_at = next(at for at in places if struct.unpack_from(SECTION, file, at)[1] == 2)
    table = list(struct.unpack_from(SECTION, file, table_at))
    names_at = places[table[6]]
    names = list(struct.unpack_from(SECTION, file, names_at))
    old_symbols = bytes(file[table[4]:table[4] + table[5]])
    old_names = bytes(file[names[4]:names[4] + names[5]])
    liar = struct.pack("<IBBHQQ", len(old_names), 0x12, 0, 1, 0x401000, 16)
    names[5] = len(old_names) + ENTRIES + 1
    names[4] = append(file, old_names + b"x" * ENTRIES + b"\0")
    table[5] = len(old_symbols) + len(liar) * ENTRIES
    table[4] = append(file, old_symbols + liar * ENTRIES)
    struct.pack_into(SECTION, file, table_at, *table)
    struct.pack_into(SECTION, file, names_at, *names)
    out.write_bytes(file)
    out.chmod(0o755)
    return out


def chained(out):
    """A library whose symbols all are in one chain of a hash table (DT_HASH)."""
    names = b"\0mallox\0libc.so.6\0"
    file = bytearray(0x1000)
    strings = append(file, names)
    symbols = append(file, bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 0x1000, 16) * (CHAIN - 1))
    table = append(file, struct.pack(f"<III{CHAIN}I", 1, CHAIN, 1, *range(1, CHAIN), 0))
    entries = [(1, 8), (4, table), (5, strings), (6, symbols), (10, len(names)), (11, 24), (0, 0)]
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    at = append(file, dynamic)
    file.extend(bytes(-len(file) % 4096))
    size = len(file)
    file[:64] = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, 62, 1, 0x1000, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    file[64:120] = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, size, size, 4096)
    file[120:176] = struct.pack("<IIQQQQQQ", 2, 4, at, at, at, len(dynamic), len(dynamic), 8)
    out.write_bytes(file)
    return out


def hostile(kind, folder):
    """The program's words."""
    if kind == "symbols":
        program = compile_hostile("many_mappings.c", "-static", tag="-static")
        return [with_symbols(program, folder / "symbols"), "/dev/null", "0"]
    if kind == "hung":
        return [compile_hostile("hung_file.c"), "code"]
    offset = ["4096"] if kind == "headless" else []
    return [compile_hostile("many_mappings.c"), chained(folder / "chain.so"), "2000", *offset]


@pytest.fixture
def target(request, tmp_path):
    with Process(hostile(request.param, tmp_path)) as process:
        line = process.line()
        if line == "CANNOT MOUNT":
            pytest.skip("no file system may be mounted here")
        yield process
        if request.param == "hung":  # its file system ends first, and with it whoever waits for it
            for server in support.children_of(process.pid):
                support.kill(server)
            support.wait_until(lambda: not support.leftovers_alive(), 20, "what reads ends with the file system")
            support.leftovers()
        assert process.running()


KINDS = ["symbols", "mappings", "headless", "hung"]


@pytest.mark.spread
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("target", KINDS, indirect=True)
def test_ends_within_its_time(target, name, tmp_path, notes):
    peak = tmp_path / "peak"
    begun = time.monotonic()
    done = subprocess.run([compile_hostile("peak.c"), peak, *command(name, target.pid, TIMEOUT, tmp_path / "core")],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    seconds = time.monotonic() - begun
    said = f"{seconds:.1f} s, {done}"
    assert done.returncode in ENDED_IN_ORDER, said
    assert seconds < TIMEOUT + MOST_BEYOND, said
    assert int(peak.read_text()) < MOST_KIB, f"{peak.read_text()} KiB: {said}"
    assert not re.search(r"ended by signal|ended unexpectedly", done.stderr), said
    notes.append(f"{name}: {seconds:.2f} s, {int(peak.read_text()) >> 10} MiB")


@pytest.mark.spread
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("target", ["hung"], indirect=True)
def test_ends_by_a_signal(target, name, tmp_path):
    """It waits for what does not come, and ends within a second, as does what it prints for whoever reads it."""
    popen = subprocess.Popen(command(name, target.pid, 60, tmp_path / "core"), stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    support.our_children.add(popen.pid)
    time.sleep(0.7)
    os.kill(popen.pid, signal.SIGTERM)
    begun = time.monotonic()
    popen.communicate(timeout=30)
    status = popen.returncode
    seconds = time.monotonic() - begun
    assert status == -signal.SIGTERM or status in ENDED_IN_ORDER, status
    assert seconds < 1.5, f"{seconds:.2f} s"
    assert status == -signal.SIGTERM or name not in ("scan", "attach", "dump")


@pytest.mark.parametrize("kind", ["symbols", "mappings"])
def test_a_program_that_is_run(kind, tmp_path):
    """There is no time limit, and nothing that takes long."""
    begun = time.monotonic()
    done = support.memscan("run", "--", *hostile(kind, tmp_path), timeout=60)
    assert done.status == 0, str(done)
    assert time.monotonic() - begun < 20, str(done)
