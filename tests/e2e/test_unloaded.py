# SPDX-License-Identifier: Apache-2.0
"""Stacks of libraries that were closed before the scan: what was known of them is still said.

Where a library was another one may be, even with code at the same addresses; neither is named for the other.
"""

import os
import shutil
import subprocess

import pytest

from attach_support import attach
from shim_support import environment, needs_library
from support import Process, check_scanned, compile_special, memscan, scan

BLOCKS, SLACK = 100, 3
SIZES = {"first": 1112, "second": 2232}  # all that malloc gives


def build(name, tmp_path, *flags):
    library = compile_special("unloads_library.c", "-shared", "-fPIC", "-Wl,--build-id", f"-DMAKE={name}_make",
                              f"-DSIZE={SIZES[name]}", *flags, tag=f"_{name}{SIZES[name]}{''.join(flags)}.so")
    return shutil.copy(library, tmp_path / f"{name}.so")


class Unloads(Process):
    def __init__(self, env=None, **more):
        super().__init__([compile_special("unloads.c")], {**os.environ, **(env or {})}, **more)
        assert self.line() == "READY"

    def open(self, path):
        """Where its function is."""
        answer = self.ask(f"open {path}\n")
        assert answer.startswith("opened 0x"), answer
        return int(answer.split()[1], 16)

    def run(self):
        assert self.ask("run\n") == "ran"

    def close(self):
        assert self.ask("close\n") == "closed 0"

    def leak(self, path):
        """Open the library, have it leak, and close it."""
        at = self.open(path)
        self.run()
        self.close()
        return at


def offset_of(path, symbol):
    table = subprocess.run(["nm", "-D", path], check=True, capture_output=True, text=True, timeout=60).stdout
    return next(int(line.split()[0], 16) for line in table.splitlines() if line.split()[-1] == symbol)


def stack_of(report, name):
    """The one stack of that library's leaks."""
    leaks = [leak for leak in report["leaks"] if leak["size"] == SIZES[name]]
    assert BLOCKS - SLACK <= len(leaks) <= BLOCKS, leaks
    assert all(leak["backtrace"] == leaks[0]["backtrace"] for leak in leaks), leaks
    return leaks[0]["backtrace"]


def check_stack(stack, name, path, unloaded=True):
    """It is in that library, and goes on in the program."""
    assert [frame.get("function") for frame in stack[:4]] == [f"{name}_make", "library_run", "call", "main"], stack
    for frame in stack[:2]:
        assert frame["module"] == str(path) and frame.get("unloaded", False) == unloaded, frame
        assert frame["build_id"] and frame["line"], frame
    assert not any("unloaded" in frame for frame in stack[2:]), stack


@needs_library
def test_an_unloaded_library_is_named(tmp_path):
    path = build("first", tmp_path)
    with Unloads(environment("backtrace=16")) as process:
        at = process.leak(path)
        report = check_scanned(scan(process.pid))
        stack = stack_of(report, "first")
        check_stack(stack, "first", path)
        assert 0 <= int(stack[1]["pc"], 16) - at < 4096, "as it was in the process"
        text = memscan(process.pid).stdout
        assert f"{path} (unloaded) (first_make+" in text, text


@needs_library
def test_another_library_at_the_same_addresses_is_not_named_for_it(tmp_path):
    first, second = build("first", tmp_path), build("second", tmp_path)
    with Unloads(environment("backtrace=16")) as process:
        at = process.leak(first)
        assert process.open(second) == at, "they are to be at the same place"
        process.run()
        report = check_scanned(scan(process.pid))
        check_stack(stack_of(report, "first"), "first", first)
        check_stack(stack_of(report, "second"), "second", second, unloaded=False)
        assert [frame["pc"] for frame in stack_of(report, "first")[:2]] == \
            [frame["pc"] for frame in stack_of(report, "second")[:2]], "or this shows less than it could"
        process.close()
        report = check_scanned(scan(process.pid))
        check_stack(stack_of(report, "first"), "first", first)
        check_stack(stack_of(report, "second"), "second", second)


@needs_library
def test_a_library_that_is_loaded_again_is_not_unloaded(tmp_path):
    first, second = build("first", tmp_path), build("second", tmp_path)
    with Unloads(environment("backtrace=16")) as process:
        at = process.leak(first)
        assert process.leak(second) == at
        assert process.open(first) == at
        report = check_scanned(scan(process.pid))
        check_stack(stack_of(report, "first"), "first", first, unloaded=False)
        check_stack(stack_of(report, "second"), "second", second)


