# SPDX-License-Identifier: Apache-2.0
"""Unchanged programs with libmalloc_debug.so preloaded do their work as without it.

As without it: the same status, the same output, the same files; and the log says nothing
but what was asked for. Each program runs with a few of the options; with SHIM_ALL=1 each
runs with all of them (SHIM_OPTIONS and SHIM_PROGRAMS, commas between names, choose).
"""

import hashlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

import support
from servers import Load, Postgres, accepts, free_port, need, start_nginx
from shim_support import needs_library
from support import BUILD, Process, TARGETS

SOURCES = pathlib.Path(__file__).parent / "programs"
ENABLE = signal.SIGRTMAX - 19
UNREACHABLE = signal.SIGRTMAX - 16
PYTHON = "/usr/bin/python3"

pytestmark = needs_library

GUARDS = "guard fill free_track verify_pointers expand_alloc"
STATS = r"Logging allocator stats\.\.\.|arena \d+ bytes, in use .*"
SEARCHES = (r"Starting to check for unreachable memory\.|Unreachable check failed, .*|.*unreachable.*"
            r"|warning: .*|collect.*|search.*|sweep.*|fold.*| .*"
            # redis
            r"|the process allocates with libjemalloc\.so\.2, .*|run the program without it, .*")
LEAKS = r"\+\+\+ .* leaked block of size .*|Backtrace at time of allocation:| {10}#.*"


class Options:
    """What the shim is told; a signal that the program gets; lines that it then may log."""

    def __init__(self, text, log=None, number=None):
        self.text, self.log, self.number = text, re.compile(log) if log else None, number


OPTIONS = {
    "none": Options(" "),
    "guard": Options("guard"),
    "front_guard": Options("front_guard=100"),
    "rear_guard": Options("rear_guard=17"),
    "backtrace": Options("backtrace"),
    "on_signal": Options("backtrace_enable_on_signal", number=ENABLE),
    "backtrace_full": Options("backtrace backtrace_full"),
    "fill": Options("fill"),
    "expand_alloc": Options("expand_alloc"),
    "free_track": Options("free_track"),
    "leak_track": Options("leak_track", LEAKS),
    "record_allocs": Options("record_allocs=1000000", r"Maximum number of records added, .*"),
    "verify_pointers": Options("verify_pointers"),
    "sample": Options("backtrace_sample=524288"),
    "all_guards": Options(GUARDS),
    "abort": Options(f"{GUARDS} backtrace abort_on_error"),
    "stats": Options("log_allocator_stats_on_exit", STATS),
    "unreachable": Options("check_unreachable_on_signal", SEARCHES, UNREACHABLE),
}
# in a usual run: what is most like all of them, and for each program another one
FEW = ("abort",)


def environment(folder, options):
    """Every user that a program becomes can read the library in its folder."""
    if not options:
        return {}
    for name in ("libmalloc_debug.so", "libmemunreachable.so.1"):
        if not os.path.exists(f"{folder}/{name}"):
            shutil.copy(BUILD / name, f"{folder}/{name}")
            os.chmod(f"{folder}/{name}", 0o755)
    env = {"LD_PRELOAD": f"{folder}/libmalloc_debug.so", "LIBC_DEBUG_MALLOC_OPTIONS": options.text}
    return {**env, **({"SIGNAL": str(int(options.number))} if options.number else {})}


def split_log(text):
    """The lines of the program, and those of the shim and of what it calls."""
    logged = re.compile(r"(?:malloc_debug|libc|libmemunreachable): ?(.*)")
    lines = text.decode(errors="replace").splitlines()
    return ([line for line in lines if not logged.match(line)],
            [found[1] for line in lines if (found := logged.match(line))])


def check_log(lines, options):
    wrong = [line for line in lines if line and not (options.log and options.log.fullmatch(line))]
    assert not wrong, f"{len(wrong)} lines that nobody asked for: {wrong[:40]}"


def files_of(folder):
    """What a program left: each file's name and digest."""
    found = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_file() and not path.is_symlink():
            found[str(path.relative_to(folder))] = hashlib.sha1(path.read_bytes()).hexdigest()
    return found


class Outcome:
    def __init__(self, status, out, err, files=None):
        self.status, self.out, self.err, self.files = status, out, err, files

    def __eq__(self, other):
        return vars(self) == vars(other)

    def __repr__(self):
        return f"status {self.status}\n{self.out[-1500:]}\n--- stderr\n{self.err[-20:]}\n--- {self.files}"


