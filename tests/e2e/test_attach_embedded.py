# SPDX-License-Identifier: Apache-2.0
"""memscan attach where jemalloc or tcmalloc is linked into the program.

That its table is the truth, and each block counted once, test_attach_allocators.py sees of the
archives as they are; here these are with other names, too, and with all that a program can call.
ATTACH_ROUNDS is how often each is attached and detached, ATTACH_KILLS how often memscan is killed.
"""

import dataclasses
import functools
import pathlib
import subprocess

import pytest

import support
from allocators import LIB
from attach_support import (FUNCTIONS, Stormy, attach, check_given_back, check_plants, check_stripped, code_of, detach,
                            kill_at_random, refused, run_all_rounds)
from support import Process, compile_target, memscan
from test_attach_allocators import check_rounds_of_the_table

PLAIN = ("malloc", "calloc", "realloc", "free", "memalign", "aligned_alloc", "posix_memalign", "valloc")
JEMALLOC = (*PLAIN, "mallocx", "rallocx", "xallocx", "sallocx", "dallocx", "sdallocx", "nallocx", "mallctl",
            "mallctlnametomib", "mallctlbymib", "malloc_stats_print", "malloc_usable_size")


@dataclasses.dataclass(frozen=True)
class Kind:
    name: str       # of the allocator
    archive: str
    variant: str = "dynamic"
    prefix: str = ""
    flags: tuple = ()
    tag: str = ""

    def __str__(self):
        return "-".join(filter(None, (self.name, self.variant, self.prefix, self.tag)))

    def library(self):
        path = pathlib.Path("/", LIB, self.archive)
        if not path.exists():
            pytest.skip(f"{self.archive} is not installed; tools/install-deps check")
        return with_prefix(path, self.prefix) if self.prefix else path

    def compile(self, program):
        renamed = [f"-D{name}={self.prefix}{name}" for name in (*PLAIN, "malloc_usable_size") if self.prefix]
        if self.prefix:
            renamed += [f'-DPREFIX="{self.prefix}"', "-rdynamic"]
        return compile_target(program, variant=self.variant, tag=f"-own-{self.name}-{self.prefix}{self.tag}",
                              flags=["-w", *renamed, *self.flags], libs=(self.library(), "-lstdc++", "-ldl", "-lrt", "-lm"))

    def code(self, pid):
        """(address, bytes) of malloc and free, as they are in memory."""
        return code_of(pid, names=[self.prefix + name for name in FUNCTIONS])


def with_prefix(archive, prefix):
    """As jemalloc's --with-jemalloc-prefix --disable-cxx make it: no plain name, no operator."""
    out = support.E2E_BUILD / "own" / f"{prefix}{archive.name}"
    rename = " ".join(f"--redefine-sym {name}={prefix}{name}" for name in JEMALLOC)
    script = f"cp '{archive}' $0 && ar d $0 jemalloc_cpp.pic.o && objcopy {rename} $0"
    return support.build(out, archive.stat().st_mtime, ["sh", "-ec", script, support.PART])


ALL_CALLS = {"flags": ("-rdynamic", "-Wl,-u,_Znwm"), "tag": "all"}
KINDS = [
    *(Kind("jemalloc", "libjemalloc_pic.a", variant) for variant in ("dynamic", "static", "static-pie")),
    *(Kind("tcmalloc", "libtcmalloc_minimal.a", variant) for variant in ("dynamic", "static-pie")),
    # Else what gcc links has no index of how stacks are read, and posix_memalign() is a frame of them.
    Kind("tcmalloc", "libtcmalloc_minimal.a", "static", flags=("-Wl,--eh-frame-hdr",)),
    Kind("jemalloc", "libjemalloc_pic.a", **ALL_CALLS),
    Kind("jemalloc", "libjemalloc_pic.a", prefix="_rjem_"),
    Kind("jemalloc", "libjemalloc_pic.a", prefix="je_"),
    Kind("jemalloc", "libjemalloc_pic.a", "static-pie", prefix="_rjem_"),
]
MORE = [kind for kind in KINDS if kind.prefix or kind.tag]
ROUGH = [kind for kind in KINDS if not kind.tag]


def stormy(kind, mode):
    return Stormy(mode, program=kind.compile("stormy"))


@pytest.mark.parametrize("kind", ROUGH, ids=str)
@pytest.mark.parametrize("mode", ["loops", "forks", "threads", "signals"])
def test_rounds(kind, mode):
    if kind.name == "tcmalloc" and kind.variant != "dynamic" and mode == "forks":
        pytest.skip("by itself, without memscan, it is stuck after a fork now and then: 3 of 6 in a minute")
    with stormy(kind, mode) as target:
        run_all_rounds(target, kind.code)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_diverts_its_own_and_gives_it_back(kind):
    with stormy(kind, "loops") as target:
        before = kind.code(target.pid)
        done = memscan("attach", target.pid)
        assert done.status == 0 and f"functions of its own {kind.name};" in done.stdout, str(done)
        assert ("not those of another malloc" in done.stderr) == bool(kind.prefix), str(done)
        assert "is not sampled" not in done.stderr, str(done)
        assert f"functions of its own {kind.name}\n" in memscan("attach", "--status", target.pid).stdout
        check_given_back(target, before, kind.code)


