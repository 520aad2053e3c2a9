#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""package_leaks.py [NAME...]: true leaks of packages, as memscan, LeakSanitizer and Valgrind count them.

Each is an unchanged binary that leaks with each piece of a certain work. Each tool counts the leaks of a
process of its own, twice, with more work between; a row shows the difference. All tools look while the
program waits for more work: LeakSanitizer is preloaded and asked by a signal, and Valgrind by vgdb.
memscan's bytes are usable sizes, the others' are requested sizes.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import at_work  # noqa: E402
import servers  # noqa: E402
import support  # noqa: E402
import valgrind  # noqa: E402

FIRST, MORE = 20, 200  # pieces of work before the first count, and between the two
SECONDS = 240          # for what Valgrind may take for any of these

PYTHON = {"PYTHONMALLOC": "malloc"}  # else its own heap hides blocks from LeakSanitizer and Valgrind

# Reads a number from each line, does that many pieces of work, and answers DONE.
SERVE_PYTHON = """
print("READY", flush=True)
for line in sys.stdin:
    work(int(line))
    gc.collect()
    print("DONE", flush=True)
"""

PANDAS = """
import gc, pandas, sys
frame = pandas.DataFrame([[1, 2], [3, 4]], columns=["a", "b"], index=pandas.date_range("2000", periods=2))
def work(n):
    for _ in range(n):
        frame.to_json(orient="table")
"""

SESSIONS = """
import gc, ssl, sys
server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
server.load_cert_chain("both.pem")
client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
client.maximum_version = ssl.TLSVersion.TLSv1_2
def connect():
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
                end.session
            except ssl.SSLWantReadError:
                pass
def work(n):
    for _ in range(n):
        connect()
"""

RUBY = """
require "timeout"
puts "READY"; $stdout.flush
while (line = $stdin.gets)
  line.to_i.times do
    begin
      Timeout.timeout(0.02) { "#{"a" * 40}x" =~ /^(a|a|b*)*$/ }
    rescue Timeout::Error
    end
  end
  3.times { GC.start }
  puts "DONE"; $stdout.flush
end
"""

OCTAVE = """
1;
function work (n)
  for i = 1:n
    m = containers.Map ();
    m("self") = m;
  end
endfunction
printf ("READY\\n"); fflush (stdout);
while (numel (line = fread (stdin, 4, "char=>char")') == 4)  # fgetl() waits for a character more
  work (str2double (line));
  printf ("DONE\\n"); fflush (stdout);
endwhile
"""

PLUGIN = r"""
#include <stdio.h>
#include <mosquitto.h>
#include <mosquitto_broker.h>
#include <mosquitto_plugin.h>
static mosquitto_plugin_id_t *id;
static int rename_topic(int event, void *data, void *user)
{
	struct mosquitto_evt_message *message = data;
	char *topic = mosquitto_malloc(64);

	(void)event;
	(void)user;
	(void)snprintf(topic, 64, "renamed/%.40s", message->topic);
	message->topic = topic;
	return MOSQ_ERR_SUCCESS;
}
int mosquitto_plugin_version(int count, const int *versions)
{
	(void)count;
	(void)versions;
	return 5;
}
int mosquitto_plugin_init(mosquitto_plugin_id_t *own, void **user, struct mosquitto_opt *options, int count)
{
	(void)user;
	(void)options;
	(void)count;
	id = own;
	return mosquitto_callback_register(id, MOSQ_EVT_MESSAGE, rename_topic, NULL, NULL);
}
int mosquitto_plugin_cleanup(void *user, struct mosquitto_opt *options, int count)
{
	(void)user;
	(void)options;
	(void)count;
	return mosquitto_callback_unregister(id, MOSQ_EVT_MESSAGE, rename_topic, NULL);
}
"""

# Asks LeakSanitizer on a signal that none of the programs uses.
ASKER = r"""
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
int __lsan_do_recoverable_leak_check(void);
int __sigaction(int, const struct sigaction *, struct sigaction *); /* LeakSanitizer's own is not ready yet */
static const char *checked;
static void check(int number)
{
	(void)number;
	(void)__lsan_do_recoverable_leak_check();
	(void)close(open(checked, O_CREAT | O_WRONLY, 0600));
}
__attribute__((constructor)) static void listen_to(void)
{
	struct sigaction action = {.sa_handler = check, .sa_flags = SA_RESTART};

	checked = getenv("CHECKED");
	(void)__sigaction(SIGRTMAX - 1, &action, NULL);
}
"""


