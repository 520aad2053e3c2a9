# SPDX-License-Identifier: Apache-2.0
"""No name that others choose commands the terminal, or its reader's eyes, whichever command prints it.

Names of a program, its arguments, a thread, functions, a library that is preloaded, files of each command; with
sequences of escapes, a line's end, bytes that are no character, C1 controls in both forms and bidirectional overrides.
"""

import contextlib
import glob
import json
import os
import shutil
import subprocess
import unicodedata

import pytest

import support
from support import MEMSCAN, Process, compile_special

EVIL = b"e\x1b]0;t\x07\x1b[31m\n\r\x9b2J\xc2\x9b\xc2\x85\xff\xe2\x80\xae\xe2\x81\xa6\x7f\x08"
FUNCTION = b"lo\x1b[31mse\xc2\x9b\xe2\x80\xae"
UNREADABLE = {"Cc", "Cf", "Zl", "Zp", "Cs"}
# what is in a string of JSON or of a protobuf beside text of ours
FORMATS = [(), ("--json",), ("-f", "folded"), ("-f", "html"), ("-v",)]


def run(*argv, env=None, timeout=120):
    done = subprocess.run([MEMSCAN, *[word if isinstance(word, bytes) else str(word) for word in argv]], env=env,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout,
                          check=False)
    for name, text in (("stdout", done.stdout), ("stderr", done.stderr)):
        check_harmless(text, f"{argv}: {name}")
    return done


def check_harmless(raw, where):
    text = raw.decode()  # all of it are characters
    bad = [(at, c) for at, c in enumerate(text) if c != "\n" and unicodedata.category(c) in UNREADABLE]
    assert not bad, f"{where}: {bad[:3]} in {text[max(bad[0][0] - 60, 0):bad[0][0] + 60]!r}"


@pytest.fixture(scope="module")
def hostile():
    """A process with such names."""
    with support.tempfile.TemporaryDirectory(prefix="memscan-e2e-") as folder:
        folder = folder.encode()
        # ld.so takes a colon and a blank for the end of a name
        program, library = folder + b"/p" + EVIL, folder + b"/lib" + EVIL.replace(b";", b"") + b".so"
        text = compile_special("hostile_names.c").read_bytes()
        with open(program, "wb") as file:
            file.write(text.replace(b"lose_long_name", FUNCTION))
        os.chmod(program, 0o755)
        shutil.copy(compile_special("hostile_names.c", "-DLIBRARY", "-shared", "-fPIC", tag="library"), library)
        with raw_process([program, EVIL[:15], EVIL], {b"LD_PRELOAD": library}) as target:
            assert target.line() == "READY"
            yield target
            assert target.finish() == 0


class RawProcess(Process):
    """Its words are bytes."""

    def __init__(self, argv, env):
        self.argv = argv
        self.popen = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
                                      env={**os.environb, **env})
        self.pid = self.popen.pid
        support.our_children.add(self.pid)
        self.unread = b""


@contextlib.contextmanager
def raw_process(argv, env):
    with RawProcess(argv, env) as process:
        yield process


@pytest.fixture(scope="module")
def attached(hostile):
    done = run("attach", "--sample", 1, hostile.pid)
    assert done.returncode == 0, done.stderr
    assert b"e?]0" in done.stderr, done.stderr
    assert hostile.ask("\n") == "done"
    return hostile


def test_attach_to_a_preloaded_malloc(tmp_path):
    """Its file's name is in what attach and --status say to standard output."""
    found = glob.glob("/usr/lib/*/libjemalloc.so.2")
    if not found:
        pytest.skip("no jemalloc is installed")
    library = bytes(tmp_path) + b"/lib" + EVIL + b".so"
    shutil.copy(found[0], library)
    with raw_process([compile_special("hostile_names.c"), "x"], {b"LD_PRELOAD": library}) as target:
        assert target.line() == "READY"
        for words in (["attach"], ["attach", "--status"]):
            done = run(*words, target.pid)
            assert done.returncode == 0 and b"functions of lib" in done.stdout and b"e?]0" in done.stdout, done.stdout
        assert run("detach", target.pid).returncode == 0
        assert target.finish() == 0


@pytest.mark.parametrize("more", FORMATS, ids=" ".join)
def test_scan(attached, more):
    done = run("--pid", attached.pid, "--contents", *more)
    assert done.returncode == 1, done.stderr


@pytest.mark.parametrize("words", [["live"], ["retained"], ["stacks"], ["why", "x"], ["retained", "--json"],
                                   ["live", "--json"], ["live", "-f", "folded"]], ids=" ".join)
def test_what_is_asked(attached, words):
    pid = [attached.pid] if words == ["stacks"] else ["--pid", attached.pid]
    done = run(*words, *pid)
    assert done.returncode == (3 if "why" in words else 0), done.stderr


