# SPDX-License-Identifier: Apache-2.0
"""memscan heapdump: dumps of three versions and two machines, and what is no dump."""

import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import zipfile

import pytest

from shim_support import environment
from support import COULD_NOT_SCAN, COULD_NOT_WRITE, ROOT, USAGE, compile_special, memscan

GOLDEN = ROOT / "tests/golden/heapdump"
SOURCE = pathlib.Path(__file__).parent / "special/heapdump.c"
HEADER = "    BYTES %TOTAL %PARENT    COUNT    ADDR LIBRARY FUNCTION LOCATION"
TOLD_COUNTS = "memscan: v1.0.txt: the counts of blocks in this dump are not valid: each counts as 1\n"
TOLD_STACKLESS = ("memscan: v1.2-arm64.txt: 64 bytes in 1 records without a stack are omitted, "
                  "as in Android's viewer\n")


GOOD = GOLDEN / "v1.2-arm64.txt"
TOLD_GOOD = TOLD_STACKLESS.replace(GOOD.name, str(GOOD))


def heapdump(*args, status=0, env=None, **more):
    done = memscan("heapdump", *args, env={**os.environ, "ANDROID_PRODUCT_OUT": "", **(env or {})}, **more)
    assert done.status == status, str(done)
    if status:
        assert done.stdout == ""
        assert re.fullmatch(r"memscan: .+\nmemscan: .+\n", done.stderr.replace(TOLD_GOOD, "")), done.stderr
    return done


# ---- golden ----

CASES = [
    ("v1.0.text", ["v1.0.txt"], TOLD_COUNTS),
    ("v1.1.text", ["v1.1-arm.txt"], ""),
    ("v1.1.reverse.text", ["--reverse", "v1.1-arm.txt"], ""),
    ("v1.1.folded", ["--format", "folded", "v1.1-arm.txt"], ""),
    ("v1.2.text", ["v1.2-arm64.txt"], TOLD_STACKLESS),
    ("v1.2.size.text", ["--by", "size", "v1.2-arm64.txt"], TOLD_STACKLESS),
    ("v1.2.folded", ["-f", "folded", "v1.2-arm64.txt"], TOLD_STACKLESS),
    ("v1.2.html", ["--html", "v1.2-arm64.txt"], TOLD_STACKLESS),
    ("v1.2.verbose.html", ["--html", "--verbose", "v1.2-arm64.txt"], None),
    ("v1.2.json", ["--json", "v1.2-arm64.txt"], TOLD_STACKLESS),
    ("diff.text", ["v1.2-arm64.txt", "v1.2-arm64-later.txt"], TOLD_STACKLESS),
    ("diff.folded", ["-f", "folded", "v1.2-arm64.txt", "v1.2-arm64-later.txt"], TOLD_STACKLESS),
    ("diff.html", ["-f", "html", "v1.2-arm64.txt", "v1.2-arm64-later.txt"], TOLD_STACKLESS),
    ("diff.json", ["-f", "json", "v1.2-arm64.txt", "v1.2-arm64-later.txt"], TOLD_STACKLESS),
]


@pytest.mark.parametrize("expected, args, told", CASES, ids=[case[0] for case in CASES])
def test_golden(expected, args, told):
    done = heapdump("--symbols", ".", *args, cwd=GOLDEN)
    path = GOLDEN / "expected" / expected
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(done.stdout)
    assert done.stdout == path.read_text()
    assert told is None or done.stderr == told, done.stderr


def test_every_golden_is_used():
    assert {p.name for p in (GOLDEN / "expected").iterdir()} == {case[0] for case in CASES}


