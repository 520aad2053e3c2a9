# SPDX-License-Identifier: Apache-2.0
"""Targets elsewhere: in containers, in other namespaces, of programs whose file is not where it was.

PLACES_KILLS is how often memscan is killed while it scans process 1 of a container.
"""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess

import pytest

import support
from attach_support import Stormy, attach, detach
from containers import NAMESPACES, NOBODY, ONLY_PTRACE, ROOT_ONLY, Container, can_have, compile_inside
from support import (COULD_NOT_SCAN, GLIBC, HOST, MEMSCAN, USAGE, Process, Target, check_scanned, compile_target, memscan,
                     scan)
from test_hostile import scan_and_kill
from test_leak_names import build as build_special
from test_leak_names import build_id, frames_of, split, started
from test_stacks import FRAME

pytestmark = ROOT_ONLY

KILLS = int(os.environ.get("PLACES_KILLS") or 12)
OTHERS = [suite for suite in GLIBC if suite != HOST]
ALL = {"root": NAMESPACES, "user": (*NAMESPACES, "user", "map-root-user")}
LOSES = [line.rstrip() for line in (support.TARGETS / "loses.c").read_text().split("\n")]


def line_of(text):
    return LOSES.index(text) + 1


def check_refused(done, first, second, status=COULD_NOT_SCAN):
    assert done.status == status and not done.stdout, str(done)
    lines = done.stderr.strip().split("\n")
    assert len(lines) == 2 and first in lines[0] and second in lines[1], str(done)


