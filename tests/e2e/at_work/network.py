# SPDX-License-Identifier: Apache-2.0
"""Servers other than those of the web: names, messages, files, caches."""

import os
import random
import signal
import socket
import struct
import subprocess

from at_work import NO_LOG, of, program, with_children
from servers import free_port, Postgres


# ---- names ----

def ask_names(port, zone="test"):
    """Work for Place.busy: ask a name server over UDP for names of a zone that is there, and for others."""
    def work(_, turn):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(20)
            client.connect(("127.0.0.1", port))
            for i in range(20):
                name = f"host{(turn + i) % 50}.{zone}" if i % 4 else f"none{turn}-{i}.{zone}"
                number = random.randrange(1 << 16)
                question = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
                client.send(struct.pack("!6H", number, 0x100, 1, 0, 0, 0) + question + struct.pack("!BHH", 0, 1, 1))
                answer = client.recv(4096)
                got, flags, _, answers, _, _ = struct.unpack("!6H", answer[:12])
                assert got == number and flags & 15 in (0, 3) and bool(answers) == bool(i % 4), (name, answer)
    return work


def answers_names(port):
    def look():
        try:
            ask_names(port)(0, 1)
            return True
        except (OSError, AssertionError):
            return False
    return look


HOSTS = "".join(f"host{i} IN A 192.0.2.{i}\n" for i in range(50))
ZONE = f"$TTL 60\n@ IN SOA ns.test. root.test. 1 60 60 60 60\n@ IN NS ns.test.\nns IN A 192.0.2.99\n{HOSTS}"


@program("dnsmasq", "dnsmasq-base")
def dnsmasq(place):
    port = free_port()
    hosts = place.write("hosts", "".join(f"192.0.2.{i} host{i}.test\n" for i in range(50)))
    process = place.start(place.command("dnsmasq"), "-k", "-C", "/dev/null", "-p", str(port), "--listen-address=127.0.0.1",
                          "--bind-interfaces", "--no-resolv", "--no-hosts", f"--addn-hosts={hosts}", "--local=/test/",
                          f"--user={place.user}", "--pid-file=")
    place.wait(answers_names(port), "dnsmasq answers")
    place.busy(ask_names(port), 3)
    yield of(process)
    place.end(process, signal=signal.SIGTERM)


@program("unbound", "unbound")
def unbound(place):
    port = free_port()
    data = "".join(f'local-data: "host{i}.test. A 192.0.2.{i}"\n' for i in range(50))
    config = place.write("unbound.conf", f"""server:
        directory: "{place.folder}"
        interface: 127.0.0.1@{port}
        username: ""
        chroot: ""
        pidfile: ""
        use-syslog: no
        do-daemonize: no
        num-threads: 2
        module-config: "iterator"
        local-zone: "test." static
        {data}
    remote-control:
        control-enable: no
    """)
    process = place.start(place.command("unbound"), "-d", "-c", config)
    place.wait(answers_names(port), "unbound answers")
    place.busy(ask_names(port), 3)
    yield of(process)
    place.end(process, signal=signal.SIGTERM)


@program("named", "bind9", other_malloc=True)
def named(place):
    port = free_port()
    zone = place.write("zone", ZONE)
    config = place.write("named.conf", f"""
        options {{ directory "{place.folder}"; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};
                   pid-file none; session-keyfile "{place.folder}/key"; recursion no; dnssec-validation no; }};
        controls {{ }};
        zone "test" {{ type primary; file "{zone}"; }};""")
    process = place.start(place.command("named"), "-f", "-c", config, "-n", "2")
    place.wait(answers_names(port), "named answers")
    place.busy(ask_names(port), 3)
    yield of(process)
    place.end(process, signal=signal.SIGTERM)


