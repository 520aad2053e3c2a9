# SPDX-License-Identifier: Apache-2.0
"""memscan why: by which chain a block is held, each step of it held against the target's memory.

The program (tests/targets/held.cc) holds one block in each of several ways; it is asked as it
was built, and stripped.
"""

import os
import re
import subprocess

import pytest

import support
from support import COULD_NOT_SCAN, SNAPSHOT, Target, compile_target, memscan

USAGE, ANSWERED = support.USAGE, 0
BUILDS = ("symbols", "stripped")


def build(how):
    plain = compile_target("held.cc", compiler="g++")
    return plain if how == "symbols" else support.stripped(plain)


@pytest.fixture(scope="module", params=BUILDS)
def target(request):
    with Target([build(request.param)]) as started:
        started.stripped = request.param == "stripped"
        yield started


@pytest.fixture(scope="module")
def plain():
    with Target([build("symbols")]) as started:
        yield started


def only(target, kind):
    """The block of that kind: the one that was told last."""
    return list(target.blocks(kind))[-1]


def why(target, what, *args):
    what = f"{what:#x}" if isinstance(what, int) else what
    return memscan("why", "--pid", target.pid, *SNAPSHOT, *args, what)


def answer(target, what, *args):
    done = why(target, what, "--json", *args)
    assert done.status == ANSWERED, str(done)
    told = support.read_answer(done.stdout)
    assert told["schema"] == "memscan.why/1"
    assert told["target"]["pid"] == target.pid
    for subject in told["subjects"]:
        check_memory(target, subject)
    return told


def one(target, what, *args):
    subjects = answer(target, what, *args)["subjects"]
    assert len(subjects) == 1
    return subjects[0]


def addr(text):
    return int(text, 16)


def word_at(target, address):
    with open(f"/proc/{target.pid}/mem", "rb", 0) as memory:
        return int.from_bytes(os.pread(memory.fileno(), 8, address), "little")


def points_into(target, address, block):
    begin = addr(block["address"])
    return begin <= word_at(target, address) < begin + block["size"]


def check_memory(target, subject):
    """The word of each step leads into the block of the next one."""
    for chain in subject.get("chains", []):
        steps = chain["steps"]
        assert len(steps) + sum(step.get("omitted", 0) for step in steps) == chain["length"]
        if "address" in chain["root"]:
            assert points_into(target, addr(chain["root"]["address"]), steps[0]), chain
        for step, following in zip(steps, steps[1:]):
            if "omitted" not in following:
                assert points_into(target, addr(step["address"]) + step["offset"], following), chain
        assert steps[-1]["address"] == subject["address"]
    for holder in subject.get("holders", []):
        assert points_into(target, addr(holder["address"]) + holder["offset"], subject), subject


def symbol(name):
    """Where nm says that it is in the file, and how long."""
    lines = subprocess.run(["nm", "-S", build("symbols")], check=True, stdout=subprocess.PIPE, text=True).stdout
    found = re.search(rf"^([0-9a-f]+) ([0-9a-f]+) \w {name}$", lines, re.MULTILINE)
    return int(found[1], 16), int(found[2], 16)


def check_global(target, root, name):
    begin, size = symbol(name)
    assert root["kind"] == "data" and root["module"].endswith(build("stripped" if target.stripped else "symbols").name)
    assert begin <= root["offset"] < begin + size, (root, hex(begin), size)
    if target.stripped:
        assert "symbol" not in root, root
    else:
        assert root["symbol"] == name and root["symbol_offset"] == root["offset"] - begin, root


def test_a_cache_in_a_global_map(target):
    told = one(target, only(target, "cache"))
    assert told["standing"] == "reachable"
    chain = told["chains"][0]
    check_global(target, chain["root"], "g_cache")
    session = chain["steps"][-2]
    assert addr(session["address"]) == only(target, "session") and session["offset"] == 8
    assert session["type"] == {"name": "Session", "how": "vtable"}