def run(*argv, **more):
    """Any command with memscan in it."""
    more.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run([str(word) for word in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=30, **more)
    return support.Scan(done.returncode, done.stdout, done.stderr, 0)


@pytest.fixture(params=OTHERS)
def suite(request):
    return request.param


# ---- containers, from outside ----

@pytest.mark.parametrize("how", ["init", "child"])
@pytest.mark.parametrize("namespaces", ALL)
def test_a_container(folder, suite, namespaces, how):
    """With a root and a C library of its own, seen from outside; the report has both numbers."""
    program = compile_inside("leaks.c", suite)
    with Container(folder, suite, program, "among_freed", how=how, namespaces=ALL[namespaces]) as target:
        for snapshot in ("fork", "copy"):
            report = check_scanned(scan(target.scan_pid, "--no-fold", "--snapshot", snapshot))
            support.check_truth(report, target)
            assert report["scan"]["source"] == snapshot, report["warnings"]
            assert (report["target"]["pid"], report["target"]["ns_pid"]) == (target.scan_pid, target.inner_pid)
            assert report["target"]["exe"] == target.inside
        support.check_untouched(target.scan_pid)
        target.ends()


def test_a_plain_process_has_one_number():
    with Target([compile_target("leaks"), "among_freed"]) as target:
        assert "ns_pid" not in check_scanned(scan(target.pid))["target"]


@pytest.fixture
def losing(folder, suite):
    """Attached from outside, it has lost a block of 100,000 bytes; a file of its name is here, too, and another one."""
    decoy = shutil.copy("/bin/true", pathlib.Path(folder) / "app")
    with Container(folder, suite, compile_inside("loses.c", suite), place=decoy) as target:
        done = memscan("attach", "--sample", 1, "--ns", target.scan_pid, "--pid", 1)
        assert done.status == 0, str(done)
        assert target.ask("100000\n") == "done"
        yield target
        assert memscan("detach", target.scan_pid).status == 0
        target.ends()


def check_places(frames):
    """The calls of loses.c, with their lines."""
    mine = {frame["function"]: frame for frame in frames if frame.get("file", "").endswith("loses.c")}
    assert mine["lose"]["line"] == line_of("\tvoid *volatile p = fresh(size);"), frames
    assert mine["main"]["line"] in (line_of("\t\t\tlose((size_t)atoi(line));"), line_of("\t\tfence = fresh(8);")), frames


def test_names_in_a_container(losing):
    """Of the program that is there, and not of what has its name here; by each command, by either number."""
    pid = losing.scan_pid
    report = check_scanned(scan(1, "--ns", pid))
    leak, = [leak for leak in report["leaks"] if leak["size"] >= 100000]
    check_places(leak["backtrace"])
    live = memscan("live", "--ns", f"/proc/{pid}/ns/pid", "--pid", 1)
    assert live.status == 0 and f"process {pid} " in live.stdout and "in its pid namespace: process 1\n" in live.stdout
    assert re.search(r"\(main\+\d+\) loses\.c:\d+", live.stdout), live.stdout
    why = memscan("why", "--ns", pid, "--pid", 1, "--json", leak["address"])
    answer = support.read_answer(why.stdout)
    assert answer["target"] == {"pid": pid, "ns_pid": 1, "exe": losing.inside}
    held = memscan("retained", "--ns", pid, "1")
    assert "fence in app" in held.stdout, held.stdout
    assert "app" in memscan("--ns", pid, 1).stdout
    done = memscan("stacks", "--ns", pid, 1)
    frames = [match for line in done.stdout.split("\n") if (match := FRAME.match(line))]
    main, = [frame for frame in frames if frame[5] == "main"]
    assert main[3] == losing.inside and main[8] == "loses.c", done.stdout
    assert main[7] == build_id(compile_inside("loses.c", losing.suite)), done.stdout


def test_a_debug_file_in_a_container(folder, tmp_path):
    suite = OTHERS[0]
    program = shutil.copy(compile_inside("loses.c", suite), tmp_path)
    identity = build_id(program)
    debug = split(pathlib.Path(program))
    place = f"/usr/lib/debug/.build-id/{identity[:2]}/{identity[2:]}.debug"
    with Container(folder, suite, program, copies=[(debug, place)]) as target:
        done = memscan("stacks", target.scan_pid)
        assert re.search(r"\(main\+\d+\).* at loses\.c:\d+", done.stdout), done.stdout
        target.ends()


# ---- the number in a namespace ----

@pytest.fixture(scope="module")
def inside():
    """A program of this machine in a container with this machine's files; its threads' numbers differ from here's."""
    can_have(*NAMESPACES)
    with support.tempfile.TemporaryDirectory(prefix="memscan-e2e-") as folder:
        with Container(folder, None, compile_target("leaks"), "threads_stay", how="child") as target:
            yield target
            target.ends()


def test_a_thread_by_its_number_there(inside):
    thread = [int(tid) for tid in support.threads_of(inside.scan_pid) if int(tid) != inside.scan_pid][0]
    text = pathlib.Path(f"/proc/{inside.scan_pid}/task/{thread}/status").read_text()
    number = int(re.search(r"NSpid:.*\t(\d+)\n", text)[1])
    assert number != inside.inner_pid
    target = check_scanned(scan(number, "--ns", inside.init))["target"]
    assert (target["pid"], target["ns_pid"]) == (inside.scan_pid, inside.inner_pid)


def test_a_namespace_that_is_mounted_somewhere(inside, tmp_path):
    place = tmp_path / "ns"
    place.touch()
    subprocess.run(["mount", "--bind", f"/proc/{inside.scan_pid}/ns/pid", place], check=True)
    try:
        target = check_scanned(scan(inside.inner_pid, "--ns", place))["target"]
        assert target["pid"] == inside.scan_pid
        # from beside it none of its processes is seen
        done = run("unshare", "--pid", "--fork", "--mount", "--mount-proc", MEMSCAN, "--ns", place, "--pid", 1)
        check_refused(done, "not within memscan's own", "on the host")
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_namespace_in_a_namespace(folder):
    """A process has a number in each; the report says that of the one that was asked for."""
    can_have(*NAMESPACES)
    code = "import os, subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    with Target(["unshare", "--pid", "--fork", "--mount", "--mount-proc", "/usr/bin/python3", "-c", code, "unshare",
                 "--pid", "--fork", compile_target("leaks"), "among_freed"]) as target:
        python = support.children_of(target.pid)[0]
        program = support.descendants_of(python)[-1]
        numbers = re.search(r"NSpid:\t(.*)\n", pathlib.Path(f"/proc/{program}/status").read_text())[1].split()
        assert len(numbers) == 3 and numbers[2] == "1" and numbers[1] != "1"
        for where, number in ((python, numbers[1]), (program, 1), (os.getpid(), program)):
            found = check_scanned(scan(number, "--ns", where))["target"]
            assert found["pid"] == program and found["ns_pid"] == (1 if where == os.getpid() else int(number))
        assert target.finish() == 0


