# SPDX-License-Identifier: Apache-2.0
"""How the tests of libmalloc_debug.so run programs under it, and read what it logs.

Never preloaded into the test runner: only into what a test starts.
"""

import os
import re
import signal
import subprocess

import pytest

from support import BUILD, PART, Process, build, compile_32_bit, compile_target

# ABI=32: the library for programs of i386, and such programs.
NARROW = os.environ.get("ABI") == "32"
LIBRARY = BUILD / ("32/libmalloc_debug.so" if NARROW else "libmalloc_debug.so")
VARIANT = "i386" if NARROW else "dynamic"
DIGITS = 8 if NARROW else 16
DIVIDER = " ".join(["***"] * 16)
RT = signal.SIGRTMAX
USAGE = ["For malloc debug option descriptions go to:",
         "  https://android.googlesource.com/platform/bionic/+/main/libc/malloc_debug/README.md"]
FRAME = re.compile(r" {10}#(\d\d)  pc ([0-9a-f]{%d})  (\S+)(?: \((.+)\+\d+\))?$" % DIGITS)


def environment(options, **more):
    return {"LD_PRELOAD": str(LIBRARY), **({"LIBC_DEBUG_MALLOC_OPTIONS": options} if options else {}), **more}


def program(name):
    """A target of the library's width, by the same name."""
    built = compile_target(name, variant=VARIANT)
    if not NARROW:
        return built
    compile_32_bit()
    return build(built.parent / "i386" / name, built.stat().st_mtime, ["cp", built, PART])


def debugged():
    return program("debugged")


class Run:
    """A finished program: its status, its output, and what the shim logged."""

    def __init__(self, argv, options, tag="malloc_debug", **more):
        with Process(argv, environment(options, **more), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            out, err = process.popen.communicate(timeout=60)
            self.pid, self.status = process.pid, process.popen.returncode
        self.out, self.err = out.decode().splitlines(), err.decode().splitlines()
        self.log = [line.removeprefix(f"{tag}: ") for line in self.err]
        assert all(line.startswith((f"{tag}: ", "libc: ")) for line in self.err), self.err

    def told(self):
        """The log without frames of other modules, the frames as their functions, the blocks as P, Q, R, S."""
        blocks = [line for line in self.out if line.startswith("0x")]
        lines = []
        for line in self.log:
            frame = FRAME.match(line)
            if frame and frame[3].endswith("/debugged") and frame[4] != "_start":
                lines.append(f"#{frame[4]}")
            elif not frame:
                for address, name in zip(blocks, "PQRS"):
                    line = re.sub(rf"\b{address}\b", name, line)
                lines.append(line)
        return lines


def run(name, options, **more):
    return Run([debugged(), name], options, **more)


def block(*lines):
    return [DIVIDER, *lines, DIVIDER]


not_for_32_bits = pytest.mark.skipif(NARROW, reason="of programs of 64 bits, or libmemunreachable")
needs_library = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not built")

ALL = "guard fill expand_alloc free_track verify_pointers backtrace record_allocs=100000"


class Interactive(Process):
    def __init__(self, options, log, **more):
        self.log = log
        self.stderr = open(log, "wb")
        super().__init__([debugged(), "interactive"], environment(options, **more), stderr=self.stderr)
        assert self.line() == "READY"

    def signal(self, below):
        self.popen.send_signal(RT - below)

    def logged(self):
        return [line.removeprefix("malloc_debug: ") for line in self.log.read_text().splitlines()]

    def stop(self):
        super().stop()
        self.stderr.close()


def records_of(dump):
    """{size: (count, frames)}"""
    found = re.findall(r"^z 0  sz +(\d+)  num    (\d+)  bt((?: [0-9a-f]+)*)$", dump, re.M)
    return {int(size): (int(n), len(bt.split())) for size, n, bt in found}
