# SPDX-License-Identifier: Apache-2.0
"""memscan stacks PID: the calls that are known to be there, and a target that runs on."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest

import messages
import support
from containers import can_have
from support import COULD_NOT_SCAN, COULD_NOT_WRITE, MEMSCAN, USAGE, Process, compile_target, memscan

THREAD = re.compile(r'^"(.*)" sysTid=(\d+)$')
FRAME = re.compile(r"^    #(\d\d+) pc ([0-9a-f]{8}(?:[0-9a-f]{8})?)  (\S.*?)( \(offset 0x[0-9a-f]+\))?"
                   r"(?: \(((?!BuildId: |offset 0x|deleted\)).+?)(?:\+(\d+))?\))?"
                   r"(?: \(BuildId: ([0-9a-f]+)\))?(?: at (\S+):(\d+))?$")


class Frame:
    def __init__(self, line):
        match = FRAME.match(line)
        assert match, f"not a frame: {line!r}"
        self.number, self.pc, self.digits = int(match[1]), int(match[2], 16), len(match[2])
        self.module, self.function = match[3], match[5]
        self.offset, self.build_id = int(match[6] or 0), match[7]
        self.place = match[8] and f"{match[8]}:{match[9]}"


class Thread:
    def __init__(self, name, tid):
        self.name, self.tid, self.frames, self.failure = name, int(tid), [], None

    def functions(self):
        return [frame.function for frame in self.frames]


def parse(text, pid):
    """The threads; every line is where and what it must be."""
    head = re.match(r"\n\n----- pid (\d+) at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9}[+-]\d{4} -----\n"
                    r"Cmd line: (.*)\nABI: '(x86_64|i386)'\n", text)
    assert head and int(head[1]) == pid, text[:400]
    assert text.endswith(f"\n\n----- end {pid} -----\n"), text[-400:]
    threads = []
    for line in text[head.end():text.rindex("\n----- end")].split("\n"):
        if match := THREAD.match(line):
            threads.append(Thread(*match.groups()))
        elif line.startswith("    Unwind failed: "):
            assert line.startswith(f"    Unwind failed: tid = {threads[-1].tid}: Error "), line
            threads[-1].failure = line
        elif line:
            frame = Frame(line)
            assert frame.digits == (16 if head[3] == "x86_64" else 8), line
            assert frame.number == len(threads[-1].frames), line
            threads[-1].frames.append(frame)
    return threads


def stacks(pid, **more):
    done = memscan("stacks", pid, **more)
    assert done.status == 0 and done.stderr == "", str(done)
    threads = parse(done.stdout, pid)
    tids = [thread.tid for thread in threads]
    assert tids[1:] == sorted(tids[1:])
    return threads


def check_follows(functions, *chain):
    """The chain stands in the list, one call directly behind the other."""
    text = " < ".join(map(str, functions))
    assert " < ".join(chain) in text, text


def settled(target):
    """All threads of call_chains are where they stay: main last, in read()."""
    assert target.line() == "READY"
    read = {0, 3}  # of x86_64, of i386
    support.wait_until(lambda: support.call_of(target.pid) in read, 10, "main reads its input")
    return target


@pytest.fixture(scope="module", params=["dynamic", "static", "static-pie", "i386"])
def chains(request):
    program = compile_target("call_chains", variant=request.param)
    with Process([program]) as target:
        yield settled(target)


def by_name(pid):
    threads = stacks(pid)
    assert sorted(t.tid for t in threads) == support.threads_of(pid)
    assert threads[0].tid == pid
    return {thread.name: thread for thread in threads}


def test_known_chains(chains):
    found = by_name(chains.pid)
    check_follows(found["chain"].functions(), "rest", "chain_leaf", "chain_middle", "chain_thread")
    check_follows(found["busy"].functions(), "count_up", "busy_thread")
    main = next(iter(found.values())).functions()
    check_follows(main, "answer", "main")
    assert main[-1] == "_start", main
    for name in ("chain", "busy"):
        assert found[name].failure is None, found[name].failure
        # the C library of i386 has no such symbols here
        assert "clone" in (found[name].functions()[-1] or "") or "__kernel_vsyscall" in main


def test_through_signal_handlers(chains):
    found = by_name(chains.pid)
    for name, thread in (("signal", "signal_thread"), ("other stack", "other_stack_thread")):
        functions = found[name].functions()
        way_back = "__kernel_sigreturn" if "__kernel_vsyscall" in functions else "__restore_rt"
        check_follows(functions, "rest", "handle", way_back)
        check_follows(functions, "interrupted", thread)
        assert found[name].failure is None, found[name].failure
        assert found[name].frames[functions.index(way_back)].offset == 0


def test_through_a_call_to_nowhere(chains):
    frames = by_name(chains.pid)["nowhere"].frames
    check_follows([f.function for f in frames], "None", "call_nowhere", "nowhere_thread")
    lost = [frame for frame in frames if frame.module == "<unknown>"]
    assert [frame.pc for frame in lost] == [0x1234]


def test_what_is_too_much_is_said(chains):
    found = by_name(chains.pid)
    assert len(found["deep"].frames) == 256 and "deeper" in found["deep"].failure
    assert "larger" in found["large"].failure
    check_follows(found["large"].functions(), "rest", *["spread"] * 60)


def test_names_command_no_terminal(chains):
    assert '?[1mhostile?"' in by_name(chains.pid)


def test_the_target_runs_on(chains):
    threads = support.threads_of(chains.pid)
    for _ in range(20):
        before = int(chains.ask("\n"))
        stacks(chains.pid)
        support.check_untouched(chains.pid)
        time.sleep(0.002)
        # of 32 bits it starts anew now and then
        assert int(chains.ask("\n")) != before
    assert support.threads_of(chains.pid) == threads


def test_a_thread_names_its_process(chains):
    tid = support.threads_of(chains.pid)[-1]
    assert tid != chains.pid
    done = memscan("stacks", tid)
    assert done.status == 0 and parse(done.stdout, chains.pid)[0].tid == chains.pid


def gdb_stacks(pid):
    """By thread, innermost first: (pc, function, file:line), inlined calls left out."""
    done = subprocess.run(["gdb", "-nx", "-p", str(pid), "-batch", "-ex", "set width 0", "-ex",
                           "set print address on", "-ex", "thread apply all bt"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                          env={**os.environ, "DEBUGINFOD_URLS": ""}, text=True, timeout=60, check=True)
    found = {}
    for line in done.stdout.split("\n"):
        if match := re.match(r"Thread \d+ \(.*LWP (\d+)\)", line):
            frames = found.setdefault(int(match[1]), [])
        elif match := re.match(r"Thread \d+ \(process (\d+)\)", line):
            frames = found.setdefault(int(match[1]), [])
        elif match := re.match(r"#\d+ +(?:0x([0-9a-f]+) in )?(\S+) \(.*?\)(?: at (?:.*/)?([^/]+:\d+))?", line):
            frames.append((match[1] and int(match[1], 16), match[2], match[3]))
    return found


def test_as_gdb_has_it():
    with Process([compile_target("call_chains")]) as target:
        settled(target)
        ours = stacks(target.pid)
        theirs = gdb_stacks(target.pid)
        compared = 0
        for thread in ours:
            if thread.name in ("busy", "large", "deep"):
                continue
            mine = [(f.function, f.place) for f in thread.frames if f.place and "call_chains.c" in f.place]
            gdb = [(f, place) for _, f, place in theirs[thread.tid] if place and "call_chains.c" in place]
            assert mine == gdb, f"{thread.name}: {mine} {gdb}"
            compared += len(mine)
        assert compared >= 15


def test_python_as_gdb_has_it(notes):
    code = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n" \
           "print('READY', flush=True)\nsorted([2, 1], key=lambda x: time.sleep(60))"
    with Process(["/usr/bin/python3", "-c", code]) as python:
        assert python.line() == "READY"
        time.sleep(0.2)
        ours, theirs = stacks(python.pid), gdb_stacks(python.pid)
        assert len(ours) == 2
        for thread in ours:
            mine = [f.pc + 1 for f in thread.frames if "/python3" in f.module]
            gdb = {pc for pc, _, _ in theirs[thread.tid]}
            assert len(mine) > 5 and set(mine) <= gdb, [hex(pc) for pc in set(mine) - gdb]
            assert thread.failure is None, thread.failure
            assert all(f.build_id for f in thread.frames)
        assert any("PyEval" in (f or "") for f in ours[0].functions())
        notes.append(f"stacks of python3: {[len(t.frames) for t in ours]} frames, as gdb's")


def test_stripped(tmp_path):
    program = tmp_path / "call_chains"
    subprocess.run(["strip", "-o", str(program), str(compile_target("call_chains"))], check=True)
    with Process([program]) as target:
        settled(target)
        chain = by_name(target.pid)["chain"]
        mine = [f for f in chain.frames if f.module == str(program)]
        assert len(mine) == 4 and chain.failure is None
        assert all(f.function is None and f.place is None and f.build_id for f in mine)
        assert "clone" in chain.functions()[-1]


def test_deleted_and_replaced(tmp_path):
    """The names are those of the file that is mapped, not of what took its name."""
    program = tmp_path / "call_chains"
    shutil.copy(compile_target("call_chains"), program)
    with Process([program]) as target:
        settled(target)
        program.unlink()
        shutil.copy("/bin/true", program)
        chain = by_name(target.pid)["chain"]
        assert [f.module for f in chain.frames if "call_chains" in f.module] == [f"{program} (deleted)"] * 4
        named = [f.function for f in chain.frames if "call_chains" in f.module]
        # what is mapped can be opened by root only
        assert named == ["rest", "chain_leaf", "chain_middle", "chain_thread"] or os.geteuid() != 0, named


def test_another_mount_namespace(tmp_path):
    """A program that no path leads to from here."""
    program = compile_target("call_chains")
    script = f"mount -t tmpfs none {tmp_path} && cp {program} {tmp_path}/hidden && exec {tmp_path}/hidden"
    can_have("mount")
    with Process(["unshare", "-m", "sh", "-c", script]) as target:
        settled(target)
        assert not (tmp_path / "hidden").exists()
        chain = by_name(target.pid)["chain"]
        check_follows(chain.functions(), "rest", "chain_leaf", "chain_middle", "chain_thread")


def test_sqlite():
    with Process(["sqlite3"]) as sqlite:
        time.sleep(0.3)
        threads = stacks(sqlite.pid)
        assert len(threads) == 1 and threads[0].failure is None
        assert "__libc_start_main" in threads[0].functions() and len(threads[0].frames) > 3


def test_asleep_in_the_kernel():
    with Process([compile_target("call_chains"), "vfork"]) as target:
        settled(target)
        found = by_name(target.pid)
        check_follows([f.strip("_") for f in found["vfork"].functions()], "vfork", "vfork_thread")
        support.check_untouched(target.pid)


def test_zombie_leader():
    with Process([compile_target("zombie_leader")]) as target:
        while target.line() != "READY":
            pass
        support.wait_until(lambda: support.state_of(target.pid) == "Z", 10, "the leader has ended")
        threads = stacks(target.pid)
        assert [t.tid for t in threads] == [t for t in support.threads_of(target.pid) if t != target.pid]
        assert "go_on" in threads[0].functions()


def test_cplusplus_names(tmp_path):
    source, program = tmp_path / "a.cc", tmp_path / "a"
    source.write_text("#include <unistd.h>\nnamespace ns { struct T { __attribute__((noipa)) void wait(int) {"
                      " write(1, \"READY\\n\", 6); for (;;) pause(); } }; }\n"
                      "int main() { ns::T().wait(1); }\n")
    subprocess.run(["g++", "-g", "-o", str(program), str(source)], check=True)
    with Process([program]) as target:
        assert target.line() == "READY"
        assert "ns::T::wait(int)" in stacks(target.pid)[0].functions()


@contextlib.contextmanager
def built_by_clang(tmp_path, *options):
    """A program whose main() called inner(), which waits."""
    source, program = tmp_path / "clang.c", tmp_path / "clang"
    source.write_text("#include <stdio.h>\n#include <unistd.h>\n"
                      "__attribute__((noinline)) static int inner(int x)\n{\n\tputs(\"READY\");\n\tfflush(stdout);\n"
                      "\tpause();\n\treturn x + 1;\n}\n"
                      "int main(void)\n{\n\treturn inner(3) + 1;\n}\n")
    subprocess.run(["clang", "-O1", *options, "-o", program, source], check=True)
    with Process([program]) as target:
        assert target.line() == "READY"
        support.wait_until(lambda: support.state_of(target.pid) == "S")
        yield target


def test_lines_of_clang(tmp_path):
    """It writes no table of addresses (.debug_aranges)."""
    with built_by_clang(tmp_path, "-g") as target:
        frames = {frame.function: frame.place for frame in stacks(target.pid)[0].frames}
        assert (frames["inner"], frames["main"]) == ("clang.c:7", "clang.c:12")


def test_a_small_program_of_lld(tmp_path):
    """It is less than a page of a file, which is mapped for each of its segments."""
    with built_by_clang(tmp_path, "-fuse-ld=lld") as target:
        with open(f"/proc/{target.pid}/maps") as maps:
            assert [line.split()[2] for line in maps if line.endswith("/clang\n")] == ["0" * 8] * 4
        check_follows(stacks(target.pid)[0].functions(), "inner", "main", "__libc_start_call_main")


def test_killed_meanwhile():
    """Whatever moment it ends at: the stacks, or a refusal in two lines."""
    for delay in range(0, 24, 2):
        with Process([compile_target("call_chains")]) as target:
            settled(target)
            look = subprocess.Popen([MEMSCAN, "stacks", str(target.pid)], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
            support.our_children.add(look.pid)
            time.sleep(delay / 1000)
            support.kill(target.pid)
            out, err = look.communicate(timeout=60)
            support.our_children.discard(look.pid)
            assert look.returncode in (0, COULD_NOT_SCAN), (look.returncode, err)
            messages.check(look.returncode, err)
            if look.returncode == 0:
                parse(out, target.pid)
            else:
                assert out == "" and len(err.strip().split("\n")) == 2, err


def test_a_library_that_dies_of_a_file():
    """Then there are stacks without names, and the target does not notice."""
    with Process([compile_target("call_chains")]) as target:
        settled(target)
        library = support.compile_special("dying_symbols.c", "-shared", "-fPIC")
        done = memscan("stacks", target.pid, env={**os.environ, "LD_PRELOAD": str(library)})
        assert done.status == 0 and "functions are not named" in done.stderr, str(done)
        chain = next(t for t in parse(done.stdout, target.pid) if t.name == "chain")
        assert len(chain.frames) == 7 and set(chain.functions()) == {None}
        support.check_untouched(target.pid)


def check_refused(done, *words, status=COULD_NOT_SCAN):
    assert done.status == status and done.stdout == "", str(done)
    lines = done.stderr.strip().split("\n")
    assert len(lines) == 2 and all(line.startswith("memscan: ") for line in lines), str(done)
    for word in words:
        assert word in done.stderr, f"{word!r} is not said: {done}"


@pytest.mark.parametrize("arguments", [[], ["-1"], ["1", "2"], ["--pid"], ["--nonsense", "1"]])
def test_wrong_calls(arguments):
    check_refused(memscan("stacks", *arguments), "memscan stacks --help", status=USAGE)


@pytest.mark.parametrize("word", ["x", "", "0", "1x", "99999999999", "4294967297", "1\033[1m"])
def test_what_is_no_process(word):
    check_refused(memscan("stacks", word), "takes the number of a process", "or use --name NAME", status=USAGE)


@pytest.mark.parametrize("how", ["--pid", "--name"])
def test_a_process_by_an_option(how):
    with Process([compile_target("call_chains")]) as target:
        settled(target)
        name = pathlib.Path(f"/proc/{target.pid}/comm").read_text().strip()
        done = memscan("stacks", how, target.pid if how == "--pid" else name)
        assert done.status == 0 and f"pid {target.pid} at" in done.stdout, str(done)


def test_a_reader_that_leaves_is_told_nothing():
    with Process([compile_target("call_chains")]) as target:
        settled(target)
        to, from_ = os.pipe()
        os.close(to)
        done = memscan("stacks", target.pid, stdout=from_)
        os.close(from_)
        assert done.status == COULD_NOT_WRITE and done.stderr == "", str(done)


def test_no_such_process():
    check_refused(memscan("stacks", 0x3ffffff), "no process or thread")


def test_itself():
    program = f"exec {MEMSCAN} stacks $$"
    done = subprocess.run(["sh", "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == COULD_NOT_SCAN and "memscan itself" in done.stderr and done.stdout == ""
    messages.check(done.returncode, done.stderr)


def test_traced_already():
    with Process([compile_target("call_chains")]) as target:
        settled(target)
        with Process(["strace", "-qq", "-o", "/dev/null", "-p", str(target.pid)]) as tracer:
            support.wait_until(lambda: support.tracer_of(target.pid), 10, "it is traced")
            check_refused(memscan("stacks", target.pid), "strace")
            assert tracer.running()


def test_unwritten():
    with Process([compile_target("call_chains")]) as target, open("/dev/full", "w") as full:
        settled(target)
        check_refused(memscan("stacks", target.pid, stdout=full), "cannot write", status=COULD_NOT_WRITE)
        support.check_untouched(target.pid)


def test_help():
    done = memscan("stacks", "--help")
    assert done.status == 0 and done.stderr == "" and done.stdout.startswith("Usage: memscan stacks [OPTION]... PID\n")
