# SPDX-License-Identifier: Apache-2.0
"""libmalloc_debug.so: how it is enabled, the options' grammar and errors, and the signals."""

import os
import pathlib
import re
import resource
import shutil
import subprocess
import tempfile

import pytest

from shim_support import DIVIDER, LIBRARY, USAGE, Interactive, Run, debugged, environment, needs_library, run
from support import SPECIAL, Process, compile_special

pytestmark = needs_library


@pytest.mark.parametrize("options, error", (
    ("guard nonsense", "unknown option nonsense"),
    ("=5", "unknown option "),
    ("bt=99999999999999999999", "bad value for option 'bt': Numerical result out of range"),
    ("bt_sz", "bad value for option 'bt_sz'"),
    ("free_track=many", "bad value for option 'free_track'"),
    ("fill = 5x7", "bad value for option 'fill', non space found after option: x7"),
    ("rear_guard=-1", "bad value for option 'rear_guard', value cannot be negative: -1"),
    ("guard=0", "bad value for option 'guard', value must be >= 1: 0"),
    ("record_allocs=50000001", "bad value for option 'record_allocs', value must be <= 50000000: 50000001"),
    ("verbose=1", "value set for option 'verbose' which does not take a value"),
))
def test_wrong_option_is_told_and_the_program_runs_without(options, error):
    done = run("bytes", options)
    assert done.log == [f"debugged: {error}", *USAGE, "libc: debugged: failed to enable malloc debug"]
    assert done.status == 0 and done.out[-1] == "done"


def test_verbose_tells_the_signals():
    done = run("bytes", "verbose backtrace_enable_on_signal record_allocs=10 log_allocator_stats_on_signal "
               "check_unreachable_on_signal")
    kill = lambda n: f"debugged: Run: 'kill -{n} {done.pid}'"
    assert done.log == [f"{kill(45)} to enable backtracing.", f"{kill(47)} to dump the backtrace.",
                        f"{kill(46)} to dump the allocation records.", f"{kill(49)} to log allocator stats.",
                        f"{kill(48)} to check for unreachable memory.", "debugged: malloc debug enabled"]


SIGNALS = {45: "backtrace signal enable", 46: "record dump signal", 47: "backtrace dump signal",
           48: "check unreachable signal", 49: "log allocator stats signal"}


@pytest.mark.parametrize("options, caught", (
    (" ", set()), ("guard free_track leak_track verify_pointers fill expand_alloc verbose", set()),
    ("backtrace", {47}), ("backtrace_enable_on_signal", {45, 47}), ("backtrace_sample", {47}),
    ("record_allocs=10", {46}), ("check_unreachable_on_signal", {48}), ("log_allocator_stats_on_signal", {49}),
    ("backtrace_dump_on_exit record_allocs_on_exit log_allocator_stats_on_exit", set()),
    ("bt_en_on_sig record_allocs=10 check_unreachable_on_signal log_allocator_stats_on_signal", set(SIGNALS)),
))
def test_signals_that_an_option_takes(options, caught, tmp_path):
    with Interactive(options, tmp_path / "log") as target:
        status = pathlib.Path(f"/proc/{target.pid}/status").read_text()
    mask = int(re.search(r"SigCgt:\s*([0-9a-f]+)", status)[1], 16)
    # 35 is libmemunreachable's own
    assert {n for n in range(36, 65) if mask >> (n - 1) & 1} == caught


@pytest.mark.parametrize("number", SIGNALS)
def test_signal_that_cannot_be_taken(number):
    """One library more, in front of the C library's sigaction(), refuses it."""
    refuser = compile_special("refuser.c", "-shared", "-fPIC")
    options = ("backtrace_enable_on_signal record_allocs=10 check_unreachable_on_signal log_allocator_stats_on_signal")
    done = run("bytes", options, LD_PRELOAD=f"{LIBRARY}:{refuser}", REFUSE_SIGNAL=str(number))
    assert done.log == [f"Unable to set up {SIGNALS[number]} function: Invalid argument",
                        "libc: debugged: failed to enable malloc debug"]
    assert done.status == 0 and done.out[-1] == "done"


