# SPDX-License-Identifier: Apache-2.0
"""Types of blocks by debug information: a C program's whole heap hangs on its variables.

The program (tests/targets/typed.c) prints each block with its type; it is asked as it was built,
with its debug information apart, and without.
"""

import pathlib
import re
import subprocess

import pytest

import support
from support import COULD_NOT_SCAN, SNAPSHOT, TARGETS, Target, compile_target, memscan

ANSWERED = 0
UNTOLD = ("text", "lost", "entry")  # nothing that has a type points to these


@pytest.fixture(scope="module")
def whole():
    with Target([compile_target("typed")]) as started:
        yield started


def split(program):
    debug = pathlib.Path(f"{program}.debug")
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["strip", program], check=True)
    return debug


def build(folder, *flags):
    program = folder / "typed"
    subprocess.run(["gcc", "-std=gnu11", "-O1", "-g", "-pthread", *flags, "-o", program, TARGETS / "typed.c"], check=True)
    return program


def by_build_id(program, debug, folder):
    notes = subprocess.run(["readelf", "-n", program], check=True, stdout=subprocess.PIPE, text=True).stdout
    identity = re.search(r"Build ID: ([0-9a-f]+)", notes)[1]
    path = folder / ".build-id" / identity[:2] / (identity[2:] + ".debug")
    path.parent.mkdir(parents=True)
    debug.rename(path)
    return path


def ask(target, what, *args):
    what = f"{what:#x}" if isinstance(what, int) else what
    return memscan("why", "--pid", target.pid, *SNAPSHOT, *args, what)


def answer(target, what, *args):
    done = ask(target, what, "--json", *args)
    assert done.status == ANSWERED, str(done)
    return support.read_answer(done.stdout)


def subject(target, address, *args):
    return answer(target, address, *args)["subjects"][0]


def name_of(step):
    if "type" not in step:
        return None
    assert step["type"]["how"] == "debug", step
    return step["type"]["name"]


def check(target, kinds, *args):
    """Each type has the blocks that the program says, and no others."""
    for kind in kinds:
        name = kind.replace("_table", " *[]").replace("_row", "[]")
        told = answer(target, name, *args)
        assert told["blocks_of_type"] == len(target.blocks(kind)), kind
        assert told["reachable_of_type"] == told["blocks_of_type"], kind
        for found in told["subjects"]:
            assert int(found["address"], 16) in target.blocks(kind), (kind, found)


def test_each_block_has_its_type(whole):
    check(whole, {kind for kind, _, _ in whole.facts} - set(UNTOLD))


def test_what_nothing_points_to_by_type_has_none(whole):
    for kind in UNTOLD:
        told = subject(whole, min(whole.blocks(kind)))
        assert "type" not in told, told


def test_types_along_a_chain(whole):
    first = min(whole.blocks("session"))
    steps = subject(whole, first)["chains"][0]["steps"]
    assert [name_of(step) for step in steps] == ["server"] + ["session"] * 5
    lines = ask(whole, first).stdout.splitlines()
    assert re.fullmatch(r"0x[0-9a-f]+: session, \d+ bytes, reachable, 6 steps from a root", lines[0]), lines
    assert re.fullmatch(r"  -> 0x[0-9a-f]+: server, \d+ bytes, at \+0", lines[2]), lines


def test_debug_information_by_build_id(tmp_path):
    program = build(tmp_path)
    by_build_id(program, split(program), tmp_path / "debug")
    with Target([program]) as target:
        session = min(target.blocks("session"))
        assert "type" not in subject(target, session)
        told = subject(target, session, "--debug-dir", str(tmp_path / "debug"))
        assert name_of(told) == "session"
        check(target, ["user"], "--debug-dir", str(tmp_path / "debug"))


def test_debug_information_of_another_build_is_not_used(tmp_path):
    program = build(tmp_path)
    debug = split(program)
    (tmp_path / "other").mkdir()
    other = build(tmp_path / "other", "-Wl,--build-id=0x1234")
    split(other).rename(by_build_id(program, debug, tmp_path / "debug"))
    with Target([program]) as target:
        session = min(target.blocks("session"))
        told = answer(target, session, "--debug-dir", str(tmp_path / "debug"))
        assert "type" not in told["subjects"][0]
        assert any("types of " in warning and "of another build" in warning for warning in told["warnings"]), told


def test_types_in_units_of_their_own(tmp_path):
    """They are referred to by signature."""
    with Target([build(tmp_path, "-fdebug-types-section")]) as target:
        check(target, ["user", "route_row"])


@pytest.mark.parametrize("version", ["-gdwarf-3", "-gz"])
def test_forms_of_debug_information(tmp_path, version):
    with Target([build(tmp_path, version)]) as target:
        check(target, ["user", "route_row"])


def test_a_type_that_there_is_not(whole):
    done = ask(whole, "sesion")
    assert done.status == COULD_NOT_SCAN and "similar types: session" in done.stderr, str(done)


def test_a_plain_scan_does_not_wait_for_it(whole):
    """Nothing points to what leaked, so debug information says nothing of it."""
    report = support.check_scanned(support.scan(whole.pid))
    lost = min(whole.blocks("lost"))
    leak = next(leak for leak in report["leaks"] if int(leak["address"], 16) == lost)
    assert "type" not in leak
