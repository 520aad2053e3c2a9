# SPDX-License-Identifier: Apache-2.0
"""Words beside a leak that its owner did not write (tests/targets/residual.c)."""

import os

import pytest

from support import Target, check_scanned, compile_target, memscan, scan


def leaks_of(target, report):
    """Each kind of fact with the entries that have a block of it at their address."""
    kinds = {address: kind for kind, address, _ in target.facts}
    found = {}
    for leak in report["leaks"]:
        kind = kinds.get(int(leak["address"], 16))
        if kind:
            found.setdefault(kind, []).append(leak)
    return found


def told(leak, key):
    made = leak.get(key)
    return made and {**made, "module": os.path.basename(made["module"])}


@pytest.fixture(scope="module")
def residual():
    library = compile_target("residual", flags=("-DLIBRARY", "-shared", "-fPIC"), tag="-library")
    with Target([compile_target("residual"), library]) as target:
        yield target


@pytest.mark.parametrize("how", ["fork", "copy"])
@pytest.mark.parametrize("merge", [True, False], ids=["merged", "listed"])
def test_residual_pointers_accuse_nobody(residual, how, merge):
    found = leaks_of(residual, check_scanned(scan(residual.pid, "--snapshot", how, merge=merge)))
    for kind in ["scribbled", "worded"]:
        assert merge or len(found[kind]) == len([fact for fact in residual.facts if fact[0] == kind])
        for leak in found[kind]:
            assert "made_by" not in leak and "callback" not in leak, leak
            assert told(leak, "points_to") == {"module": "residual", "code": 2}, leak


@pytest.mark.parametrize("kind, callback", [("worded", False), ("scribbled", False), ("orders", True)])
def test_residual_pointers_are_no_callback_of_a_block_that_is_asked_for(residual, kind, callback):
    address = next(address for fact, address, _ in residual.facts if fact == kind)
    text = memscan("why", "--pid", residual.pid, f"{address:x}").stdout
    assert "leaked: no root leads to it" in text and ("holds callback confirm in residual" in text) == callback, text


def test_what_all_blocks_of_a_group_have_shows_who_made_them(residual):
    found = leaks_of(residual, check_scanned(scan(residual.pid, merge=True)))
    assert [told(leak, "made_by") for leak in found["carts"]] == [{"module": "residual-library", "code": 1}]
    assert [told(leak, "made_by") for leak in found["orders"]] == [{"module": "residual", "code": 2}]
    assert "function" in found["orders"][0]["callback"]
    text = memscan("--pid", residual.pid).stdout
    assert text.count("\n   contains pointers to residual (2 pointers to its code)\n") == \
        len(found["scribbled"]) + len(found["worded"])
    assert text.count("\n   most likely made by residual (2 pointers to its code)\n") == 1
    assert text.count("\n   most likely made by residual-library (1 pointer to its code)\n") == 1
    assert text.count("\n   holds callback: confirm in residual\n") == 1