def build(folder, name, source):
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", f"{folder}/{name}"], input=source,
                   text=True, check=True)
    return f"{folder}/{name}"


def command(name):
    path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if not path:
        raise LookupError(f"{name} is not installed; tools/install-deps leaks")
    return path


# ---- the tools ----

class Tool:
    """Counts leaks: blocks and bytes, and blocks and bytes of possible ones."""

    prefix, env = (), {}

    def __init__(self, folder):
        self.folder = folder


class Memscan(Tool):
    def count(self, pid):
        totals = support.scan(pid).report["totals"]
        return (totals["leaked_allocations"], totals["leaked_bytes"],
                totals["interior_allocations"], totals["interior_bytes"])


class Sanitizer(Tool):
    def __init__(self, folder):
        super().__init__(folder)
        self.checked = f"{folder}/checked"
        library = subprocess.run(["gcc", "-print-file-name=liblsan.so"], stdout=subprocess.PIPE, text=True,
                                 check=True).stdout.strip()
        asker = build(folder, "asker.so", ASKER)
        self.env = {"LD_PRELOAD": f"{os.path.realpath(library)} {asker}", "CHECKED": self.checked,
                    "LSAN_OPTIONS": f"exitcode=0:max_leaks=1:symbolize=0:log_path={folder}/lsan"}

    def count(self, pid):
        support.kill(pid, signal.SIGRTMAX - 1)
        support.wait_until(lambda: os.path.exists(self.checked), SECONDS, "LeakSanitizer has checked")
        os.unlink(self.checked)
        log = pathlib.Path(f"{self.folder}/lsan.{pid}")
        found = re.findall(r"(\d+) byte\(s\) leaked in (\d+) alloc", log.read_text()) if log.exists() else []
        size, blocks = map(int, found[-1] if found else (0, 0))
        return blocks, size, 0, 0


class Valgrind(Tool):
    prefix = valgrind.under(())

    def count(self, pid):
        lost, possibly = valgrind.lost(pid, SECONDS)
        return *lost, *possibly


TOOLS = (Memscan, Sanitizer, Valgrind)


# ---- the programs: each a generator that yields the process when its first work is done, and when all is ----

class Run(at_work.Place):
    """One program under one tool."""

    def __init__(self, folder, tool):
        super().__init__(folder, tool.env)
        self.tool = tool

    def start(self, *argv, **more):
        more.setdefault("stdout", subprocess.PIPE)
        return super().start(*self.tool.prefix, command(argv[0]), *argv[1:], **more)

    def call(self, *argv, **more):
        """A command beside it, without the tool."""
        subprocess.run(argv, cwd=self.folder, check=True, stdout=subprocess.DEVNULL, timeout=SECONDS, **more)

    def repeats(self, process, text, is_last):
        """Give a program @text for each piece of work; the last line of an answer is_last."""
        for n in (FIRST, MORE):
            for _ in range(n):
                line = process.ask(text, SECONDS)
                while not is_last(line):
                    line = process.line(SECONDS)
            yield process.pid
        process.finish(SECONDS)

    def answers(self, *argv, env=None):
        """A program that does as many pieces of work as each line says, and answers."""
        process = self.start(*argv, env=env)
        assert process.line(SECONDS) == "READY"
        for n in (FIRST, MORE):
            assert process.ask(f"{n:3}\n", SECONDS) == "DONE"
            yield process.pid
        process.finish(SECONDS)


def tmux(run):
    """display-message -a"""
    path = run.write("tmux.conf", "set -s exit-empty off\nset -g default-command cat\n")
    server = run.start("tmux", "-D", "-S", f"{run.folder}/tmux", "-f", path)
    ask = ("tmux", "-S", f"{run.folder}/tmux")
    support.wait_until(lambda: os.path.exists(f"{run.folder}/tmux"), SECONDS, "tmux listens")
    run.call(*ask, "new-session", "-d")
    for n in (FIRST, MORE):
        for _ in range(n):
            run.call(*ask, "display-message", "-a")
        yield server.pid
    run.call(*ask, "kill-server")
    server.finish(SECONDS)


def jq(run):
    """ltrimstr(5)"""
    process = run.start("jq", "--unbuffered", "ltrimstr(5)")
    yield from run.repeats(process, '"text"\n', bool)


