# SPDX-License-Identifier: Apache-2.0
"""memscan attach and detach, again and again: PostgreSQL under load and node go on right."""

import re

import servers
import support
from attach_support import ATTACHED, REFUSED, ROUNDS, STUCK_S, attach, check_given_back_all, detach
from support import Process, memscan


def attach_if_there(pid, is_new):
    """A process of a server may end at any time; whether it is attached: a new one has the agent of the one that forked it."""
    done = memscan("attach", pid, "--sample", 8192)
    inherited = is_new and f"process {pid} is attached already" in done.stderr
    return done.status == ATTACHED or inherited or check_ended(done, pid)


def check_ended(done, pid):
    """It was refused because it ends; False."""
    said = f"process {pid} (ended|is a zombie)|of process {pid} is gone|has the id {pid}"
    assert done.status == REFUSED and re.search(said, done.stderr), str(done)
    support.wait_until(lambda: support.state_of(pid) in (None, "Z"), STUCK_S, "it ends")
    return False


def detach_if_there(pid):
    done = memscan("detach", pid)
    assert not done.status or not check_ended(done, pid)


def test_postgresql_under_load(folder):
    rounds = processed = 0
    known = []
    with servers.Postgres(folder) as server:
        server.run("pgbench", "-i", "-s", "1", "-q", "postgres")
        while rounds < ROUNDS:
            with server.start("pgbench", "-c", "4", "-t", "500", "-n", "postgres") as bench:
                while bench.running() and rounds < ROUNDS:
                    pids = [server.pid, *support.children_of(server.pid)]
                    attached = [pid for pid in pids if attach_if_there(pid, pid not in known)]
                    assert server.pid in attached
                    known = pids
                    for pid in attached:
                        detach_if_there(pid)
                    rounds += 1
                processed += int(server.finish_bench(bench))
        server.check_sums(processed)
        server.shut_down()


NODE = """
const { createHash } = require('crypto');
function work(n) {
  const hash = createHash('sha256'); let kept = [];
  for (let i = 0; i < 2000; i++) {
    kept.push(Buffer.from('x'.repeat(i % 700))); if (kept.length > 100) kept = [];
    hash.update(kept[kept.length - 1] || String(n));
  }
  return hash.digest('hex');
}
const wanted = [0, 1, 2, 3].map(work);
let turns = 0;
const timer = setInterval(() => {
  if (work(turns % 4) !== wanted[turns % 4]) { console.log('WRONG'); process.exit(1); }
  turns++;
}, 1);
process.stdin.on('data', () => console.log(turns));
process.stdin.on('end', () => { clearInterval(timer); process.exit(0); });
console.log('READY');
"""


def test_node():
    servers.need("node")
    with Process(["node", "-e", NODE]) as node:
        assert node.line() == "READY"
        for _ in range(ROUNDS):
            attach(node.pid, "--sample", 16384)
            before = int(node.ask("\n"))
            support.wait_until(lambda: int(node.ask("\n")) > before, STUCK_S, "it computes")
            detach(node.pid)
        check_given_back_all(node.pid)
        assert node.finish(STUCK_S) == 0
