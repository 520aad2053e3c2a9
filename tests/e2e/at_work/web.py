# SPDX-License-Identifier: Apache-2.0
"""Servers of the web, under load."""

import http.client
import signal

from at_work import of, program
from servers import free_port


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


@program("haproxy", "haproxy")
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
    place.end(process, signal=signal.SIGUSR1)
