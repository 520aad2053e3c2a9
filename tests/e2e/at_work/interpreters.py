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

script("python3-malloc", "python3", "/usr/bin/python3", "-s", "FILE", "STOP", check=True,
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

script("ruby", "ruby", "ruby", "FILE", "STOP", file="work.rb", text=r"""
require "json"
require "zlib"
require "stringio"
stop = ARGV[0]
workers = 3.times.map do |n|
  Thread.new do
    kept, i = {}, 0
    until File.exist?(stop)
      500.times do
        i += 1
        kept[i % 701] = { n: i.to_s * (i % 9), f: ->(x) { x + i }, a: Array.new(i % 20) { |k| "#{k}:#{i}" } }
        kept["k#{i % 300}"] = "text #{i}".gsub(/(\d)(\d+)/) { "#{$2}#{$1}" }.to_sym.to_proc
      end
      JSON.parse(JSON.generate(kept.keys.map(&:to_s)))
      Zlib::Inflate.inflate(Zlib::Deflate.deflate(kept.inspect))
      Fiber.new { Fiber.yield kept.size }.resume
      Thread.new { (1..2000).sort_by(&:to_s) }.join
      `true` if i % 20000 == 0
      GC.compact if GC.respond_to?(:compact) && i % 30000 == 0
    end
  end
end
workers.each(&:join)
""")

@program("erlang", "erlang-base", check=True)
def erlang(place):
    process = place.start(place.command("erl"), "+S", "2", "-noinput", "-eval", ERLANG.replace("STOP", place.stop))
    place.wait(lambda: "at work" in place.said(), "erlang is at work")
    yield of(process)
    place.end(process)


ERLANG = r"""
Store = ets:new(store, [public, set, {write_concurrency, true}]),
Ended = fun() -> filelib:is_file("STOP") end,
Once = fun(N, I) ->
    Text = list_to_binary(lists:duplicate(I rem 400, $a + N)),
    ets:insert(Store, {I rem 900, Text, [I, N, {Text, maps:from_list([{K, K * I} || K <- lists:seq(1, I rem 40)])}]}),
    zlib:unzip(zlib:zip(term_to_binary(ets:lookup(Store, (I * 7) rem 900)))),
    re:replace(Text, "a+", integer_to_list(I), [global, {return, binary}]),
    Self = self(),
    Other = spawn(fun() -> receive {Self, Many} -> Self ! {self(), lists:sort(Many)} end end),
    Other ! {Self, [rand:uniform(1000) || _ <- lists:seq(1, 200)]},
    receive {Other, _} -> ok end
end,
Loop = fun(Loop, N, I) ->
    Once(N, I),
    I rem 3000 =:= 0 andalso ets:delete_all_objects(Store),
    case I rem 200 =:= 0 andalso Ended() of true -> ok; false -> Loop(Loop, N, I + 1) end
end,
Workers = [spawn_monitor(fun() -> Loop(Loop, N, 1) end) || N <- lists:seq(1, 4)],
io:format("at work~n"),
[receive {'DOWN', Ref, process, Pid, normal} -> ok end || {Pid, Ref} <- Workers],
init:stop().
"""


@program("openjdk", "openjdk-17-jdk-headless")
def openjdk(place):
    source = place.write("Work.java", JAVA)
    process = place.start(place.command("java"), "-Xmx200m", source, place.stop)
    place.wait(lambda: "at work" in place.said(), "java is at work")
    yield of(process)
    place.end(process)


JAVA = r"""
import java.io.*;
import java.nio.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.regex.*;
import java.util.stream.*;
import java.util.zip.*;

public class Work {
    static volatile boolean ended;

    static void work(int n) {
        Map<Integer, Object> kept = new HashMap<>();
        for (int i = 0; !ended; i++) {
            kept.put(i % 500, IntStream.range(0, i % 50).mapToObj(k -> "t" + k * n).collect(Collectors.joining(",")));
            if (i % 100 == 0) {
                ByteBuffer buffer = ByteBuffer.allocateDirect(1000 + i % 100000);
                buffer.putInt(0, i);
                kept.put(-1 - i % 20, buffer);
                Deflater deflater = new Deflater();
                deflater.setInput(kept.toString().getBytes());
                deflater.finish();
                deflater.deflate(new byte[10000]);
                deflater.end();
                kept.put(-100, Pattern.compile("(a|b)*" + i).matcher("abab" + i).matches());
            }
            if (i % 2000 == 0) {
                Thread other = new Thread(() -> IntStream.range(0, 2000).mapToObj(String::valueOf).sorted().toList());
                other.start();
                try { other.join(); } catch (InterruptedException e) { return; }
            }
        }
    }

    public static void main(String[] args) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int n = 1; n <= 3; n++) {
            int number = n;
            threads.add(new Thread(() -> work(number)));
            threads.get(n - 1).start();
        }
        System.out.println("at work");
        while (!Files.exists(Path.of(args[0])))
            Thread.sleep(50);
        ended = true;
        for (Thread thread : threads)
            thread.join();
    }
}
"""