class Checker(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.text = [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "link", "img", "iframe"), tag
        assert not {"src", "href"} & {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("name", ["v1.2.html", "v1.2.verbose.html", "diff.html"])
def test_html_is_well_formed_and_needs_nothing(name):
    page = Checker((GOLDEN / "expected" / name).read_text())
    assert page.open == []
    assert "lib<x>.so" in page.text


@pytest.mark.parametrize("name", ["v1.2.json", "diff.json"])
def test_json_adds_up(name):
    report = json.loads((GOLDEN / "expected" / name).read_text())
    assert report["schema"] == "memscan.heapdump/1"
    by_id = {node["id"]: node for node in report["nodes"]}
    assert len(by_id) == len(report["nodes"])
    for node in report["nodes"]:
        children = [child for child in report["nodes"] if child.get("parent") == node["id"]]
        assert node["bytes"] == node["own_bytes"] + sum(child["bytes"] for child in children)
        assert node["count"] == node["own_count"] + sum(child["count"] for child in children)
    assert sum(n["bytes"] for n in report["nodes"] if "tree" in n) == report["dump"]["bytes"]


# ---- a program with symbols ----

def line_of(mark):
    for number, line in enumerate(SOURCE.read_text().split("\n"), 1):
        if f"/* {mark} */" in line:
            return f"{SOURCE}:{number}"
    raise AssertionError(mark)


def take_dump(program, path, *args):
    subprocess.run([program, path, *map(str, args)], check=True)
    return path


def rows(text):
    """(indent, bytes, count, library, what) of each line of the tree."""
    found = []
    for line in text[text.index(HEADER) + len(HEADER):].split("\n"):
        match = re.match(r" *(\d+) +[\d.]+% +[\d.]+% +(\d+) ( *)(?:[0-9a-f]+ (\S+) )?(.*)$", line)
        if match:
            found.append((len(match[3]) // 2, int(match[1]), int(match[2]), match[4], match[5]))
    return found


def check_named(done, program):
    """What the program is known to do stands in the tree."""
    ours = [(b, n, what) for _, b, n, library, what in rows(done.stdout) if library == str(program)]
    inner, first = line_of("inner's call"), line_of("outer's first call")
    second, main = line_of("outer's second call"), line_of("main's call")
    assert (400, 4, f"inner {inner} (inlined by) outer {first}") in ours, done.stdout
    assert (100, 2, f"inner {inner} (inlined by) outer {second}") in ours
    assert (1000, 1, f"main {main}") in ours
    assert all(what.startswith("leaf ") for b, n, what in ours[-1:]), ours


@pytest.fixture(scope="module", params=["pie", "no-pie"])
def program(request):
    return compile_special("heapdump.c", f"-{request.param}", f"-f{request.param}", "-g", tag=f"-{request.param}")


def test_names_functions_lines_and_inlined_calls(program, tmp_path):
    dump = take_dump(program, tmp_path / "dump")
    done = heapdump("--symbols", "/", dump)
    assert done.stdout.startswith("Resolving symbols using directory /...\n")
    check_named(done, program)
    root = rows(done.stdout)[0]
    assert root == (0, 1500, 7, None, "ZYGOTE")


def test_this_machine_is_the_default(program, tmp_path):
    dump = take_dump(program, tmp_path / "dump")
    check_named(heapdump(dump, cwd=tmp_path), program)


def test_another_file_of_the_same_path_lends_no_names(program, tmp_path):
    mine = tmp_path / "program"
    shutil.copy(program, mine)
    dump = take_dump(mine, tmp_path / "dump")
    check_named(heapdump(dump, cwd=tmp_path), mine)
    shutil.copy(mine, tmp_path / "new")
    os.rename(tmp_path / "new", mine)
    done = heapdump(dump, cwd=tmp_path)
    assert f"{mine} not found for symbol resolution\n" in done.stdout
    assert "outer" not in done.stdout


def under(folder, path):
    """Where @path's file is in a folder of symbols."""
    place = folder / str(path).lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def stripped(program, tmp_path):
    mine = tmp_path / "stripped"
    subprocess.run(["strip", "-o", mine, program], check=True)
    return mine


def test_symbols_of_a_stripped_program(program, tmp_path):
    mine = stripped(program, tmp_path)
    dump = take_dump(mine, tmp_path / "dump")
    assert "outer" not in heapdump("--symbols", "/", dump).stdout
    folder = tmp_path / "symbols"
    shutil.copy(program, under(folder, mine))
    done = heapdump("--symbols", folder, dump)
    check_named(done, mine)
    # the defaults of Android's viewer
    check_named(heapdump(dump, cwd=tmp_path), mine)
    (tmp_path / "out").mkdir()
    folder.rename(tmp_path / "out/symbols")
    check_named(heapdump(dump, cwd=tmp_path, env={"ANDROID_PRODUCT_OUT": str(tmp_path / "out")}), mine)


def test_separate_debug_file_by_build_id(program, tmp_path):
    mine = stripped(program, tmp_path)
    dump = take_dump(mine, tmp_path / "dump")
    notes = subprocess.run(["readelf", "-n", mine], capture_output=True, text=True, check=True).stdout
    build_id = re.search(r"Build ID: ([0-9a-f]+)", notes)[1]
    folder = tmp_path / "root"
    debug = folder / f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
    debug.parent.mkdir(parents=True)
    shutil.copy(mine, under(folder, mine))
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    check_named(heapdump("--symbols", folder, dump), mine)
    # another build's: not used
    other = tmp_path / "other"
    subprocess.run(["gcc", "-g", "-Wl,--build-id=0x1234", "-o", other, SOURCE], check=True)
    shutil.copy(other, debug)
    assert "outer" not in heapdump("--symbols", folder, dump).stdout


def test_app_symbols_come_first_and_may_lie_flat(program, tmp_path):
    dump = take_dump(program, tmp_path / "dump")
    (tmp_path / "app").mkdir()
    shutil.copy(program, tmp_path / "app" / program.name)
    (tmp_path / "none").mkdir()
    check_named(heapdump("--app-symbols", tmp_path / "app", "--symbols", tmp_path / "none", dump), program)


def test_another_file_is_told(program, tmp_path):
    dump = take_dump(program, tmp_path / "dump")
    shutil.copy("/bin/true", under(tmp_path / "symbols", program))
    text = dump.read_text()
    # an offset that no file of this size has
    dump.write_text(re.sub(rf"(r-xp) \d{{8}}( .*{re.escape(str(program))})", r"\1 07000000\2", text))
    done = heapdump("--symbols", tmp_path / "symbols", dump)
    assert f"memscan: warning: {program} is not the file of the dump: it has no code" in done.stderr


def test_no_name_leads_out_of_the_folder(program, tmp_path):
    dump = take_dump(program, tmp_path / "dump")
    dump.write_text(dump.read_text().replace(str(program), f"/inside/../..{program}"))
    (tmp_path / "inside").mkdir()
    shutil.copy(program, under(tmp_path, program))
    (tmp_path / "deep/inside").mkdir(parents=True)
    done = heapdump("--symbols", tmp_path / "deep", dump)
    assert "outer" not in done.stdout


def test_folded_stacks_of_a_program(program, tmp_path):
    dump = take_dump(program, tmp_path / "dump")
    lines = heapdump("-f", "folded", dump, cwd=tmp_path).stdout.splitlines()
    assert any(line.endswith(";main;outer;inner;leaf 400") for line in lines), lines
    assert any(line.endswith(";main;leaf 1000") for line in lines)
    lines = heapdump("-r", "-f", "folded", dump, cwd=tmp_path).stdout.splitlines()
    assert any(line.startswith("leaf;inner;outer;main;") and line.endswith(" 400") for line in lines), lines


def test_two_runs_at_other_addresses(program, tmp_path):
    old, new = take_dump(program, tmp_path / "old", 1), take_dump(program, tmp_path / "new", 5)
    done = heapdump("--symbols", "/", old, new)
    assert "    CHANGE       OLD       NEW    COUNT    ADDR LIBRARY FUNCTION LOCATION\n" in done.stdout
    assert "     +4000      1500      5500       +4 ZYGOTE\n" in done.stdout
    main = line_of("main's call")
    assert re.search(rf"     \+4000      1000      5000       \+4 .* main {main}\n", done.stdout)
    assert "outer" not in done.stdout, "what did not change is left out"
    back = heapdump("--symbols", "/", new, old)
    assert "     -4000      5500      1500       -4 ZYGOTE\n" in back.stdout


# ---- a dump of our own ----

@pytest.mark.parametrize("full", ["", " backtrace_full"], ids=["plain", "full"])
def test_dump_that_we_wrote(full, tmp_path):
    options = f"backtrace=16{full} backtrace_dump_on_exit backtrace_dump_prefix={tmp_path}/dump"
    subprocess.run(["ls", "/"], check=True, capture_output=True, env={**os.environ, **environment(options)})
    dump, = tmp_path.glob("dump.*.txt")
    assert ("bt_info" in dump.read_text()) == bool(full)
    done = heapdump("--json", dump, cwd=tmp_path)
    report = json.loads(done.stdout)
    assert done.stderr == "" and report["dump"]["warnings"] == []
    assert report["dump"]["bytes"] + report["dump"]["stackless_bytes"] == report["dump"]["total_bytes"] > 0
    names = [f.get("function") for n in report["nodes"] for f in n.get("functions", [])]
    assert any("setlocale" in (name or "") for name in names), names


# ---- libraries inside the package of an app ----

def packed(program, path, method=zipfile.ZIP_STORED):
    """Store the program in a package, on a page, as zipalign does; where its bytes begin."""
    with zipfile.ZipFile(path, "w", method) as package:
        package.writestr("AndroidManifest.xml", "x" * 100)
        info = zipfile.ZipInfo("lib/x86_64/libapp.so")
        info.compress_type = method
        info.extra = bytes(4096 - (package.fp.tell() + 30 + len(info.filename)) % 4096)
        package.writestr(info, program.read_bytes())
        return info.header_offset + 30 + len(info.filename) + len(info.extra)


def dump_of_package(program, tmp_path, begin):
    dump = take_dump(program, tmp_path / "dump")
    moved = lambda m: f"{m[1]}{int(m[2], 16) + begin:08x}{m[3]}/data/app/base.apk\n"
    dump.write_text(re.sub(rf"(.{{4}} )([0-9a-f]{{8}})( .*){re.escape(str(program))}\n", moved, dump.read_text()))
    return dump


def check_packed(done):
    assert "/data/app/base.apk!/lib/x86_64/libapp.so inner" in done.stdout, done.stdout
    assert re.search(r" main \S+heapdump\.c:\d+\n", done.stdout)


def test_library_in_a_package(program, tmp_path):
    app = tmp_path / "app"
    app.mkdir()
    begin = packed(program, app / "base.apk")
    assert begin % 4096 == 0
    dump = dump_of_package(program, tmp_path, begin)
    none = tmp_path / "none"
    none.mkdir()
    shutil.copy(program, app / "libapp.so")
    check_packed(heapdump("--app-symbols", app, "--symbols", none, dump))
    (app / "libapp.so").unlink()
    shutil.copy(program, under(app, "/lib/x86_64/libapp.so"))
    check_packed(heapdump("--app-symbols", app, "--symbols", none, dump))
    shutil.rmtree(app / "lib")
    done = heapdump("--app-symbols", app, "--symbols", none, dump)
    assert "/data/app/base.apk!/lib/x86_64/libapp.so not found for symbol resolution\n" in done.stdout


def test_packages_that_are_damaged(program, tmp_path):
    app = tmp_path / "app"
    app.mkdir()
    package = app / "base.apk"
    begin = packed(program, package)
    dump = dump_of_package(program, tmp_path, begin)
    whole = package.read_bytes()
    directory = whole.rindex(b"PK\1\2", 0, whole.rindex(b"PK\1\2"))
    for content in (b"", b"PK", whole[:-1], whole[:2000], whole[:-22] + whole[-22:].replace(b"PK\5\6", b"PK\5\7")):
        package.write_bytes(content)
        done = heapdump("--app-symbols", app, dump)
        assert "warning: /data/app/base.apk is not a zip file, or is damaged\n" in done.stderr, content[:9]
    for at in [*range(directory, directory + 46, 5), *range(len(whole) - 22, len(whole), 3)]:
        for byte in (0, 255):
            package.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1:])
            heapdump("--app-symbols", app, dump)


def test_compressed_member_is_no_library(program, tmp_path):
    app = tmp_path / "app"
    app.mkdir()
    begin = packed(program, app / "base.apk", zipfile.ZIP_DEFLATED)
    dump = dump_of_package(program, tmp_path, begin)
    shutil.copy(program, app / "libapp.so")
    assert "libapp.so" not in heapdump("--app-symbols", app, dump).stdout


# ---- another processor ----

def test_library_of_an_arm64_device(tmp_path):
    if not shutil.which("ld.lld"):
        pytest.skip("no linker for arm64")
    source = tmp_path / "lib.c"
    source.write_text("static inline __attribute__((always_inline)) int deep(int *p) { return *p + 1; }\n"
                      "__attribute__((noinline)) int device_function(int *p)\n"
                      "{\n\treturn 3 * deep(p);\n}\n")
    library = under(tmp_path / "symbols", "/system/lib64/libdevice.so")
    done = subprocess.run(["clang", "--target=aarch64-linux-gnu", "-O1", "-g", "-shared", "-fPIC", "-nostdlib",
                           "-fuse-ld=lld", "-o", library, source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    read = lambda *args: subprocess.run(["readelf", "-W", *args, library], capture_output=True, text=True,
                                        check=True).stdout
    assert "AArch64" in read("-h")
    address = int(re.search(r"(\S+) +\d+ FUNC .* device_function", read("-s"))[1], 16)
    offset, vaddr = (int(x, 16) for x in re.search(r"LOAD +0x(\S+) 0x(\S+) \S+ \S+ \S+ R E", read("-l")).groups())
    start = 0x7100000000
    page = offset & ~0xfff
    pc = start + address - vaddr + offset - page
    dump = tmp_path / "dump"
    dump.write_text("Android Native Heap Dump v1.2\n\nBuild fingerprint: 'x'\n\nTotal memory: 8\n"
                    "Allocation records: 1\nBacktrace size: 8\n\n"
                    f"z 0  sz        8  num    1  bt {pc:x}\nMAPS\n"
                    f"{start:x}-{start + 0x10000:x} r-xp {page:08x} fd:00 5   /system/lib64/libdevice.so\nEND\n")
    done = heapdump("--symbols", tmp_path / "symbols", dump)
    assert re.search(rf"{pc:x} /system/lib64/libdevice.so deep {source}:1 \(inlined by\) "
                     rf"device_function {source}:4\n", done.stdout), done.stdout


# ---- what is wrong ----

def test_files_that_are_no_dumps(tmp_path):
    cases = {
        "empty": (b"", "{} is empty"),
        "binary": (pathlib.Path("/bin/true").read_bytes(), "{}, line 1: a byte that is not text: this is not a heap dump"),
        "text": (b"hello\n", "{} is not an Android heap dump"),
        "half": (GOOD.read_bytes()[:600], None),
        "noend": (GOOD.read_bytes().replace(b"END\n", b""),
                  "{}, line 18: the file ends before the dump does: END is missing"),
        "damaged": (GOOD.read_bytes().replace(b"sz     4096", b"sz     4O96"),
                    "{}, line 11: the size of a record is missing, or too large"),
    }
    for name, (content, error) in cases.items():
        (tmp_path / name).write_bytes(content)
        done = heapdump(name, cwd=tmp_path, status=COULD_NOT_SCAN)
        if error:
            assert done.stderr.split("\n")[0] == "memscan: " + error.format(name)


def test_files_that_cannot_be_read(tmp_path):
    done = heapdump(tmp_path, status=COULD_NOT_SCAN)
    assert f"cannot read {tmp_path}: Is a directory" in done.stderr
    done = heapdump(tmp_path / "none", status=COULD_NOT_SCAN)
    assert "No such file or directory" in done.stderr
    done = heapdump(GOOD, tmp_path / "none", status=COULD_NOT_SCAN)
    assert "No such file or directory" in done.stderr
    if os.geteuid():
        (tmp_path / "closed").write_bytes(GOOD.read_bytes())
        (tmp_path / "closed").chmod(0)
        assert "Permission denied" in heapdump(tmp_path / "closed", status=COULD_NOT_SCAN).stderr


WRONG = [
    ([], "no heap dump was given"),
    (["a", "b", "c"], "heapdump takes one dump or two, not also 'c'"),
    (["--bogus", "a"], "there is no option --bogus"),
    (["-rx", "a"], "there is no option -x"),
    (["a", "--symbols"], "--symbols needs its argument, DIR"),
    (["--symbols", "", "a"], "--symbols takes a name"),
    (["--format", "xml", "a"], "--format takes text, html, folded, pprof or json, not 'xml'"),
    (["--by", "age", "a"], "--by takes stack or size, not 'age'"),
    (["--reverse=yes", "a"], "--reverse takes no argument"),
    (["--symbols", "/none", GOOD], "the folder of symbols /none does not exist"),
    (["--app-symbols", "/none", GOOD], "the folder of symbols /none does not exist"),
]


@pytest.mark.parametrize("args, error", WRONG, ids=[case[1] for case in WRONG])
def test_wrong_calls(args, error):
    assert heapdump(*args, status=USAGE).stderr.split("\n")[0] == "memscan: " + error


def test_help():
    done = heapdump("--help")
    assert done.stdout.startswith("Usage: memscan heapdump ")
    assert "memscan heapdump" in memscan("--help").stdout


def test_output_goes_to_a_file_whole_or_not_at_all(tmp_path):
    out = tmp_path / "out.html"
    assert heapdump("--html", "-o", out, "--symbols", ".", GOOD.name, cwd=GOLDEN).stdout == ""
    assert out.read_text() == (GOLDEN / "expected/v1.2.html").read_text()
    heapdump("-o", "/dev/full", GOOD, status=COULD_NOT_WRITE)
    heapdump("-o", tmp_path / "none/out", GOOD, status=COULD_NOT_WRITE)
    (tmp_path / "bad").write_text("x")
    heapdump("-o", out, tmp_path / "bad", status=COULD_NOT_SCAN)
    assert out.read_text().startswith("<!DOCTYPE html>")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad", "out.html"]


def test_standard_output_that_takes_nothing():
    with open("/dev/full", "w") as full:
        done = memscan("heapdump", GOOD, stdout=full)
    assert done.status == COULD_NOT_WRITE
