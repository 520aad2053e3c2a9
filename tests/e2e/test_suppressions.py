# SPDX-License-Identifier: Apache-2.0
"""Types of C++ objects, and suppressions by type and module.

The oracle of the types is the program's own typeid, demangled by c++filt; that of the
suppressions is the graph that the program is known to make.
"""

import os
import re
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


# ---- suppressions ----

def suppress(tmp_path, text, number=0):
    path = tmp_path / f"known-{number}.txt"
    path.write_text(text)
    return ["--suppressions", path]


def names_left(report):
    return sorted(types(report).values())


def check_graph(tmp_path, text, left, suppressed):
    """What is left of the scenario "graph", and how many blocks were suppressed; folded or not."""
    args = suppress(tmp_path, text)
    with start("graph") as target:
        before = check_scanned(scan(target.pid, "--no-fold"))
        report = check_scanned(scan(target.pid, "--no-fold", *args))
        support.check_unfolded(report)
        assert names_left(report) == sorted(f"shop::{name}" for name in left.split())
        totals = report["totals"]
        assert totals["suppressed_allocations"] == suppressed
        for unit in ("allocations", "bytes"):
            whole = totals[f"leaked_{unit}"] + totals[f"suppressed_{unit}"]
            assert whole == before["totals"][f"leaked_{unit}"]
        folded = check_scanned(scan(target.pid, *args, merge=True))
        support.check_folded(folded)
        assert folded["totals"] == totals
        assert folded["suppressions"] == report["suppressions"]
        cut = check_scanned(support.memscan("--pid", target.pid, "--json", "--limit", 1, "--min-size", 1, *args))
        assert cut["totals"] == totals and cut["leaks"] == folded["leaks"][:1]
        twice = check_scanned(scan(target.pid, "--confirm=0.05", *args, merge=True))
        assert twice["totals"] == {**totals, "unconfirmed_allocations": 0, "unconfirmed_bytes": 0}
        for part in ("leaks", "suppressions", "warnings"):
            assert twice[part] == folded[part]
        return report


ALL = "Book Cache Cache Keeper Part Part Part Ring Ring Ring Ring"


@pytest.mark.parametrize("text,left,suppressed,matched", [
    ("leak:nothing\n", ALL, 0, [0]),
    # the first Cache takes two Parts and two Rings along, the second a Book
    ("# why\n\n  leak:^shop::Cache$ \n", "Keeper Part Ring Ring", 7, [2]),
    # a Keeper takes what a Cache holds as well
    ("leak:Keeper", "Book Cache Cache Part Ring Ring", 5, [1]),
    ("leak:shop::Ring", "Cache Keeper Part Part Part", 6, [4]),
    ("leak:Part\r\nleak:Book\r\n", "Cache Cache Keeper Ring Ring", 6, [3, 1]),
    ("leak:^shop*$", "", 11, [11]),
    ("leak:classes-pie", "", 11, [11]),
    ("leak:^classes", ALL, 0, [0]),
    ("leak:Book\nleak:*\n", "", 11, [1, 10]),
], ids=lambda value: re.sub(r"\s+", "_", value)[:24] if isinstance(value, str) else "")
def test_suppresses_as_leaksanitizer_does(tmp_path, text, left, suppressed, matched):
    report = check_graph(tmp_path, text, left, suppressed)
    assert [s["allocations"] for s in report["suppressions"]] == matched
    warned = [warning for warning in report["warnings"] if "matched nothing" in warning]
    assert len(warned) == matched.count(0), report["warnings"]


def test_all_suppressed_is_clean_and_says_so(tmp_path):
    with start("graph") as target:
        done = support.memscan("--pid", target.pid, *suppress(tmp_path, "leak:Ring\nleak:shop"))
        assert done.status == support.SCANNED_CLEAN, str(done)
        assert re.search(r"^0 bytes in 0 allocations unreachable", done.stdout, re.M), str(done)
        table = done.stdout[done.stdout.index("Suppressions used:"):]
        assert table == ("Suppressions used:\n  count      bytes template\n"
                         "      4         96 Ring\n      7        168 shop\n"
                         "Suppressed in all: 264 bytes in 11 allocations\n\n"), table


def test_several_files_are_taken_in_order(tmp_path):
    with start("graph") as target:
        report = check_scanned(scan(target.pid, *suppress(tmp_path, "leak:Ring\n"),
                                    *suppress(tmp_path, "leak:Part\nleak:Ring", 1)))
        assert [s["pattern"] for s in report["suppressions"]] == ["Ring", "Part", "Ring"]
        assert [s["allocations"] for s in report["suppressions"]] == [4, 3, 0]
        [warning] = [w for w in report["warnings"] if "matched nothing" in w]
        assert "known-1.txt:2:" in warning


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("pattern,left", [("class_library", 0), ("plugin::*", 1), ("Widget$", 2)])
def test_suppresses_by_the_module_of_a_library(tmp_path, pattern, left, how):
    with start("library") as target:
        done = scan(target.pid, "--snapshot", how, *suppress(tmp_path, f"leak:{pattern}\n"))
        assert check_scanned(done)["totals"]["leaked_allocations"] == left


def test_reads_suppressions_from_a_pipe(tmp_path):
    with start("graph") as target:
        read, write = os.pipe()
        os.write(write, b"leak:shop\n")
        os.close(write)
        done = scan(target.pid, "--suppressions", f"/dev/fd/{read}", pass_fds=[read])
        os.close(read)
        assert done.status == support.SCANNED_CLEAN, str(done)


@pytest.mark.parametrize("text,wrong", [
    ("leak:a\nrace:foo\n", ":2: the only kind of suppression is leak:, not 'race:'"),
    ("# fine\n\n\nfoo\n", ":4: leak: is missing before 'foo'"),
    ("leak:\x1b[31mred\nnot\x1b[31m\n", ":2: leak: is missing before 'not?[31m'"),
])
def test_a_broken_file_is_a_wrong_call(tmp_path, text, wrong):
    args = suppress(tmp_path, text)
    # of a process that does not exist, which is not even looked for
    done = support.memscan("--pid", 2**22 + 5, *args)
    assert done.status == support.USAGE and done.stdout == "", str(done)
    lines = done.stderr.splitlines()
    assert len(lines) == 2 and lines[0].endswith(wrong), str(done)
    assert "known-0.txt" in lines[0]


def test_an_unreadable_file_is_a_wrong_call(tmp_path):
    for path, why in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory"), ("/dev/zero", "too large")):
        done = support.memscan("--pid", 2**22 + 5, "--suppressions", path)
        assert done.status == support.USAGE and why in done.stderr, str(done)