def strings_of(profile):
    """The string table: fields 6 of the outermost message."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = profile[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(profile):
        key, length = varint(), varint()
        if key >> 3 == 6:
            yield profile[at:at + length]
        at += length


@pytest.mark.parametrize("words", [[], ["live"]], ids=["leaks", "live"])
def test_profiles(attached, words, tmp_path):
    file = tmp_path / "profile"
    run(*words, "--pid", attached.pid, "-f", "pprof", "-o", file)
    strings = list(strings_of(file.read_bytes()))
    assert any(b"lo?[31mse" in string for string in strings), strings
    for string in strings:
        check_harmless(string, "profile")


def test_dump_and_core(attached, tmp_path):
    core = bytes(tmp_path) + b"/" + EVIL
    done = run("dump", attached.pid, "-o", core)
    assert done.returncode == 0 and b"e?]0" in done.stdout, done.stderr
    for words in ([], ["--json"], ["-v"]):
        assert run("core", core, *words).returncode == 1
    run("core", core + b"none")
    run("core", core, "--exe", core + b"none")


@pytest.mark.parametrize("words", [
    ["--name", EVIL], [EVIL], ["--" + "x", EVIL], ["-f", EVIL, "1"], ["--pid", EVIL], ["--suppressions", EVIL, "1"],
    ["--min-size", EVIL], ["--debug-dir", EVIL, "1"], ["--ns", EVIL, "1"], ["attach", EVIL], ["detach", EVIL],
    ["attach", "--sample", EVIL, "1"], ["stacks", EVIL], ["stacks", "--debug-dir", EVIL, "1"], ["trigger", EVIL],
    ["dump", EVIL, "-o", "x"], ["dump", "1", "--snapshot", EVIL], ["core", EVIL], ["core", "/dev/null", "--root", EVIL],
    ["heapdump", EVIL], ["heapdump", "-f", EVIL], ["heapdump", "--symbols", EVIL, "x"], ["records", EVIL],
    ["records", "--at", EVIL, "x"], ["diff", EVIL, EVIL], ["diff", "-f", EVIL, "a", "b"], ["run", EVIL], ["run", "--", EVIL],
    ["run", "-o", b"/none/" + EVIL, "true"], ["why", EVIL], ["why", "--pid", "1", EVIL], ["live", EVIL],
    ["retained", EVIL]], ids=lambda words: " ".join(str(word)[:9] for word in words))
def test_wrong_calls(words):
    assert run(*words).returncode in (2, 3, 4, 127)


@pytest.mark.parametrize("words", [["diff", "old", "old"], ["heapdump", "old"], ["records", "old"]], ids=lambda words: words[0])
def test_an_output_that_cannot_be_written(words, tmp_path):
    (tmp_path / "old").write_text("{}")
    files = [tmp_path / word if word == "old" else word for word in words]
    done = run(*files, "-o", b"/none/" + EVIL)
    assert done.returncode == 4 and b"e?]0" in done.stderr, done.stderr


def test_suppressions(attached, tmp_path):
    file = tmp_path / "suppressions"
    file.write_bytes(b"leak:lo" + EVIL.replace(b"\n", b"") + b"\nleak:lo*se*\nnonsense" + EVIL)
    run("--pid", attached.pid, "--suppressions", file)
    file.write_bytes(b"leak:lo*\x1b[31mse\xc2\x9b*\n")
    done = run("--pid", attached.pid, "--suppressions", file)
    assert done.returncode in (0, 1) and b"lo*?[31mse" in done.stdout, done.stdout


def test_files_of_others(attached, tmp_path):
    report = tmp_path / "report"
    assert run("--pid", attached.pid, "--json", "-o", report).returncode == 1
    changed = json.loads(report.read_text())
    changed["leaks"] = changed["leaks"][:1]
    changed["tool"]["name"] = changed["host"]["name"] = EVIL.decode(errors="replace")
    other = tmp_path / "other"
    other.write_text(json.dumps(changed))
    for words in ([], ["--json"]):
        run("diff", other, report, *words)
    dump = tmp_path / "dump"
    name = EVIL.replace(b"\n", b"")
    dump.write_bytes(b"Android Native Heap Dump v1.2\n\nBuild fingerprint: '" + name + b"'\n\nTotal memory: 8\n"
                     b"Allocation records: 1\nBacktrace size: 1\n\nz 0  sz 8  num 1  bt 10\n  bt_info {\"" + name +
                     b"\" 10 \"" + name + b"\" 0}\nMAPS\n0-1000 r-xp 0 0:0 0 /" + name + b"\n" + name + b"\nEND\n" + name)
    for words in ([], ["-v"], ["--json"], ["--html"], ["-f", "folded"]):
        run("heapdump", dump, *words)
    recording = tmp_path / "recording"
    recording.write_bytes(b"1: malloc 0x10 8 1 2\n" + name + b"\n")
    run("records", recording)
    recording.write_bytes(b"1: malloc 0x10 8 1 2\n1: " + name)
    run("records", recording)


def test_run(hostile, tmp_path):
    """The program that is run, and what it prints of it."""
    done = run("run", "-v", hostile.argv[0], EVIL)
    assert done.returncode == 0
    run("run", hostile.argv[0] + b"none")
    run("run", "-o", bytes(tmp_path) + b"/" + EVIL, hostile.argv[0])


def test_detach(attached):
    """Last: it ends what the others look at."""
    done = run("detach", attached.pid)
    assert done.returncode == 0, done.stderr
    run("attach", "--status", attached.pid)
