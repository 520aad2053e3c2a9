# SPDX-License-Identifier: Apache-2.0
"""Unchanged programs from packages, scanned again and again while they work.

Of each: the scan succeeds, every heap is verified, and the program's own work
is right afterwards. What was found goes into a table at the end of the run.
"""

import hashlib
import os
import pty
import random
import select
import socket
import subprocess
import time

import pytest

import support
from allocators import Allocator
from servers import Load, Postgres, accepts, free_port, need, start_nginx, title_of
from support import GLIBC, HOST, Process, check_scanned, scan, suite_program


def scan_working(pid, table, name, may_vanish=False):
    """One scan of a program that works; a line for the table."""
    done = scan(pid)
    if may_vanish and support.ended_meanwhile(done, pid):
        return None
    report = check_scanned(done)
    support.check_folded(report)
    assert report["heaps"], f"no heap was found: {done}"
    support.check_untouched(pid)
    table.append((name, report, done.seconds))
    return report


# ---- nginx ----

def test_nginx_serves_each_request(folder, table):
    if not os.path.exists("/usr/sbin/nginx"):
        pytest.skip("nginx is not installed; tools/install-deps check")
    chance = random.Random(3)
    pages = {f"page{i}": bytes(chance.choices(b"abcdefgh \n", k=10 ** (i + 2))) for i in range(4)}
    port = free_port()
    with start_nginx(folder, port, pages) as nginx:
        support.wait_until(lambda: accepts(port), 10, "nginx listens")
        loads = [Load(port, pages) for _ in range(4)]
        for load in loads:
            load.start()
        support.wait_until(lambda: sum(load.right for load in loads) > 50, 10, "nginx serves")
        for i in range(20):
            pids = [nginx.pid, *support.children_of(nginx.pid)]
            assert len(pids) == 3, pids
            before = sum(load.right for load in loads)
            pid = pids[1 + i % 2] if i else pids[0]
            scan_working(pid, table, "nginx master" if pid == nginx.pid else "nginx worker under load")
            support.wait_until(lambda: sum(load.right for load in loads) > before, 10, "nginx goes on serving")
        for load in loads:
            load.ended = True
        for load in loads:
            load.join(30)
        assert [load.wrong for load in loads] == [[]] * 4
        print(f"nginx: {sum(load.right for load in loads)} requests, each answered rightly")
        os.kill(nginx.pid, 3)  # SIGQUIT: finish and leave
        assert nginx.finish() == 0


# ---- PostgreSQL ----

def test_postgresql_answers_agree(folder, table):
    with Postgres(folder) as server:
        digest = "select md5(string_agg(bid::text || filler, ',' order by aid)) from pgbench_accounts"
        server.run("pgbench", "-i", "-s", "1", "-q", "postgres")
        before = server.query(digest)
        with server.start("pgbench", "-c", "4", "-T", "6", "-M", "prepared", "-n", "postgres") as bench:
            scans = 0
            support.wait_until(server.backends, 6, "a backend is at work")
            while bench.running() and scans < 60:
                # each once, and backends first: there may be time for no more
                for pid in dict.fromkeys([*server.backends(), server.pid, *support.children_of(server.pid)]):
                    name = "postgres " + title_of(pid)
                    scans += scan_working(pid, table, name, may_vanish=True) is not None
            processed = server.finish_bench(bench)
        assert scans >= 10 and "postgres backend" in {row[0] for row in table}
        server.check_sums(processed)
        assert server.query(digest) == before
        server.shut_down()


# ---- interpreters ----

PYTHON_WORK = """
import hashlib, sys, threading
results = {}
def work(n):
    digest, table = hashlib.sha256(), {}
    for i in range(ROUNDS):
        table[i % 997] = [str(i * n)] * (i % 7)
        digest.update(repr(table[i % 997]).encode())
    results[n] = digest.hexdigest()
threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
print("READY", flush=True)
for thread in threads: thread.start()
for thread in threads: thread.join()
print(*[results[n] for n in range(6)], flush=True)
sys.stdin.read()
"""


def python_answers(rounds):
    answers = []
    for n in range(6):
        digest, table = hashlib.sha256(), {}
        for i in range(rounds):
            table[i % 997] = [str(i * n)] * (i % 7)
            digest.update(repr(table[i % 997]).encode())
        answers.append(digest.hexdigest())
    return " ".join(answers)


def test_python_with_busy_threads(table):
    rounds = 300_000
    with Process(["/usr/bin/python3", "-I", "-c", PYTHON_WORK.replace("ROUNDS", str(rounds))]) as python:
        assert python.line() == "READY"
        for _ in range(10):
            scan_working(python.pid, table, "python3, 6 threads")
        assert python.line(120) == python_answers(rounds)
        scan_working(python.pid, table, "python3, idle")
        assert python.finish() == 0


