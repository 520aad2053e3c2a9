# SPDX-License-Identifier: Apache-2.0
"""Tools of the command line, kept busy by their input or by more than they can do in the time."""

import signal
import subprocess

from at_work import of, program


def stream(name, packages, *argv, text, ended_by=None, statuses=(0,), **more):
    """A program that reads its input to the end: text(turn) is put into it again and again."""
    @program(name, packages, **more)
    def run(place):
        process = place.start(place.command(argv[0]), *argv[1:], stdin=subprocess.PIPE)

        def work(_, turn):
            process.popen.stdin.write(text(turn).encode())
            process.popen.stdin.flush()
        place.busy(work)
        yield of(process)
        place.end(process, *statuses, signal=ended_by)


def long_run(name, packages, *argv, ended_by=signal.SIGINT, statuses=(-signal.SIGINT,), **more):
    """A program with more to do than time, ended by a signal."""
    @program(name, packages, **more)
    def run(place):
        process = place.start(place.command(argv[0]), *argv[1:])
        yield of(process)
        place.end(process, *statuses, signal=ended_by)


stream("jq", "jq", "jq", "-c", '[.. | numbers] | {n: length, s: (map(tostring) | join(",") | gsub("1"; "one") | length)}',
       text=lambda turn: '{"a": [%s], "b": {"text": "t%d"}}\n' % (",".join(map(str, range(turn % 300))), turn))

stream("bc", "bc", "bc", "-q", text=lambda turn: f"scale = {turn % 40}\ndefine f(x) {{ auto a, b; a = x; b = a / 3; "
       f"return (a * b); }}\nf({turn}) ^ 7 + sqrt({turn})\na[{turn % 500}] = 2 ^ {turn % 900}\n")

stream("mawk", "mawk", "mawk", '{ n = split($0, p, ","); for (i = 1; i <= n; i++) s[p[i] % 500] = s[p[i] % 500] "x" p[i] } '
       'NR % 100 == 0 { for (k in s) { gsub(/1/, "<one>", s[k]); if (length(s[k]) > 500) delete s[k] } }',
       text=lambda turn: ",".join(str(i * turn) for i in range(turn % 200)) + "\n")

stream("sed", "sed", "sed", "-E", r"s/([0-9])([0-9]+)/\2\1/g; H; x; s/^(.{3000}).*/\1/; x",
       text=lambda turn: " ".join(str(i * turn) for i in range(turn % 200)) + "\n")

stream("ripgrep", "ripgrep", "rg", "--line-buffered", "-o", r"(\w+)-([0-9]+)|[a-z]{3,5}\d",
       text=lambda turn: " ".join(f"word{i}-{i * turn}" for i in range(turn % 100)) + "\n")

long_run("ffmpeg", "ffmpeg", "ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc=size=320x240:rate=25",
         "-f", "lavfi", "-i", "sine", "-vf", "scale=200:100,hue=s=2", "-c:v", "mpeg4", "-c:a", "aac", "-f", "null", "-",
         statuses=(255,))

long_run("openssl-speed", "openssl", "openssl", "speed", "-seconds", "1", "-multi", "1")
