# SPDX-License-Identifier: Apache-2.0
"""The programs whose blocks are named: how each is started and put to work."""

import bisect
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import threading
import time
import unittest.mock

import servers
import support

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

# Where programs with debug information were built from Debian's source packages (build).
BUILT = pathlib.Path(os.environ.get("NAMES_BUILT", ROOT / "build" / "names"))


class Program:
    def __init__(self, name, start, *, needs, debug=False, own=None):
        self.name, self.debug, self.own = name, debug, own
        self.begin, self.needs = start, needs

    def missing(self):
        for path in self.needs:
            if not shutil.which(path):
                return f"{path} is not there"
        return None

    @contextlib.contextmanager
    def start(self, folder):
        with self.begin(folder) as pid:
            yield pid


@contextlib.contextmanager
def running(argv, **others):
    process = subprocess.Popen([str(word) for word in argv], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **others)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def fill_redis(path):
    lines = []
    for i in range(2000):
        lines += [f"SET key:{i} value-of-the-key-{i}-abcdefgh", f"HSET h:{i % 40} f{i} v{i}", f"RPUSH l:{i % 20} element{i}",
                  f"SADD s:{i % 30} member{i}", f"ZADD z:{i % 10} {i} m{i}"]
    subprocess.run(["redis-cli", "-s", path, "--pipe"], input="\n".join(lines) + "\n", text=True, check=True, stdout=subprocess.DEVNULL)


def redis(server):
    @contextlib.contextmanager
    def start(folder):
        path = f"{folder}/s"
        with running([server, "--port", "0", "--unixsocket", path, "--save", ""]) as process:
            support.wait_until(lambda: os.path.exists(path), 10, "redis listens")
            fill_redis(path)
            time.sleep(1)
            yield process.pid
    return start


# ---- ZNC: a C++ server between IRC servers and their users ----

CHANNELS, NICKS, LINES = 30, 60, 20

ZNC_USER = """
<User user{i}>
	Pass = plain#secret{i}#
	Nick = user{i}
	AltNick = user{i}_
	Ident = ident{i}
	RealName = The real name of user number {i}
	Buffer = 500
	<Network network>
		Server = 127.0.0.1 {port}
	</Network>
</User>
"""


