# SPDX-License-Identifier: Apache-2.0
"""memscan attach where malloc is another allocator's: what its table says, against what the program knows.

ATTACH_ROUNDS is how often each is attached and detached.
"""

import math
import pathlib
import re
import socket
import struct

import pytest

import servers
import support
from allocators import ALLOCATORS
from attach_support import (ROUNDS, STUCK_S, TEXT_BYTES, Stormy, attach, check_given_back_all, detach, refused, run_all_rounds,
                            text_of)
from support import HOST, Process, compile_target, memscan

KNOWN = [a for a in ALLOCATORS if a.name in ("glibc", "jemalloc", "tcmalloc")]
OTHERS = [a for a in KNOWN if a.name != "glibc" and not a.tag and a.way in ("preload", "linked")]
OF_HOST = [a for a in OTHERS if a.suite == HOST and a.way == "preload"]

# struct ms_agent_data
DROPPED_AT, SLOTS_AT, SLOTS, RECORDS_AT, RECORD_BYTES = 64, 256 + 8192, 16384, 256 + 8192 + 8 * 16384, 4096
OWN = 0  # blocks that the C library itself makes meanwhile and keeps
SURE = 32  # bytes of a block that is sampled once in 10^14 times not, one byte from sample to sample


def table_of(pid):
    """{address: size asked for} of its blocks, and how many were dropped."""
    at = text_of(pid) + TEXT_BYTES
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        memory.seek(at + DROPPED_AT)
        dropped = int.from_bytes(memory.read(8), "little")
        memory.seek(at + SLOTS_AT)
        slots = [slot for slot in struct.unpack(f"<{SLOTS}Q", memory.read(8 * SLOTS)) if slot]
        table = {}
        for slot in slots:
            memory.seek(at + RECORDS_AT + RECORD_BYTES * ((slot & 0xfffff) - 1))
            block, size = struct.unpack("<QQ", memory.read(16))
            assert block == slot >> 20 << 3 and block not in table
            table[block] = size
    return table, dropped


def start(allocator, program):
    env = {"LD_PRELOAD": str(allocator.path())} if allocator.way == "preload" and allocator.library else {}
    if allocator.suite != HOST:
        env["LD_LIBRARY_PATH"] = str(support.suite_root(allocator.suite) / "usr/lib/x86_64-linux-gnu")
    target = Process([allocator.compile(program)], env={**env, **dict(allocator.env)})
    assert target.line() == "READY"
    return target


def round_of(target):
    """After a round of every_way: what lives, {address: size}, and what was made, {size: how many}."""
    blocks, made = {}, {}
    line = target.ask("\n", STUCK_S * 3)
    while line != "DONE":
        word, *numbers = line.split()
        if word == "made":
            made[int(numbers[0])] = int(numbers[1])
        else:
            assert word == "block", line
            blocks[int(numbers[0], 16)] = int(numbers[1])
        line = target.line(STUCK_S)
    return blocks, made


def check_table(target, before):
    """Those that were made since are there, no freed one is, and none is another. Returns how many there are."""
    truth, _ = round_of(target)
    table, dropped = table_of(target.pid)
    assert not dropped
    stale = {at: size for at, size in table.items() if at not in truth}
    assert len(stale) <= OWN, f"{len(stale)} blocks that were freed, of {len(table)}: {list(stale.items())[:5]}"
    wrong = {hex(at): (size, truth[at]) for at, size in table.items() if at in truth and size != truth[at]}
    assert not wrong, wrong
    lost = {hex(at): size for at, size in truth.items() if at not in table and size >= SURE and before.get(at) != size}
    assert not lost, lost
    return len(table)


def check_rounds_of_the_table(target):
    """Of every_way, which ends with it. Returns a line of what there was."""
    before, _ = round_of(target)
    n = 0
    for _ in range(max(ROUNDS, 2)):
        said = attach(target.pid, "--sample", 1)
        n += check_table(target, before)
        before, _ = round_of(target)
        assert "is detached" in detach(target.pid)
    check_given_back_all(target.pid)
    assert target.finish(STUCK_S) == 0
    return f"{n} entries; {said.strip()}"


@pytest.mark.parametrize("allocator", KNOWN, ids=str)
def test_the_table_is_the_truth(allocator, notes):
    with start(allocator, "every_way") as target:
        notes.append(f"{allocator}: {check_rounds_of_the_table(target)}")


INTERVAL = 4096


def check_each_is_counted_once(target):
    """Of every_way, which ends with it: so many samples as such a distance between them makes of its sizes."""
    attach(target.pid, "--sample", INTERVAL)
    _, made = round_of(target)
    said = memscan("attach", "--status", target.pid).stdout
    samples = int(re.search(r"(\d+) samples", said)[1])
    chances = [(n, 1 - math.exp(-size / INTERVAL)) for size, n in made.items()]
    expected = sum(n * p for n, p in chances)
    error = sum(n * p * (1 - p) for n, p in chances) ** 0.5
    assert abs(samples - expected) < 6 * error, (samples, expected, error)
    detach(target.pid)
    assert target.finish(STUCK_S) == 0
    return f"{samples} samples, expected {expected:.0f}, standard error {error:.0f}"