@needs_library
@pytest.mark.parametrize("options", ("backtrace=16", "backtrace_sample=500"))
def test_a_path_that_is_relative_is_that_of_then(tmp_path, options):
    path = build("first", tmp_path)
    with Unloads(environment(options), cwd=tmp_path) as process:
        process.leak("./first.so")
        text = memscan(process.pid).stdout
        assert f"{path} (unloaded) (first_make+" in text, text


@needs_library
def test_a_file_that_has_been_replaced_names_no_function(tmp_path):
    path = build("first", tmp_path)
    with Unloads(environment("backtrace=16")) as process:
        process.leak(path)
        expected = stack_of(check_scanned(scan(process.pid)), "first")
        os.remove(path)
        os.rename(build("second", tmp_path), path)
        report = check_scanned(scan(process.pid))
        stack = stack_of(report, "first")
        for frame, named in zip(stack[:2], expected[:2]):
            assert frame == {key: named[key] for key in ("pc", "module", "unloaded", "build_id", "offset")}, frame
        assert [frame.get("function") for frame in stack[2:4]] == ["call", "main"], stack
        assert any("first.so are not named: it is another build" in line for line in report["warnings"]), report


@needs_library
def test_without_a_build_id_no_function_is_named(tmp_path):
    path = build("first", tmp_path, "-Wl,--build-id=none")
    with Unloads(environment("backtrace=16")) as process:
        at = process.open(path)
        process.run()
        stack = stack_of(check_scanned(scan(process.pid)), "first")
        assert [frame.get("function") for frame in stack[:2]] == ["first_make", "library_run"], stack
        process.close()
        closed = stack_of(check_scanned(scan(process.pid)), "first")
        for frame, named in zip(closed[:2], stack[:2]):
            assert frame == {**{key: named[key] for key in ("pc", "module", "offset")}, "unloaded": True}, frame
        assert int(closed[1]["pc"], 16) - at == int(closed[1]["offset"], 16) - offset_of(path, "library_run")


@needs_library
def test_a_program_that_loads_in_turns_keeps_few_stacks(tmp_path):
    first, second = build("first", tmp_path), build("second", tmp_path)
    with Unloads(environment("backtrace=16")) as process:
        for _ in range(20):
            process.leak(first)
            process.leak(second)
        report = check_scanned(scan(process.pid))
        line, = (line for heap in report["heaps"] for line in heap["evidence"] if "registry" in line)
        assert int(line.split(" stacks;")[0].split()[-1]) < 100, line


# ---- attached while it runs ----

class Attached(Unloads):
    def __init__(self, **more):
        super().__init__(**more)
        attach(self.pid, "--sample", "1")


def test_an_unloaded_library_is_named_in_an_attached_process(tmp_path):
    path = build("first", tmp_path)
    with Attached() as process:
        at = process.leak(path)
        report = check_scanned(scan(process.pid))
        stack = stack_of(report, "first")
        check_stack(stack, "first", path)
        assert 0 <= int(stack[1]["pc"], 16) - at < 4096, "as it was in the process"
        assert not [line for line in report["warnings"] if "attach" in line], report["warnings"]
        assert f"{path} (unloaded) (first_make+" in memscan(process.pid).stdout


def test_another_library_at_the_same_addresses_is_not_named_for_it_in_an_attached_process(tmp_path):
    first, second = build("first", tmp_path), build("second", tmp_path)
    with Attached() as process:
        at = process.leak(first)
        assert process.open(second) == at, "they are to be at the same place"
        process.run()
        report = check_scanned(scan(process.pid))
        check_stack(stack_of(report, "first"), "first", first)
        check_stack(stack_of(report, "second"), "second", second, unloaded=False)
        process.close()
        report = check_scanned(scan(process.pid))
        check_stack(stack_of(report, "first"), "first", first)
        check_stack(stack_of(report, "second"), "second", second)
        assert process.open(first) == at
        report = check_scanned(scan(process.pid))
        check_stack(stack_of(report, "first"), "first", first, unloaded=False)
        check_stack(stack_of(report, "second"), "second", second)