class IrcServer(threading.Thread):
    """Tells every client of channels with others in them, and what these say."""

    def __init__(self):
        super().__init__(daemon=True)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.told, self.clients = 0, []

    def run(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            self.clients.append(client)
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with contextlib.suppress(OSError), client.makefile("r", errors="replace") as lines:
            for line in lines:
                words = line.split()
                if words[:1] == ["CAP"] and words[1] == "LS":
                    client.sendall(b":irc.example CAP * LS :\r\n")
                if words[:1] == ["PING"]:
                    client.sendall(f"PONG {words[1]}\r\n".encode())
                if words[:1] == ["NICK"]:
                    self.tell(client, words[1])

    def tell(self, client, nick):
        lines = [f":irc.example 001 {nick} :Welcome", f":irc.example 005 {nick} CHANTYPES=# PREFIX=(ov)@+ NETWORK=Example :are supported"]
        for channel in range(CHANNELS):
            name = f"#channel-{channel}"
            nicks = " ".join(f"somebody{channel}x{i}" for i in range(NICKS))
            lines += [f":{nick}!i@host JOIN {name}", f":irc.example 332 {nick} {name} :The topic of this channel is number {channel}",
                      f":irc.example 353 {nick} = {name} :{nick} {nicks}", f":irc.example 366 {nick} {name} :End"]
            lines += [f":somebody{channel}x{i}!someone@a.host.example PRIVMSG {name} :line {i} of what is said here" for i in range(LINES)]
        client.sendall("".join(line + "\r\n" for line in lines).encode())
        self.told += 1


@contextlib.contextmanager
def znc(folder):
    irc = IrcServer()
    irc.start()
    config = pathlib.Path(folder, "znc", "configs", "znc.conf")
    config.parent.mkdir(parents=True)
    config.write_text("Version = 1.8.2\n<Listener l>\n\tPort = %d\n\tHost = 127.0.0.1\n\tSSL = false\n</Listener>\n" % servers.free_port() +
                      "ServerThrottle = 1\nConnectDelay = 1\n" + "".join(ZNC_USER.format(i=i, port=irc.port) for i in range(4)))
    pathlib.Path(folder, "znc", "modules").symlink_to(BUILT / "znc-modules")
    # It warns root for half a minute.
    user = {} if os.getuid() else {"user": "nobody", "group": "nogroup", "extra_groups": []}
    if user:
        subprocess.run(["chown", "-R", "nobody", folder], check=True)
    with running([BUILT / "znc", "--foreground", "--datadir", f"{folder}/znc"], **user) as process:
        support.wait_until(lambda: irc.told == 4, 60, "ZNC has its servers")
        time.sleep(2)
        yield process.pid
    irc.socket.close()


# ---- PostgreSQL ----

SQL = """
create table if not exists shop (id serial primary key, name text, price numeric, tags text[], made timestamptz default now());
insert into shop (name, price, tags) select 'item ' || i, i / 7.0, array['a', 'b'] from generate_series(1, 5000) i;
create index if not exists by_name on shop (name);
create or replace function total(n int) returns numeric language plpgsql as
  $$ declare sum numeric := 0; one record; begin for one in select * from shop limit n loop sum := sum + one.price; end loop; return sum; end $$;
prepare by_id (int) as select * from shop where id = $1;
execute by_id (5); execute by_id (6); execute by_id (7); execute by_id (8); execute by_id (9); execute by_id (10);
select total(100);
begin;
declare c cursor for select s.name, t.price, count(*) over () from shop s join shop t on s.id = t.id order by t.price desc;
fetch 10 from c;
select 'ready';
"""


def postgres(tools):
    @contextlib.contextmanager
    def start(folder):
        os.chmod(folder, 0o755)
        with unittest.mock.patch.object(servers, "postgres_bin", lambda: str(tools)), servers.Postgres(folder) as server:
            with server.start("psql", "-d", "postgres", "-AtXq") as session:
                session.popen.stdin.write(SQL.encode())
                session.popen.stdin.flush()
                while session.line() != "ready":
                    pass
                time.sleep(1)
                yield next(pid for pid in support.children_of(server.pid) if servers.title_of(pid) == "backend")
                session.popen.kill()
            server.shut_down()
    return start


# ---- python3, and containers of LLVM's library, which say themselves what its objects are ----

@contextlib.contextmanager
def python(folder):
    with running(["/usr/bin/python3", HERE / "objects.py", f"{folder}/objects"]) as process:
        support.wait_until(lambda: os.path.exists(f"{folder}/objects"), 60, "python3 has said what its objects are")
        time.sleep(0.5)
        yield process.pid


@contextlib.contextmanager
def boxes(folder):
    with running([BUILT / "boxes", f"{folder}/objects"]) as process:
        time.sleep(2)
        yield process.pid


# What stands in front of an object: what the collector of cycles keeps, and its attributes.
HEADERS = (0, 16, 32)


def objects(folder, begins):
    """Of blocks that begin so: the names of their types, as the program wrote them."""
    names = {}
    with open(f"{folder}/objects") as lines:
        for line in lines:
            at, name = line.rstrip("\n").split(" ", 1)
            i = bisect.bisect_right(begins, int(at, 16)) - 1
            if i >= 0 and int(at, 16) - begins[i] in (HEADERS if " of " not in name else HEADERS[:1]):
                names.setdefault(begins[i], set()).add(name)
    return names


# ---- what else ----

def plain(*argv, seconds=4, give=b"", **others):
    @contextlib.contextmanager
    def start(folder):
        with running([str(word).replace("FOLDER", folder) for word in argv], **others) as process:
            process.stdin.write(give)
            process.stdin.flush()
            time.sleep(seconds)
            yield process.pid
    return start


@contextlib.contextmanager
def rust(folder):
    subprocess.run(["/usr/bin/rustc", "-g", "-C", "opt-level=1", "--cap-lints=allow", "-o", f"{folder}/shop", HERE / "shop.rs"], check=True)
    with plain(f"{folder}/shop", seconds=2)(folder) as pid:
        yield pid


@contextlib.contextmanager
def gtk(_folder):
    with running(["xvfb-run", "-a", "gtk3-demo"]) as process:
        def demo():
            return [pid for pid in support.descendants_of(process.pid) if support.command_of(pid) == "gtk3-demo"]
        support.wait_until(demo, 20, "gtk3-demo runs")
        time.sleep(5)
        yield demo()[0]
        for pid in support.descendants_of(process.pid):
            support.kill(pid)


QT = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
GDB = b"set debuginfod enabled off\nbreak main\ninfo functions ms_types\n"

ALL = [
    Program("znc -g", znc, needs=[BUILT / "znc"], debug=True),
    Program("gdb", plain("gdb", "-q", "-nx", ROOT / "build" / "memscan", seconds=12, give=GDB), needs=["gdb"]),
    Program("python3", python, needs=["/usr/bin/python3"], own=objects),
    Program("postgres", postgres(pathlib.Path("/usr/lib/postgresql/15/bin")), needs=["/usr/lib/postgresql/15/bin/postgres"]),
    Program("postgres -g", postgres(BUILT / "postgres/bin"), needs=[BUILT / "postgres/bin/postgres"], debug=True),
    Program("redis", redis("redis-server"), needs=["redis-server"]),
    Program("redis -g", redis(BUILT / "redis"), needs=[BUILT / "redis"], debug=True),
    Program("Qt: designer", plain("/usr/lib/qt5/bin/designer", seconds=8, env=QT), needs=["/usr/lib/qt5/bin/designer"]),
    Program("Qt: assistant", plain("/usr/lib/qt5/bin/assistant", seconds=8, env=QT), needs=["/usr/lib/qt5/bin/assistant"]),
    Program("GTK", gtk, needs=["xvfb-run", "gtk3-demo"]),
    Program("Qt -g", plain(BUILT / "shelf", seconds=3, env=QT), needs=[BUILT / "shelf"], debug=True),
    Program("libc++", boxes, needs=[BUILT / "boxes"], own=objects),
    Program("Rust -g", rust, needs=["/usr/bin/rustc"], debug=True),
]