# ---- programs that end by themselves ----

class Program:
    """@argv; @clean takes out of its output what differs from run to run; @leave: options that are not for it."""

    def __init__(self, *argv, given=b"", env=None, clean=lambda text: text, needs=None, seconds=240, leave=()):
        self.argv, self.given, self.env, self.clean = argv, given, env or {}, clean
        self.needs, self.seconds, self.leave = needs or argv[0], seconds, leave

    def run(self, folder, options):
        need(self.needs)
        work = f"{folder}/work"
        shutil.rmtree(work, ignore_errors=True)
        os.mkdir(work)
        with open(f"{folder}/stderr", "wb") as err, \
                Process(self.argv, {**self.env, **environment(folder, options)}, cwd=work, stderr=err) as process:
            out, _ = process.popen.communicate(self.given, timeout=self.seconds)
        said, log = split_log(pathlib.Path(f"{folder}/stderr").read_bytes())
        check_log(log, options or OPTIONS["none"])
        return Outcome(process.popen.returncode, self.clean(out), said, files_of(work))


def limited(limits, *argv):
    """Under a shell's limits, itself without the shim."""
    script = f'ulimit {limits}; export LD_PRELOAD="$PRELOAD"; exec "$@"'
    return Program("bash", "-c", f"PRELOAD=$LD_PRELOAD; unset LD_PRELOAD; {script}", "limited", *argv)


def results_of_tests(text):
    """Of `python3 -m test`: what came out, not when; it says more of what takes long."""
    return b"\n".join(re.findall(rb"^(?:.* tests? OK\.|Tests result: .*|.*\d tests? failed.*| {4}test_.*)$", text, re.M))


SQL = """pragma journal_mode=wal; create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i+1 from n where i<20000)
insert into t select i, hex(i*i*7919), i*0.5 from n;
create index tb on t(b); select count(*), sum(a), max(b) from t; begin; delete from t where a%3=0; rollback;
update t set b=b||'x' where a%7=0; select b, count(*) from t group by substr(b,1,2) order by 1 limit 7;
select json_group_array(a) from (select a from t where c<20); vacuum; pragma integrity_check; .dump t
"""

MODULES = ("json", "re", "threading", "subprocess", "mmap", "ctypes", "struct", "list", "dict", "unicode", "zlib",
           "array", "bytes", "memoryview", "thread", "queue", "weakref", "gc", "pickle", "collections", "io", "fork1",
           "sqlite3", "hashlib", "decimal", "xml_etree", "signal", "multiprocessing_fork", "concurrent_futures",
           "asyncio")
# they look at what their children write to stderr, which these options have them do
TALKING = ("leak_track", "stats")
# a minute each; and what it compares is the list of all descriptors, of which the log has one
SLOW = {"subprocess": ("-i", "test_pass_fds_redirected"), "threading": (), "io": (), "concurrent_futures": (),
        "asyncio": (), "pickle": (), "signal": (), "multiprocessing_fork": ()}
LONG = tuple(option for option in OPTIONS if option not in ("none", "backtrace", "free_track", "sample", "abort"))

