# SPDX-License-Identifier: Apache-2.0
"""Leaks with the names of those who allocated: function, file and line.

Programs run with libmalloc_debug and its option backtrace; debug information is in the
program, beside it, or elsewhere, or not that of this program.
"""

import http.server
import os
import pathlib
import re
import shutil
import struct
import subprocess
import threading
import time
import zlib

import pytest

import support
from shim_support import LIBRARY, environment
from support import Process, check_scanned, memscan, scan

HERE = pathlib.Path(__file__).parent / "special"
TRACED = environment("backtrace")


def here(mark, source="leak_names.c"):
    """The line of the source that is marked so."""
    lines = (HERE / source).read_text().splitlines()
    return 1 + next(i for i, line in enumerate(lines) if f"here: {mark} " in line)


def build(out, source="leak_names.c", *flags, compiler="gcc"):
    subprocess.run([compiler, "-O2", "-g", *flags, "-o", out, HERE / source, "-ldl"], check=True)
    return out


def build_id(path):
    notes = subprocess.run(["readelf", "-n", path], check=True, stdout=subprocess.PIPE, text=True).stdout
    return re.search(r"Build ID: ([0-9a-f]+)", notes).group(1)


def split(program):
    """Strip it; the file with its debug information."""
    debug = pathlib.Path(f"{program}.debug")
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["strip", program], check=True)
    return debug


def by_build_id(folder, identity):
    path = pathlib.Path(folder, ".build-id", identity[:2], identity[2:] + ".debug")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def started(program, *args, **more):
    process = Process([str(program), *map(str, args)], env={**os.environ, **TRACED}, **more)
    while "READY" not in process.line():
        pass
    return process


def leak_of(report, size):
    found = [leak for leak in report["leaks"] if leak["size"] == size]
    assert found, f"no leak of {size} bytes: {[leak['size'] for leak in report['leaks']]}"
    return found[0]


def frames_of(report, size):
    return leak_of(report, size)["backtrace"]


def told(frame):
    return (frame.get("function"), pathlib.Path(frame.get("file", "")).name, frame.get("line"))


def named_leak(report, size=1234):
    """That the leak is told with the planted lines, inlined ones too."""
    assert [told(frame) for frame in frames_of(report, size)[:3]] == [
        ("take_block", "leak_names.c", here("take")),
        ("lose_block", "leak_names.c", here("lose")),
        ("main", "leak_names.c", here("main")),
    ]
    assert [frame.get("inlined", False) for frame in frames_of(report, size)[:3]] == [True, False, False]


def unnamed_leak(report, size=1234):
    for frame in frames_of(report, size):
        if "leak_names" in frame["module"]:
            assert "function" not in frame and "file" not in frame, frame
            assert int(frame["offset"], 16) > 0


def unnamed_lines(report, size=1234):
    assert not [frame for frame in frames_of(report, size) if "leak_names" in frame.get("file", "")]


def report_of(program, *args, arguments=(), **more):
    with started(program, *arguments, **more) as process:
        result = scan(process.pid, *args)
        check_scanned(result)
        return result.report


def warned(report, text):
    return [w for w in report["warnings"] if text in w]


# ---- the program has its debug information ----

def test_inlined_calls_are_named(tmp_path):
    report = report_of(build(tmp_path / "leak_names"))
    named_leak(report)
    assert not warned(report, "named")


def test_text_tells_them_too(tmp_path):
    with started(build(tmp_path / "leak_names")) as process:
        done = memscan("--pid", process.pid)
    assert f"(take_block [inlined]) leak_names.c:{here('take')}\n" in done.stdout
    assert re.search(rf"\(lose_block\+\d+\) leak_names.c:{here('lose')}\n", done.stdout), done.stdout


def test_clang_names_them_too(tmp_path):
    if not shutil.which("clang"):
        pytest.skip("no clang here")
    named_leak(report_of(build(tmp_path / "leak_names", compiler="clang")))