@pytest.mark.parametrize("ns, number, first, second", [
    ("/proc/self/ns/net", 1, "/proc/self/ns/net is no pid namespace", "/proc/4711/ns/pid"),
    ("/etc/passwd", 1, "is no pid namespace", "/proc/4711/ns/pid"),
    ("/dev/null", 1, "is no pid namespace", "/proc/4711/ns/pid"),
    ("/no/such/file", 1, "/no/such/file: No such file", "/proc/4711/ns/pid"),
    (2147483647, 1, "no process has the id 2147483647", "number of a process in it"),
    (None, 2147483647, "has the id 2147483647 in the pid namespace of process", "nsenter -t"),
], ids=["net", "file", "device", "absent", "gone", "not in it"])
def test_no_such_place(inside, ns, number, first, second):
    for words in (["--pid", number], ["why", "0x10", "--pid", number], ["attach", number], ["stacks", number],
                  ["trigger", number]):
        check_refused(memscan(*words, "--ns", ns or inside.scan_pid), first, second)


@pytest.mark.parametrize("words, first", [
    (["--ns", "0", "--pid", "1"], "--ns takes a pid namespace, not '0'"), (["--ns", "", "1"], "--ns takes a pid namespace"),
    (["--ns", "99999999999", "1"], "not '99999999999'"), (["--ns", "1"], "no process was given"),
    (["--ns", "1", "--name", "x"], "exclude each other"), (["attach", "--ns", "1", "--name", "x"], "exclude each other"),
    (["retained", "--ns", "1"], "no process was given"), (["run", "--ns", "1", "true"], "--ns")], ids=" ".join)
def test_wrong_calls(words, first):
    check_refused(memscan(*words), first, "", USAGE)


def test_a_namespace_that_may_not_be_seen(inside):
    program = support.for_all(MEMSCAN)
    check_refused(run(*NOBODY, program, "--ns", inside.scan_pid, "--pid", inside.inner_pid, cwd="/"), "belongs to user 0",
                  "CAP_SYS_PTRACE")


# ---- memscan in a container ----

def within(target, *namespaces):
    return ["nsenter", "-t", target.init, *[f"--{name}" for name in namespaces]]


@pytest.mark.parametrize("namespaces", ALL)
@pytest.mark.parametrize("snapshot", ["fork", "copy"])
def test_inside_with_the_one_capability(folder, namespaces, snapshot):
    """On a neighbour, by its number there; what is mapped may not be opened then, but by its name."""
    with Container(folder, None, compile_target("leaks"), "among_freed", how="child", namespaces=ALL[namespaces]) as target:
        spaces = [name for name in ALL[namespaces] if name != "map-root-user"]
        command = [*within(target, *spaces), *ONLY_PTRACE, MEMSCAN]
        done = run(*command, "--json", "--no-fold", "--limit", "all", "--snapshot", snapshot, "--pid", target.inner_pid)
        report = check_scanned(done)
        support.check_truth(report, target)
        assert report["scan"]["source"] == snapshot and "ns_pid" not in report["target"]
        assert report["target"]["pid"] == target.inner_pid
        done = run(*command, "stacks", target.inner_pid)
        assert re.search(r"\(main\+\d+\).* at \w+\.[ch]:\d+", done.stdout), str(done)
        for words in (["attach"], ["detach"]):
            assert run(*command, *words, target.inner_pid).status == 0
        support.check_untouched(target.scan_pid)
        target.ends()