PROGRAMS = {
    "bash": Program("bash", SOURCES / "forks.sh"),
    "git": Program("bash", SOURCES / "git.sh", needs="git"),
    "sqlite3": Program("sqlite3", "file", given=SQL.encode()),
    "gcc": Program("gcc", "-std=gnu11", "-O2", "-g0", "-c", "-pthread", "-o", "out.o", TARGETS / "debugged.c"),
    "g++": Program("g++", "-std=gnu++17", "-O2", "-o", "out", TARGETS / "classes.cc", "-pthread"),
    "lto": Program("gcc", "-std=gnu11", "-O2", "-flto=2", "-fwhole-program", "-o", "out", TARGETS / "demo_leaky.c",
                   "-pthread"),
    "python3": Program(PYTHON, SOURCES / "work.py"),
    "many threads": Program(PYTHON, SOURCES / "many_threads.py"),
    "perl": Program("perl", SOURCES / "work.pl"),
    "node": Program("node", SOURCES / "work.js"),
    "vim": Program("vim", "-u", "NONE", "-i", "NONE", "-n", "-es", "-S", SOURCES / "text.vim"),
    "jq": Program("jq", "-n", '[range(3000)|{a:.,b:(.|tostring)}]|map(.b+"x")|sort|.[7], (join(",")|length), (.[9]|test("x"))'),
    "openssl": Program("bash", "-c", "seq 30000 > in; openssl enc -aes-256-cbc -pbkdf2 -S 0011223344556677 -k key -in in"
                       " | openssl dgst -sha256; openssl prime -generate -bits 64 | wc -l; openssl list -digest-algorithms",
                       needs="openssl"),
    "curl": Program("curl", "-s", "file:///etc/services", "--compressed"),
    "Qt": Program(PYTHON, SOURCES / "window.py", env={"QT_QPA_PLATFORM": "offscreen"}),
    "awk and sort": Program("bash", "-c", "awk 'BEGIN{for(i=0;i<60000;i++){a[i%5000]=a[i%5000] i; print (i*7919)%100003, i}}'"
                            " | sort -S 1M -n | tee f | gzip -n | gunzip | tail -2; find /usr/share -maxdepth 1 -name 'p*' | sort;"
                            " tar --sort=name --mtime=@0 -cf - f | xz -T2 | sha1sum; diff <(seq 900) <(seq 2 901); true"),
    "make": Program("make", "-s", "-j3", "-f", SOURCES / "Makefile"),
    "with little stack": limited("-s 256", "bash", SOURCES / "forks.sh"),
    "with little memory": limited("-v 600000", PYTHON, SOURCES / "work.py"),
    "with few descriptors": limited("-n 40", PYTHON, SOURCES / "work.py"),
    "python3 without stderr": Program("bash", "-c", f"exec 2>&-; {PYTHON} {SOURCES}/work.py; git --version | wc -l"),
}
PROGRAMS |= {f"test_{name}": Program(PYTHON, "-m", "test", f"test_{name}", *SLOW.get(name, ()), clean=results_of_tests,
                                     seconds=600, leave=LONG if name in SLOW else TALKING) for name in MODULES}


def chosen(variable, names, usual):
    """All with SHIM_ALL; those that the variable names; or the usual ones."""
    if os.environ.get(variable):
        return [name for name in names if name in os.environ[variable].split(",")]
    return list(names) if os.environ.get("SHIM_ALL") else [name for name in names if name in usual]


def options_for(name):
    """With few options each: those that every program has, and one that is its turn."""
    others = [option for option in OPTIONS if option not in FEW]
    mine = others[sorted(PROGRAMS).index(name) % len(others)] if name in PROGRAMS else None
    left = PROGRAMS[name].leave if name in PROGRAMS else ()
    return [option for option in chosen("SHIM_OPTIONS", OPTIONS, (*FEW, mine)) if option not in left]


SECOND = ("g++", "git", "make", "with little stack", "awk and sort", "jq", "curl")


def usual_programs():
    """Those that are quick, and each of a kind of its own."""
    return [name for name in PROGRAMS if name == "test_struct" or not (name.startswith("test_") or name in SECOND)]


@pytest.mark.parametrize("name", chosen("SHIM_PROGRAMS", PROGRAMS, usual_programs()))
def test_program(name, folder):
    program = PROGRAMS[name]
    plain = program.run(folder, None)
    assert plain.status is not None and (plain.out or plain.files), "it does nothing"
    failed = []
    for option in options_for(name):
        start = time.monotonic()
        try:
            found = program.run(folder, OPTIONS[option])
            assert found == plain, f"{found}\n=== without the shim:\n{plain}"
            result = "ok"
        except (AssertionError, subprocess.TimeoutExpired) as error:
            failed.append(f"{name} with {option}: {error}")
            result = "FAILED"
        print(f"{name:<24} {option:<16} {time.monotonic() - start:6.1f} s {result}")
    assert not failed, "\n\n".join(failed)


# ---- servers ----

