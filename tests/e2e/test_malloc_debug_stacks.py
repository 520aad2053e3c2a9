# SPDX-License-Identifier: Apache-2.0
"""Backtraces of libmalloc_debug.so against those of the compiler's own unwinder."""

import re

import pytest

from shim_support import environment, needs_library
from support import Process, compile_special, compile_target

pytestmark = needs_library

FORMS = {
    "O1": ["-O1"],
    "O2": ["-O2"],
    "O2_frame_pointers": ["-O2", "-fno-omit-frame-pointer"],
    "O3_sections": ["-O3", "-ffunction-sections"],
    "O0": ["-O0"],
}


def libraries():
    """Of the same code but for the size of a frame, so that one fits where another was."""
    return [compile_special("one_frame.c", "-O2", "-shared", "-fPIC", f"-DSPACE={space}", tag=f"_{space}.so")
            for space in (1000, 2000, 3000)]


@pytest.mark.parametrize("compiler", ("g++", "clang++"))
@pytest.mark.parametrize("form", FORMS)
def test_each_stack_is_the_true_one(form, compiler):
    compare_stacks(form, compiler, "backtrace=200")


def test_each_sampled_stack_is_the_true_one():
    """The loader's own calls, by which the shim learns that a library goes, are hardly ever sampled."""
    compare_stacks("O2", "g++", "backtrace_sample=8192", FRAMES="16")


def compare_stacks(form, compiler, options, **more):
    program = compile_target("call_trees.cc", compiler=compiler, flags=FORMS[form], tag=f"_{compiler}_{form}")
    for seed in range(2):
        with Process([program, seed, 50, *libraries()], environment(options, **more)) as process:
            out, _ = process.popen.communicate(timeout=120)
        assert process.popen.returncode == 0
        compared, met = map(int, re.fullmatch(rb"(\d+) compared, (\d+) at an .*\n", out).groups())
        assert compared > 1000
        assert met > 10, "no library came where another was"