def test_cpp_names_are_readable(tmp_path):
    report = report_of(build(tmp_path / "names", "leak_names.cc", compiler="g++"))
    told_frames = [told(frame) for frame in frames_of(report, 1234)]
    assert told_frames[0][0] == "operator new(unsigned long)" or told_frames[0][0].startswith("operator new")
    at = [i for i, frame in enumerate(told_frames) if frame[0] == "shop::Cart<char>::fill(unsigned long)"][0]
    assert told_frames[at:at + 2] == [
        ("shop::Cart<char>::fill(unsigned long)", "leak_names.cc", here("fill", "leak_names.cc")),
        ("shop::lose(unsigned long)", "leak_names.cc", here("lose", "leak_names.cc")),
    ]
    assert told_frames[at + 2][1:] == ("leak_names.cc", here("lambda", "leak_names.cc"))


def test_rust_names_are_readable(tmp_path):
    report = report_of(build(tmp_path / "leak_names", "leak_names.c", "-g0"))
    assert frames_of(report, 2345)[0]["function"] == "store::Cache::put"
    assert frames_of(report, 3456)[0]["function"] == "mycrate::store::put"


def test_a_library_that_was_loaded_later(tmp_path):
    library = build(tmp_path / "liblater.so", "leak_library.c", "-shared", "-fPIC")
    report = report_of(build(tmp_path / "leak_names"), arguments=[library])
    frame = frames_of(report, 4321)[0]
    assert told(frame) == ("lose_in_library", "leak_library.c", here("library", "leak_library.c"))
    assert frame["module"] == str(library) and frame["build_id"] == build_id(library)


# ---- it is elsewhere ----

def test_debug_dir_by_build_id(tmp_path):
    program = build(tmp_path / "leak_names")
    identity = build_id(program)
    split(program).rename(by_build_id(tmp_path / "debug", identity))
    unnamed_leak(report_of(program))
    named_leak(report_of(program, "--debug-dir", tmp_path / "debug"))


def test_debuglink_beside_the_program(tmp_path):
    program = build(tmp_path / "leak_names")
    debug = split(program)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", program], check=True)
    named_leak(report_of(program))


def test_a_program_without_build_id_has_the_checksum(tmp_path):
    program = build(tmp_path / "leak_names", "leak_names.c", "-Wl,--build-id=none")
    debug = split(program)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", program], check=True)
    named_leak(report_of(program))
    with open(debug, "ab") as file:
        file.write(b"\0")
    report = report_of(program)
    unnamed_leak(report)
    assert warned(report, "leak_names.debug is not used: it is damaged, or of another build than")


@pytest.fixture
def root(tmp_path):
    """A root with what a program of this machine needs, and its debug file inside."""
    root = tmp_path / "root"
    program = build(tmp_path / "leak_names")
    identity = build_id(program)
    for path in [LIBRARY.resolve(), pathlib.Path(shutil.which("sh")).resolve()]:
        libraries = re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", path], stdout=subprocess.PIPE, text=True).stdout)
        for library in [*libraries, "/usr/lib/x86_64-linux-gnu/libunwind.so.8", "/lib/x86_64-linux-gnu/liblzma.so.5"]:
            target = root / library.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists() and os.path.exists(library):
                shutil.copy(library, target)
    shutil.copy(LIBRARY, root / "libmalloc_debug.so.1")
    debug = split(program)
    place = by_build_id(root / "usr/lib/debug", identity)
    # an absolute link leads inside of that root, not of ours
    shutil.move(debug, root / "the.debug")
    place.symlink_to("/the.debug")
    shutil.copy(program, root / "leak_names")
    return root


def test_the_root_of_a_container(root):
    if os.geteuid() != 0:
        pytest.skip("chroot takes root")
    env = {"LD_PRELOAD": "/libmalloc_debug.so.1", "LIBC_DEBUG_MALLOC_OPTIONS": "backtrace"}
    process = Process([shutil.which("chroot"), str(root), "/leak_names"], env=env)
    with process:
        while "READY" not in process.line():
            pass
        result = scan(process.pid)
        check_scanned(result)
    named_leak(result.report)