def test_another_users_process_takes_one_more_capability(folder):
    program = support.for_all(compile_target("leaks"))
    with Target([*NOBODY, program, "among_freed"], cwd="/") as target:
        check_refused(run(*ONLY_PTRACE, MEMSCAN, "--pid", target.pid), f"trace process {target.pid}", "CAP_DAC_OVERRIDE")
        more = [*ONLY_PTRACE[:-1], ONLY_PTRACE[-1] + ",+dac_override"]
        support.check_truth(check_scanned(run(*more, MEMSCAN, "--pid", target.pid, "--json", "--no-fold", "--limit", "all")),
                            target)


@pytest.mark.parametrize("number", [310, 311], ids=["process_vm_readv", "process_vm_writev"])
def test_inside_without_the_capability(number):
    """A container's filter leaves ptrace() to those of the same user, and not these."""
    under = [support.compile_special("without_call.c"), number, -1, 1]
    with Target([compile_target("leaks"), "among_freed"]) as target:
        for snapshot in ("fork", "copy"):
            report = check_scanned(scan(target.pid, "--no-fold", "--snapshot", snapshot, under=under))
            support.check_truth(report, target)
            assert report["scan"]["source"] == "copy"
            assert snapshot == "copy" or "a filter forbids process_vm_readv()" in str(report["warnings"])
        check_refused(memscan("attach", target.pid, under=under), "a filter forbids process_vm_readv()", "SYS_PTRACE")
        support.check_untouched(target.pid)
        assert target.finish() == 0


@pytest.mark.parametrize("mapped", [["--map-root-user"], []], ids=["root of it", "nobody there"])
@pytest.mark.parametrize("who", [NOBODY, []], ids=["user", "root"])
def test_a_child_in_a_user_namespace(who, mapped):
    """An ordinary user may make one, and scan there what was started there."""
    can_have("user")
    script = 'exec 3<&0; "$1" among_freed <&3 >/dev/null 2>&1 & sleep 0.3; "$0" --pid $! --json; ' \
             'echo "status $?" >&2; kill $!; wait'
    read, write = os.pipe()
    try:
        done = run(*who, "unshare", "--user", *mapped, "sh", "-c", script, support.for_all(MEMSCAN),
                   support.for_all(compile_target("leaks")), cwd="/", stdin=read)
    finally:
        os.close(read)
        os.close(write)
    assert done.stderr == "status 1\n", str(done)
    assert done.report["totals"]["leaked_allocations"] > 0


@pytest.mark.parametrize("mapped", [["--map-root-user"], []], ids=["root of it", "nobody there"])
@pytest.mark.parametrize("words", [["--pid"], ["stacks"], ["attach"]], ids=" ".join)
def test_from_a_user_namespace_to_what_is_outside(mapped, words):
    can_have("user")
    with Target([compile_target("leaks"), "among_freed"]) as target:
        done = run("unshare", "--user", *mapped, MEMSCAN, *words, target.pid)
        check_refused(done, f"trace process {target.pid}", "runs in a user namespace")
        support.check_untouched(target.pid)


def test_a_container_of_an_ordinary_user():
    """Its processes have users whom that user is not; the advice is one that works."""
    can_have("user")
    user = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]
    program, leaks = support.for_all(MEMSCAN), support.for_all(compile_target("leaks"))
    script = f"echo HERE; read x; exec setpriv --reuid=33 --regid=33 --clear-groups {leaks} among_freed"
    with Process([*user, "unshare", "--user", "sh", "-c", script], cwd="/") as target:
        assert target.line() == "HERE"
        for kind in ("uid_map", "gid_map"):
            pathlib.Path(f"/proc/{target.pid}/{kind}").write_text("0 12345 1\n1 100000 65535\n")
        target.popen.stdin.write(b"\n")
        target.popen.stdin.flush()
        while target.line() != "READY":
            pass
        check_refused(run(*user, program, "--pid", target.pid, cwd="/"), "belongs to user 100032",
                      f"nsenter -t {target.pid} -U --preserve-credentials")
        done = run(*user, "nsenter", "-t", target.pid, "-U", "--preserve-credentials", program, "--pid", target.pid, "--json",
                   cwd="/")
        assert check_scanned(done)["totals"]["leaked_allocations"] > 0
        check_scanned(scan(target.pid))


