# SPDX-License-Identifier: Apache-2.0
"""Leaks whose calls are not known: which module has most likely made them, and which were made before
memscan was attached.
"""

import pytest

from attach_support import attach
from support import Process, check_scanned, compile_special, memscan, scan

LARGE = 20 << 20
# bytes: (module, tables, code, constants), of a pointer to the program beside, and without
MADE_BY = {
    200: [("makers_library.so", 1, None, None)] * 2,
    312: [("makers_library.so", None, 2, 1), None],
    408: [("makers", None, 1, None)],
    504: [None],
    LARGE: [None],
}


class Makers(Process):
    def __init__(self):
        library = compile_special("makers_library.c", "-shared", "-fPIC", "-Wl,-soname,makers_library.so",
                                  tag=".so")
        super().__init__([compile_special("makers.c", "-Wl,--no-as-needed", library, f"-Wl,-rpath,{library.parent}")])
        assert self.line() == "READY"

    def leak_again(self):
        self.popen.stdin.write(b"\n")
        self.popen.stdin.flush()
        assert self.line() == "READY"


def told(leak):
    made = leak.get("made_by")
    return made and (made["module"].rsplit("/", 1)[-1], *(made.get(key) for key in ("tables", "code", "constants")))


def size_of(leak):
    return LARGE if leak["size"] >= LARGE else leak["size"]


@pytest.mark.parametrize("how", ["fork", "copy"])
def test_the_module_that_made_a_leak(how):
    with Makers() as target:
        report = check_scanned(scan(target.pid, "--snapshot", how, merge=True))
        text = memscan("--pid", target.pid).stdout
    found = {}
    for leak in report["leaks"]:
        found.setdefault(size_of(leak), []).append(told(leak))
    assert {size: sorted(made, key=str) for size, made in found.items()} == \
        {size: sorted(made, key=str) for size, made in MADE_BY.items()}
    assert text.count("   most likely made by makers_library.so (2 pointers to its code, 1 pointer to its constants)\n") == 1
    assert "before attach" not in text


@pytest.mark.parametrize("sample", [4096, 1])
def test_leaks_that_were_made_before_attach(sample):
    with Makers() as target:
        attach(target.pid, "--sample", sample)
        target.leak_again()
        report = check_scanned(scan(target.pid, merge=True))
        live = memscan("live", "--pid", target.pid, "--json").report
        text = memscan("--pid", target.pid).stdout
    older = {size_of(leak) for leak in report["leaks"] if leak.get("before_attach")}
    assert older == (set(MADE_BY) if sample == 1 else {LARGE})
    for leak in report["leaks"]:
        assert not ("backtrace" in leak and ("before_attach" in leak or "made_by" in leak)), leak
    assert [leak for leak in report["leaks"] if size_of(leak) == LARGE and "backtrace" in leak], "made since"
    sampled = {leak["size"] for leak in report["leaks"] if "backtrace" in leak}
    told = {leak["size"]: leak["points_to"]["module"] for leak in report["leaks"] if "points_to" in leak}
    assert not sampled & {leak["size"] for leak in report["leaks"] if "made_by" in leak}, "a stack says who made them"
    assert sample > 1 or sampled >= told.keys() >= {200, 408}
    before = report["sampling"]["before_attach"]
    small = sum(size * len(made) for size, made in MADE_BY.items()) - LARGE
    # a large block has a page more; what samples stand for is an estimate
    assert abs(before["leaked_bytes"] - LARGE - small) <= 2 * 4096 + (6 * before["leaked_bytes_error"] if sample > 1 else 8)
    assert live["sampling"]["before_attach"] == before
    assert text.count("\n  allocated before attach: ") == 1
    assert text.count("\n   made before attach\n") == len([leak for leak in report["leaks"] if "before_attach" in leak])