@pytest.mark.parametrize("allocator", KNOWN, ids=str)
def test_each_block_is_counted_once(allocator, notes):
    """However functions call one another."""
    with start(allocator, "every_way") as target:
        notes.append(f"{allocator}: {check_each_is_counted_once(target)}")


@pytest.mark.parametrize("allocator", [a for a in OF_HOST if a.name != "mimalloc"], ids=str)
def test_operators_that_throw(allocator):
    """An exception passes where the agent is: each is sampled, for no distance is as long."""
    program = compile_target("thrown.cc", compiler="g++")
    with Process([program], env={"LD_PRELOAD": str(allocator.path())}, stderr=support.subprocess.DEVNULL) as target:
        assert target.line() == "READY"
        wanted = target.ask("\n")
        assert wanted == "threw 4000 nothing 2000"
        attach(target.pid, "--sample", 1)
        assert target.ask("\n") == wanted
        detach(target.pid)
        check_given_back_all(target.pid)
        assert target.ask("\n") == wanted
        assert target.finish(STUCK_S) == 0


@pytest.mark.parametrize("allocator", OF_HOST, ids=str)
@pytest.mark.parametrize("mode", ["loops", "forks", "threads", "signals"])
def test_rounds_of_other_allocators(allocator, mode):
    with Stormy(mode, env={"LD_PRELOAD": str(allocator.path())}) as target:
        run_all_rounds(target)


# ---- programs that bring one ----

def work_redis(client, answers, number):
    """Values of every size, which replace others; all come back right."""
    for i in range(number, number + 300):
        value = b"%d " % i * (i * 37 % 400 + 1)
        client.sendall(b"SET key%d %s\r\n" % (i % 97, b'"' + value + b'"'))
        assert answers.readline() == b"+OK\r\n"
        client.sendall(b"GET key%d\r\n" % (i % 97))
        assert answers.readline() == b"$%d\r\n" % len(value)
        assert answers.read(len(value) + 2) == value + b"\r\n"


def test_redis_under_load(folder, notes):
    """Debian's redis has jemalloc."""
    servers.need("redis-server")
    path = f"{folder}/socket"
    pauses = []
    with Process(["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder],
                 stdout=support.subprocess.DEVNULL) as redis, socket.socket(socket.AF_UNIX) as client:
        client.settimeout(STUCK_S)
        support.wait_until(lambda: not client.connect_ex(path), STUCK_S, "redis to listen")
        answers = client.makefile("rb")
        for i in range(ROUNDS):
            said = attach(redis.pid, "--sample", 2048)
            assert "functions of libjemalloc" in said
            pauses.append(float(re.search(r"all ([0-9.]+) ms", said)[1]))
            work_redis(client, answers, 1000 * i)
            if not i:
                live = memscan("live", "--pid", redis.pid, "--json").report
                stacks = [stack["backtrace"] for stack in live["sampled_stacks"]]
                assert any("redis" in frame["module"] for stack in stacks for frame in stack), stacks
            detach(redis.pid)
            work_redis(client, answers, 1000 * i + 500)
        check_given_back_all(redis.pid)
    notes.append(f"redis: {len(pauses)} rounds, pauses up to {max(pauses)} ms")


# ---- which of several ----

LATE = """
import ctypes, sys
ctypes.CDLL(sys.argv[1])
print("READY", flush=True)
for line in sys.stdin: print(len([bytes(i) for i in range(1000)]), flush=True)
"""


@pytest.mark.parametrize("allocator", OF_HOST, ids=str)
def test_an_allocator_that_is_loaded_late_is_not_reached(allocator):
    env = {"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=16384"}
    with Process(["/usr/bin/python3", "-c", LATE, allocator.path()], env=env) as target:
        assert target.line() == "READY"
        done = memscan("attach", target.pid, "--sample", 1000)
        assert done.status == 0 and "functions of glibc" in done.stdout, str(done)
        assert "no call of the program reaches malloc of" in done.stderr, str(done)
        assert allocator.path().name.split(".")[0] in done.stderr, str(done)
        assert target.ask("\n") == "1000"
        detach(target.pid)
        assert target.finish() == 0


def test_of_two_the_first_is_reached():
    first, second = OF_HOST[0], OF_HOST[-1]
    with Stormy("loops", env={"LD_PRELOAD": f"{first.path()}:{second.path()}"}) as target:
        assert first.path().name in attach(target.pid)
        target.check()
        detach(target.pid)
        target.end()


# ---- refused ----

@pytest.mark.parametrize("library", ["libmimalloc.so.2", "libtcmalloc_minimal_debug.so.4"])
def test_allocators_that_are_not_known(library):
    path = pathlib.Path("/usr/lib/x86_64-linux-gnu", library)
    if not path.exists():
        pytest.skip(f"{library} is not installed; tools/install-deps check")
    with Stormy("sleeps", env={"LD_PRELOAD": str(path)}) as target:
        refused(target.pid, "is not the C library's", library.split(".")[0])
