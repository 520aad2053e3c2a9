# SPDX-License-Identifier: Apache-2.0
"""libmalloc_debug.so and libraries that RTLD_DEEPBIND binds to the C library's own malloc()."""

import os
import shutil
import subprocess

import pytest

import support
from shim_support import NARROW, Run, environment, needs_library
from support import Process, check_scanned, compile_special, scan

pytestmark = needs_library

OPTIONS = ("backtrace", "guard", "guard backtrace", "rear_guard=32 verify_pointers", "front_guard=64", "leak_track",
           "free_track fill guard backtrace", "backtrace_sample=1", "backtrace_sample=4096")
FORMS = {"lazy": ["-Wl,-z,lazy"], "now": ["-Wl,-z,now", "-Wl,-z,relro"], "no_plt": ["-fno-plt", "-Wl,-z,now"]}


WIDTH, TAG = (["-m32"], "_i386") if NARROW else ([], "")


def library(form):
    return compile_special("deepbound_library.c", "-shared", "-fPIC", *WIDTH, *FORMS[form], tag=f"{TAG}_{form}.so")


def program(*flags, tag=""):
    return compile_special("deepbound.c", *WIDTH, *flags, tag=TAG + tag)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("options", OPTIONS)
def test_a_correct_program_runs_as_without(options, form):
    done = Run([program(), library(form)], options)
    assert (done.status, done.out) == (0, ["READY"]), done.err
    told = [line for line in done.log if "leaked block" not in line and not line.startswith((" ", "Backtrace"))]
    assert len(told) == 1 and "RTLD_DEEPBIND" in told[0], done.log


@pytest.mark.parametrize("options", ("backtrace", "guard backtrace", "backtrace_sample=1"))
def test_leaks_have_the_stacks_of_who_made_them(options):
    with Process([program(), library("now")], environment(options), stderr=subprocess.DEVNULL) as process:
        assert process.line() == "READY"
        # until then the calls that wrote the line may hold one more
        support.wait_until(lambda: support.state_of(process.pid) == "S", what="it waits for its input")
        report = check_scanned(scan(process.pid, "--no-fold"))
        lost = [leak for leak in report["leaks"] if leak["size"] == 60]
        assert len(lost) >= 49  # a register may have the last
        for leak in lost:
            names = [frame.get("function") for frame in leak["backtrace"]]
            assert names[:3] == ["deep_make", "lose", "main"], names
        process.popen.stdin.close()


@pytest.mark.parametrize("options", ("guard", "free_track"))
def test_a_block_that_is_freed_twice_is_told(options):
    done = Run([program(), library("now"), "twice"], options)
    assert done.status == 0
    assert [line for line in done.log if "+++ ALLOCATION" in line], done.log


def test_a_library_is_found_where_its_caller_says():
    """By the RUNPATH of who calls dlopen(); then redirected with the first foreign block."""
    folder = library("now").parent / f"deepbound_folder{TAG}"
    folder.mkdir(exist_ok=True)
    shutil.copy(library("now"), folder / "libdeepbound_here.so")
    built = program(f"-Wl,-rpath,{folder}", "-Wl,--enable-new-dtags", tag="_by_runpath")
    for options in ("backtrace", "leak_track"):
        with Process([built, "libdeepbound_here.so"], environment(options), stderr=subprocess.PIPE,
                     stdin=subprocess.DEVNULL) as process:
            out, err = process.popen.communicate(timeout=60)
        assert (process.popen.returncode, out) == (0, b"READY\n"), err
        assert err.count(b"RTLD_DEEPBIND") == 1 and b"UNKNOWN POINTER" not in err, err


@pytest.mark.skipif(NARROW or not shutil.which("php"), reason="php is not installed")
@pytest.mark.parametrize("options", ("backtrace", "guard free_track"))
def test_php_runs(options):
    code = "echo md5(json_encode(range(0, 2000))), strtoupper(serialize(new DateTime('2000-01-01'))), PHP_EOL;"
    plain = subprocess.run(["php", "-r", code], capture_output=True, timeout=120, check=True)
    env = {**os.environ, **environment(options)}
    done = subprocess.run(["php", "-r", code], env=env, capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    assert b"+++" not in done.stderr, done.stderr
