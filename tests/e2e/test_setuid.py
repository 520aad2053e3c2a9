# SPDX-License-Identifier: Apache-2.0
"""A program with more rights than whoever starts it does nothing that their environment asks for."""

import os
import pathlib
import shutil
import stat
import subprocess

import pytest

from support import BUILD, compile_hostile

NOBODY = 65534
TRIGGER = 35
SECRET = "root-alone-may-read-this"

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs two users")


@pytest.fixture
def place(folder):
    """A folder with a caller's own below, and a file that root alone may read."""
    folder = pathlib.Path(folder)
    secret = folder / "secret"
    secret.write_text(SECRET + "\n")
    secret.chmod(0o600)
    theirs = folder / "theirs"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    helper = theirs / "memscan"
    helper.write_text(f"#!/bin/sh\nid -u >{theirs}/ran\n")
    helper.chmod(0o755)
    return folder


def install(place, program, mode=0o4755):
    installed = place / "program"
    shutil.copy(program, installed)
    installed.chmod(mode)
    return installed


def with_libmemunreachable(place):
    library = BUILD / "libmemunreachable.a"
    return install(place, compile_hostile("more_rights.c", "-pthread", "-Wl,--whole-archive", str(library),
                                          "-Wl,--no-whole-archive", tag="-unreachable"))


def with_malloc_debug(place):
    """Linked, since the loader preloads nothing into such a program."""
    library = shutil.copy(BUILD / "libmalloc_debug.so.1", place / "libmalloc_debug.so.1")
    os.chmod(library, 0o755)
    return install(place, compile_hostile("more_rights.c", "-Wl,--no-as-needed", "-L" + str(BUILD), "-lmalloc_debug",
                                          f"-Wl,-rpath,{place}", tag="-" + place.name))


def run(program, env, *words, strike=False):
    """What it prints on both, and which signals it catches; started by nobody."""
    with subprocess.Popen([program, *words], env=env, user=NOBODY, group=NOBODY, extra_groups=[],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          bufsize=1) as process:
        said = []
        while not said or said[-1] != "READY":
            line = process.stdout.readline()
            assert line, process.stderr.read()
            said.append(line.strip())
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        caught = int([line for line in status.splitlines() if line.startswith("SigCgt")][0].split()[1], 16)
        process.stdin.close()
        errors = process.stderr.read()
        process.wait(20)
    return said, errors, caught


def environment(place):
    theirs = place / "theirs"
    return {"MEMUNREACHABLE_MEMSCAN": str(theirs / "memscan"), "MEMUNREACHABLE_FOLDER": str(theirs),
            "MEMUNREACHABLE_SUPPRESSIONS": str(place / "secret"), "MEMUNREACHABLE_INTERVAL": "1",
            "MEMUNREACHABLE_RSS": "1K", "MEMUNREACHABLE_AT_EXIT": "1",
            "LSAN_OPTIONS": f"suppressions={place / 'secret'}",
            "LIBC_DEBUG_MALLOC_OPTIONS": f"backtrace backtrace_dump_on_exit backtrace_dump_prefix={theirs}/dump "
                                         f"record_allocs record_allocs_on_exit record_allocs_file={theirs}/record",
            "MALLOC_DEBUG_CONFIG": str(place / "secret")}


def files_of(place):
    return sorted(path.name for path in (place / "theirs").iterdir())


def test_the_callers_environment_counts_for_nothing(place):
    """The search itself works; nothing is run, written or read for the caller, and no signal of theirs is answered."""
    said, errors, caught = run(with_libmemunreachable(place), environment(place), "search")
    assert said[:3] == ["euid 0", "handler 0", "logged 1"], (said, errors)
    assert not caught >> (TRIGGER - 1) & 1
    assert SECRET not in errors and "1240 bytes in 1 allocation" in errors, errors
    assert files_of(place) == ["memscan"]


def test_the_same_environment_counts_without_more_rights(place):
    """Else the test above would show nothing."""
    program = with_libmemunreachable(place)
    program.chmod(0o755)
    (place / "secret").chmod(0o644)
    env = environment(place)
    del env["MEMUNREACHABLE_INTERVAL"], env["MEMUNREACHABLE_RSS"]  # they would leave processes that answer
    said, errors, caught = run(program, env, "search")
    assert said[:2] == [f"euid {NOBODY}", "handler 1"], (said, errors)
    assert caught >> (TRIGGER - 1) & 1
    assert SECRET in errors


@pytest.mark.parametrize("mode, files", ((0o4755, 0), (0o755, 2)))
def test_malloc_debug(place, mode, files):
    """Neither its options nor its file are the caller's to choose."""
    program = with_malloc_debug(place)
    program.chmod(mode)
    _, errors, _ = run(program, environment(place))
    assert SECRET not in errors
    made = [name for name in files_of(place) if name != "memscan"]
    assert len(made) == files, (made, errors)
    assert all(not stat.S_IMODE((place / "theirs" / name).stat().st_mode) & 0o077 for name in made)
