# SPDX-License-Identifier: Apache-2.0
"""Interpreters, each busy with a text of its language that looks now and then whether to stop."""

from at_work import of, program


def script(name, packages, *argv, text, file, check=False, env=None, **more):
    """A program that runs a text until the stop file is there; FILE and STOP are put into its words."""
    @program(name, packages, check, **more)
    def run(place):
        path = place.write(file, text)
        command = [word.replace("FILE", path).replace("STOP", place.stop) for word in argv]
        process = place.start(place.command(command[0]), *command[1:], env=env)
        yield of(process)
        place.end(process)


script("lua5.4", "lua5.4", "lua5.4", "FILE", "STOP", check=True, file="work.lua", text="""
local kept, n = {}, 0
local function nest(d) return d == 0 and {} or { nest(d - 1), n, tostring(n * d) } end
while true do
  n = n + 1
  kept[n % 500] = { nest(n % 5), text = ("x"):rep(n % 300) .. n, call = function() return n end }
  if n % 50 == 0 then
    local co = coroutine.wrap(function(...) coroutine.yield(table.concat({ ... }, ",")) end)
    kept[n % 7] = { co(n, "a", 2), string.format("%s %q", n, "y"), (tostring(n):gsub("%d", "<%0>")) }
  end
  if n % 5000 == 0 then
    kept = n % 20000 == 0 and {} or kept
    local stop = io.open(arg[1])
    if stop then break end
  end
end
""")

script("gawk", "gawk", "gawk", "-v", "stop=STOP", "-f", "FILE", check=True, file="work.awk", text=r"""
function shuffle(text,   part, n, i, joined) {
  n = split(text, part, /[ ,]+/)
  for (i = n; i > 0; i--) joined = joined part[i] (i % 3 ? " " : ",")
  return joined
}
BEGIN {
  text = "one two three,four five six seven,eight nine ten"
  for (;;) {
    n++
    seen[n % 3000] = shuffle(text) n
    gsub(/e/, sprintf("<%d>", n % 10), seen[n % 3000])
    if (match(seen[n % 3000], /([a-z]+) ([a-z<>0-9]+)/, found)) count[found[1], found[2]]++
    if (n % 7 == 0) delete seen[(n * 13) % 3000]
    if (n % 2000 == 0) {
      asorti(count, order)
      if (n % 10000 == 0) delete count
      if ((getline line < stop) >= 0) exit 0
    }
  }
}
""")

script("python3, PYTHONMALLOC=malloc", "python3", "/usr/bin/python3", "-s", "FILE", "STOP", check=True,
       env={"PYTHONMALLOC": "malloc"}, file="work.py", text="""
import json, os, re, sys, threading, zlib
stop = sys.argv[1]
def work(n):
    kept, i = {}, 0
    while not os.path.exists(stop):
        for i in range(i, i + 500):
            kept[i % 997] = [str(i * n)] * (i % 7), {"n": i, "t": (i, n)}
            kept[re.sub(r"(\\d)(\\d+)", r"\\2\\1", str(i))] = lambda: i
        json.loads(json.dumps(sorted(map(str, kept))))
        zlib.compress(repr(kept).encode())
        if len(kept) > 5000:
            kept.clear()
        worker = threading.Thread(target=lambda: sorted(range(2000), key=str))
        worker.start()
        worker.join()
threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""")