def planting_function(frames):
    """It has a file and a line."""
    for frame in frames:
        if frame.get("function", "").startswith("plant_"):
            assert frame["file"].endswith("plants.c") and frame["line"] == line_of(frame["function"]), frame
            return frame["function"]
    return None


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_leak_has_its_function_and_line(kind):
    # A heap at addresses that are small numbers is held by these.
    with Process([kind.compile("plants")], env={"TCMALLOC_SKIP_SBRK": "1"}) as target:
        check_plants(target, planting_function)


def test_the_heap_of_brk_has_room_though_nothing_of_it_is_mapped():
    # Without random addresses it would begin right behind the program.
    with Process(["setarch", "-R", KINDS[0].compile("plants")]) as target:
        assert target.line() == "READY"
        attach(target.pid)
        brk = int(pathlib.Path(f"/proc/{target.pid}/stat").read_text().split(")")[1].split()[44])
        maps = pathlib.Path(f"/proc/{target.pid}/maps").read_text()
        begins = [int(line.split("-")[0], 16) for line in maps.splitlines()]
        assert brk and not [begin for begin in begins if brk < begin < brk + (1 << 30)], maps
        detach(target.pid)
        assert target.finish() == 0


@functools.cache
def line_of(function):
    lines = (support.TARGETS / "plants.c").read_text().split("\n")
    return 1 + next(i for i, line in enumerate(lines) if line.startswith(f"PLANT({function},"))


@pytest.mark.parametrize("kind", MORE, ids=str)
def test_the_table_is_the_truth(kind, notes):
    with Process([kind.compile("every_way")]) as target:
        assert target.line() == "READY"
        notes.append(f"{kind}: {check_rounds_of_the_table(target)}")


@pytest.mark.parametrize("kind", [kind for kind in ROUGH if kind.prefix != "je_"], ids=str)
@pytest.mark.parametrize("command", ["attach", "detach"])
def test_killed_at_random(kind, command, notes):
    with stormy(kind, "loops") as target:
        kill_at_random(target, command, notes, kind.code, Stormy.check_unharmed)
        target.end()


# ---- refused ----

@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.variant != "dynamic"], ids=str)
def test_a_static_program_that_was_stripped(kind):
    check_stripped(kind.compile("stormy"), "is linked statically and has no symbols")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.variant == "dynamic" and not kind.tag], ids=str)
def test_a_dynamic_program_that_was_stripped(kind):
    check_stripped(kind.compile("stormy"), f"has {kind.name} linked into it, and no symbols that say where")


def test_two_of_them():
    kind = Kind("jemalloc", "libjemalloc_pic.a", prefix="je_")
    archive = pathlib.Path("/", LIB, "libtcmalloc_minimal.a")
    both = Kind("jemalloc", kind.archive, prefix="je_", flags=("-Wl,--whole-archive", archive, "-Wl,--no-whole-archive"),
                tag="both")
    with stormy(both, "sleeps") as target:
        refused(target.pid, "has two allocators linked into it")
        target.end()


def test_tcmalloc_that_debugs():
    debugs = Kind("tcmalloc", "libtcmalloc_minimal_debug.a", tag="debug")
    with stormy(debugs, "sleeps") as target:
        refused(target.pid, "is tcmalloc's that debugs, linked into it", "libtcmalloc_minimal")
        target.end()


CHOSEN = """
#include <stddef.h>
void *real_rallocx(void *, size_t, int);
static void *choose(void) { return (void *)real_rallocx; }
void *je_rallocx(void *, size_t, int) __attribute__((ifunc("choose")));
"""


def test_a_function_that_is_chosen_when_the_program_starts(folder):
    """What may free a block would be missed: its symbol has the address of what chooses."""
    plain = Kind("jemalloc", "libjemalloc_pic.a", prefix="je_").library()
    archive = f"{folder}/chosen.a"
    subprocess.run(["objcopy", "--redefine-sym", "je_rallocx=real_rallocx", plain, archive], check=True)
    pathlib.Path(folder, "chosen.c").write_text(CHOSEN)
    flags = ("-DPREFIX=\"je_\"", *(f"-D{name}=je_{name}" for name in (*PLAIN, "malloc_usable_size")))
    subprocess.run(["gcc", "-w", "-O1", "-pthread", *flags, "-o", f"{folder}/chosen", support.TARGETS / "stormy.c",
                    f"{folder}/chosen.c", archive, "-ldl", "-lm"], check=True)
    with Stormy("sleeps", program=f"{folder}/chosen") as target:
        refused(target.pid, "rallocx of process", "was chosen when the program started (IFUNC)")
        target.end()
