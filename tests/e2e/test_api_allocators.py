# SPDX-License-Identifier: Apache-2.0
"""Programs that search themselves by libmemunreachable, and have another allocator than glibc's.

A row of ROWS is one way in which program, allocator and library come together: preloaded, linked
before or after the library, from an archive, static; and musl with its own malloc. test_api.py has
all cases of the other programs with jemalloc and mimalloc preloaded.
"""

import dataclasses
import pathlib

import pytest

import support
from support import BUILD, E2E_BUILD, HOST, TARGETS
from test_api import program, run_program
from test_triggers import Triggered

pytestmark = [pytest.mark.spread, pytest.mark.usefixtures("adopted")]

LIB = pathlib.Path("/usr/lib/x86_64-linux-gnu")
SHARED, ARCHIVE = "shared", "archive"
NAME = "c_anywhere"
# What gperftools' own start leaves behind would be one leak more than the cases count.
OWN = "leak:MallocExtension\n"


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    library: str         # of libmemunreachable: SHARED or ARCHIVE
    before: tuple = ()   # what is linked in front of it, and behind it
    behind: tuple = ()
    preload: str = ""
    static: str = ""     # the flag that links it so

    def program(self):
        if self.preload:
            return program(NAME, "archived" if self.library == ARCHIVE else "shared")
        ours = BUILD / f"libmemunreachable.{'so' if self.library == SHARED else 'a'}"
        # A static program that may be loaded anywhere ends at its start when it has such a path.
        how = [self.static] if self.static else [f"-Wl,-rpath,{BUILD}"]
        return build(self, HOST, ours, *how, "-Wl,--no-as-needed", *self.before, ours, *self.behind, "-lstdc++", "-lm")


@dataclasses.dataclass(frozen=True)
class Musl:
    suite: str
    library: str
    variant: str = "dynamic"

    @property
    def name(self):
        return f"musl-{self.suite}-{self.library if self.variant == 'dynamic' else 'static'}"

    def program(self):
        ours = musl_library("so" if self.library == SHARED else "a")
        return build(self, self.suite, ours, *support.musl_flags(self.suite, self.variant), ours,
                     f"-Wl,-rpath,{ours.parent}")

    preload, static = "", ""


def build(row, suite, library, *words):
    source = TARGETS / "api" / f"{NAME}.c"
    newest = max(file.stat().st_mtime for file in (source, library, *TARGETS.glob("**/*.h")))
    return support.build(E2E_BUILD / suite / "api" / f"{NAME}-{row.name}", newest,
                         ["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-pthread", f"-I{support.ROOT}/include",
                          "-o", support.PART, source, *words])


def musl_library(ending):
    library = BUILD / "musl" / f"libmemunreachable.{ending}"
    assert library.exists(), f"{library} does not exist; run make musl first"
    return library


JEMALLOC, TCMALLOC = str(LIB / "libjemalloc_pic.a"), str(LIB / "libtcmalloc_minimal.a")

ROWS = [
    Row("jemalloc-preload-archive", ARCHIVE, preload="libjemalloc.so.2"),
    Row("tcmalloc-preload", SHARED, preload="libtcmalloc_minimal.so.4"),
    Row("tcmalloc-preload-archive", ARCHIVE, preload="libtcmalloc_minimal.so.4"),
    Row("mimalloc-preload-archive", ARCHIVE, preload="libmimalloc.so.2"),
    Row("jemalloc-before", SHARED, before=("-ljemalloc",)),
    Row("jemalloc-behind", SHARED, behind=("-ljemalloc",)),
    Row("tcmalloc-before", SHARED, before=("-ltcmalloc_minimal",)),
    Row("tcmalloc-behind-archive", ARCHIVE, behind=("-ltcmalloc_minimal",)),
    Row("jemalloc-in", SHARED, before=(JEMALLOC,)),
    Row("jemalloc-in-archive", ARCHIVE, before=(JEMALLOC,)),
    Row("tcmalloc-in", SHARED, before=(TCMALLOC,)),
    Row("tcmalloc-in-archive", ARCHIVE, before=(TCMALLOC,)),
    Row("jemalloc-static", ARCHIVE, before=(JEMALLOC,), static="-static"),
    # Without -pie the heap is behind the data, at addresses that are small numbers, which hold blocks (1 of 130 runs).
    Row("tcmalloc-static", ARCHIVE, before=(TCMALLOC,), static="-static-pie"),
    *(Musl(suite, SHARED) for suite in ("bullseye", HOST, "trixie", "sid")),
    Musl(HOST, ARCHIVE),
    Musl(HOST, ARCHIVE, "static-pie"),
]


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own"
    path.write_text(OWN)
    return {"MEMUNREACHABLE_SUPPRESSIONS": str(path)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_searches_itself(row, own):
    env = {**own, **({"LD_PRELOAD": str(LIB / row.preload)} if row.preload else {})}
    run_program(row.program(), "alone", env)
    # Where it is static malloc's code is not known, so that a thread that runs may be in it: it is refused.
    if not row.static:
        run_program(row.program(), "beside_threads_that_allocate", env)


PRELOADED = ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2")


@pytest.mark.parametrize("library", [*PRELOADED, "musl"])
def test_a_signal_while_threads_allocate(library, own, folder):
    """Nothing of the program knows of the library, which is preloaded, too."""
    if library == "musl":
        argv = support.compile_target("triggered", tag="-musl", libc_flags=support.musl_flags)
        preload = str(musl_library("so"))
    else:
        argv, preload = support.compile_target("triggered"), f"{BUILD}/libmemunreachable.so {LIB / library}"
    with Triggered(pathlib.Path(folder), argv=[argv, "malloc"], env={**own, "LD_PRELOAD": preload}) as target:
        for _ in range(3):
            text = target.strike()
            assert target.named_by(text) and " in 2 allocations unreachable out of " in text, text
            assert "NOT verified" not in text and text.count("verified") >= 1, text
        target.well()
