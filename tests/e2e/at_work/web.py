# SPDX-License-Identifier: Apache-2.0
"""Servers of the web, under load."""

import glob
import http.client
import signal
import socket
import struct

from at_work import NO_LOG, of, program, with_children
from servers import free_port, start_nginx


def get(port, path, status=200, headers=(), method="GET", body=None):
    """One request over a connection of its own; the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, {"Connection": "close", **dict(headers)})
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == status, f"{path}: {answer.status} {text[:200]}"
        return text
    finally:
        connection.close()


def ask(port, *paths, turns=20, status=200):
    """Work for Place.busy: keep asking over one connection, then over a new one."""
    def work(_, turn):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            for i in range(turns):
                connection.request("GET", paths[(turn + i) % len(paths)], headers={"Accept-Encoding": "gzip"})
                answer = connection.getresponse()
                text = answer.read()
                assert answer.status == status, f"{answer.status} {text[:200]}"
        finally:
            connection.close()
    return work


@program("haproxy", "haproxy", check=True)
def haproxy(place):
    port, inner = free_port(), free_port()
    config = place.write("haproxy.cfg", f"""
global
    nbthread 2
    maxconn 200
defaults
    mode http
    timeout client 20s
    timeout server 20s
    timeout connect 5s
frontend outer
    bind 127.0.0.1:{port}
    stick-table type string len 64 size 1k expire 2s store http_req_rate(2s)
    http-request track-sc0 path
    http-request set-header X-Path %[path,upper,regsub(A,b,g)]
    default_backend own
backend own
    option forwardfor
    compression algo gzip
    compression type text/plain
    server inner 127.0.0.1:{inner} check inter 100ms
frontend inner
    bind 127.0.0.1:{inner}
    http-request return status 200 content-type text/plain lf-string "%[req.hdrs] {'text ' * 200}"
""")
    process = place.start(place.command("haproxy"), "-db", "-f", config)
    place.listens(port)
    place.busy(ask(port, "/one", "/two?x=1", "/three/" + "long" * 20), 4)
    yield of(process)
    # With mimalloc 2.0 its end fails now and then, by itself: 1 of 60 times without memscan.
    statuses = (0, -signal.SIGSEGV) if "mimalloc" in place.env["LD_PRELOAD"] else (0,)
    place.end(process, *statuses, signal=signal.SIGUSR1)


@program("apache-event", "apache2-bin", check=True)
def apache(place):
    port = free_port()
    for i in range(4):
        place.write(f"page{i}.html", f"<p>{i}</p>\n" * 10 ** i)
    modules = next(iter(glob.glob("/usr/lib/apache2/modules")), "")
    loaded = "".join(f"LoadModule {name}_module {modules}/mod_{name}.so\n" for name in (
        "mpm_event", "authz_core", "dir", "mime", "autoindex", "deflate", "filter", "rewrite", "headers", "status",
        "setenvif", "include"))
    config = place.write("apache.conf", f"""
{loaded}
ServerRoot {place.folder}
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {place.folder}/pid
DefaultRuntimeDir {place.folder}
Mutex pthread
ErrorLog {place.folder}/output
TypesConfig /dev/null
DocumentRoot {place.folder}
{"User www-data" if place.user == "root" else ""}
{"Group www-data" if place.user == "root" else ""}
StartServers 1
ServerLimit 2
ThreadsPerChild 16
MaxRequestWorkers 32
MaxSpareThreads 32
AddType text/html .html
AddOutputFilterByType DEFLATE text/html
ExtendedStatus On
<Directory {place.folder}>
    Options +Indexes +Includes
    RewriteEngine On
    RewriteRule ^changed([0-9]+) page$1.html [E=WHICH:$1]
    Header set X-Which %{{WHICH}}e
</Directory>
<Location /status>
    SetHandler server-status
