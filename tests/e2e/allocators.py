# SPDX-License-Identifier: Apache-2.0
"""Allocators that memscan reads, as packages have them: how a program comes to use one.

A row of ALLOCATORS is one allocator of one suite, in one way: "preload", a library in front
of an unchanged program; "linked", a program that asks for the library itself; "static", its
archive in a program, "static-pie" in one that may be loaded anywhere, "archive" in one that is
linked dynamically. musl's are the malloc of
a C library, and so never preloaded.
"""

import bisect
import dataclasses
import subprocess

import built_mimalloc
import support
from support import HOST

LIB = "usr/lib/x86_64-linux-gnu"


@dataclasses.dataclass(frozen=True)
class Allocator:
    name: str        # as heaps[].allocator has it
    suite: str       # a package of this suite
    way: str = "preload"
    library: str = ""   # the file of LIB, an archive where it is linked into a program
    libs: tuple = ()    # what else an archive wants
    env: tuple = ()     # (NAME, VALUE): settings of the allocator
    tag: str = ""       # tells rows apart that differ in nothing else
    own: tuple = ()     # types of blocks that the allocator itself leaves without a pointer
    programs: tuple = ("leaks", "roots")  # of tests/targets, all of whose scenarios are tried
    skips: tuple = ()   # scenarios that cannot be
    # Whether it keeps where in a block the address is that it gave for an aligned one. Where it does
    # not, such a block is listed from its begin, and what was left in front of the address is read.
    keeps_aligned: bool = True
    built: tuple = ()   # (VERSION, FLAG, ...): the library is built from a source package, see built_mimalloc.py
    held: int = 0       # so many of the leaks old words of the process may hold

    def __str__(self):
        return "-".join(filter(None, (self.name.replace(" ", "_"), self.suite, self.way, self.tag)))

    def path(self):
        if self.built:
            return built_mimalloc.library(self.built[0], self.built[1:])
        root = support.pathlib.Path("/") if self.suite == HOST else support.suite_root(self.suite)
        return root / LIB / self.library

    @property
    def variant(self):
        return self.way if self.way.startswith("static") else "dynamic"

    def compile(self, program):
        """Build tests/targets/PROGRAM for it."""
        if self.way == "preload":
            return support.compile_target(program, self.suite)
        if self.name.startswith("musl"):
            return support.compile_target(program, self.suite, self.variant, tag="-musl", libc_flags=support.musl_flags)
        tag = f"-{self.library.split('.')[0]}-{self.way}"
        libs = (str(self.path()), *self.libs, "-ldl", "-lrt", "-lm")
        return support.compile_target(program, self.suite, self.variant, tag=tag, libs=libs)

    def scenarios(self, program):
        done = subprocess.run([self.compile(program), "list"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                              text=True, check=True)
        return [name for name in done.stdout.split() if name not in self.skips and support.is_chosen(name, self)]

    def start(self, program, *args, **more):
        env = {"HOLDER_LIBRARY": str(support.holder_library()), **dict(self.env)}
        if self.suite != HOST:
            # what a library wants is of its suite, too
            env["LD_LIBRARY_PATH"] = str(support.suite_root(self.suite) / LIB)
        if self.way == "preload" and self.library:
            env["LD_PRELOAD"] = str(self.path())
        return support.Target([self.compile(program), *args], env, **more)

    def listed(self, report, truth):
        """Addresses and sizes of the listed leaks as the program knows them, less the allocator's own."""
        leaks = [leak for leak in report["leaks"] if leak.get("type", {}).get("name") not in self.own]
        listed = support.addresses({"leaks": leaks})
        if not self.keeps_aligned:
            begins = sorted(listed)
            for given in truth.keys() - listed.keys():
                at = bisect.bisect(begins, given) - 1
                if at >= 0 and given < begins[at] + listed.get(begins[at], 0) and begins[at] not in truth:
                    size = listed.pop(begins[at])
                    # 3.0.1 forgets which pages have such blocks, and then says more than there is.
                    listed[given] = size if truth[given] == size else begins[at] + size - given
        return listed


def tcmalloc(suite, way="preload", library="libtcmalloc_minimal.so.4", own=(), **more):
    """gperftools': what 2.8 and 2.10 begin with is replaced, and never freed."""
    return Allocator("tcmalloc", suite, way, library, own=own, **more)


OLD = {"own": ("MallocExtension",)}
ARCHIVE = {"library": "libtcmalloc_minimal.a", "libs": ("-lstdc++",), **OLD}
# There is no table of functions, so malloc's code is not known: every thread that runs may be in it.
STATIC = {"skips": ("registers_running",), **ARCHIVE}
SAMPLED = {"library": "libtcmalloc.so.4", "env": (("TCMALLOC_SAMPLE_PARAMETER", "4096"),), "tag": "sampled"}

ALLOCATORS = [
    Allocator("glibc", HOST, programs=()),
    Allocator("musl mallocng", HOST, "linked", programs=("leaks", "roots", "ended", "large_tls", "heap_shapes")),
    Allocator("musl mallocng", HOST, "static", programs=("ended", "large_tls")),
    Allocator("musl mallocng", HOST, "static-pie", programs=("ended", "large_tls")),
    *(Allocator("musl mallocng", suite, way, programs=())
      for suite in ("bullseye", "trixie", "sid") for way in ("linked", "static")),
    Allocator("jemalloc", HOST, library="libjemalloc.so.2"),
    Allocator("jemalloc", HOST, library="libjemalloc.so.2", env=(("MALLOC_CONF", "hpa:true,narenas:1"),), tag="hpa"),
    Allocator("jemalloc", HOST, "static", "libjemalloc.a", libs=("-lstdc++",), skips=("registers_running",)),
    Allocator("jemalloc", HOST, "static-pie", "libjemalloc_pic.a", libs=("-lstdc++",), programs=("roots",)),
    Allocator("jemalloc", HOST, "archive", "libjemalloc_pic.a", libs=("-lstdc++",), programs=()),
    # In the frame that glibc 2.31 calls main() from, behind setjmp()'s registers, an int of 0 is the low half of a
    # word whose high half is an old address's: a block that lies at a multiple of 4 GiB is held.
    Allocator("jemalloc", "bullseye", library="libjemalloc.so.2", held=1),
    Allocator("jemalloc", "sid", library="libjemalloc.so.2"),
    tcmalloc("bullseye", programs=(), **OLD),
    tcmalloc(HOST, **OLD),
    tcmalloc("trixie"),
    # it leaves the address of its second block of 8 bytes on the stack now and then
    tcmalloc("sid", programs=()),
    tcmalloc(HOST, "linked", programs=(), **OLD),
    # a heap at addresses that are small numbers is held by these
    tcmalloc(HOST, "static", env=(("TCMALLOC_SKIP_SBRK", "1"),), programs=(), **STATIC),
    tcmalloc(HOST, "static-pie", **ARCHIVE),
    tcmalloc(HOST, "archive", programs=(), **ARCHIVE),
    tcmalloc(HOST, programs=(), **SAMPLED, **OLD),
    tcmalloc("sid", programs=(), **SAMPLED),
    tcmalloc(HOST, env=(("TCMALLOC_AGGRESSIVE_DECOMMIT", "1"), ("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "1"),
                        ("TCMALLOC_TRANSFER_NUM_OBJ", "400")), tag="settings", programs=(), **OLD),
    tcmalloc(HOST, env=(("TCMALLOC_SKIP_SBRK", "1"),), tag="mmap", programs=(), **OLD),
    Allocator("mimalloc", HOST, library="libmimalloc.so.2", keeps_aligned=False),
    # 3.0.1 by itself crashes in this program where threads free one another's blocks of full pages.
    Allocator("mimalloc", "trixie", library="libmimalloc.so.3", keeps_aligned=False,
              env=(("MIMALLOC_PAGE_FULL_RETAIN", "-1"),)),
    Allocator("mimalloc", "sid", library="libmimalloc.so.3", keeps_aligned=False),
    *(Allocator("mimalloc", HOST, library="built", built=built, tag="-".join(built), programs=programs, keeps_aligned=False)
      for built, programs in ((("2.1.2",), ()), (("2.1.2", "-DMI_SECURE=4"), ()), (("3.4.1",), ("leaks", "roots")),
                              (("3.4.1", "-DMI_SECURE=4"), ()))),
]