def nginx_master_and_workers(folder, env, err, number):
    """Two workers, asked by four threads, that are replaced while they serve."""
    pages = {f"page{i}": bytes(b"abcdefgh \n"[j * j % 10] for j in range(10 ** (i + 2))) for i in range(4)}
    port = free_port()
    with start_nginx(folder, port, pages, env, err) as nginx:
        support.wait_until(lambda: accepts(port), 20, "nginx listens")
        loads = [Load(port, pages) for _ in range(4)]
        for load in loads:
            load.start()
        for turn in range(3):
            for pid in [nginx.pid, *support.children_of(nginx.pid)]:
                number and support.kill(pid, number)
            before = sum(load.right for load in loads)
            support.wait_until(lambda: sum(load.right for load in loads) > before + 100, 60, "nginx serves")
            old = set(support.children_of(nginx.pid))
            os.kill(nginx.pid, signal.SIGHUP)
            support.wait_until(lambda: set(support.children_of(nginx.pid)) - old, 20, "new workers")
        for load in loads:
            load.ended = True
        for load in loads:
            load.join(60)
        # a connection that was idle is closed by the worker that goes, at each of three turns
        wrong = [what for load in loads for what in load.wrong]
        assert len(wrong) <= 3 * len(loads) and all(isinstance(what[-1], ConnectionError) for what in wrong), wrong
        os.kill(nginx.pid, signal.SIGQUIT)  # finish and leave
        assert nginx.finish(60) == 0
    errors = pathlib.Path(f"{folder}/error.log").read_text()
    assert not re.search(r"\[(alert|crit|emerg)\]|exited on signal", errors), errors


def postgres_and_its_tools(folder, env, err, number):
    with Postgres(folder, env, err) as server:
        server.run("pgbench", "-i", "-s", "1", "-q", "postgres")
        with server.start("pgbench", "-c", "4", "-j", "2", "-t", "150", "-C", "-n", "postgres") as bench:
            for pid in [server.pid, *support.children_of(server.pid)] if number else []:
                support.kill(pid, number)
            server.check_sums(server.finish_bench(bench))
        assert server.query("create table t as select i, md5(i::text) m from generate_series(1, 20000) i;"
                            "create index on t(m); analyze t;"
                            "select count(*), (select string_agg(m, '' order by m) from t where m < '01') is not null"
                            " from t where m > '8'").endswith("|t")
        server.run("pg_dump", "-f", f"{folder}/dump.sql", "postgres")
        assert "COPY public.t" in pathlib.Path(f"{folder}/dump.sql").read_text()
        server.shut_down()