# ---- another /proc, or none ----

@pytest.mark.parametrize("words", [["--pid"], ["stacks"], ["attach"], ["run"]], ids=" ".join)
def test_proc_of_another_namespace(words):
    """By a number from there another process would be traced."""
    can_have("pid")
    with Target([compile_target("leaks"), "among_freed"]) as target:
        what = "true" if words == ["run"] else target.pid
        check_refused(run("unshare", "--pid", "--fork", MEMSCAN, *words, what), "another pid namespace", "mount")


def test_no_proc():
    can_have("mount")
    with Target([compile_target("leaks"), "among_freed"]) as target:
        done = run("unshare", "--mount", "sh", "-c", 'umount -l /proc && exec "$0" "$@"', MEMSCAN, "--pid", target.pid)
        check_refused(done, "no /proc is mounted", "mount -t proc")


# ---- cgroups ----

# memscan in a container whose root of cgroups is GROUP, though not in that itself
BELOW_A_GROUP = """
import ctypes, os, subprocess, sys
group, root, *command = sys.argv[1:]
outside = open(f"{root}/cgroup.procs", "w")
open(f"{group}/cgroup.procs", "w").write(str(os.getpid()))
assert not ctypes.CDLL(None).unshare(0x02000000 | 0x00020000)
outside.write(str(os.getpid()))
outside.close()
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
subprocess.run(["mount", "--bind", group, root], check=True)
os.execv(command[0], command)
"""


@pytest.mark.alone
def test_the_limit_of_a_containers_root(memory_group):
    """A group below has none of its own; what limits both is the root of what is seen there."""
    can_have("cgroup", "mount")
    group, limit, usage = memory_group
    below = group / "below"
    below.mkdir()
    try:
        with Target([compile_target("held_memory"), 0, 60], preexec_fn=lambda: (below / "cgroup.procs").write_text(
                str(os.getpid()))) as target:
            (group / limit).write_text(str(int((group / usage).read_text()) + (20 << 20)))
            done = run("/usr/bin/python3", "-c", BELOW_A_GROUP, group, group.parent, MEMSCAN,
                       "--pid", target.pid, "--json", "--snapshot", "fork")
            report = check_scanned(done)
            assert "its memory cgroup has" in str(report["warnings"]), report["warnings"]
            assert report["scan"]["source"] == "copy"
            assert target.finish() == 0
    finally:
        below.rmdir()


# ---- frozen ----

FREEZERS = {"version 1": ("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED"),
            "version 2": ("/sys/fs/cgroup", "cgroup.freeze", "1", "0"),
            "version 2 beside 1": ("/sys/fs/cgroup/unified", "cgroup.freeze", "1", "0")}


@contextlib.contextmanager
def frozen(version, target):
    """All of its threads stand, as in a container that is paused."""
    root, file, stop, go = FREEZERS[version]
    group = pathlib.Path(root, f"memscan-e2e-{os.getpid()}")
    try:
        group.mkdir()
        (group / file).read_text()
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        pytest.skip(f"no such group can be made here: {error}")
    try:
        (group / "cgroup.procs").write_text(str(target.pid))
        (group / file).write_text(stop)
        seen = group / ("cgroup.events" if file == "cgroup.freeze" else file)
        support.wait_until(lambda: re.search("frozen 1|FROZEN", seen.read_text()), 10, "it is frozen")
        yield
    finally:
        (group / file).write_text(go)
        (group.parent / "cgroup.procs").write_text(str(target.pid))
        group.rmdir()


