# SPDX-License-Identifier: Apache-2.0
"""Programs that are linked statically with libmemunreachable.a.

There the C library's malloc is called directly: a search works as ever, ignored blocks
are ignored, and what needs to stand in front of malloc says that it cannot.
"""

import fnmatch
import os
import re
import subprocess

import pytest

import support
from support import BUILD, HOST, SPECIAL, TARGETS

ARCHIVE = BUILD / "libmemunreachable.a"
INCLUDE = support.ROOT / "include"
VARIANTS = ("static", "static-pie")
# The archive is built here, and asks for what an older C library has not.
SUITES = (HOST, "trixie", "sid")
STANDARD = {".c": ("gcc", "-std=gnu11"), ".cc": ("g++", "-std=gnu++17")}

pytestmark = pytest.mark.skipif(not ARCHIVE.exists(), reason=f"{ARCHIVE} is not built")


def build(source, variant, suite=HOST, *flags, tag=""):
    out = support.E2E_BUILD / "static" / suite / f"{source.stem}-{source.suffix[1:]}-{variant}{tag}"
    if out.exists() and out.stat().st_mtime > max(source.stat().st_mtime, ARCHIVE.stat().st_mtime):
        return out
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f"{out.name}.{os.getpid()}")
    compiler, standard = STANDARD[source.suffix]
    command = [compiler, standard, "-D_GNU_SOURCE", "-O1", "-g", "-pthread", f"-I{INCLUDE}", f"-{variant}", *flags,
               *support.suite_flags(suite, variant), "-o", part, source, ARCHIVE]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}"
    part.rename(out)
    return out


def run(program, *args, seconds=120):
    done = subprocess.run([program, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("suite", SUITES)
def test_searches_itself(suite, variant):
    status, out, err = run(build(SPECIAL / "static_self.c", variant, suite))
    # The block of 200 bytes is ignored; that made while it was disabled is not.
    assert (status, out) == (0, "1 3 504 152 104\n"), err
    [line] = err.splitlines()
    assert "linked statically" in line and "disable has no effect" in line


@pytest.mark.parametrize("variant", VARIANTS)
def test_searches_itself_in_cxx(variant):
    assert run(build(SPECIAL / "static_self.cc", variant)) == (0, "1 1 344\n", "")


@pytest.mark.parametrize("variant", VARIANTS)
def test_stands_beside_a_malloc_of_the_programs_own(variant):
    """Nor does the archive bring the C library's, which the linker would refuse."""
    program = build(SPECIAL / "static_self.c", variant, HOST, "-DOWN_MALLOC", "-fno-builtin", tag="-own")
    status, out, err = run(program)
    assert (status, out) == (0, "0 0\n"), err
    assert "another malloc stands in front" in err and "no allocator" in err


def defined_names():
    """Those that the linker sees in the archive: name, and whether hidden in what is linked."""
    table = subprocess.run(["readelf", "-sW", ARCHIVE], stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = [row for row in map(str.split, table.splitlines()) if len(row) == 8 and row[4] in ("GLOBAL", "WEAK")]
    return {(name, visibility == "HIDDEN") for *_, visibility, section, name in rows if section != "UND"}


def test_shows_its_api_alone():
    """A program's own functions may have any name but the API's, and memunreachable__*."""
    script = (support.ROOT / "src" / "inproc" / "libmemunreachable.map").read_text()
    api = re.findall(r"^\t(\S+);", script.split("global:")[1].split("local:")[0], re.M)
    shown = {name for name, hidden in defined_names() if not hidden}
    assert {name for name in shown if not any(fnmatch.fnmatchcase(name, a) for a in api)} == set()
    assert {a for a in api if not any(fnmatch.fnmatchcase(name, a) for name in shown)} == set()
    shared = {name for name, hidden in defined_names() if hidden}
    assert {name for name in shared if not name.startswith("memunreachable__")} == set()
    assert len(shared) < 40, sorted(shared)


def test_gives_a_program_only_what_it_wants():
    """What acts before main() by itself is not in a program that does not call it."""
    program = build(SPECIAL / "static_self.c", "static")
    names = subprocess.run(["nm", program], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    assert "GetUnreachableMemory" in names
    assert not {"memunreachable_install_handler", "__lsan_do_leak_check"} & set(names)


SOURCES = {"c_api": ".c", "android_api": ".cc"}


def cases(name):
    """Those of the archive's other programs, which `make targets` has built."""
    return subprocess.run([BUILD / "api" / f"{name}-archived", "list"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, check=True).stdout.split()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name,case", [(name, case) for name in SOURCES for case in cases(name)])
def test_whole_api(name, case, variant):
    program = build(TARGETS / "api" / (name + SOURCES[name]), variant)
    # The heap of a program linked at fixed addresses begins so low that the size of a
    # processor's cache, which its C library keeps, may point into it; not three times.
    for _ in range(3 if variant == "static" else 1):
        status, out, err = run(program, case)
        if (status, out) == (0, "ok\n"):
            return
    assert (status, out) == (0, "ok\n"), err[-2000:]
