# SPDX-License-Identifier: Apache-2.0
"""Types of C++ objects, and modules.

The oracle is the program's own typeid, demangled by c++filt.
"""

import os
import subprocess

import pytest

import support
from support import Target, check_scanned, compile_special, compile_target, scan

HOW = ["copy", "fork"]


def class_library():
    return compile_special("class_library.cc", "-shared", "-fPIC", compiler="g++")


def stripped(path):
    out = path.with_name(path.name + "-stripped")
    subprocess.run(["strip", "--strip-all", "-o", out, path], check=True)
    return out


def builds():
    """The program as one usually gets it, and in the ways that move tables about."""
    flags = {"pie": [], "no-pie": ["-no-pie", "-fno-pie"], "static": ["-static"], "norelro": ["-Wl,-z,norelro"],
             "optimized": ["-O2", "-flto"], "clang": []}
    return list(flags.items())


def program(name="pie", flags=()):
    return compile_target("classes.cc", compiler="clang++" if name == "clang" else "g++", flags=flags,
                          tag=f"-{name}", libs=("-ldl",))


def start(scenario, path=None):
    return Target([path or program(), scenario], {"CLASS_LIBRARY": str(class_library())})


def demangled(names):
    done = subprocess.run(["c++filt", "-t"], input="".join(f"{name}\n" for name in names), text=True,
                          stdout=subprocess.PIPE, check=True)
    return dict(zip(names, done.stdout.splitlines()))


def truth(target):
    """The type of each block, by the program's own word."""
    told = {address: kind[len("is:"):] for kind, address, _ in target.facts if kind.startswith("is:")}
    names = demangled(sorted(set(told.values())))
    # a function in a template's arguments is left as it is
    return {address: {names[name], name} if "IPF" in name else {names[name]} for address, name in told.items()}


def types(report):
    return {int(leak["address"], 16): leak["type"]["name"] for leak in report["leaks"] if "type" in leak}


def modules(report):
    return {int(leak["address"], 16): os.path.basename(leak["module"]) for leak in report["leaks"]
            if "module" in leak}


def check_types(target, *args):
    report = check_scanned(scan(target.pid, "--no-fold", *args))
    support.check_truth(report, target)
    told, expected = types(report), truth(target)
    assert told.keys() == expected.keys()
    wrong = {told[a]: expected[a] for a in told if told[a] not in expected[a]}
    assert not wrong, f"told, and true: {wrong}"
    assert all(leak["type"]["how"] == "vtable" for leak in report["leaks"] if "type" in leak)
    return report


# ---- types ----

@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("scenario", ["types", "standard"])
def test_tells_classes_as_the_program_does(scenario, how):
    with start(scenario) as target:
        check_types(target, "--snapshot", how)


@pytest.mark.parametrize("name,flags", builds(), ids=[name for name, _ in builds()])
def test_tells_classes_of_stripped_programs(name, flags):
    path = stripped(program(name, flags))
    assert "no symbols" in subprocess.run(["nm", path], stderr=subprocess.PIPE, text=True).stderr
    for scenario in ("types", "standard"):
        with start(scenario, path) as target:
            report = check_types(target)
            inside = "libstdc++" if scenario == "standard" and name not in ("static",) else path.name
            assert all(inside in module for module in modules(report).values()), modules(report)


@pytest.mark.parametrize("how", HOW)
def test_tells_modules_of_a_library_that_was_opened(how):
    with start("library") as target:
        report = check_types(target, "--snapshot", how)
        told = modules(report)
        assert told.keys() == target.leaks().keys()
        assert set(told.values()) == {"class_library"}


def test_tells_nothing_of_plain_blocks():
    with start("plain") as target:
        report = check_types(target)
        assert not modules(report)


def test_text_has_a_line_for_the_type():
    with start("library") as target:
        done = support.memscan("--pid", target.pid)
        assert "   type: plugin::Widget (vtable of class_library)\n" in done.stdout, str(done)
        assert "   module: class_library (table of functions)\n" in done.stdout, str(done)