@pytest.mark.parametrize("version", FREEZERS)
def test_a_frozen_process(version):
    with Target([compile_target("leaks"), "threads_stay"]) as target:
        with frozen(version, target):
            for snapshot in ("fork", "copy"):
                report = check_scanned(scan(target.pid, "--no-fold", "--snapshot", snapshot))
                support.check_truth(report, target)
                assert report["scan"]["source"] == "copy"
                assert snapshot == "copy" or "frozen by its cgroup" in str(report["warnings"])
            for word in ("attach", "detach"):
                check_refused(memscan(word, target.pid), "does not run", "docker unpause")
        support.check_untouched(target.pid)
        assert target.finish() == 0


@pytest.mark.parametrize("version", FREEZERS)
def test_a_process_that_is_frozen_inside_malloc(version):
    """Nothing can lead it out; killed or not, nothing is left behind that it would die of later."""
    with Stormy("loops") as target:
        refused = 0
        for i in range(60):
            if refused and i >= 6:
                break
            with frozen(version, target):
                done = scan(target.pid, "--snapshot", ("fork", "copy")[i % 2])
                if done.status == COULD_NOT_SCAN:
                    check_refused(done, "is changing", "docker unpause")
                    refused += 1
                scan_and_kill(target.pid, 0.05, "--snapshot", ("fork", "copy")[i % 2])
            target.check()
        assert refused
        target.end()


# ---- with little of a processor ----

@pytest.fixture
def little_processor():
    """A cgroup that may run for 3 of 100 ms."""
    with support.cgroup("cpu", 10) as (group, version):
        file, quota = ("cpu.cfs_quota_us", "3000") if version == 1 else ("cpu.max", "3000 100000")
        (group / file).write_text(quota)
        yield group


def test_attach_waits_until_a_thread_runs(little_processor):
    """In most of the time none of its threads can stop."""
    with Stormy("loops") as target:
        (little_processor / "cgroup.procs").write_text(str(target.pid))
        for _ in range(3):
            attach(target.pid)
            detach(target.pid)
        (little_processor.parent / "cgroup.procs").write_text(str(target.pid))
        target.check()
        target.end()


# ---- process 1 ----

@pytest.mark.alone
@pytest.mark.parametrize("how", ["init", "child"])
def test_memscan_is_killed_while_it_scans_in_a_container(folder, how):
    """Most signals do nothing to an init; whatever is left behind would end it, or do so later."""
    with Container(folder, OTHERS[0], compile_inside("stormy.c", OTHERS[0]), "loops", how=how) as target:
        target.mode = "loops"
        longest = scan(target.scan_pid).seconds
        for i in range(KILLS):
            scan_and_kill(target.scan_pid, longest, "--snapshot", ("fork", "copy")[i % 2])
            assert support.state_of(target.scan_pid) not in (None, "Z")
        before = Stormy.beat(target)
        support.wait_until(lambda: all(a < b for a, b in zip(before, Stormy.beat(target)) if a), 20, "it goes on")
        check_scanned(scan(target.scan_pid))
        support.check_untouched(target.scan_pid)
        target.popen.stdin.close()
        assert support.wait_for(target.popen, 30) == 0


# ---- programs whose file is not where it was ----

FROM_MEMORY = "import os, sys; fd = os.memfd_create('app'); os.write(fd, open(sys.argv[1], 'rb').read()); " \
              "os.execve(fd, sys.argv[1:], os.environ)"