NODE_WORK = """
const { createHash } = require('crypto');
const { Worker, isMainThread, parentPort } = require('worker_threads');
function work(n) {
  const hash = createHash('sha256'); let kept = [];
  for (let i = 0; i < 400000; i++) {
    kept.push({ i, text: 'x'.repeat(i % 50) }); if (kept.length > 1000) kept = [];
    hash.update(String(i * n));
  }
  return hash.digest('hex');
}
console.log('READY');
let turns = 0;
const timer = setInterval(() => { turns++; }, 1);
(async () => {
  const answers = [];
  for (let n = 1; n <= 5; n++) { answers.push(work(n)); await new Promise(r => setTimeout(r, 20)); }
  console.log(answers.join(' '), turns > 0);
  process.stdin.resume(); process.stdin.on('end', () => { clearInterval(timer); process.exit(0); });
})();
"""


def node_answers():
    answers = []
    for n in range(1, 6):
        digest = hashlib.sha256()
        for i in range(400000):
            digest.update(str(i * n).encode())
        answers.append(digest.hexdigest())
    return " ".join(answers) + " true"


def test_node(table):
    need("node")
    with Process(["node", "-e", NODE_WORK]) as node:
        assert node.line() == "READY"
        for _ in range(8):
            scan_working(node.pid, table, "node")
        assert node.line(120) == node_answers()
        scan_working(node.pid, table, "node")
        assert node.finish() == 0


def scan_while_asking(process, question, answer, table, name, times):
    """Scan while a question is worked on, until the answer comes."""
    process.popen.stdin.write(question.encode())
    process.popen.stdin.flush()
    for _ in range(times):
        scan_working(process.pid, table, name)
    assert process.line(120) == answer


@pytest.mark.parametrize("suite", GLIBC)
def test_bash(suite, table):
    name = f"bash ({suite})"
    with Process([*suite_program(suite, "bash"), "--norc", "-s"]) as bash:
        assert bash.ask("declare -A seen; f() { local x=$1; echo got $x; }; f 1\n") == "got 1"
        scan_working(bash.pid, table, name)
        scan_while_asking(bash, "for ((i = 0; i < 30000; i++)); do seen[$((i % 1000))]=$i; s=$((s + i)); t=\"$t$i\";"
                          " t=${t: -100}; done; echo $s ${#seen[@]} ${seen[77]}\n",
                          f"{sum(range(30000))} 1000 29077", table, name, 5)
        scan_while_asking(bash, "echo $(for i in 1 2 3; do (echo $((i * i)); sleep 0.05); done)\n", "1 4 9",
                          table, name, 2)
        assert bash.finish() == 0


@pytest.mark.parametrize("suite", GLIBC)
def test_sqlite3(suite, table):
    if suite == HOST:
        need("sqlite3")
    name = f"sqlite3 ({suite})"
    with Process([*suite_program(suite, "sqlite3"), "-batch", ":memory:"]) as sqlite:
        assert sqlite.ask("create table t(a integer primary key, b text); select 'READY';\n") == "READY"
        scan_working(sqlite.pid, table, name)
        scan_while_asking(sqlite, "with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000)"
                          " insert into t select i, 'text ' || i from n; select count(*), sum(a) from t;\n",
                          f"200000|{200000 * 200001 // 2}", table, name, 4)
        scan_while_asking(sqlite, "create index tb on t(b); select a from t where b = 'text 4711';\n", "4711",
                          table, name, 3)
        assert sqlite.finish() == 0


@pytest.mark.parametrize("suite", [suite for suite in GLIBC if suite != HOST])
def test_python_of_other_suites(suite, table):
    root = support.suite_root(suite)
    rounds = 20_000
    with Process([*suite_program(suite, "python3"), "-I", "-S", "-c", PYTHON_WORK.replace("ROUNDS", str(rounds))],
                 env={"PYTHONHOME": f"{root}/usr"}) as python:
        assert python.line() == "READY"
        for _ in range(4):
            scan_working(python.pid, table, f"python3 ({suite})")
        assert python.line(120) == python_answers(rounds)
        scan_working(python.pid, table, f"python3 ({suite})")
        assert python.finish() == 0


# ---- git, vim, redis ----

def git(folder, *args, **more):
    quiet = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "HOME": folder}
    done = subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "gc.auto=0", *args],
                          cwd=folder, env={**os.environ, **quiet}, stdout=subprocess.PIPE, check=True, **more)
    return done.stdout


def test_git_cat_file(folder, table):
    need("git")
    git(folder, "init", "-q")
    for i in range(200):
        with open(f"{folder}/file{i}", "w") as out:
            out.write(f"content {i}\n" * (i + 1))
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "all")
    git(folder, "repack", "-adq")
    names = [line.split()[2].decode() for line in git(folder, "ls-tree", "-r", "HEAD").splitlines()]
    with Process(["git", "cat-file", "--batch"], cwd=folder) as batch:
        for turn, name in enumerate(names * 2):
            head = batch.ask(name + "\n").split()
            body = [batch.line() for _ in range(int(batch_lines(head, batch)))]
            joined = "\n".join(body).encode()
            assert hashlib.sha1(b"blob %d\0" % len(joined) + joined).hexdigest() == name
            if turn % 50 == 0:
                scan_working(batch.pid, table, "git cat-file")
        assert batch.finish() == 0