@program("nsd", "nsd")
def nsd(place):
    port = free_port()
    place.write("zone", ZONE)
    config = place.write("nsd.conf", f"""server:
        ip-address: 127.0.0.1@{port}
        username: "{place.user}"
        zonesdir: "{place.folder}"
        database: ""
        pidfile: "{place.folder}/pid"
        xfrdfile: "{place.folder}/xfrd"
        zonelistfile: "{place.folder}/zonelist"
        xfrdir: "{place.folder}"
    remote-control:
        control-enable: no
    zone:
        name: "test"
        zonefile: "zone"
    """)
    process = place.start(place.command("nsd"), "-d", "-c", config)
    place.wait(answers_names(port), "nsd answers")
    place.busy(ask_names(port), 3)
    yield with_children(process)
    place.end(process, signal=signal.SIGTERM)


# ---- messages and caches ----

def talk(port, *, lines, seconds=20):
    """Work for Place.busy: lines(thread, turn) gives what to send and how many lines of answer it has."""
    connections = {}

    def work(n, turn):
        if turn % 200 == 0:
            if n in connections:
                connections.pop(n)[0].close()
            connection = socket.create_connection(("127.0.0.1", port), seconds)
            connections[n] = connection, connection.makefile("rb")
        connection, answers = connections[n]
        text, count = lines(n, turn)
        connection.sendall(text)
        for _ in range(count):
            assert answers.readline(), "the connection was closed"
    return work


@program("memcached", "memcached")
def memcached(place):
    port = free_port()
    process = place.start(place.command("memcached"), "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-t", "2", "-m", "8",
                          "-u", place.user)
    place.listens(port)

    def lines(n, turn):
        size = turn * 37 % 3000
        return b"set k%d-%d 0 0 %d\r\n%s\r\ndelete k%d-%d\r\n" % (n, turn % 900, size, b"x" * size, n, turn % 77), 2
    place.busy(talk(port, lines=lines), 3)
    yield of(process)
    place.end(process, signal=signal.SIGTERM)


