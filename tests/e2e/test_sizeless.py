# SPDX-License-Identifier: Apache-2.0
"""Functions behind a symbol that has no size (tests/targets/sizeless.c): it does not name them."""

import json

from support import Target, check_scanned, compile_target, memscan, scan


def test_a_symbol_without_a_size_names_no_callback():
    library = compile_target("sizeless", flags=("-DLIBRARY", "-shared", "-fPIC", "-s"), tag="-library")
    with Target([compile_target("sizeless"), library]) as target:
        leaks = {int(leak["address"], 16): leak for leak in check_scanned(scan(target.pid))["leaks"]}
        text = memscan("--pid", target.pid).stdout
        why = [json.loads(memscan("why", "--pid", target.pid, "--json", f"{address:x}").stdout)
               for _, address, _ in target.facts]
        stacks = memscan("stacks", target.pid).stdout
    names = {kind: leaks[address]["callback"].get("function") for kind, address, _ in target.facts}
    assert names == {"nameless": None, "exported": "close_it", "labelled": None}
    assert text.count("   holds callback: sizeless-library+0x") == 2
    assert text.count("   holds callback: close_it in sizeless-library\n") == 1
    assert [answer["subjects"][0]["callback"].get("symbol") for answer in why] == [None, "close_it", None]
    assert "(wait_here+" in stacks and "stub" not in stacks, stacks