def test_a_list_in_the_storage_of_a_thread(target):
    chain = one(target, only(target, "tls"))["chains"][0]
    assert chain["root"]["kind"] == "tls" and chain["root"]["thread_name"] == "keeper", chain
    assert chain["root"]["thread"] != target.pid and chain["root"]["offset"] < 0
    assert chain["root"]["module"].endswith("/held" + "-stripped" * target.stripped), chain
    assert os.path.exists(f"/proc/{target.pid}/task/{chain['root']['thread']}")
    assert chain["length"] == 2


def test_a_callback_that_epoll_has(target):
    told = one(target, only(target, "epoll"))
    chain = told["chains"][0]
    assert chain["root"] == {"kind": "kernel"}
    assert addr(chain["steps"][0]["address"]) == only(target, "callback")
    assert chain["length"] == 3 and told["more"] is False


def test_a_closure_that_a_timer_has(target):
    told = one(target, only(target, "timer"))
    chain = told["chains"][0]
    assert chain["root"] == {"kind": "kernel"} and chain["length"] == 2 and told["more"] is False


@pytest.fixture(scope="module", params=BUILDS)
def called(request):
    plain = compile_target("callbacks.c")
    with Target([plain if request.param == "symbols" else support.stripped(plain)]) as started:
        started.stripped = request.param == "stripped"
        yield started


def callback(step):
    """The file that has it, and its name."""
    return os.path.basename(step["callback"]["module"]), step["callback"].get("symbol")


def test_a_block_holds_a_callback(called):
    """Where no type says what a block is, the function does that it has; epoll and a timer hold these."""
    file = os.path.basename(called.argv[0])
    chain = one(called, only(called, "line"))["chains"][0]
    assert chain["root"] == {"kind": "kernel"} and chain["length"] == 2
    assert callback(chain["steps"][0]) == (file, None if called.stripped else "on_ready")
    assert "callback" not in chain["steps"][1]
    text = why(called, only(called, "line")).stdout
    place = rf"{file}\+0x[0-9a-f]+" if called.stripped else f"on_ready in {file}"
    assert re.search(rf" -> 0x[0-9a-f]+: (watcher, )?24 bytes, holds callback {place}, at \+16\n", text), text
    file, name = callback(one(called, only(called, "timer")))
    # libc's own debug information has another name for it
    assert file == "libc.so.6" and name.endswith("free")


def test_an_address_in_the_middle_of_a_function_is_no_callback(called):
    assert "callback" not in one(called, only(called, "numbers"))


def leaks_of(target):
    return {addr(leak["address"]): leak for leak in support.scan_as_asked(target.pid)["leaks"]}


def test_a_leak_holds_a_callback(called):
    """It is described by the function, under a signature that does not depend on where that is."""
    file = os.path.basename(called.argv[0])
    leaks = leaks_of(called)
    held = leaks[only(called, "leaked")]["callback"]
    assert os.path.basename(held["module"]) == file and held.get("function") == (None if called.stripped else "on_ready")
    assert "callback" not in leaks[only(called, "lost")]
    text = memscan("--pid", called.pid).stdout
    place = rf"{file}\+0x[0-9a-f]+" if called.stripped else f"on_ready in {file}"
    assert len(re.findall(rf"^   holds callback: {place}$", text, re.M)) == 1, text
    with Target(called.argv) as again:
        other = leaks_of(again)[only(again, "leaked")]
        assert other["signature"] == leaks[only(called, "leaked")]["signature"]


def test_a_mapping_on_the_way(target):
    chain = one(target, only(target, "mapped"))["chains"][0]
    check_global(target, chain["root"], "g_mapped")
    assert [("mapping" in step) for step in chain["steps"]] == [True, False]


def test_data_that_is_in_no_mapping_of_its_file(target):
    chain = one(target, only(target, "far"))["chains"][0]
    check_global(target, chain["root"], "g_far")
    assert chain["root"]["offset"] - symbol("g_far")[0] == 1 << 16


def test_a_leak_of_a_leak(target):
    told = one(target, only(target, "lost"))
    assert told["standing"] == "leaked" and told["holders_count"] == 1
    holder = told["holders"][0]
    assert addr(holder["address"]) == only(target, "loser") and holder["offset"] == 8
    assert holder["type"]["name"] == "Session"
    assert one(target, only(target, "loser"))["holders"] == []


