# SPDX-License-Identifier: Apache-2.0
"""Malloc Hooks: the program's own functions in the place of malloc, by libmalloc_debug.so, preloaded."""

import subprocess

import pytest

import support
from shim_support import LIBRARY, environment, needs_library
from support import GLIBC, HOST, Process, compile_target

USAGE = ["malloc_debug: For malloc debug option descriptions go to:",
         "malloc_debug:   https://android.googlesource.com/platform/bionic/+/main/libc/malloc_debug/README.md"]
NO_FILE = {"MALLOC_DEBUG_CONFIG": "/dev/null"}

pytestmark = needs_library


def run(name, program=None, log=(), **env):
    env = environment("", **{**NO_FILE, **(env or {"LIBC_HOOKS_ENABLE": "1"})})
    with Process([program or compile_target("hooked"), name], env, stdin=subprocess.DEVNULL,
                 stderr=subprocess.PIPE) as process:
        out, err = process.popen.communicate(timeout=60)
    assert (process.popen.returncode, err.decode().splitlines()) == (0, list(log))
    out = out.decode().splitlines()
    assert out.pop() == "done"
    return out


def test_each_call_reaches_the_hook_of_its_kind():
    assert run("calls") == [
        "malloc 10 here", "malloc 15 here", "realloc 20 here", "realloc NULL 30 here", "realloc 40 here",
        "memalign 10 at 64 here", "memalign 64 at 32 here", "memalign 20 at 128 here", "memalign 40 at 4096 here",
        "memalign 4096 at 4096 here", *["free 0 here"] * 8, "free NULL 0 here", "0 failed"]


@pytest.mark.parametrize("name, expected", (
    # what is wrong is refused before a hook is asked
    ("refusals", ["calloc 1 aligned_alloc 1 1 posix_memalign 1 1 1"]),
    # NULL from a hook: NULL, and ENOMEM where the function has it
    ("failures", ["1 1 1 1"]),
    ("none", ["1"]),
    ("sets_aside", ["malloc 10 here", "malloc 11 here"]),
    ("before", ["free 0 here", "realloc 100000 here", "free 0 here", "free 0 here"]),
    ("from_a_thread", ["seen"]),
    ("forks", ["7"]),
    ("opens", ["1 1"]),
    ("by_constructor", ["seen"]),
    # what the C library does not know is refused, as on Android, and not only believed to be set
    ("asks", ["1 0 0 0 0", "0 0", "0 1 1"]),
))
def test_hooks(name, expected):
    assert run(name) == expected


@pytest.mark.parametrize("value, enabled", (("1", True), ("no", True), ("", False), ("0", False), ("01", False)))
def test_value_that_enables(value, enabled):
    expected = ["malloc 10 here", "malloc 11 here"] if enabled else []
    assert run("sets_aside", LIBC_HOOKS_ENABLE=value) == expected


def test_configuration_file_enables(tmp_path):
    file = tmp_path / "malloc_debug.conf"
    for text, hooks, enabled in (
            ("libc.debug.hooks.enable=1\n", "", True), ("libc.debug.hooks.enable=0\n", "", False),
            ("libc.debug.hooks.enable=1\n", "0", True), ("libc.debug.hooks.enable=0\n", "1", True),
            ("libc.debug.hooks.enable=1\nlibc.debug.malloc.program=other\n", "", True),
            ("libc.debug.hooks.enable=1\nlibc.debug.malloc.options=guard\n", "1", False)):
        file.write_text(text)
        told = run("sets_aside", MALLOC_DEBUG_CONFIG=str(file), LIBC_HOOKS_ENABLE=hooks)
        assert bool(told) == enabled, text


def test_malloc_debug_comes_first():
    log = ["malloc_debug: hooked: malloc debug enabled"]
    assert run("sets_aside", LIBC_HOOKS_ENABLE="1", LIBC_DEBUG_MALLOC_OPTIONS="verbose", log=log) == []
    log = ["malloc_debug: hooked: unknown option no", *USAGE, "libc: hooked: failed to enable malloc debug"]
    assert run("sets_aside", LIBC_HOOKS_ENABLE="1", LIBC_DEBUG_MALLOC_OPTIONS="no", log=log) == []


def test_program_linked_for_an_old_library_has_its_hooks_back():
    """The C library has no hooks since 2.34, but still their variables, for programs linked before."""
    root = support.suite_root("bullseye")
    assert GLIBC["bullseye"] < "2.34" <= GLIBC[HOST]
    lib = root / "usr/lib/x86_64-linux-gnu"
    old = compile_target("hooked", flags=(f"--sysroot={root}", f"-B{lib}/", f"-L{lib}", "-w"), tag="-old")
    undefined = subprocess.run(["nm", "-D", old], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "__malloc_hook@GLIBC_2.2.5" in undefined
    assert run("sets_aside", program=old) == ["malloc 10 here", "malloc 11 here"]
    assert run("none", program=old) == ["1"]
    assert run("sets_aside", program=old, LIBC_HOOKS_ENABLE="0") == []


@pytest.mark.parametrize("command", (["bash", "-c", "echo $((1 + 2)); exit 5"], ["sqlite3", ":memory:", "select 1 + 2"]))
def test_program_without_hooks_works_as_before(command):
    def outcome(env):
        with Process(command, env, stderr=subprocess.PIPE) as process:
            return process.popen.communicate(timeout=60), process.popen.returncode

    assert outcome(environment("", **NO_FILE, LIBC_HOOKS_ENABLE="1")) == outcome({})


EXPORTED = """aligned_alloc android_mallopt calloc cfree debug_dump_heap dlopen free free_aligned_sized free_malloc_leak_info
free_sized get_malloc_leak_info mallinfo mallinfo2 malloc malloc_backtrace malloc_disable malloc_enable malloc_info
malloc_iterate malloc_stats malloc_trim malloc_usable_size mallopt memalign posix_memalign pvalloc realloc reallocarray
valloc write_malloc_leak_info"""
HOOKS = "__free_hook __malloc_hook __memalign_hook __realloc_hook"


def test_exported_names_and_their_versions():
    """Without a version, so that malloc@GLIBC_2.2.5 is found; the hooks with one, for old libraries have their own."""
    names = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], stdout=subprocess.PIPE, text=True, check=True).stdout
    names = {line.split()[-1] for line in names.splitlines()} - {"LIBMALLOC_DEBUG_HOOKS"}
    assert {*EXPORTED.split(), *(f"{name}@@LIBMALLOC_DEBUG_HOOKS" for name in HOOKS.split())} <= names
    assert not {name for name in names if "@@" not in name} - set(EXPORTED.split())