def test_without_the_unwinder():
    refuser = compile_special("refuser.c", "-shared", "-fPIC")
    more = {"LD_PRELOAD": f"{LIBRARY}:{refuser}", "REFUSE_LIBRARY": "libunwind.so.8"}
    done = run("wild_free", "verify_pointers", **more)
    assert done.told() == [DIVIDER, "+++ ALLOCATION P UNKNOWN POINTER (free)", "Backtrace at time of failure:",
                           "  Backtrace failed to get any frames.", DIVIDER]
    done = run("bytes", "backtrace verify_pointers", **more)
    assert done.log == ["Unable to load libunwind.so.8: refused", "libc: debugged: failed to enable malloc debug"]


def test_no_room_for_its_tables():
    def limited(options):
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (64 << 20, 64 << 20))
        with Process([debugged(), "bytes"], environment(options), stderr=subprocess.PIPE, preexec_fn=limit) as process:
            out, err = process.popen.communicate(timeout=60)
        return process.popen.returncode, out.decode().splitlines()[-1], err.decode().splitlines()

    assert limited("record_allocs=50000000") == (0, "done", [
        "malloc_debug: Unable to make room for 50000000 records: Cannot allocate memory",
        "libc: debugged: failed to enable malloc debug"])


def test_beside_the_address_sanitizer():
    """It wants to be the first library, and would find our malloc in front of its own."""
    program = compile_special("plain.c", "-fsanitize=address", tag="-asan")
    done = Run([program], "guard", ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0")
    assert done.log == ["malloc debug cannot be enabled alongside ASAN",
                        "libc: plain-asan: failed to enable malloc debug"]
    assert done.status == 0


def test_configuration_file(tmp_path):
    file = tmp_path / "malloc_debug.conf"
    for text, options, enabled in (
            ("libc.debug.malloc.options=verbose guard\n", None, True),
            ("libc.debug.malloc.options=verbose\nlibc.debug.malloc.program=bugg\n", None, True),
            ("libc.debug.malloc.options=verbose\nlibc.debug.malloc.program=other\n", None, False),
            ("libc.debug.malloc.options=nonsense\n", "verbose", True),
            ("libc.debug.malloc.program=other\n", "verbose", True)):
        file.write_text(text)
        assert run("bytes", options, MALLOC_DEBUG_CONFIG=str(file)).log == (
            ["debugged: malloc debug enabled"] if enabled else []), text
    file.write_text("libc.debug.malloc=10\n")
    told = run("write_after", None, MALLOC_DEBUG_CONFIG=str(file)).told()
    assert told[1] == "+++ ALLOCATION P SIZE 100 HAS A CORRUPTED REAR GUARD"


def test_configuration_file_that_is_not_there(tmp_path):
    done = run("bytes", None, MALLOC_DEBUG_CONFIG=str(tmp_path / "none"))
    assert done.log == [f"MALLOC_DEBUG_CONFIG: cannot read {tmp_path}/none: No such file or directory"]
    assert done.status == 0
    assert run("bytes", None, MALLOC_DEBUG_CONFIG="").log == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes programs of root's")
def test_set_user_id_program_does_not_listen_to_the_environment():
    """Linked with the library, for preloaded into such a program it is only by the administrator."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        shutil.copy(LIBRARY, f"{folder}/libmalloc_debug.so.1")
        program = f"{folder}/program"
        subprocess.run(["gcc", "-o", program, SPECIAL / "plain.c",
                        f"{folder}/libmalloc_debug.so.1", f"-Wl,--no-as-needed,-rpath,{folder}"], check=True)

        def log(mode):
            os.chmod(program, mode)
            done = subprocess.run([program], env={**os.environ, "LIBC_DEBUG_MALLOC_OPTIONS": "verbose"}, user=65534,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            assert (done.returncode, done.stdout) == (0, "READY\n"), done.stderr
            return done.stderr

        assert log(0o755) == "malloc_debug: program: malloc debug enabled\n"
        assert log(0o4755) == ""