def test_a_leaked_cycle_and_what_points_to_it(target):
    nodes = sorted(target.blocks("cycle"))
    for node, other in (nodes, reversed(nodes)):
        told = one(target, node)
        assert told["standing"] == "leaked" and "chains" not in told
        assert told["holders_count"] == 1
        holder = told["holders"][0]
        begin = addr(holder["address"])
        assert begin <= other < begin + holder["size"], told
        assert "Node" in holder["type"]["name"]


def test_a_long_chain_is_shown_in_part(target):
    told = one(target, only(target, "link"))
    chain = told["chains"][0]
    check_global(target, chain["root"], "g_links")
    assert chain["length"] == 1000 and len(chain["steps"]) == 100 and told["more"] is False
    text = why(target, only(target, "link")).stdout
    assert "1000 steps from a root" in text and "\n  -> … 900 more\n" in text and len(text.splitlines()) == 104


def test_every_root_that_leads_there(target):
    held = only(target, "many")
    told = one(target, held, "--all")
    begin = min(addr(chain["root"]["address"]) for chain in told["chains"])
    assert told["roots"] == 30 and len(told["chains"]) == 20
    assert sorted(addr(chain["root"]["address"]) for chain in told["chains"]) == [begin + 8 * i for i in range(20)]
    assert all(chain["length"] == 1 for chain in told["chains"])
    assert "  10 more words of roots lead there\n" in why(target, held, "--all").stdout
    # there is a way through other blocks only where the nearest is no root's own word
    cache = only(target, "cache")
    told = one(target, cache, "--all")
    lengths = [chain["length"] for chain in told["chains"]]
    assert lengths == sorted(lengths) and lengths[0] == one(target, cache)["chains"][0]["length"]
    assert len({chain["root"].get("address") for chain in told["chains"]}) == len(lengths)


@pytest.mark.parametrize("how", ["copy", "fork"])
def test_text(plain, how):
    session = only(plain, "session")
    done = memscan("why", "--pid", plain.pid, "--snapshot", how, "--all", f"{session + 16:x}")
    assert done.status == ANSWERED, str(done)
    lines = done.stdout.splitlines()
    assert re.fullmatch(rf"0x{session + 16:x}: 16 bytes into the block 0x{session:x}, Session, \d+ bytes, "
                        r"reachable, \d+ steps from a root", lines[0]), lines
    assert re.fullmatch(r"  g_cache\+\d+ in held\+0x[0-9a-f]+ \(data at 0x[0-9a-f]+\)", lines[1]), lines
    assert re.fullmatch(r"  -> 0x[0-9a-f]+: node of std::map or std::set, 56 bytes, at \+\d+", lines[2]), lines
    done = why(plain, only(plain, "epoll"))
    assert done.stdout.splitlines()[1] == "  a value that the kernel holds (epoll, a timer or the like)", done
    assert done.stdout.endswith("  this is the only way\n")
    done = why(plain, min(plain.blocks("cycle")))
    assert ", leaked: no root leads to it\n  1 leaked block points to it:\n  <- 0x" in done.stdout


def test_memory_that_is_no_block(plain):
    told = one(plain, only(plain, "global") + 8)
    assert told["standing"] == "root" and told["memory"]["symbol"] == "g_plain" and told["memory"]["symbol_offset"] == 8
    told = one(plain, only(plain, "code"))
    assert told["standing"] == "code" and told["memory"]["symbol"] == "main", told
    with open(f"/proc/{plain.pid}/maps") as maps:
        regions = {line.split()[-1]: addr(line.split("-")[0]) for line in maps if "[" in line}
    told = one(plain, regions["[vdso]"])
    assert told["standing"] == "mapping" and told["memory"]["module"] == "[vdso]"
    told = one(plain, regions["[stack]"])
    assert told["standing"] in ("dead stack", "mapping"), told