def test_mini_debug_information(tmp_path):
    """.gnu_debugdata: symbols of a stripped file, compressed (by xz), inside of it."""
    if not shutil.which("xz"):
        pytest.skip("no xz here")
    program = build(tmp_path / "leak_names", "leak_names.c", "-g0", "-fno-inline")
    symbols = tmp_path / "symbols"
    subprocess.run(["objcopy", "--keep-symbol=lose_block", "--strip-unneeded", program, symbols], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", program, symbols], check=True)
    subprocess.run(["strip", program], check=True)
    subprocess.run(["xz", symbols], check=True)
    unnamed = frames_of(report_of(program), 1234)
    assert unnamed[0].get("function") is None
    subprocess.run(["objcopy", "--add-section", f".gnu_debugdata={symbols}.xz", program], check=True)
    named = frames_of(report_of(program), 1234)
    assert named[0]["function"] == "lose_block"


# ---- it is not what it was ----

def test_a_deleted_program_is_named(tmp_path):
    program = build(tmp_path / "leak_names")
    with started(program) as process:
        program.unlink()
        result = scan(process.pid)
    named_leak(result.report)


def test_a_replaced_program_is_named_as_it_was(tmp_path):
    program = build(tmp_path / "leak_names")
    other = build(tmp_path / "other", "leak_names.c", "-DNUMBER=2")
    with started(program) as process:
        other.rename(program)
        result = scan(process.pid)
    named_leak(result.report)


def test_another_build_is_not_believed_when_the_process_is_gone(tmp_path):
    """memscan run: the names are looked up when the program has been let go."""
    program = build(tmp_path / "leak_names")
    other = build(tmp_path / "other", "leak_names.c", "-DNUMBER=2")
    out = tmp_path / "report.json"
    script = f"mv {other} {program}; sleep 0.1"
    process = subprocess.Popen([support.MEMSCAN, "run", "--json", "-o", out, "--", program], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, env={**os.environ, **TRACED})
    process.stdout.readline()
    subprocess.run(["sh", "-c", script], check=True)
    process.stdin.close()
    process.wait(60)
    process.stdout.close()
    report = support.read_report(out.read_text())
    if warned(report, "it is another build than was mapped"):
        unnamed_leak(report)
    else:  # it was not quite gone yet
        named_leak(report)


def test_run_names_them(tmp_path):
    program = build(tmp_path / "leak_names")
    done = memscan("run", "--json", "-o", tmp_path / "report.json", "--", program, env={**os.environ, **TRACED})
    assert done.status == 0, done
    named_leak(support.read_report((tmp_path / "report.json").read_text()))


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.99])
def test_a_truncated_debug_file(tmp_path, keep):
    program = build(tmp_path / "leak_names")
    identity = build_id(program)
    debug = split(program)
    os.truncate(debug, int(debug.stat().st_size * keep))
    debug.rename(by_build_id(tmp_path / "debug", identity))
    report = report_of(program, "--debug-dir", tmp_path / "debug")
    unnamed_leak(report)
    assert warned(report, "is not used: it is damaged, or of another build than")


def test_a_debug_file_of_another_build(tmp_path):
    program = build(tmp_path / "leak_names")
    other = build(tmp_path / "other", "leak_names.c", "-DNUMBER=2")
    identity = build_id(program)
    split(program)
    split(other).rename(by_build_id(tmp_path / "debug", identity))
    report = report_of(program, "--debug-dir", tmp_path / "debug")
    unnamed_leak(report)
    assert warned(report, "is not used")


def test_a_fifo_in_the_place_of_the_debug_file(tmp_path):
    program = build(tmp_path / "leak_names")
    identity = build_id(program)
    split(program).unlink()
    os.mkfifo(by_build_id(tmp_path / "debug", identity))
    report = report_of(program, "--debug-dir", tmp_path / "debug")
    unnamed_leak(report)
    assert not warned(report, "did not finish")


def test_garbage_in_the_debug_information_costs_that_files_names_alone(tmp_path):
    """Names of other files stay, whatever the reader of the damaged one comes to."""
    library = build(tmp_path / "liblater.so", "leak_library.c", "-shared", "-fPIC")
    program = build(tmp_path / "leak_names")
    identity = build_id(program)
    debug = split(program)
    data = bytearray(debug.read_bytes())
    sections = subprocess.run(["readelf", "-SW", debug], stdout=subprocess.PIPE, text=True).stdout
    for name in [".debug_info", ".debug_abbrev", ".debug_line"]:
        at, size = re.search(rf"{re.escape(name)}\s+PROGBITS\s+\S+ (\S+) (\S+)", sections).groups()
        for i in range(int(at, 16) + 12, int(at, 16) + int(size, 16)):
            data[i] = i * 193 & 0xff
    debug.write_bytes(data)
    debug.rename(by_build_id(tmp_path / "debug", identity))
    report = report_of(program, "--debug-dir", tmp_path / "debug", arguments=[library])
    assert frames_of(report, 4321)[0]["function"] == "lose_in_library"