@pytest.fixture(params=["deleted", "replaced", "memory", "unmounted"])
def moved(request, folder):
    """A program that no name leads to any more, or that of another one."""
    place = pathlib.Path(folder) / "app"
    program = support.for_all(compile_target("loses"))
    nobody = " ".join(NOBODY)
    unmounted = f"mount -t tmpfs none {folder}; cp {program} {place}; exec 3<&0; {nobody} {place} <&3 & " \
                f"until test $(readlink /proc/$!/exe) = {place}; do sleep 0.01; done; umount -l {folder}; wait $!"
    if request.param == "unmounted":
        can_have("mount")
    command = {"memory": ["/usr/bin/python3", "-c", FROM_MEMORY, program],
               "unmounted": ["unshare", "--mount", "sh", "-c", unmounted]}.get(request.param, [place])
    shutil.copy(program, place)
    with Process(command if request.param == "unmounted" else [*NOBODY, *command], cwd="/") as target:
        assert target.line() == "READY" and target.ask("0\n") == "done"
        target.scan_pid = target.pid
        if request.param == "unmounted":
            target.scan_pid = [pid for pid in support.children_of(target.pid) if support.command_of(pid) == "app"][0]
            support.wait_until(lambda: os.readlink(f"/proc/{target.scan_pid}/exe") == "/app", 5, "it is unmounted")
        if request.param == "deleted":
            place.unlink()
        if request.param == "replaced":
            shutil.copy("/bin/true", f"{place}.new")
            os.rename(f"{place}.new", place)
        yield target
        assert target.finish() == 0


@pytest.mark.parametrize("who", [NOBODY, []], ids=["user", "root"])
def test_a_program_whose_name_leads_elsewhere(moved, who):
    """By the program that the kernel has, which takes no privilege."""
    command = [*who, support.for_all(MEMSCAN)]
    done = run(*command, "stacks", moved.scan_pid, cwd="/")
    assert re.search(r"\(main\+\d+\).* at loses\.c:\d+", done.stdout), str(done)
    held = run(*command, "retained", "--pid", moved.scan_pid, cwd="/")
    assert "fence in app" in held.stdout or "fence in memfd:app" in held.stdout, str(held)


def test_a_program_that_is_replaced_in_its_container(folder):
    """On an overlay, whose devices are not those of the maps; by its own name is another one here, and there, by then."""
    decoy = shutil.copy("/bin/true", pathlib.Path(folder) / "app")
    with Container(folder, OTHERS[0], compile_inside("loses.c", OTHERS[0]), place=decoy) as target:
        assert target.ask("0\n") == "done"
        there = pathlib.Path(f"/proc/{target.scan_pid}/root{decoy}")
        for who in ([], ONLY_PTRACE):
            for again in range(2):
                held = run(*who, MEMSCAN, "retained", "--pid", target.scan_pid)
                assert "fence in app" in held.stdout, str(held)
                done = run(*who, MEMSCAN, "stacks", target.scan_pid)
                assert re.search(r"\(main\+\d+\).* at loses\.c:\d+", done.stdout), str(done)
                assert re.search(r"libc\S*\.so\S* \(_IO_\w*gets\+\d+\)", done.stdout), str(done)
                if not again:
                    shutil.copy("/bin/false", f"{there}.new")
                    os.rename(f"{there}.new", there)
        target.ends()


def test_stacks_in_a_library_that_was_deleted(folder):
    """What of it is in memory has the names of what others call, and which build it is."""
    library = pathlib.Path(shutil.copy(re.search(r"(/\S+/libc\.so\.6) ", subprocess.run(
        ["ldd", "/bin/sleep"], stdout=subprocess.PIPE, text=True).stdout)[1], folder))
    with Process([*NOBODY, "env", f"LD_LIBRARY_PATH={folder}", "sleep", "60"], cwd="/") as target:
        support.wait_until(lambda: "nanosleep" in pathlib.Path(f"/proc/{target.pid}/wchan").read_text(), 10, "it sleeps")
        library.unlink()
        for who in (NOBODY, []):
            done = run(*who, support.for_all(MEMSCAN), "stacks", target.pid, cwd="/")
            assert re.search(r"libc\.so\.6 \(deleted\) \(clock_nanosleep\+\d+\) \(BuildId: \w{40}\)", done.stdout), str(done)
        support.kill(target.pid)