def test_a_possible_leak_has_its_reason():
    with Target([support.compile_special("relative.c", "-ldl", "-Wno-pedantic"), "nodes"]) as target:
        report = support.check_scanned(support.scan(target.pid, "--no-fold", "--possible"))
        block = next(addr(leak["address"]) for leak in report["leaks"] if leak.get("reason") == "relative")
        told = one(target, block)
        assert told["standing"] == "possible" and told["reason"] == "relative", told
        done = why(target, block)
        assert ", possibly leaked: only self-relative pointers lead to it\n" in done.stdout, str(done)
        assert one(target, only(target, "leak"))["standing"] == "leaked"


def test_types(plain):
    told = answer(plain, "Session")
    assert told["blocks_of_type"] == 6 and told["reachable_of_type"] == 5 and len(told["subjects"]) == 3
    assert why(plain, "Session").stdout.startswith("6 blocks of this type, 5 reachable; the 3 largest:\n\n0x")
    for subject in told["subjects"]:
        assert subject["standing"] == "reachable" and subject["type"]["name"] == "Session"
    assert answer(plain, "::Session")["subjects"] == told["subjects"]


REFUSED = [
    ("Sesion", COULD_NOT_SCAN, "no block of the type 'Sesion'", "similar types: Session"),
    ("session", COULD_NOT_SCAN, "no block of the type 'session'", "similar types: Session"),
    ("Zebra", COULD_NOT_SCAN, "no block of the type 'Zebra'", "of 3 known types: "),
    ("0x10", COULD_NOT_SCAN, "no block is at 0x10: nothing is mapped there", "may have been freed"),
    ("fffffffffffff000", COULD_NOT_SCAN, "nothing is mapped there", "may have been freed"),
    ("0", USAGE, "no block is at address 0", "as reports print it"),
    ("0x0", USAGE, "no block is at address 0", "as reports print it"),
    ("0x", USAGE, "'0x' is no address", "as reports print it"),
    ("0x12g4", USAGE, "'0x12g4' is no address", "as reports print it"),
    ("12 bytes", USAGE, "'12 bytes' is no address", "as reports print it"),
    ("0x10000000000000000", USAGE, "0x10000000000000000 is larger than any address", "as reports print it"),
    ("-1", USAGE, "there is no option -1", "see memscan"),
    ("", USAGE, "no address and no type was given", "memscan why PID ADDRESS"),
]


@pytest.mark.parametrize("what, status, text, advice", REFUSED, ids=[row[0] or "nothing" for row in REFUSED])
def test_refusals(plain, what, status, text, advice):
    done = why(plain, what)
    assert done.status == status and not done.stdout, str(done)
    lines = done.stderr.splitlines()
    assert len(lines) == 2 and text in lines[0] and advice in lines[1], str(done)


def test_free_memory(plain):
    freed = only(plain, "freed")
    for at in (freed, freed + 1500):
        done = why(plain, at)
        assert done.status == COULD_NOT_SCAN and not done.stdout, str(done)
        assert f"no block in use is at {at:#x}: that is free memory of a heap" in done.stderr
    # what malloc keeps in front of a block is nobody's
    assert why(plain, only(plain, "cache") - 8).status == COULD_NOT_SCAN


def test_calls_that_are_wrong(plain):
    for args, text in ((["0x1000"], "no process was given"), (["--pid", plain.pid], "no address and no type"),
                       (["--pid", plain.pid, "0x1000", "0x2000"], "more than one address or type"),
                       (["--pid", plain.pid, "--limit", "3", "0x1000"], "there is no option")):
        done = memscan("why", *args)
        assert done.status == USAGE and text in done.stderr, str(done)


def test_a_program_without_types_and_a_file_for_the_answer(tmp_path):
    with Target([compile_target("leaks")]) as target:
        done = why(target, "Session")
        assert done.status == COULD_NOT_SCAN and "no type is known there" in done.stderr, str(done)
        leak = min(target.leaks())
        out = tmp_path / "why.json"
        done = memscan("why", "--pid", target.pid, "--json", "-o", out, f"{leak:#x}")
        assert done.status == ANSWERED and not done.stdout, str(done)
        assert support.read_answer(out.read_text())["subjects"][0]["standing"] == "leaked"
        done = memscan("why", "--pid", target.pid, "-o", "/dev/full", f"{leak:#x}")
        assert done.status == support.COULD_NOT_WRITE, str(done)