def rrdtool(run):
    """xport in a pipe"""
    begin = 1600000000
    run.call("rrdtool", "create", "file", "--start", str(begin), "DS:v:GAUGE:600:0:U", "RRA:AVERAGE:0.5:1:100")
    run.call("rrdtool", "update", "file", *(f"{begin + 300 * i}:{i}" for i in range(1, 50)))
    asked = f"xport --start {begin} --end {begin + 9000} DEF:v=file:v:AVERAGE XPORT:v:name\n"
    yield from run.repeats(run.start("rrdtool", "-"), asked, lambda line: line.startswith("OK"))


def graphviz(run):
    """dot of a graph with a cluster, a record and a label"""
    graph = 'digraph { subgraph cluster_a { a; } a -> b [label="x"]; b [shape=record,label="{c|d}"] }\n'
    yield from run.repeats(run.start("dot", "-Tsvg"), graph, lambda line: line == "</svg>")


def mosquitto(run):
    """a plugin that renames topics"""
    plugin = build(run.folder, "plugin.so", PLUGIN)
    port = servers.free_port()
    path = run.write("conf", f"user root\nlistener {port} 127.0.0.1\nallow_anonymous true\nplugin {plugin}\n")
    process = run.start("mosquitto", "-c", path)
    run.listens(port)
    for n in (FIRST, MORE):
        run.call("mosquitto_pub", "-p", str(port), "-q", "1", "-t", "a/topic", "-l", input=b"text\n" * n)
        yield process.pid
    support.kill(process.pid, signal.SIGTERM)
    process.finish(SECONDS)


def octave(run):
    """an object that holds itself"""
    yield from run.answers("octave-cli", "--no-init-file", "--no-history", run.write("work.m", OCTAVE))


def pandas(run):
    """to_json(orient="table")"""
    path = run.write("work.py", PANDAS + SERVE_PYTHON)
    yield from run.answers("/usr/bin/python3", path, env=PYTHON)


def sessions(run):
    """SSLObject.session"""
    run.call("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost",
             "-keyout", "key.pem", "-out", "cert.pem", stderr=subprocess.DEVNULL)
    run.write("both.pem", "".join(pathlib.Path(run.folder, name).read_text() for name in ("key.pem", "cert.pem")))
    yield from run.answers("/usr/bin/python3", run.write("work.py", SESSIONS + SERVE_PYTHON), env=PYTHON)


def ruby(run):
    """a match that is interrupted"""
    yield from run.answers("ruby", run.write("work.rb", RUBY))


PROGRAMS = {"tmux": tmux, "jq": jq, "rrdtool": rrdtool, "graphviz": graphviz, "mosquitto": mosquitto,
            "octave": octave, "python3-pandas": pandas, "python3.11": sessions, "ruby3.1": ruby}


# ---- the table ----

def counted(name, tool):
    """What was lost between the two counts; a text where the program does not run with the tool."""
    with tempfile.TemporaryDirectory() as folder:
        used = tool(folder)
        run = Run(folder, used)
        try:
            with run.stack:
                counts = [used.count(pid) for pid in PROGRAMS[name](run)]
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            return f"{type(error).__name__}: {error}"
        return [after - before for before, after in zip(*counts)]


def row(name):
    version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], stdout=subprocess.PIPE, text=True,
                             check=False).stdout
    print(f"{name} {version}: {PROGRAMS[name].__doc__}", flush=True)
    for tool in TOOLS:
        got = counted(name, tool)
        if isinstance(got, str):
            print(f"    {tool.__name__:10} {got[:120]}", flush=True)
        else:
            possible = f", {got[2]:,} blocks and {got[3]:,} bytes possibly" if got[2] or got[3] else ""
            print(f"    {tool.__name__:10} {got[0]:8,} blocks {got[1]:12,} bytes{possible}", flush=True)


def main():
    chosen = sys.argv[1:] or list(PROGRAMS)
    unknown = set(chosen) - set(PROGRAMS)
    if unknown:
        print(f"package_leaks.py: no such program: {', '.join(unknown)}; there are {', '.join(PROGRAMS)}",
              file=sys.stderr)
        return 2
    # orphans of the programs are not counted as processes that memscan left behind
    support.libc.prctl(support.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    print(f"lost by {MORE} pieces of work, after {FIRST} that are not counted")
    for name in chosen:
        row(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