def batch_lines(head, batch):
    """How many lines an object of so many bytes has: read until they are there."""
    name, kind, size = head
    assert kind == "blob", head
    while len(batch.unread) < int(size) + 1:
        batch.unread += os.read(batch.popen.stdout.fileno(), 1 << 16)
    return batch.unread[:int(size) + 1].count(b"\n")


def drain(fd, seconds):
    end = time.monotonic() + seconds
    while select.select([fd], [], [], max(0, end - time.monotonic()))[0]:
        try:
            if not os.read(fd, 1 << 16):
                return
        except OSError:
            return


def test_vim_in_a_terminal(folder, table):
    need("vim")
    master, slave = pty.openpty()
    path = f"{folder}/text"
    with Process(["vim", "-u", "NONE", "-N", "-n", "-i", "NONE", path], stdin=slave, stdout=slave, stderr=slave,
                 env={"TERM": "xterm", "HOME": folder}) as vim:
        os.close(slave)
        drain(master, 1)
        os.write(master, b"i")
        for i in range(20):
            os.write(master, b"line %d of the text\r" % i)
            drain(master, 0.05)
            if i % 4 == 0:
                scan_working(vim.pid, table, "vim")
        os.write(master, b"\x1b")
        drain(master, 0.3)
        os.write(master, b":%s/line/LINE/g\r")
        drain(master, 0.3)
        scan_working(vim.pid, table, "vim")
        os.write(master, b":wq\r")
        drain(master, 5)
        assert vim.popen.wait(10) == 0
        os.close(master)
    with open(path) as text:
        assert text.read().split("\n")[:20] == [f"LINE {i} of the text" for i in range(20)]


def test_redis_is_not_harmed(folder, table):
    """Debian's redis has jemalloc, and more threads than one."""
    need("redis-server")
    path = f"{folder}/socket"
    with Process(["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder]) as redis:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            # its file is there before anything listens
            support.wait_until(lambda: not client.connect_ex(path), 20, "redis to listen")
            answers = client.makefile("rb")
            for i in range(2000):
                client.sendall(b"SET key%d value%d\r\nGET key%d\r\n" % (i, i, i // 2))
                assert answers.readline() == b"+OK\r\n"
                answers.readline()
                assert answers.readline() == b"value%d\r\n" % (i // 2)
                if i % 400 == 0:
                    report = scan_working(redis.pid, table, "redis")
                    assert [h for h in report["heaps"] if h["allocator"] == "jemalloc" and h["allocations"] > 1000]


MANY_LIBRARIES = """
import bz2, ctypes, curses, decimal, hashlib, lzma, sqlite3, ssl, sys
print("READY", flush=True)
sys.stdin.read()
"""


def pages_of_files(pid):
    """KiB of files that are resident in a process."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssFile:"))


@pytest.mark.parametrize("command", ["--snapshot=fork", "--snapshot=copy", "dump"])
def test_no_more_of_its_files_becomes_resident_than_is_needed(command, tmp_path):
    with Process(["/usr/bin/python3", "-I", "-c", MANY_LIBRARIES]) as python:
        assert python.line() == "READY"
        before = pages_of_files(python.pid)
        done = (support.memscan("dump", python.pid, "-o", tmp_path / "core") if command == "dump" else
                scan(python.pid, command))
        assert done.status == 0, str(done)
        # half a MiB of the C library, if nothing of it was resident; these libraries have more than two
        assert pages_of_files(python.pid) - before < 1024


LINKED_IN = {
    "glibc": lambda: support.compile_target("much_code", variant="static"),
    "musl mallocng": lambda: Allocator("musl mallocng", HOST, "static").compile("much_code"),
    "jemalloc": lambda: Allocator("jemalloc", HOST, "archive", "libjemalloc_pic.a", libs=("-lstdc++",)).compile("much_code"),
}


@pytest.mark.parametrize("command", ["--snapshot=fork", "--snapshot=copy"])
@pytest.mark.parametrize("allocator", LINKED_IN)
def test_code_does_not_become_resident(allocator, command):
    """The allocator is looked for in all of the code, as the program is stripped; jemalloc where a thread may be in it."""
    with Process([support.stripped(LINKED_IN[allocator]()), "busy"]) as program:
        assert program.line() == "READY"
        before = pages_of_files(program.pid)
        report = check_scanned(scan(program.pid, command))
        assert report["totals"]["leaked_allocations"] == 1, report["leaks"]
        assert allocator in {heap["allocator"] for heap in report["heaps"]}, report["heaps"]
        assert pages_of_files(program.pid) - before < 1024


def test_attach_does_not_make_code_resident():
    """That another allocator is linked in has to be ruled out."""
    with Process([support.stripped(support.compile_target("much_code"))]) as program:
        assert program.line() == "READY"
        before = pages_of_files(program.pid)
        for command in ("attach", "detach"):
            done = support.memscan(command, program.pid)
            assert done.status == 0, str(done)
        assert pages_of_files(program.pid) - before < 1024