def redis_with_its_jemalloc(folder, env, err, number):
    need("redis-server")
    path = f"{folder}/socket"
    with Process(["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder], env, stderr=err,
                 stdout=subprocess.DEVNULL) as redis:
        support.wait_until(lambda: accepts(path), 20, "redis listens")
        number and support.kill(redis.pid, number)
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            support.wait_until(lambda: client.connect_ex(path) == 0, 20, "redis listens")
            answers = client.makefile("rb")
            for i in range(2000):
                client.sendall(b"SET key%d %s\r\nRPUSH list v%d\r\nGET key%d\r\n" % (i, b"v" * (i % 300 + 1), i, i // 2))
                assert answers.readline() == b"+OK\r\n" and answers.readline() == b":%d\r\n" % (i + 1)
                answers.readline()
                assert answers.readline() == b"v" * (i // 2 % 300 + 1) + b"\r\n"
            client.sendall(b"BGSAVE\r\n")
            assert b"started" in answers.readline()
            support.wait_until(lambda: os.path.exists(f"{folder}/dump.rdb"), 60, "redis's dump")
            client.sendall(b"FLUSHALL\r\nDBSIZE\r\n")
            assert answers.readline() == b"+OK\r\n" and answers.readline() == b":0\r\n"
            client.sendall(b"SHUTDOWN NOSAVE\r\n")
        assert redis.finish(60) == 0


SERVERS = {"nginx": nginx_master_and_workers, "postgres": postgres_and_its_tools, "redis": redis_with_its_jemalloc}


@pytest.mark.parametrize("name", chosen("SHIM_PROGRAMS", SERVERS, SERVERS))
def test_server(name, folder):
    failed = []
    for option in options_for(name):
        options = OPTIONS[option]
        mine = f"{folder}/{option}"
        os.mkdir(mine)
        os.chmod(mine, 0o755)
        start, result = time.monotonic(), "ok"
        try:
            with open(f"{folder}/stderr", "wb") as err:
                SERVERS[name](mine, environment(folder, options), err, options.number)
            check_log(split_log(pathlib.Path(f"{folder}/stderr").read_bytes())[1], options)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            failed.append(f"{name} with {option}: {error}\n{pathlib.Path(f'{folder}/stderr').read_bytes()[-3000:]}")
            result = "FAILED"
        print(f"{name:<24} {option:<16} {time.monotonic() - start:6.1f} s {result}")
    assert not failed, "\n\n".join(failed)


# ---- under memscan ----

WAITING = {
    "python3": [PYTHON, "-c", "import json, re, sys, threading\n"
                "kept = [json.loads(json.dumps({'a': list(range(50))})) for _ in range(50)]\n"
                "threads = [threading.Thread(target=lambda: re.compile('a+b*' * n)) for n in range(4)]\n"
                "[t.start() for t in threads]; [t.join() for t in threads]\n"
                "print('READY', flush=True); sys.stdin.read()"],
    "node": ["node", "-e", "const {Worker} = require('worker_threads');"
             "new Worker('setInterval(() => 0, 1000)', {eval: true}).on('online', () => console.log('READY'));"
             "process.stdin.resume(); process.stdin.on('end', () => process.exit(0))"],
    "bash": ["bash", "--norc", "-c", "declare -A s; for ((i = 0; i < 2000; i++)); do s[$i]=$i; done; echo READY; read x"],
    "perl": ["perl", "-e", "$| = 1; %h = map { $_ => [$_] } 1 .. 5000; print qq(READY\\n); <STDIN>"],
}
WITH = {"without": None, "backtrace": OPTIONS["backtrace"], "all": Options(f"{GUARDS} backtrace")}


def leaks_of(pid):
    """How many leaks memscan tells; what it says of itself must hold."""
    report = support.check_scanned(support.scan(pid, "--no-fold"))
    assert report["heaps"], report["warnings"]
    support.check_untouched(pid)
    return report["totals"]["leaked_allocations"]


@pytest.mark.parametrize("name", chosen("SHIM_PROGRAMS", WAITING, ("python3", "node")))
def test_memscan_tells_no_more_leaks_of_a_program(name, folder):
    need(WAITING[name][0])
    found = {}
    for with_, options in WITH.items():
        with Process(WAITING[name], environment(folder, options), stderr=subprocess.DEVNULL) as process:
            assert process.line() == "READY"
            found[with_] = leaks_of(process.pid)
            assert process.finish(60) in (0, 1)
    print(f"leaks that memscan tells of {name}: {found}")
    assert max(found.values()) == found["without"], found


def test_memscan_tells_no_more_leaks_of_nginx(folder):
    found = {}
    for with_, options in WITH.items():
        port = free_port()
        pages = {"page": b"abcdefgh\n" * 500}
        with start_nginx(folder, port, pages, environment(folder, options)) as nginx:
            support.wait_until(lambda: accepts(port), 20, "nginx listens")
            load = Load(port, pages)
            load.start()
            support.wait_until(lambda: load.right > 50, 20, "nginx serves")
            found[with_] = [leaks_of(pid) for pid in (nginx.pid, *support.children_of(nginx.pid)) for _ in range(3)]
            load.ended = True
            load.join(60)
            os.kill(nginx.pid, signal.SIGQUIT)
            assert not load.wrong and nginx.finish(60) == 0
    print(f"leaks that memscan tells of nginx: {found}")
    assert all(max(leaks) <= max(found["without"]) for leaks in found.values()), found


def test_memscan_tells_no_more_leaks_of_postgres(folder):
    found = {}
    for with_, options in WITH.items():
        mine = f"{folder}/{with_}"
        os.mkdir(mine)
        os.chmod(mine, 0o755)
        with Postgres(mine, environment(folder, options)) as server:
            session = Process([f"{server.tools}/psql", "-d", "postgres", "-AtXq"], server.env, cwd=mine, **server.user)
            with session:
                assert session.ask("create table t as select i, md5(i::text) m from generate_series(1, 3000) i;"
                                   "select count(*) from t where m > '8';\n") != "0"
                backends = server.backends()
                assert len(backends) == 1
                found[with_] = [leaks_of(pid) for pid in (server.pid, backends[0])]
            server.shut_down()
    print(f"leaks that memscan tells of PostgreSQL: {found}")
    # its own are the first copy of environ, LC_CTYPE in it, which it sets anew, and its folder's name; stale words may
    # lead to each
    assert all(now <= max(before, 3) for leaks in found.values() for now, before in zip(leaks, found["without"])), found