# ---- suppressions ----

@pytest.mark.parametrize("pattern", ["lose_block", "take_block", "leak_names.c", "^main$", "*/leak_names"])
def test_suppressions_match_the_names(tmp_path, pattern):
    known = tmp_path / "known"
    known.write_text(f"leak:{pattern}\n")
    with started(build(tmp_path / "leak_names")) as process:
        before = scan(process.pid).report
        after = scan(process.pid, "--suppressions", known).report
    assert any(leak["size"] == 1234 for leak in before["leaks"])
    assert not any(leak["size"] == 1234 for leak in after["leaks"])
    assert after["totals"]["suppressed_allocations"] > 0
    others = pattern not in ("lose_block", "take_block")
    assert any(leak["size"] == 2345 for leak in after["leaks"]) != others


@pytest.mark.parametrize("pattern", ["^shop::Cart<char>::fill(unsigned long)$", "_ZN4shop4CartIcE4fillEm",
                                     "shop::lose", "leak_names.cc"])
def test_suppressions_match_cpp_names_mangled_or_not(tmp_path, pattern):
    known = tmp_path / "known"
    known.write_text(f"leak:nothing_like_that\nleak:{pattern}\n")
    with started(build(tmp_path / "names", "leak_names.cc", compiler="g++")) as process:
        assert scan(process.pid, "--suppressions", known).status == support.SCANNED_CLEAN


def test_run_suppresses_by_function(tmp_path):
    known = tmp_path / "known"
    known.write_text("leak:^lose_block$\nleak:put\n")
    program = build(tmp_path / "leak_names")
    done = memscan("run", "--json", "--suppressions", known, "-o", tmp_path / "report.json", "--error-exitcode", "9",
                   "--", program, env={**os.environ, **TRACED})
    assert done.status == 0, done
    assert support.read_report((tmp_path / "report.json").read_text())["leaks"] == []


# ---- debuginfod ----

class Server(http.server.ThreadingHTTPServer):
    def __init__(self, files):
        self.files, self.asked = files, []
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        file = self.server.files.get(self.path)
        self.send_response(200 if file else 404)
        body = file.read_bytes() if file else b""
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def served(tmp_path):
    """A stripped program, a server that has its debug file, and an environment to ask it."""
    program = build(tmp_path / "leak_names")
    identity = build_id(program)
    debug = split(program)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with Server({f"/buildid/{identity}/debuginfo": debug.rename(elsewhere / "file")}) as server:
        env = {**os.environ, "DEBUGINFOD_URLS": server.url, "DEBUGINFOD_CACHE_PATH": str(tmp_path / "cache")}
        yield program, server, env


def test_servers_are_asked_when_that_is_wanted(served):
    program, server, env = served
    with started(program) as process:
        result = scan(process.pid, "--debuginfod", env=env)
    named_leak(result.report)
    assert server.asked


@pytest.mark.parametrize("command", ["scan", "stacks", "run"])
def test_servers_are_not_asked_else(served, command, tmp_path):
    program, server, env = served
    if command == "run":
        memscan("run", "-o", tmp_path / "out", "--", program, env={**env, **TRACED})
    else:
        with started(program) as process:
            memscan(*([command, "--pid"] if command == "scan" else [command]), process.pid, env=env)
    assert server.asked == []


def test_stacks_asks_servers_when_that_is_wanted(served):
    program, server, env = served
    with started(program) as process:
        without = memscan("stacks", process.pid, env=env)
        done = memscan("stacks", "--debuginfod", process.pid, env=env)
    assert "(main+" not in without.stdout
    assert "(main+" in done.stdout, done


@pytest.mark.parametrize("option", [["--debug-dir", "{}"], ["--debug-dir={}"]])
def test_stacks_looks_into_the_debug_dir(option, tmp_path):
    program = build(tmp_path / "leak_names")
    identity = build_id(program)
    split(program).rename(by_build_id(tmp_path / "debug", identity))
    with started(program) as process:
        done = memscan("stacks", *(word.format(tmp_path / "debug") for word in option), process.pid)
    assert "(main+" in done.stdout, done


