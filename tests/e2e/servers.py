# SPDX-License-Identifier: Apache-2.0
"""Servers from packages: how they are set up, started and put to work."""

import contextlib
import glob
import http.client
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import subprocess
import threading

import pytest

import support
from support import Process


def need(*commands):
    for command in commands:
        if not shutil.which(command):
            pytest.skip(f"{command} is not installed; tools/install-deps check")


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


# ---- nginx ----

class Load(threading.Thread):
    """Keeps asking until told to stop; counts what came back, right and wrong."""

    def __init__(self, port, pages):
        super().__init__(daemon=True)
        self.port, self.pages, self.right, self.wrong, self.ended = port, pages, 0, [], False

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        names = sorted(self.pages)
        while not self.ended:
            name = names[self.right % len(names)]
            try:
                connection.request("GET", "/" + name, headers={"Accept-Encoding": "gzip"} if self.right % 3 else {})
                answer = connection.getresponse()
                body = answer.read()
                if answer.status == 200 and (answer.getheader("Content-Encoding") or body == self.pages[name]):
                    self.right += 1
                    continue
                self.wrong.append((name, answer.status, len(body)))
            except OSError as error:
                self.wrong.append((name, error))
                connection.close()
            if len(self.wrong) > 20:
                return
        connection.close()


def start_nginx(folder, port, pages, env=None, stderr=subprocess.DEVNULL, cwd=None):
    for name, body in pages.items():
        with open(f"{folder}/{name}", "wb") as out:
            out.write(body)
    user = "user root;" if os.getuid() == 0 else ""
    with open(f"{folder}/nginx.conf", "w") as out:
        out.write(f"""daemon off; worker_processes 2; {user} pid {folder}/pid; error_log {folder}/error.log;
            events {{ worker_connections 64; }}
            http {{ access_log off; gzip on; gzip_min_length 100; gzip_types *; sendfile off;
                client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
                uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
                server {{ listen 127.0.0.1:{port}; root {folder}; keepalive_requests 50; }} }}""")
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    return Process([nginx, "-c", f"{folder}/nginx.conf", "-e", f"{folder}/error.log"], env, stderr=stderr, cwd=cwd)


def nginx_worker(nginx):
    """One that is at work: it has its title then, and that comes some time after nginx listens."""
    def at_work():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            return [pid for pid in support.children_of(nginx.pid)
                    if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"nginx: worker process")]
        return []
    return support.wait_until(at_work, 10, "a worker of nginx is at work")[0]


def accepts(where):
    """At a port, or at the path of a socket, which is there some time before it accepts."""
    family, address = (socket.AF_UNIX, where) if isinstance(where, str) else (socket.AF_INET, ("127.0.0.1", where))
    with contextlib.suppress(OSError), socket.socket(family) as client:
        client.settimeout(1)
        client.connect(address)
        return True
    return False


# ---- PostgreSQL ----

def postgres_bin():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"))
    if not found:
        pytest.skip("PostgreSQL is not installed; tools/install-deps check")
    return os.path.dirname(found[-1])


def other_user():
    """PostgreSQL refuses to be root."""
    if os.getuid() != 0:
        return {}
    user = pwd.getpwnam("postgres")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def title_of(pid):
    """What a process of PostgreSQL does; "?" of one that ends: its command line is empty, then gone."""
    words = []
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read().split(b"\0")[0].decode().split()
    if not words:
        return "?"
    if words[0] != "postgres:":
        return "postmaster"
    return "backend" if "[local]" in words else " ".join(words[1:3])


class Postgres(Process):
    """A database in a folder, and a server of it; what is run gets the same environment.

    @under: a program that starts the postmaster as its child
    """

    def __init__(self, folder, env=None, stderr=subprocess.DEVNULL, under=()):
        self.tools, self.folder, self.user, self.stderr = postgres_bin(), folder, other_user(), stderr
        self.env = {"PGUSER": "postgres", "PGHOST": folder, **(env or {})}
        if self.user:
            os.chown(folder, self.user["user"], self.user["group"])
        self.run("initdb", "-D", f"{folder}/data", "-A", "trust", "--no-sync", "-U", "postgres")
        user = {} if under else self.user
        if under and self.user:
            under = [*under, "setpriv", f"--reuid={self.user['user']}", f"--regid={self.user['group']}", "--clear-groups"]
        super().__init__([*under, f"{self.tools}/postgres", "-D", f"{folder}/data", "-k", folder, "-c", "listen_addresses=",
                          "-c", "fsync=off", "-c", "shared_buffers=32MB"],
                         self.env, stderr=stderr, cwd=folder, **user)
        self.under = under
        support.wait_until(lambda: os.path.exists(f"{folder}/.s.PGSQL.5432"), 60, "the server's socket")
        support.wait_until(self.is_ready, 60, "the server is ready")

    def is_ready(self):
        return subprocess.run([f"{self.tools}/pg_isready", "-h", self.folder, "-q"], cwd=self.folder,
                              **self.user).returncode == 0

    @property
    def master(self):
        return support.children_of(self.pid)[0] if self.under else self.pid

    def backends(self):
        return [pid for pid in support.children_of(self.master) if title_of(pid) == "backend"]

    def start(self, tool, *args):
        return Process([f"{self.tools}/{tool}", *args], self.env, cwd=self.folder, stderr=subprocess.STDOUT, **self.user)

    def run(self, tool, *args):
        with Process([f"{self.tools}/{tool}", *args], self.env, cwd=self.folder, stderr=subprocess.PIPE,
                     stdin=subprocess.DEVNULL, **self.user) as process:
            out, err = process.popen.communicate(timeout=240)
        assert process.popen.returncode == 0, f"{tool} {args}: {err.decode()}"
        if self.stderr != subprocess.DEVNULL:
            os.write(self.stderr.fileno(), err)
        return out.decode()

    def query(self, sql):
        return self.run("psql", "-d", "postgres", "-AtX", "-c", sql).strip()

    @staticmethod
    def finish_bench(bench):
        """How many transactions pgbench says it did."""
        assert bench.finish(240) == 0
        said = bench.popen.stdout.read().decode()
        assert "number of failed transactions: 0" in said, said
        return re.search(r"transactions actually processed: (\d+)", said).group(1)

    def check_sums(self, processed):
        sums = self.query(
            "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history),"
            " (select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history),"
            " (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history),"
            " (select count(*) from pgbench_history)")
        assert sums == f"t|t|t|{processed}", sums

    def shut_down(self):
        os.kill(self.pid, signal.SIGINT)  # the fast way
        assert self.finish(60) == 0
