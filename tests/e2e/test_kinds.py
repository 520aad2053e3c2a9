# SPDX-License-Identifier: Apache-2.0
"""What blocks are, by their own words and by what points to them, in a stripped program.

The program (tests/targets/containers.cc) says of each of its blocks what it is.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest

import servers
import support
from support import SNAPSHOT, Process, Target, compile_target, memscan


@pytest.fixture(scope="module")
def target():
    with Target([support.stripped(compile_target("containers.cc", compiler="g++"))]) as started:
        yield started


def wanted(target):
    return {address: kind[3:].replace("~", " ") for kind, address, _ in target.facts if kind.startswith("is:")}


def subject(pid, what):
    done = memscan("why", "--pid", pid, *SNAPSHOT, "--json", what)
    assert done.status == 0, str(done)
    return support.read_answer(done.stdout)


def test_leaks_are_named_as_they_are(target):
    report = support.check_scanned(support.scan(target.pid, "--no-fold"))
    of_blocks = {int(leak["address"], 16): leak for leak in report["leaks"]}
    named = {address: leak["type"]["name"] for address, leak in of_blocks.items()}
    known = {address: name for address, name in wanted(target).items() if address in of_blocks}
    assert len(known) > 40
    assert {address: named.get(address) for address in known} == known
    # nothing that the program did not say has a name of another block
    assert set(named.values()) - set(known.values()) <= {
        "Session", "text", "map of std::deque in Session+0xf0", "node of std::map or std::set in Session+0x88",
        "buckets of an unordered container in Session+0xb8"}, set(named.values())
    session = next(leak for leak in of_blocks.values() if leak["type"]["name"] == "Session")
    assert session["type"]["how"] == "vtable" and session["kind"] == "direct"
    text = next(leak for leak in of_blocks.values() if leak["type"]["name"] == "text")
    assert text["text"] == "lost, and in one piece" and text["type"]["how"] == "text"


# What is not known where words have 4 bytes.
WIDE_ALONE = {"text", "DIR"}
UNTOLD = {"Session", "map of std::deque in Session", "node of std::map or std::set in Session",
          "buckets of an unordered container in Session"}


@pytest.fixture(scope="module")
def narrow():
    program = compile_target("containers.cc", variant="i386", compiler="g++")
    with Target([support.stripped(program)]) as started:
        yield started


def kept(target):
    return {address: name for address, name in wanted(target).items() if name not in WIDE_ALONE}


def without_offset(name):
    return re.sub(r"\+0x[0-9a-f]+$", "", name)


def test_containers_of_i386_have_the_names_that_others_have(narrow, target):
    # But for the offsets, the program says the same of its blocks in both builds.
    assert {without_offset(name) for name in kept(narrow).values()} == {
        without_offset(name) for name in kept(target).values()}
    report = support.check_scanned(support.scan(narrow.pid, "--no-fold"))
    named = {int(leak["address"], 16): leak.get("type", {}).get("name") for leak in report["leaks"]}
    known = {address: name for address, name in kept(narrow).items() if address in named}
    assert len(known) > 40
    assert {address: named[address] for address in known} == known
    others = {name and without_offset(name) for address, name in named.items() if address not in known}
    assert others <= UNTOLD | {None}, others


def test_reachable_containers_of_i386_are_named_by_why(narrow):
    leaked = {int(leak["address"], 16) for leak in support.check_scanned(support.scan(narrow.pid, "--no-fold"))["leaks"]}
    asked = {name: address for address, name in kept(narrow).items() if address not in leaked}
    assert len(asked) > 9
    for name, address in asked.items():
        told = subject(narrow.pid, f"{address:#x}")["subjects"][0]
        assert told["standing"] == "reachable" and told["type"]["name"] == name, told


def test_reachable_blocks_are_named_by_why(target):
    leaked = {int(leak["address"], 16)
              for leak in support.check_scanned(support.scan(target.pid, "--no-fold"))["leaks"]}
    asked = {}
    for address, name in wanted(target).items():
        if address not in leaked:
            asked.setdefault(name, address)
    assert len(asked) > 10
    for name, address in asked.items():
        told = subject(target.pid, f"{address:#x}")["subjects"][0]
        assert told["standing"] == "reachable" and told["type"]["name"] == name, told
    done = memscan("why", "--pid", target.pid, *SNAPSHOT, f"{asked['text']:#x}")
    assert 'text, 56 bytes "a text, that nothing but…"' in done.stdout, str(done)


def test_python_is_named():
    script = "kept = [{i: str(i) * 10, 's': {i}} for i in range(500)]\nprint('READY', flush=True)\ninput()\n"
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    with Process([python, "-c", script], stdin=subprocess.PIPE) as process:
        assert process.line(30) == "READY"
        for name, least in (("dict", 500), ("keys of dict", 500), ("set", 500), ("str", 500), ("items of list", 1)):
            told = subject(process.pid, name)
            assert told["blocks_of_type"] >= least, (name, told)


def test_certificates_are_named(tmp_path):
    """Of OpenSSL, which CPython has for ssl: three certificates, and what hangs on them."""
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    files = tmp_path / "certificates.pem"
    with open(files, "wb") as out:
        for i in range(3):
            out.write(subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3",
                 "-keyout", tmp_path / "key", "-subj", f"/O=memscan/CN={i}.example.org"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout)
    script = f"import ssl\nkept = ssl.create_default_context(cafile={str(files)!r})\nprint('READY', flush=True)\ninput()\n"
    with Process([python, "-c", script], stdin=subprocess.PIPE) as process:
        assert process.line(30) == "READY"
        assert subject(process.pid, "X509")["blocks_of_type"] == 3
        assert subject(process.pid, "encoding of X509")["blocks_of_type"] == 3
        for name, least in (("X509_NAME", 6), ("X509_NAME_ENTRY", 12), ("X509_PUBKEY", 3), ("ASN1_STRING", 20),
                            ("X509_EXTENSION", 6), ("encoding of X509_NAME", 12)):
            told = subject(process.pid, name)
            assert told["blocks_of_type"] >= least and told["reachable_of_type"] == told["blocks_of_type"], (name, told)


REDIS = """SET key value-of-some-length
SET number 77777777
HSET hash name value
SADD set alice bob
ZADD few 1 a 2 b
"""


def fill_redis(path):
    many = "".join(f"ZADD sorted {i} m{i}\nRPUSH list element{i}\nSET k{i} v{i}\n" for i in range(300))
    subprocess.run(["redis-cli", "-s", path, "--pipe"], input=REDIS + many, text=True, check=True, stdout=subprocess.DEVNULL)


def test_redis_is_named_whatever_it_is_called(tmp_path):
    """By its structures alone: this one is called otherwise, and has jemalloc."""
    servers.need("redis-server")
    program, path = tmp_path / "cache", str(tmp_path / "s")
    shutil.copy(os.path.realpath(shutil.which("redis-server")), program)
    with Process([program, "--port", "0", "--unixsocket", path, "--save", "", "--dir", str(tmp_path)],
                 stdout=subprocess.DEVNULL) as process:
        support.wait_until(lambda: servers.accepts(path), 30, "redis to listen")
        fill_redis(path)
        for name, least in (("redisObject", 300), ("dictEntry", 600), ("dict", 10), ("sds string", 600), ("zskiplist", 1),
                            ("zskiplistNode", 301), ("zset", 1), ("quicklist", 1), ("listpack", 3), ("aeEventLoop", 1)):
            told = subject(process.pid, name)
            assert told["blocks_of_type"] >= least, (name, told)
        assert subject(process.pid, "zskiplistNode")["blocks_of_type"] == 301
