# SPDX-License-Identifier: Apache-2.0
"""A master that adopts its workers' orphans, as the first process of a container does, notices nothing.

Each command of memscan on a worker, and memscan killed at any moment of a scan: no child that the master has not
started comes to it. KILLS is how often each process of memscan is killed.
"""

import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time

import pytest

import servers
import support
from support import MEMSCAN, Process, children_by_thread, compile_hostile, compile_target, memscan, wait_until

KILLS = int(os.environ.get("KILLS") or 12)
SEED = int(os.environ.get("KILLS_SEED") or time.time())

ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason="only root may make a pid namespace")
NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")

pytestmark = pytest.mark.usefixtures("adopted")


def inside(pid):
    """The process that unshare has made, the first of its namespace."""
    wait_until(lambda: support.children_of(pid), 20, "the first process of a namespace")
    return support.children_of(pid)[0]


def number_inside(pid):
    return int(re.search(r"^NSpid:.*\s(\d+)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M).group(1))


class Adopter(Process):
    """tests/hostile/adopter: it starts what it is told to, and says which children it sees end."""

    def __init__(self, *prefix):
        super().__init__([*prefix, compile_hostile("adopter.c")])
        self.master = inside(self.pid) if prefix else self.pid

    def start(self, command):
        """The process that it starts, by its number out here; and in there."""
        word, number = self.ask(f"exec {command}\n").split()
        assert word == "started", word
        for pid in support.children_of(self.master):
            if number_inside(pid) == int(number):
                return pid, number
        raise AssertionError(f"{number} is no child of {self.master}")

    def end(self, number):
        """Ends when that has ended; it is the only child that does."""
        word, pid, status = self.line().split()
        assert (word, pid) == ("ended", number), (word, pid, status)
        return int(status)


@pytest.fixture(params=["subreaper", pytest.param("first", marks=ROOT_ONLY)])
def adopter(request):
    with Adopter(*NAMESPACE if request.param == "first" else ()) as process:
        yield process


def start_worker(adopter, folder):
    """A worker of two threads, which are inside malloc as a rule; and the end of its input."""
    os.mkfifo(folder / "in")
    end = os.open(folder / "in", os.O_RDWR)
    pid, _ = adopter.start(f"{compile_target('spin')} 2 4000 <{folder}/in >{folder}/out")
    out = folder / "out"
    wait_until(lambda: out.exists() and b"READY" in out.read_bytes(), 20, "the worker is ready")
    return pid, end


@pytest.fixture
def worker(adopter, tmp_path):
    pid, end = start_worker(adopter, tmp_path)
    number = str(number_inside(pid))
    yield pid
    os.write(end, b"stop\n")
    os.close(end)
    assert adopter.end(number) == 0
    assert b"damaged" not in (tmp_path / "out").read_bytes()


def commands(pid, folder):
    """What is done with a process; with the statuses that say that it was done."""
    yield [0, 1], ["--pid", pid]
    yield [0, 1], ["--pid", pid, "--snapshot", "fork"]
    yield [0], ["dump", pid, "--snapshot", "fork", "-o", folder / "core"]
    yield [0], ["stacks", pid]
    yield [0], ["retained", "--pid", pid, "--snapshot", "fork"]
    yield [0], ["attach", pid]
    yield [0, 1], ["--pid", pid, "--snapshot", "fork"]
    yield [0], ["detach", pid]


def check_all(pid, folder, allowed=()):
    for statuses, words in commands(pid, folder):
        done = memscan(*words)
        assert done.status in [*statuses, *allowed], (words, done.status, done.err)
        assert not [child for child in children_by_thread(pid) if "memscan" in support.command_of(child)], words


def test_no_command_is_noticed(worker, tmp_path):
    check_all(worker, tmp_path)


def test_a_scan_clones(worker):
    """Or the tests above and below would show nothing."""
    for _ in range(3):
        assert support.scan_as_asked(worker, "--snapshot", "fork")["scan"]["source"] == "fork"


def test_run_is_not_noticed(adopter, tmp_path):
    script = f"for i in 1 2 3; do {compile_target('demo_leaky')} </dev/null >/dev/null; done"
    pid, number = adopter.start(f"{MEMSCAN} run --follow -q -o {tmp_path}/leaks-%p.txt sh -c '{script}' </dev/null")
    assert pid and adopter.end(number) == 0
    assert list(tmp_path.glob("leaks-*.txt"))


ORIGINAL, COLLECTION, SWEEPER = "memscan", "memscan-collect", "memscan-sweep"


def kill_one(chance, popen, role, whole, processes_of):
    """Kill the process that has @role, at a random moment of its life. Returns whether it was there."""
    while popen.poll() is None:
        roles = {}
        for child in processes_of(popen.pid):
            roles.setdefault(support.command_of(child), child)  # what was just forked has its parent's name
        if role not in roles:
            continue
        time.sleep(whole * chance.random() ** 2)  # more often early: some do not live for long
        if popen.poll() is None and support.command_of(roles[role]) == role:
            support.kill(roles[role])
            return True
        return False
    return False


def kill_some(rounds, kill):
    """So many times, and on until one has found its process. Returns how many have."""
    hits = sum(kill() for _ in range(rounds))
    for _ in range(50):
        hits = hits or kill()
    return hits


def kill_at_random(chance, pid, role, whole):
    """One scan, in which one process of memscan is killed. Returns whether it was there."""
    popen = subprocess.Popen([MEMSCAN, "--pid", str(pid), "--snapshot", "fork", "-q"], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    support.our_children.add(popen.pid)
    try:
        hit = kill_one(chance, popen, role, whole, lambda own: [own, *children_by_thread(own)])
    finally:
        support.wait_for(popen, 60)
        support.our_children.discard(popen.pid)
    wait_until(lambda: not [child for child in children_by_thread(pid) if "memscan" in (support.command_of(child) or "")],
               20, f"the target has no clone left after its {role} was killed")
    return hit


@pytest.mark.parametrize("role", [ORIGINAL, COLLECTION, SWEEPER])
def test_killed_memscan_is_not_noticed(worker, role):
    chance = random.Random(f"{SEED} {role}")
    start = time.monotonic()
    memscan("--pid", worker, "--snapshot", "fork", "-q")
    whole = time.monotonic() - start
    hits = kill_some(KILLS, lambda: kill_at_random(chance, worker, role, whole))
    assert hits, f"hardly a kill found its process, seed {SEED}"


def kill_inside(pid, chance, role):
    """One scan from within the namespace, as docker exec starts it: its parent is out here."""
    command = ["nsenter", "-t", pid, "-p", "-m", MEMSCAN, "--pid", number_inside(pid), "-q", "--snapshot", "fork"]
    with Process(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as outer:
        hit = kill_one(chance, outer.popen, role, 0.1, support.descendants_of)
        support.wait_for(outer.popen, 60)
        # or the end of this block would kill what is about to end by itself
        wait_until(lambda: not support.in_session(outer.pid), 20, "the others end with it")
    return hit


@ROOT_ONLY
@pytest.mark.parametrize("role", [ORIGINAL, COLLECTION, SWEEPER])
def test_killed_inside_of_the_namespace(role, folder):
    """The master adopts the processes of a memscan that was killed: none of them ends by a signal."""
    chance = random.Random(f"{SEED} {role} inside")
    with Adopter(*NAMESPACE) as adopter:
        pid, end = start_worker(adopter, pathlib.Path(folder))
        hits = kill_some(max(6, KILLS // 3), lambda: kill_inside(pid, chance, role))
        said = adopter.ask("exec true\n")
        while not said.startswith("ended"):
            assert re.fullmatch(r"started \d+|strange \d+ 0", said), f"{said}, seed {SEED}"
            said = adopter.line()
        os.close(end)
    assert hits, f"hardly a kill found its process, seed {SEED}"


# ---- servers from packages ----

@ROOT_ONLY
def test_postgresql_as_the_first_of_a_namespace(folder, tmp_path):
    log = tmp_path / "log"
    with open(log, "wb") as err, servers.Postgres(folder, stderr=err, under=NAMESPACE) as server:
        assert number_inside(server.master) == 1
        with server.start("psql", "-d", "postgres", "-AtX") as session:
            assert session.ask("create temp table t as select generate_series(1, 100000) n;\n") == "SELECT 100000"
            for pid in (server.backends()[0], server.master):
                check_all(pid, tmp_path)
            # the same session answers, with its temporary table
            assert session.ask("select sum(n) from t;\n") == "5000050000"
        os.kill(server.master, signal.SIGINT)
        assert server.finish(60) == 0
    said = log.read_text(errors="replace")
    assert "ready to accept connections" in said
    assert not re.search("terminated by signal|crash|reinitializing|recovery", said), said


def start_first(words, **more):
    return Process([*NAMESPACE, *words], **more)


def check_master(process, tmp_path, workers):
    master = inside(process.pid)
    assert number_inside(master) == 1
    wait_until(lambda: len(support.children_of(master)) >= workers, 30, "the master has its workers")
    time.sleep(0.2)
    before = sorted(support.children_of(master))
    for pid in (before[0], master):
        check_all(pid, tmp_path)
    assert sorted(support.children_of(master)) == before, "a worker was replaced"
    return master


@ROOT_ONLY
def test_nginx_as_the_first_of_a_namespace(folder, tmp_path):
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    pathlib.Path(folder, "nginx.conf").write_text(f"""daemon off; worker_processes 2; user root; pid {folder}/pid;
        error_log {folder}/error.log notice; events {{ worker_connections 64; }}
        http {{ access_log off; client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2;
            fastcgi_temp_path {folder}/t3; uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
            server {{ listen 127.0.0.1:{servers.free_port()}; root {folder}; }} }}""")
    with start_first([nginx, "-c", f"{folder}/nginx.conf", "-e", f"{folder}/error.log"]) as process:
        check_master(process, tmp_path, 2)
    said = pathlib.Path(folder, "error.log").read_text()
    assert "start worker process" in said and not re.search(r"exited|unknown process", said), said


@ROOT_ONLY
def test_apache_as_the_first_of_a_namespace(folder, tmp_path):
    servers.need("apache2")
    pathlib.Path(folder, "conf").write_text(f"""ServerRoot /etc/apache2
        ServerName localhost
        LoadModule mpm_prefork_module /usr/lib/apache2/modules/mod_mpm_prefork.so
        LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
        Listen 127.0.0.1:{servers.free_port()}
        PidFile {folder}/pid
        ErrorLog {folder}/error.log
        LogLevel debug
        StartServers 2
        MinSpareServers 2
        MaxSpareServers 2
        User nobody
        Group nogroup
        DocumentRoot {folder}""")
    with start_first([shutil.which("apache2"), "-DFOREGROUND", "-f", f"{folder}/conf"]) as process:
        check_master(process, tmp_path, 2)
    said = pathlib.Path(folder, "error.log").read_text()
    assert "configured" in said and not re.search(r"long lost child|exit signal|AH00052|AH00051", said), said


@ROOT_ONLY
def test_php_fpm_as_the_first_of_a_namespace(folder, tmp_path):
    servers.need("php-fpm8.2")
    pathlib.Path(folder, "conf").write_text(
        f"[global]\nerror_log={folder}/error.log\nlog_level=debug\ndaemonize=no\n"
        f"[www]\nuser=nobody\ngroup=nogroup\nlisten={folder}/socket\npm=static\npm.max_children=2\n")
    with start_first([shutil.which("php-fpm8.2"), "-F", "-y", f"{folder}/conf"]) as process:
        check_master(process, tmp_path, 2)
    said = pathlib.Path(folder, "error.log").read_text()
    assert "ready to handle connections" in said and not re.search(r"oops|exited", said), said