</Location>
""")
    process = place.start(place.command("apache2", "httpd"), "-DFOREGROUND", "-f", config)
    place.listens(port)
    place.busy(ask(port, "/page0.html", "/changed1", "/page2.html", "/page3.html", "/?C=M;O=A", "/status"), 4)
    yield with_children(process)
    place.end(process, signal=signal.SIGWINCH)


def fastcgi(path, script):
    """The answer to one request to a FastCGI server at a Unix socket."""
    def record(kind, body):
        return struct.pack("!BBHHBB", 1, kind, 1, len(body), 0, 0) + body
    words = {"SCRIPT_FILENAME": script, "REQUEST_METHOD": "GET", "QUERY_STRING": "a=1&b[]=2&b[]=3",
             "SERVER_PROTOCOL": "HTTP/1.1"}
    text = b"".join(bytes([len(name), len(value)]) + name.encode() + value.encode() for name, value in words.items())
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(path)
        connection.sendall(record(1, b"\0\1\0\0\0\0\0\0") + record(4, text) + record(4, b"") + record(5, b""))
        answer, body = connection.makefile("rb"), b""
        while head := answer.read(8):
            _, kind, _, length, padding, _ = struct.unpack("!BBHHBB", head)
            part = answer.read(length + padding)[:length]
            body += part if kind == 6 else b""
            if kind == 3:
                break
        return body


@program("php-fpm", "php8.2-fpm", check=True)
def php_fpm(place):
    path = f"{place.folder}/socket"
    script = place.write("work.php", r"""<?php
        $kept = [];
        for ($i = 0; $i < 3000; $i++) {
            $kept[$i % 500] = ["text $i", array_fill(0, $i % 30, $i), fn($x) => $x + $i, (object)["n" => $i]];
            $kept["k" . $i % 70] = preg_replace_callback('/(\d)(\d+)/', fn($m) => $m[2] . $m[1], "x$i y$i");
        }
        $text = json_encode(array_keys($kept));
        $text .= gzinflate(gzdeflate(serialize(array_map(fn($k) => is_array($k) ? $k[1] : $k, $kept))));
        $dom = new DateTime("2020-01-01");
        $some = range(300, 1);
        usort($some, fn($a, $b) => $a <=> $b);
        echo "done ", strlen($text) > 1000, md5($text), $dom->format("c"), count($_GET["b"]);
    """)
    config = place.write("fpm.conf", f"""
[global]
error_log = {place.folder}/output
daemonize = no
[work]
user = {place.user}
group = {place.user}
listen = {path}
pm = dynamic
pm.max_children = 3
pm.start_servers = 2
pm.min_spare_servers = 1
pm.max_spare_servers = 2
pm.max_requests = 400
""")
    process = place.start(place.command("php-fpm8.2", "php-fpm"), "-n", "-F", "-R", "-y", config)
    place.listens(path)

    def work(*_):
        body = fastcgi(path, script)
        assert b"done 1" in body, body[-500:]
    place.busy(work, 3)
    yield with_children(process)
    place.end(process, signal=signal.SIGQUIT)


@program("nginx", "nginx-light")
def nginx(place):
    port = free_port()
    pages = {f"page{i}": (b"abcdefgh %d\n" % i) * 10 ** i for i in range(4)}
    process = place.stack.enter_context(start_nginx(place.folder, port, pages, place.env))
    place.listens(port)
    place.busy(ask(port, *[f"/{name}" for name in pages]), 4)
    yield with_children(process)
    place.end(process, signal=signal.SIGQUIT)


@program("lighttpd", "lighttpd")
def lighttpd(place):
    port = free_port()
    for i in range(4):
        place.write(f"page{i}.html", f"<p>{i}</p>\n" * 10 ** i)
    config = place.write("lighttpd.conf", f"""
server.document-root = "{place.folder}"
server.bind = "127.0.0.1"
server.port = {port}
server.modules = ("mod_rewrite", "mod_dirlisting", "mod_setenv", "mod_status")
url.rewrite-once = ("^/changed([0-9]+)" => "/page$1.html")
dir-listing.activate = "enable"
setenv.add-response-header = ("X-Which" => "one")
status.status-url = "/status"
mimetype.assign = (".html" => "text/html")
""")
    process = place.start(place.command("lighttpd"), "-D", "-f", config)
    place.listens(port)
    place.busy(ask(port, "/page0.html", "/changed1", "/page3.html", "/", "/status"), 4)
    yield of(process)
    place.end(process, signal=signal.SIGINT)


@program("tinyproxy", "tinyproxy-bin")
def tinyproxy(place):
    port, inner = free_port(), free_port()
    place.start("/usr/bin/python3", "-m", "http.server", "--bind", "127.0.0.1", str(inner), env=NO_LOG)
    config = place.write("tinyproxy.conf", f"Port {port}\nListen 127.0.0.1\nTimeout 20\nMaxClients 30\nLogLevel Error\n")
    process = place.start(place.command("tinyproxy"), "-d", "-c", config)
    place.listens(port)
    place.listens(inner)
    place.busy(ask(port, f"http://127.0.0.1:{inner}/tinyproxy.conf", f"http://127.0.0.1:{inner}/", turns=1), 3)
    yield of(process)
    place.end(process, signal=signal.SIGTERM)


@program("varnish", "varnish", other_malloc=True)
def varnish(place):
    port, inner = free_port(), free_port()
    place.start("/usr/bin/python3", "-m", "http.server", "--bind", "127.0.0.1", str(inner), env=NO_LOG)
    place.listens(inner)
    process = place.start(place.command("varnishd"), "-F", "-a", f"127.0.0.1:{port}", "-b", f"127.0.0.1:{inner}",
                          "-n", f"{place.folder}/varnish", "-s", "malloc,20M", "-j", "none")
    place.listens(port)
    place.busy(ask(port, "/", "/output", *[f"/?{i}" for i in range(50)]), 3)
    yield with_children(process)
    place.end(process, signal=signal.SIGTERM)