def test_a_library_that_no_name_leads_to(tmp_path):
    """Without the right to open what is mapped its functions have no names, and that is said."""
    library = build_special(tmp_path / "libleaky.so", "leak_library.c", "-shared", "-fPIC")
    with started(build_special(tmp_path / "leak_names"), library) as target:
        named = check_scanned(run(MEMSCAN, "--pid", target.pid, "--json"))
        library.unlink()
        for who in ([], ONLY_PTRACE):
            report = check_scanned(run(*who, MEMSCAN, "--pid", target.pid, "--json"))
            frame = frames_of(report, 4321)[0]
            said = [text for text in report["warnings"] if "libleaky.so (deleted) are not named" in text]
            assert bool(said) == bool(who) and ("function" in frame) == (not who), (frame, report["warnings"])
        assert frames_of(named, 4321)[0]["function"] == "lose_in_library"


# ---- memory of other kinds ----

@pytest.mark.parametrize("how", ["locked", "locked when touched", "huge"])
@pytest.mark.parametrize("snapshot", ["fork", "copy"])
def test_locked_memory_and_transparent_huge_pages(how, snapshot):
    flags = {"locked": 3, "locked when touched": 7}.get(how, 0)
    env = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"} if how == "huge" else None
    with Target([compile_target("held_memory"), flags, 100], env) as target:
        before = held_by(target.pid)
        report = check_scanned(scan(target.pid, "--no-fold", "--snapshot", snapshot))
        support.check_truth(report, target)
        assert report["scan"]["source"] == snapshot and not report["warnings"]
        heap = report["totals"]["allocation_bytes"]
        assert report["scan"]["peak_rss_bytes"] < heap + (60 << 20), "more than one copy"
        assert held_by(target.pid) - before < 1 << 20
        support.check_untouched(target.pid)
        assert target.finish() == 0


def held_by(pid):
    """Bytes of memory that a process has by itself."""
    return int(re.search(r"RssAnon:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) << 10


@pytest.mark.alone
def test_a_heap_of_huge_pages():
    pool = pathlib.Path("/proc/sys/vm/nr_hugepages")
    try:
        before = pool.read_text()
        pool.write_text(str(int(before) + 80))
    except OSError as error:
        pytest.skip(f"no huge pages can be had here: {error}")
    try:
        with Target([compile_target("held_memory"), 0, 100], {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=2"}) as target:
            text = pathlib.Path(f"/proc/{target.pid}/status").read_text()
            if int(re.search(r"HugetlbPages:\s*(\d+)", text)[1]) < 90 << 10:
                pytest.skip("there is no memory for huge pages")
            for snapshot in ("auto", "fork", "copy"):
                report = check_scanned(scan(target.pid, "--no-fold", "--snapshot", snapshot))
                support.check_truth(report, target)
                assert report["scan"]["source"] == "copy"
                assert report["scan"]["peak_rss_bytes"] < report["totals"]["allocation_bytes"] + (60 << 20)
            assert target.finish() == 0
    finally:
        pool.write_text(before)


def test_a_process_that_may_lock_no_more():
    """An agent in it would be locked, too."""
    with Target([*NOBODY, support.for_all(compile_target("held_memory")), 3, 0], cwd="/") as target:
        check_refused(memscan("attach", target.pid), "RLIMIT_MEMLOCK", "prlimit --memlock")
        check_scanned(scan(target.pid))
        assert target.finish() == 0


# ---- more rights than memscan's ----

@pytest.mark.parametrize("flags", [-1, 0], ids=["not dumpable", "setuid"])
def test_a_process_that_hides_from_its_user(flags):
    program = support.for_all(compile_target("held_memory"))
    if flags == 0:
        program = shutil.copy(program, program.with_name("setuid"))
        os.chmod(program, 0o4755)
    with Target([*NOBODY, program, flags, 1], cwd="/") as target:
        done = run(*NOBODY, support.for_all(MEMSCAN), "--pid", target.pid, cwd="/")
        check_refused(done, f"process {target.pid}", "CAP_SYS_PTRACE")
        for who in ([], ONLY_PTRACE):
            for snapshot in ("fork", "copy"):
                report = check_scanned(run(*who, MEMSCAN, "--pid", target.pid, "--json", "--no-fold", "--limit", "all",
                                           "--snapshot", snapshot))
                support.check_truth(report, target)
        assert target.finish() == 0