@program("redis", "redis-server", other_malloc=True)
def redis(place):
    port = free_port()
    process = place.start(place.command("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", "")
    place.listens(port)

    def lines(n, turn):
        return (b"SET k%d-%d %s\r\nRPUSH l%d v%d\r\nHSET h%d f%d %d\r\nSADD s%d %d\r\n"
                % (n, turn % 900, b"x" * (turn % 3000), turn % 9, turn, n, turn % 500, turn, n, turn)), 4
    place.busy(talk(port, lines=lines), 3)
    yield of(process)
    place.end(process, signal=signal.SIGTERM)


def mqtt(kind, *parts):
    body = b"".join(parts)
    length, left = b"", len(body)
    while True:
        left, low = divmod(left, 128)
        length += bytes([low | (128 if left else 0)])
        if not left:
            return bytes([kind]) + length + body


def mqtt_text(text):
    return struct.pack("!H", len(text)) + text.encode()


@program("mosquitto", "mosquitto")
def mosquitto(place):
    port = free_port()
    config = place.write("mosquitto.conf", f"listener {port} 127.0.0.1\nallow_anonymous true\nuser {place.user}\n")
    process = place.start(place.command("mosquitto"), "-c", config)
    place.listens(port)

    def work(n, turn):
        with socket.create_connection(("127.0.0.1", port), 20) as client:
            client.sendall(mqtt(0x10, mqtt_text("MQTT"), b"\4\2\0\x3c", mqtt_text(f"client{n}-{turn}")))
            client.sendall(mqtt(0x82, b"\0\1", mqtt_text(f"all/{n}/#"), b"\0"))
            for i in range(50):
                client.sendall(mqtt(0x30 | (i % 9 == 0), mqtt_text(f"all/{n}/{i}/x{turn % 20}"), b"y" * (i * turn % 900)))
            client.sendall(mqtt(0xe0))
            while client.recv(1 << 16):
                pass
    place.busy(work, 3)
    yield of(process)
    place.end(process, signal=signal.SIGTERM)


# ---- databases of processes ----

@program("postgres", "postgresql-15")
def postgres(place):
    server = place.stack.enter_context(Postgres(place.folder, place.env))
    session = place.stack.enter_context(server.start("psql", "-d", "postgres", "-AtXq"))

    def work(_, turn):
        said = session.ask(f"""create temp table t as select i, md5(i::text) m from generate_series(1, 3000) i;
            create index on t(m); analyze t; prepare p as select count(*) from t where m > $1;
            do $$ begin for k in 1..50 loop perform sum(i) from t where m like k || '%'; end loop; end $$;
            deallocate p; drop table t; select {turn};\n""".replace("\n", " ") + "\n")
        assert said == str(turn), said
    place.busy(work)
    yield with_children(server)
    place.end_work()
    session.finish()
    server.shut_down()
    assert not place.wrong, place.wrong[:5]


# ---- files ----

@program("rsync", "rsync")
def rsync(place):
    port = free_port()
    os.mkdir(f"{place.folder}/files")
    for i in range(300):
        place.write(f"files/file{i}", f"line {i}\n" * (i + 1))
    config = place.write("rsyncd.conf", f"use chroot = no\nport = {port}\naddress = 127.0.0.1\nuid = {place.user}\n"
                         f"gid = {place.user}\n[files]\npath = {place.folder}/files\n")
    process = place.start(place.command("rsync"), "--daemon", "--no-detach", f"--config={config}")
    place.listens(port)
    loop = ("i=0; while ! test -e stop; do i=$((i + 1)); rm -rf copy; rsync -az --checksum rsync://127.0.0.1:$0/files/ copy"
            " || exit; done")
    client = place.start("/bin/sh", "-c", loop, str(port), env=NO_LOG)
    yield with_children(process)
    place.end(client)
    place.end(process, 20, 0, signal=signal.SIGTERM)


@program("openssl-s_server", "openssl")
def s_server(place):
    port = free_port()
    subprocess.run([place.command("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost",
                    "-keyout", f"{place.folder}/key", "-out", f"{place.folder}/cert", "-days", "2"], check=True,
                   stderr=subprocess.DEVNULL)
    process = place.start(place.command("openssl"), "s_server", "-quiet", "-www", "-accept", f"127.0.0.1:{port}",
                          "-key", f"{place.folder}/key", "-cert", f"{place.folder}/cert")
    place.listens(port)
    place.busy(tls_get(port), 3)
    yield of(process)
    place.end(process, -signal.SIGINT, signal=signal.SIGINT)


def tls_get(port):
    import ssl
    context = ssl._create_unverified_context()  # pylint: disable=protected-access

    def work(*_):
        with socket.create_connection(("127.0.0.1", port), 20) as plain:
            with context.wrap_socket(plain) as client:
                client.sendall(b"GET / HTTP/1.0\r\n\r\n")
                text = b""
                while part := client.recv(1 << 16):
                    text += part
        assert b"200" in text[:20], text[:200]
    return work


@program("stunnel", "stunnel4")
def stunnel(place):
    port, inner = free_port(), free_port()
    subprocess.run([place.command("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost",
                    "-keyout", f"{place.folder}/key", "-out", f"{place.folder}/cert", "-days", "2"], check=True,
                   stderr=subprocess.DEVNULL)
    place.start("/usr/bin/python3", "-m", "http.server", "--bind", "127.0.0.1", str(inner), env=NO_LOG)
    config = place.write("stunnel.conf", f"foreground = yes\npid =\ncert = {place.folder}/cert\nkey = {place.folder}/key\n"
                         f"[web]\naccept = 127.0.0.1:{port}\nconnect = 127.0.0.1:{inner}\n")
    process = place.start(place.command("stunnel4", "stunnel"), config)
    place.listens(port)
    place.listens(inner)
    place.busy(tls_get(port), 3)
    yield of(process)
    place.end(process, signal=signal.SIGTERM)