def test_a_server_with_the_wrong_file_is_not_believed(served, tmp_path):
    program, server, env = served
    other = split(build(tmp_path / "other", "leak_names.c", "-DNUMBER=2"))
    for path in server.files:
        server.files[path] = other
    with started(program) as process:
        report = scan(process.pid, "--debuginfod", env=env).report
    unnamed_leak(report)
    assert server.asked and warned(report, "is not used")


def test_no_server_is_named(tmp_path):
    env = {name: value for name, value in os.environ.items() if name != "DEBUGINFOD_URLS"}
    with started(build(tmp_path / "leak_names")) as process:
        done = scan(process.pid, "--debuginfod", env=env)
    assert "memscan: --debuginfod: DEBUGINFOD_URLS names no server, so none is asked" in done.stderr
    named_leak(done.report)


# ---- files that are made to take memory and time ----

def zeros(size):
    """So many zeros as zlib has them, in a thousandth of the room and in no time."""
    piece = 1 << 24
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    full = packer.compress(bytes(piece)) + packer.flush(zlib.Z_FULL_FLUSH)
    last = zlib.compressobj(9, zlib.DEFLATED, -15).flush()
    checksum = (size % 65521) << 16 | 1
    return b"\x78\xda" + full * (size // piece) + last + struct.pack(">I", checksum)


def packed(size, claimed=None):
    """A section that is compressed, as .gnu.build.attributes of ELF have it (Elf64_Chdr)."""
    return struct.pack("<IIQQ", 1, 0, claimed or size, 1) + zeros(size)


def add_section(path, name, content, tmp_path):
    section = tmp_path / "section"
    section.write_bytes(content)
    subprocess.run(["objcopy", "--remove-section", name, path], check=True)
    subprocess.run(["objcopy", "--add-section", f"{name}={section}", path], check=True)
    set_compressed(path, name)


def set_compressed(path, name):
    """Say in the section's header that it is compressed, which objcopy does not."""
    data = bytearray(path.read_bytes())
    begin, = struct.unpack_from("<Q", data, 40)
    size, n, names = struct.unpack_from("<HHH", data, 58)
    strings, = struct.unpack_from("<Q", data, begin + names * size + 24)
    for header in range(begin, begin + n * size, size):
        at = strings + struct.unpack_from("<I", data, header)[0]
        if data[at:data.index(0, at)] == name.encode():
            flags, = struct.unpack_from("<Q", data, header + 8)
            struct.pack_into("<Q", data, header + 8, flags | 0x800)
            path.write_bytes(data)
            return
    raise AssertionError(f"no section {name}")


def nested_ranges(many):
    """Assembly: a unit of so many functions, each of as many ranges, of which all are the same."""
    return f"""
	.section .debug_abbrev,"",@progbits
	.uleb128 1, 0x11
	.byte 1
	.uleb128 0x55, 0x17, 0x11, 1, 0, 0
	.uleb128 2, 0x2e
	.byte 0
	.uleb128 0x55, 0x17, 0, 0
	.byte 0
	.section .debug_info,"",@progbits
	.4byte 2f - 1f
1:	.2byte 4
	.4byte 0
	.byte 8
	.uleb128 1
	.4byte 0
	.8byte 0
	.rept {many}
	.uleb128 2
	.4byte 0
	.endr
	.byte 0
2:
	.section .debug_ranges,"",@progbits
	.rept {many}
	.8byte 0x1000, 0x100000
	.endr
	.8byte 0, 0
	.section .note.GNU-stack,"",@progbits
"""


def costs(pid, *args, seconds=70):
    """A scan; its report, and the most memory that any of its processes had."""
    before = time.monotonic()
    with Watched("memscan-") as most:
        done = scan(pid, *args)
    assert time.monotonic() - before < seconds, "it took too long"
    check_scanned(done)
    return done.report, most.bytes


class Watched:
    """The most resident memory of any process whose name begins so, while this is entered."""

    def __init__(self, name):
        self.name, self.bytes, self.over = name, 0, threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def watch(self):
        while not self.over.wait(0.005):
            for pid in support.all_pids():
                try:
                    status = pathlib.Path(f"/proc/{pid}/status").read_text()
                except (FileNotFoundError, ProcessLookupError):
                    continue
                if status.startswith(f"Name:\t{self.name}") and (rss := re.search(r"VmRSS:\s*(\d+)", status)):
                    self.bytes = max(self.bytes, int(rss.group(1)) << 10)


LITTLE = 5 << 28


@pytest.mark.parametrize("size, claimed", [(3 << 30, None), (1 << 24, 8 << 30)], ids=["true", "claimed"])
@pytest.mark.parametrize("where", ["program", "debug file"])
def test_sections_that_unpack_to_gigabytes(size, claimed, where, tmp_path):
    program = build(tmp_path / "leak_names")
    hit = program
    if where == "debug file":
        identity = build_id(program)
        hit = split(program).rename(by_build_id(tmp_path / "debug", identity))
    add_section(hit, ".debug_str", packed(size, claimed), tmp_path)
    assert hit.stat().st_size < 4 << 20
    (tmp_path / "debug").mkdir(exist_ok=True)
    with started(program) as process:
        report, most = costs(process.pid, "--debug-dir", tmp_path / "debug")
    assert most < LITTLE, most
    unnamed_lines(report)
    assert warned(report, "takes too much memory"), report["warnings"]


def test_debug_information_that_repeats_itself(folder):
    """100,000,000,000 ranges in 3 MB. A warning has no room for a long path."""
    tmp_path = pathlib.Path(folder)
    source = tmp_path / "ranges.s"
    source.write_text(nested_ranges(100000))
    with_ranges = tmp_path / "ranges.o"
    subprocess.run(["gcc", "-c", "-o", with_ranges, source], check=True)
    program = tmp_path / "leak_names"
    subprocess.run(["gcc", "-O2", "-o", program, HERE / "leak_names.c", with_ranges, "-ldl"], check=True)
    assert program.stat().st_size < 4 << 20
    with started(program) as process:
        report, most = costs(process.pid)
    assert most < LITTLE, most
    assert warned(report, "leak_names are not named"), report["warnings"]


# ---- what several files have in common ----

def with_common(path, begin=0x1000):
    """Assembly: a function whose name is in the common file @path, which has some build-id."""
    return f"""
	.section .debug_abbrev,"",@progbits
	.uleb128 1, 0x11
	.byte 1
	.uleb128 0x11, 1, 0x12, 7, 0, 0
	.uleb128 2, 0x2e
	.byte 0
	.uleb128 0x03, 0x1f21, 0x11, 1, 0x12, 7, 0, 0
	.byte 0
	.section .debug_info,"",@progbits
	.4byte 2f - 1f
1:	.2byte 4
	.4byte 0
	.byte 8
	.uleb128 1
	.8byte {begin}, 0x100000
	.uleb128 2
	.4byte 0
	.8byte {begin}, 0x100000
	.byte 0
2:
	.section .gnu_debugaltlink,"",@progbits
	.asciz "{path}"
	.fill 20, 1, 7
	.section .note.GNU-stack,"",@progbits
"""


def test_a_path_to_what_is_common_leads_nowhere(tmp_path):
    """It is the program's to choose; whoever opened a FIFO would release its writer."""
    fifo = tmp_path / "common"
    os.mkfifo(fifo)
    source = tmp_path / "common.s"
    source.write_text(with_common(fifo))
    program = tmp_path / "leak_names"
    subprocess.run(["gcc", "-O2", "-o", program, HERE / "leak_names.c", source, "-ldl"], check=True)
    writer = threading.Thread(target=lambda: os.close(os.open(fifo, os.O_WRONLY)))
    writer.start()
    try:
        with started(program) as process:
            done = scan(process.pid)
        check_scanned(done)
        assert "main" in [frame.get("function") for frame in frames_of(done.report, 1234)], str(done)
        assert writer.is_alive(), "something opened it"
    finally:
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        writer.join()
        os.close(reader)


# ---- wrong calls ----

@pytest.mark.parametrize("command", [["scan", "--pid", "1"], ["stacks", "1"]])
def test_a_debug_dir_that_is_none(command):
    done = memscan(command[0], "--debug-dir", "/nonexistent", *command[1:])
    assert done.status == support.USAGE
    assert "--debug-dir takes a folder" in done.stderr
