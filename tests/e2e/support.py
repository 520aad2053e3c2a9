# SPDX-License-Identifier: Apache-2.0
"""What every end-to-end test needs: build and start targets, scan, compare.

Processes are ended by pid, and only those that a test started: each target
gets a session of its own, and all that is left in it goes when the target is
stopped. The test runner is a subreaper, so that whatever memscan should leave
behind becomes our child and is noticed (`leftovers`).
"""

import array
import bisect
import contextlib
import ctypes
import errno
import fcntl
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import zlib

import pytest

import messages
import schema

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
E2E_BUILD = BUILD / "e2e"
TARGETS = ROOT / "tests" / "targets"
MEMSCAN = pathlib.Path(os.environ.get("MEMSCAN", BUILD / "memscan"))

HOST = "bookworm"
GLIBC = {"bullseye": "2.31", HOST: "2.36", "trixie": "2.41", "sid": "newest"}
VARIANTS = ("dynamic", "static", "static-pie")
# of 32 bits
I386_VARIANTS = ("i386", "i386-static")
MODES = {"dynamic": [], "i386": ["-m32"], "i386-static": ["-m32", "-static"]}

SCANNED_CLEAN, SCANNED_LEAKS, USAGE, COULD_NOT_SCAN, COULD_NOT_WRITE = range(5)

PR_SET_CHILD_SUBREAPER = 36
libc = ctypes.CDLL(None, use_errno=True)
ADDR_NO_RANDOMIZE = 0x0040000
libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


# ---- building ----

PART = object()  # of a command: where it writes


def suite_root(suite):
    """The unpacked root of another suite; fetched on first use."""
    folder = BUILD / "glibc" / suite
    if not (folder / "whole").exists():
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # once one is there, this does nothing
            subprocess.run([ROOT / "tools" / "fetch-glibc", suite], check=True, stdout=subprocess.DEVNULL)
    return folder / "root"


def suite_flags(suite, variant):
    if suite == HOST:
        return []
    root = suite_root(suite)
    narrow = variant in I386_VARIANTS
    lib = root / ("usr/lib32" if narrow else "usr/lib/x86_64-linux-gnu")
    # --sysroot alone does not do: Debian's gcc looks beside itself for crt1.o
    # and libc.so before it looks into the sysroot.
    flags = [f"--sysroot={root}", f"-B{lib}/", f"-L{lib}"]
    if narrow:
        # where the kernel's headers are
        flags.append(f"-isystem{root}/usr/include/x86_64-linux-gnu")
    if variant in ("dynamic", "i386"):
        loader = lib / "ld-linux.so.2" if narrow else root / "lib64/ld-linux-x86-64.so.2"
        flags += [f"-Wl,--dynamic-linker={loader}", f"-Wl,-rpath,{lib}"]
    elif suite == "bullseye":
        flags.append(str(pathlib.Path(__file__).parent / "special" / "no_find_object.c"))
    return flags


def musl_flags(suite, variant):
    """For gcc, to build against a suite's musl: what musl-gcc gives it, which knows no static-pie."""
    root = pathlib.Path("/") if suite == HOST else suite_root(suite)
    lib = root / "usr/lib/x86_64-linux-musl"
    start = {"dynamic": "Scrt1.o", "static": "crt1.o", "static-pie": "rcrt1.o"}[variant]
    # threads' stacks are as large as that: programs clear much of theirs
    link = {"dynamic": f"-dynamic-linker {lib}/libc.so", "static": "-static",
            "static-pie": "-static --no-dynamic-linker -z text"}[variant]
    include = f"-nostdinc -isystem {root}/usr/include/x86_64-linux-musl -isystem include%s"
    specs = E2E_BUILD / suite / f"musl-{variant}.specs"
    specs.parent.mkdir(parents=True, exist_ok=True)
    part = specs.with_name(specs.name + f".{os.getpid()}")
    part.write_text(f"""%rename cpp_options old_cpp_options
*cpp_options:
{include} %(old_cpp_options)

*cc1:
%(cc1_cpu) {include}

*link_libgcc:
-L{lib} -L .%s

*libgcc:
libgcc.a%s %:if-exists(libgcc_eh.a%s)

*startfile:
{lib}/{start} {lib}/crti.o crtbeginS.o%s

*endfile:
crtendS.o%s {lib}/crtn.o

*link:
{link} -nostdlib -z stack-size=1048576

*esp_link:


""")
    part.rename(specs)
    return ["-specs", str(specs), *(["-no-pie", "-fno-pie"] if variant == "static" else ["-pie", "-fPIE"])]


def build(out, newest, command):
    """Make the file @out by @command, which writes to PART, unless it is newer than @newest.

    What is there stays: another test may be running it.
    """
    def is_there():
        return out.exists() and out.stat().st_mtime > newest

    if is_there():
        return out
    out.parent.mkdir(parents=True, exist_ok=True)
    with open(out.with_name(f"{out.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_there():
            return out
        part = out.with_name(f"{out.name}.part")
        words = [str(part) if word is PART else str(word) for word in command]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        # ld warns of dlopen in static programs; that is no failure
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}"
        part.rename(out)
    return out


def compile_target(name, suite=HOST, variant="dynamic", compiler="gcc", flags=(), tag="", libs=("-ldl", "-lrt"),
                   libc_flags=None):
    """Build tests/targets/NAME into build/e2e, if it is older than its source."""
    source = TARGETS / (name if "." in name else name + ".c")
    out = E2E_BUILD / suite / (source.stem + tag + ("" if variant == "dynamic" else "-" + variant))
    newest = max(f.stat().st_mtime for f in [source, *TARGETS.glob("*.h")])
    mode = [] if libc_flags else MODES.get(variant, ["-" + variant])
    standard = "gnu++17" if source.suffix == ".cc" else "gnu11"
    return build(out, newest, [compiler, f"-std={standard}", "-O1", "-g", "-pthread", *mode,
                               *(libc_flags or suite_flags)(suite, variant), "-o", PART, source, *flags, *libs])


def stripped(program):
    """A built program without its symbols, beside it."""
    return build(program.with_name(f"{program.name}-stripped"), program.stat().st_mtime, ["strip", "-o", PART, program])


SPECIAL = pathlib.Path(__file__).parent / "special"
HOSTILE = pathlib.Path(__file__).parent.parent / "hostile"


def compile_hostile(source, *flags, tag=""):
    """Build tests/hostile/SOURCE, a program that lies or hurts, into build/e2e."""
    return compile_special(HOSTILE / source, *flags, tag=tag)


def compile_special(source, *flags, compiler="gcc", tag=""):
    """Build tests/e2e/special/SOURCE, which is no plain program, into build/e2e."""
    source = SPECIAL / source
    out = E2E_BUILD / "special" / (source.stem + tag)
    return build(out, source.stat().st_mtime, [compiler, "-O1", "-g", *flags, "-o", PART, source])


def is_32_bit(program):
    path = pathlib.Path(program)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(5) == b"\x7fELF\x01"


@contextlib.contextmanager
def skipping_without_32_bit(program):
    """Skip the test where the kernel runs no such programs (ENOEXEC)."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOEXEC or not is_32_bit(program):
            raise
        pytest.skip("this kernel runs no 32-bit programs")


def compile_32_bit():
    """A program of 32 bits, for what no Process starts; tried at once."""
    program = compile_special("plain.c", "-m32", tag="32-bit")
    with skipping_without_32_bit(program):
        subprocess.run([program], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=60)
    return program


def holder_library(*flags):
    return compile_special("holder_library.c", "-shared", "-fPIC", "-nostdlib", *flags, tag="".join(flags))


copies = []


def for_all(path):
    """A copy of a built file where any user can run it: not all may enter the folder of this checkout."""
    if not copies:
        copies.append(tempfile.TemporaryDirectory(prefix="memscan-e2e-"))
        os.chmod(copies[0].name, 0o755)
    copy = pathlib.Path(shutil.copy(path, copies[0].name))
    copy.chmod(0o755)
    return copy


def scenarios(name, variant="dynamic"):
    done = subprocess.run([compile_target(name, variant=variant), "list"], stdout=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, text=True, check=True)
    return done.stdout.split()


def cgroups_of(controller):
    """Where cgroups can be made that have the controller, and of which version; (None, 0)."""
    v1, v2 = pathlib.Path("/sys/fs/cgroup", controller), pathlib.Path("/sys/fs/cgroup")
    if (v1 / "cgroup.procs").exists():
        return v1, 1
    with contextlib.suppress(OSError):
        if controller in (v2 / "cgroup.subtree_control").read_text().split():
            return v2, 2
    return None, 0


@contextlib.contextmanager
def cgroup(controller, limit_s):
    """A cgroup of our own, and its version; it must be empty @limit_s after its use."""
    parent, version = cgroups_of(controller)
    if not parent:
        pytest.skip(f"no {controller} controller in /sys/fs/cgroup")
    group = parent / f"memscan-e2e-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    yield group, version

    def empty():
        with contextlib.suppress(OSError):
            group.rmdir()
        return not group.exists()
    wait_until(empty, limit_s, "the cgroup is empty")


def is_chosen(scenario, *where):
    """Of what is tried in many places `make check` has one in three in each place, not the same ones."""
    key = " ".join(map(str, (scenario, *where)))
    return os.environ.get("COMBINATIONS") == "all" or zlib.crc32(key.encode()) % 3 == 0


def suite_program(suite, name):
    """How to run a real program of another suite under its own glibc."""
    if suite == HOST:
        return [name]
    root = suite_root(suite)
    return [str(root / "lib64/ld-linux-x86-64.so.2"), "--library-path",
            f"{root}/usr/lib/x86_64-linux-gnu:{root}/lib/x86_64-linux-gnu", str(root / "usr/bin" / name)]


# ---- processes ----

def stat_of(pid):
    """State letter, parent and session of a process; None when it is gone. Read for each in /proc: briefly."""
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        text = os.read(file, 4096)
    except ProcessLookupError:
        return None
    finally:
        os.close(file)
    fields = text[text.rindex(b")") + 2:].split(None, 4)
    return fields[0].decode(), int(fields[1]), int(fields[3])


def state_of(pid):
    found = stat_of(pid)
    return found[0] if found else None


def command_of(pid):
    """The name of what it runs; None when it is gone."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    return None


def call_of(tid):
    """The number of the system call that a thread is in; None: none, or it has ended."""
    with contextlib.suppress(OSError):
        number = pathlib.Path(f"/proc/{tid}/syscall").read_text().split()[0]
        return int(number) if number.isdigit() else None
    return None


def tracer_of(pid, tid=None):
    text = pathlib.Path(f"/proc/{pid}/task/{tid or pid}/status").read_text(errors="replace")
    return int(re.search(r"TracerPid:\s*(\d+)", text).group(1))


def threads_of(pid):
    return sorted(int(tid) for tid in os.listdir(f"/proc/{pid}/task"))


def all_pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def children_of(pid):
    return [p for p in all_pids() if (s := stat_of(p)) and s[1] == pid]


def own_children():
    """Ours, ended ones too. No one else reaps these, so that the kernel's list of them misses none."""
    assert os.path.exists("/proc/thread-self/children"), "a kernel without CONFIG_PROC_CHILDREN"
    return sorted(children_by_thread(os.getpid()))


def in_session(session):
    return [p for p in all_pids() if (s := stat_of(p)) and s[2] == session and s[0] != "Z"]


def descendants_of(pid):
    found = []
    for child in children_of(pid):
        found += [child, *descendants_of(child)]
    return found


def kill(pid, number=signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def wait_until(condition, seconds=30, what="condition"):
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < end, f"timed out: {what}"
        time.sleep(0.005)
    return result


our_children = set()


def leftovers():
    """Children of ours that no test started: left behind by memscan.

    Not the clone of a target that has ended meanwhile: an orphan, it is reaped by whoever adopts
    orphans, which here is us. Nor what was killed.
    """
    found = []
    for pid in own_children():
        if pid in our_children:
            continue
        state, name, status = state_of(pid), command_of(pid), None
        kill(pid)
        with contextlib.suppress(ChildProcessError):
            status = os.waitpid(pid, 0)[1]
        if not (state == "Z" and (status == signal.SIGKILL or (status == 0 and name == "memscan-clone"))):
            found.append((pid, name, state))
    return found


def leftovers_alive():
    """The same, without an end to them: those that have not ended."""
    return [pid for pid in own_children() if pid not in our_children and state_of(pid) not in (None, "Z")]


def wait_for(popen, seconds):
    """As popen.wait(), which looks every 50 ms only; the status."""
    if popen.poll() is None:
        ended = os.pidfd_open(popen.pid)
        try:
            poll = select.poll()
            poll.register(ended, select.POLLIN)
            poll.poll(seconds * 1000)
        finally:
            os.close(ended)
    return popen.wait(0)


class Process:
    """A process that a test started, in a session of its own; a context manager."""

    def __init__(self, argv, env=None, cwd=None, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                 stderr=None, inherited=os.environ, **more):
        self.argv = [str(word) for word in argv]
        with skipping_without_32_bit(self.argv[0]):
            self.popen = subprocess.Popen(self.argv, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd,
                                          env={**inherited, **(env or {})}, start_new_session=True, **more)
        self.pid = self.popen.pid
        our_children.add(self.pid)
        self.unread = b""

    def line(self, seconds=60):
        """The next line of its standard output, without the newline."""
        end = time.monotonic() + seconds
        fd = self.popen.stdout.fileno()
        while b"\n" not in self.unread:
            left = end - time.monotonic()
            ready = select.select([fd], [], [], max(left, 0))[0]
            assert ready, f"{self.argv}: no line within {seconds} s, got {self.unread!r}"
            more = os.read(fd, 1 << 16)
            assert more, f"{self.argv}: ended early, status {self.popen.wait(10)}"
            self.unread += more
        line, self.unread = self.unread.split(b"\n", 1)
        return line.decode()

    def ask(self, text, seconds=60):
        self.popen.stdin.write(text.encode())
        self.popen.stdin.flush()
        return self.line(seconds)

    def running(self):
        return self.popen.poll() is None

    def finish(self, seconds=10):
        """End its input and wait; the exit status."""
        if self.popen.stdin:
            with contextlib.suppress(BrokenPipeError):
                self.popen.stdin.close()
        return wait_for(self.popen, seconds)

    def stop(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self.popen.stdin and self.running():
                self.finish(0.3)
        for pid in in_session(self.pid):
            kill(pid, signal.SIGCONT)
            kill(pid)
        self.popen.wait(10)
        for stream in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        # what it left in its session may have become our child
        with contextlib.suppress(ChildProcessError):
            for pid in own_children():
                if (s := stat_of(pid)) and s[2] == self.pid:
                    os.waitpid(pid, 0)
        our_children.discard(self.pid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Target(Process):
    """One of tests/targets: reads its facts up to READY.

    In one of 32 bits any number may be an address by chance: what the processor can do, in ld.so's data, and
    the environment's text held a lost block in 1 of 300 processes. So it has no text of ours, and the same addresses
    each time, if not @randomized.
    """

    def __init__(self, argv, env=None, seconds=60, randomized=False, **more):
        if is_32_bit(argv[0]):
            more["inherited"] = {}
            if not randomized:
                more["preexec_fn"] = lambda: libc.personality(ADDR_NO_RANDOMIZE)
        super().__init__(argv, env, **more)
        self.facts = []
        self.scan_pid = self.pid
        try:
            self.read_facts(seconds)
        except BaseException:
            self.stop()
            raise
        self.save_for_fake()

    def read_facts(self, seconds):
        while (line := self.line(seconds)) != "READY":
            words = line.split()
            if words[0] == "pid":
                self.scan_pid = int(words[1])
            else:
                self.facts.append((words[0], int(words[1], 16), int(words[2])))

    def blocks(self, *kinds):
        return {address: size for kind, address, size in self.facts if kind in kinds}

    def leaks(self, unaligned=False):
        kinds = ["leak", "leak-direct", "leak-indirect"]
        return self.blocks(*kinds, *([] if unaligned else ["unaligned"]))

    def save_for_fake(self):
        """For trying the harness itself with a fake memscan."""
        folder = os.environ.get("E2E_TRUTH_DIR")
        if folder:
            pathlib.Path(folder, str(self.scan_pid)).write_text(json.dumps(self.facts))


# ---- scanning ----

def read_report(text):
    """The report in @text; one that is not as docs/memscan.schema.json says is an error."""
    report = json.loads(text)
    schema.check(report)
    return report


def read_answer(text):
    """The same of an answer of why, retained or diff."""
    answer = json.loads(text)
    schema.check_answer(answer)
    return answer


class Scan:
    def __init__(self, status, stdout, stderr, seconds):
        self.status, self.stdout, self.stderr, self.seconds = status, stdout, stderr, seconds
        messages.check(status, stderr)

    @property
    def report(self):
        try:
            return read_report(self.stdout)
        except ValueError:
            raise AssertionError(f"no JSON; status {self.status}\nstderr: {self.stderr}\n"
                                 f"stdout: {self.stdout[:2000]}") from None

    def __str__(self):
        return f"status {self.status}\nstderr:\n{self.stderr}\nstdout:\n{self.stdout[:4000]}"


def memscan(*args, timeout=90, **more):
    """Run memscan with any arguments, @under a program; kills it, and fails, after @timeout."""
    start = time.monotonic()
    popen = subprocess.Popen([*map(str, more.pop("under", [])), str(MEMSCAN), *map(str, args)], stdin=subprocess.DEVNULL,
                             stdout=more.pop("stdout", subprocess.PIPE), stderr=subprocess.PIPE, **more)
    our_children.add(popen.pid)
    try:
        stdout, stderr = popen.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        for pid in [popen.pid, *descendants_of(popen.pid)]:
            kill(pid)
        _, stderr = popen.communicate()
        raise AssertionError(f"memscan {args} hung for {timeout} s; stderr: {stderr[-2000:]!r}") from None
    finally:
        our_children.discard(popen.pid)
    left = leftovers()
    scan = Scan(popen.returncode, (stdout or b"").decode(), stderr.decode(errors="replace"),
                time.monotonic() - start)
    assert not left, f"memscan {args} left processes behind: {left}\n{scan}"
    return scan


# SNAPSHOT=fork or copy: all tests in that way, where they do not ask for one themselves
SNAPSHOT = ["--snapshot", os.environ["SNAPSHOT"]] if os.environ.get("SNAPSHOT") else []


def scan(pid, *args, timeout=90, merge=False, **more):
    """All leaks; each by itself unless @merge, as most tests look for addresses."""
    apart = [] if merge else ["--no-merge"]
    return memscan("--pid", pid, "--json", "--limit", "all", *apart, *SNAPSHOT, *args, timeout=timeout, **more)


def scan_as_asked(pid, *args):
    """The report of a scan; where other tests keep the processors busy, a thread may answer too late, once."""
    report = check_scanned(scan(pid, *args))
    if any("did not answer" in warning for warning in report["warnings"]):
        report = check_scanned(scan(pid, *args))
    return report


def addresses(report, *kinds):
    """Addresses and sizes of the listed blocks of these kinds."""
    kinds = kinds or ("direct", "indirect")
    return {int(leak["address"], 16): leak["size"] for leak in report["leaks"] if leak["kind"] in kinds}


def kinds(report):
    return {int(leak["address"], 16): leak["kind"] for leak in report["leaks"]}


def hexes(numbers, most=12):
    numbers = sorted(numbers)
    text = " ".join(f"{n:#x}" for n in numbers[:most])
    return f"{len(numbers)}: {text}" + (" …" if len(numbers) > most else "")


def ended_meanwhile(scan, pid):
    """It could not be scanned as it is no more; whoever started it may not have waited for it yet."""
    if scan.status != COULD_NOT_SCAN:
        return False
    # A process that exits has no memory any more some time before it is a zombie.
    if "ended" in scan.stderr:
        wait_until(lambda: state_of(pid) in (None, "Z"), what="the end of a process of which memscan says that it ended")
    return state_of(pid) in (None, "Z")


def check_scanned(scan):
    """The scan went well, and what the report says of itself agrees."""
    assert scan.status in (SCANNED_CLEAN, SCANNED_LEAKS), str(scan)
    report = scan.report
    assert report["schema"] == "memscan.report/1"
    totals = report["totals"]
    assert scan.status == (SCANNED_LEAKS if totals["leaked_allocations"] else SCANNED_CLEAN), str(scan)
    for heap in report["heaps"]:
        assert heap["verified"] is True, f"not verified: {json.dumps(heap)}\n{report['warnings']}"
    for unit in ("allocations", "bytes"):
        assert totals[f"direct_{unit}"] + totals[f"indirect_{unit}"] == totals[f"leaked_{unit}"], totals
    for part, whole in (("allocations", "allocations"), ("allocation_bytes", "allocation_bytes")):
        assert sum(heap[part] for heap in report["heaps"]) == totals[whole], (report["heaps"], totals)
    return report


def is_in_doubt(scan):
    """Nothing is reported, as no heap could be proved; which is said."""
    if scan.status != COULD_NOT_SCAN:
        return False
    assert re.search("is changing|could not be verified", scan.stderr) and not scan.stdout, str(scan)
    return True


def check_unfolded(report):
    """Under --no-fold --limit all each block stands by itself."""
    totals = report["totals"]
    told = [leak for leak in report["leaks"] if leak["kind"] != "possible"]
    assert len(told) == totals["leaked_allocations"]
    assert sum(leak["size"] for leak in told) == totals["leaked_bytes"]
    assert len({leak["address"] for leak in told}) == len(told), "a block is listed twice"
    for leak in told:
        for field in ("referenced_count", "referenced_size", "similar_count", "similar_size"):
            assert leak.get(field, 0) == 0, leak
    check_sorted(report)


def check_folded(report):
    """With --limit all every unreachable block counts in exactly one leak."""
    totals = report["totals"]
    told = [leak for leak in report["leaks"] if leak["kind"] != "possible"]
    count = sum(1 + leak.get("referenced_count", 0) + leak.get("similar_count", 0)
                + leak.get("similar_referenced_count", 0) for leak in told)
    assert sum(leak["total_size"] for leak in told) == totals["leaked_bytes"], totals
    assert count == totals["leaked_allocations"], (count, totals)
    check_sorted(report)


def check_sorted(report):
    order = [(-leak.get("total_size", leak["size"]), int(leak["address"], 16)) for leak in report["leaks"]]
    assert order == sorted(order), "leaks[] is not sorted by total_size, then address"


def not_by_chance(check, *args):
    """Of a large heap of 32 bits some block may be held by chance on some machine; not at other addresses, too."""
    for attempt in range(3):
        try:
            return check(*args, randomized=attempt > 0)
        except AssertionError:
            if attempt == 2:
                raise


def check_truth(report, target, unaligned=False, listed=None, held=0):
    """The unfolded report tells the target's leaks, their sizes, and none besides."""
    truth = target.leaks(unaligned)
    told = listed(report, truth) if listed else addresses(report)
    missed, false = truth.keys() - told.keys(), told.keys() - truth.keys()
    live = target.blocks("live", "interior", "possible", "doubtful").keys() & false
    assert len(missed) <= held and not false, (
        f"{' '.join(target.argv)}: missed {hexes(missed)}; told but not leaked {hexes(false)}"
        f" (sizes {sorted({told[a] for a in false})[:8]}); of these known live: {hexes(live)}\n"
        f"truth: {len(truth)} leaks; warnings: {report['warnings']}")
    wrong = {hex(a): (told[a], truth[a]) for a in told if told[a] != truth[a]}
    assert not wrong, f"sizes told and true: {dict(list(wrong.items())[:8])}"


def words_into(pid, blocks):
    """By our own look at all of a process's memory: who points into which block.

    Any aligned word in any readable mapping counts, live or not, save those of
    the block itself: what is not in the answer, nothing can possibly hold.
    """
    begins = sorted(blocks)
    low, high = begins[0], max(begin + size for begin, size in blocks.items())
    holders = {}
    with open(f"/proc/{pid}/mem", "rb", 0) as memory, open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            span, mode = line.split()[:2]
            begin, end = (int(x, 16) for x in span.split("-"))
            if mode[0] != "r" or mode[1] != "w" and "/" not in line or "[v" in line:
                continue
            memory.seek(begin)
            with contextlib.suppress(OSError):
                words = array.array("Q", memory.read(end - begin))
                for index, word in enumerate(words):
                    if low <= word < high:
                        block = begins[bisect.bisect_right(begins, word) - 1]
                        place = begin + 8 * index
                        if word < block + blocks[block] and not block <= place < block + blocks[block]:
                            holders.setdefault(block, place)
    return holders


def check_untouched(pid):
    """After a scan nobody traces the process, and no thread of it is stopped."""
    tids = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # when it ends meanwhile
        tids = threads_of(pid)
    for tid in tids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            text = pathlib.Path(f"/proc/{pid}/task/{tid}/status").read_text(errors="replace")
            assert re.search(r"TracerPid:\s*0", text), text
            assert not re.search(r"State:\s*[tT]", text), text


# ---- kinds of snapshot ----

def snapshots():
    """What --snapshot takes, as the built memscan's own help says."""
    done = subprocess.run([MEMSCAN, "--help"], stdout=subprocess.PIPE, text=True, check=True)
    return re.search(r"--snapshot (\S+)", done.stdout).group(1).split("|")


def children_by_thread(pid):
    """Children of a process, ended ones too, without a look at all of /proc."""
    found = set()
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found.update(map(int, path.read_text().split()))
    return found
