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


LUA = """
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
"""

script("lua5.4", "lua5.4", "lua5.4", "FILE", "STOP", check=True, file="work.lua", text=LUA)

script("luajit", "luajit", "luajit", "FILE", "STOP", file="work.lua", text=LUA)

# What it allocates outside of its heap it keeps as numbers.
script("chez", "chezscheme", "scheme", "--script", "FILE", "STOP", file="work.ss", text="""
(define kept (make-vector 3000 #f))
(let loop ([n 0])
  (let* ([at (mod n 3000)] [old (vector-ref kept at)])
    (when old (foreign-free old))
    (let ([block (foreign-alloc (+ 64 (mod n 500)))])
      (foreign-set! 'unsigned-64 block 0 n)
      (vector-set! kept at block)))
  (when (zero? (mod n 1000)) (vector-sort < (list->vector (map (lambda (i) (mod (* i n) 9973)) (iota 500)))))
  (unless (and (zero? (mod n 1000)) (file-exists? (cadr (command-line))))
    (loop (+ n 1))))
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

script("ruby", "ruby", "ruby", "FILE", "STOP", check=True, file="work.rb", text=r"""
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

script("python3", "python3", "/usr/bin/python3", "FILE", "STOP", file="work.py", text="""
import ctypes, decimal, os, sqlite3, sys, xml.etree.ElementTree as tree
while not os.path.exists(sys.argv[1]):
    base = sqlite3.connect(":memory:")
    base.execute("create table t(a, b)")
    base.executemany("insert into t values(?, ?)", ((i, str(i) * (i % 9)) for i in range(3000)))
    rows = base.execute("select group_concat(b) from t group by a % 50").fetchall()
    root = tree.fromstring("<r>" + "".join(f"<e n='{i}'>{i}</e>" for i in range(2000)) + "</r>")
    found = [tree.tostring(e) for e in root.iter()]
    total = sum((decimal.Decimal(i) / 7 for i in range(1, 2000)), decimal.Decimal())
    kept = [ctypes.create_string_buffer(i) for i in range(1, 5000, 7)]
""")

script("perl", "perl", "perl", "FILE", "STOP", file="work.pl", text=r"""
use strict; use warnings;
my (%kept, $n);
until (-e $ARGV[0]) {
    for (1 .. 2000) {
        $n++;
        $kept{$n % 700} = { list => [1 .. $n % 30], text => "text $n" x ($n % 9), code => sub { $n } };
        (my $changed = "x$n y$n") =~ s/(\d)(\d+)/$2-$1/g;
        $kept{$changed} = join ",", map { $_ * 2 } sort { $b <=> $a } @{ $kept{$n % 700}{list} };
        my $made = eval "sub { \$_[0] + $n }" if $n % 50 == 0;
        open my $in, "<", \$changed or die; my @lines = <$in>; close $in;
    }
    %kept = () if keys %kept > 5000;
    my $packed = pack "(n/a*)*", map { "$_" } 1 .. 300; my @back = unpack "(n/a*)*", $packed;
    local $_ = sprintf "%s", `true`;
}
""")

script("tclsh", "tcl", "tclsh", "FILE", "STOP", file="work.tcl", text=r"""
proc nest {d} { if {$d == 0} { return {} }; list [nest [expr {$d - 1}]] $d [string repeat x $d] }
set n 0
while {![file exists [lindex $argv 0]]} {
    for {set i 0} {$i < 1000} {incr i} {
        incr n
        set kept([expr {$n % 500}]) [nest [expr {$n % 6}]]
        dict set d $n [regsub -all {(\d)(\d+)} "x$n" {\2\1}]
        lappend l [expr {$n * 3.5}] [format %08x $n]
        proc p[expr {$n % 40}] {a} "return \[expr {\$a + $n}\]"
        p[expr {$n % 40}] 1
    }
    set l [lrange [lsort $l] 0 50]
    if {[dict size $d] > 4000} { set d {} }
    set i [interp create]; $i eval {set x 1}; interp delete $i
}
""")

script("guile", "guile-3.0", "guile", "--no-auto-compile", "-s", "FILE", "STOP", file="work.scm", text=r"""
(define (work n kept)
  (let* ((text (string-append (make-string (modulo n 200) #\x) (number->string n)))
         (kept (if (> (length kept) 300) '() (cons (vector text (string->symbol text) (expt 3 (modulo n 500))) kept))))
    (sort (map (lambda (v) (string-length (vector-ref v 0))) kept) <)
    (if (and (zero? (modulo n 500)) (file-exists? (cadr (command-line)))) 0 (work (+ n 1) kept))))
(work 1 '())
""")

script("bash", "bash", "bash", "--norc", "FILE", "STOP", file="work.sh", text=r"""
declare -A seen
f() { local x=$1 y=("$@"); echo "${x//1/<one>} ${#y[@]}"; }
while ! test -e "$1"; do
    for ((i = 0; i < 300; i++)); do
        seen[$((i % 100))]=$(printf '%s ' {1..20}) t="$t$i"; t=${t: -500}
        f $i ${seen[$((i % 50))]} >/dev/null
        eval "g$((i % 20))() { echo $i; }"; g$((i % 20)) >/dev/null
        [[ x$i =~ x([0-9])([0-9]*) ]] && many+=("${BASH_REMATCH[2]}")
    done
    many=("${many[@]: -100}"); read -r a b c <<<"$t"; mapfile -t lines < <(echo "$t")
done
""")

script("zsh", "zsh", "zsh", "-f", "FILE", "STOP", file="work.zsh", text=r"""
typeset -A seen
f() { local x=$1; local -a y; y=("$@"); print -r -- "${x//1/<one>} ${#y} ${(j:,:)${(O)y}}" }
while [[ ! -e $1 ]]; do
    for ((i = 0; i < 300; i++)); do
        seen[$((i % 100))]="${(l:$((i % 90))::x:)i}"; t="$t$i"; t=${t[-500,-1]}
        f $i ${=seen[$((i % 50))]} {1..20} >/dev/null
        eval "g$((i % 20))() { print $i }"; g$((i % 20)) >/dev/null
        many+=(${(s:1:)t})
    done
    many=(${many[-50,-1]}); : $(print $t) *(N)
done
""")

script("swipl", "swi-prolog-nox", "swipl", "-q", "-g", "main", "FILE", "--", "STOP", other_malloc=True, file="work.pl", text=r"""
:- dynamic fact/2.
once_more(N) :-
    numlist(1, 200, L), foldl([X, A, B]>>(B is A + X * N), L, 0, S),
    atom_number(A, S), atom_concat(A, text, T), atom_chars(T, Cs), reverse(Cs, R), atom_chars(U, R),
    assertz(fact(N, U)), ( N > 300 -> M is N - 300, retractall(fact(M, _)) ; true ),
    findall(K-V, (fact(K, V), K mod 3 =:= 0), P), msort(P, _),
    ( N mod 50 =:= 0 -> thread_create(numlist(1, 5000, _), Id), thread_join(Id) ; true ).
go(N, Stop) :- N mod 20 =:= 0, exists_file(Stop), !.
go(N, Stop) :- once_more(N), !, N1 is N + 1, go(N1, Stop).
main :- current_prolog_flag(argv, [Stop|_]), go(1, Stop), halt.
""")

script("gnuplot", "gnuplot-nox", "gnuplot", "FILE", file="work.gp", text=r"""
set terminal unknown
do for [i = 1:100000] {
    set table $data
    plot [0:10] sin(x * i) + besj0(x), x**2 with lines title sprintf("%d", i)
    unset table
    f(x) = a * x + b
    a = 1; b = i % 7
    set label i % 50 + 1 sprintf("text %d", i) at i, i
    array A[100]
    do for [k = 1:100] { A[k] = sprintf("%d-%d", k, i) }
    stats $data using 1 nooutput
    if (i % 10 == 0 && system("test -e stop && echo 1") eq "1") { exit }
}
""")

script("R", "r-base-core", "R", "--vanilla", "--slave", "-f", "FILE", "--args", "STOP", file="work.R", text=r"""
stop <- commandArgs(TRUE)[1]
n <- 0
kept <- list()
while (!file.exists(stop)) {
    n <- n + 1
    frame <- data.frame(a = 1:2000, b = rnorm(2000), c = paste("text", 1:2000))
    kept[[n %% 20 + 1]] <- lm(b ~ a, frame)$coefficients
    kept[[paste("k", n %% 30)]] <- tapply(frame$b, frame$a %% 7, mean)
    text <- gsub("([0-9])([0-9]+)", "\\2\\1", frame$c)
    frame <- merge(frame, data.frame(a = 1:500, d = sort(text[1:500])))
    f <- eval(parse(text = sprintf("function(x) x + %d", n)))
    m <- solve(matrix(runif(2500), 50) + diag(50))
    con <- textConnection(text); lines <- readLines(con); close(con)
}
""")

script("ocaml", "ocaml-interp", "ocaml", "FILE", "STOP", file="work.ml", text=r"""
let kept = Hashtbl.create 100
let rec go n =
  Hashtbl.replace kept (n mod 500) (String.make (n mod 300) 'x', Array.init (n mod 50) string_of_int, lazy (n + 1));
  let b = Buffer.create 16 in
  List.iter (fun x -> Buffer.add_string b (string_of_int x)) (List.sort compare (List.init 50 (fun i -> (i * n) mod 97)));
  let big = Bigarray.Array1.create Bigarray.int Bigarray.c_layout (1 + n mod 5000) in
  Bigarray.Array1.fill big n;
  ignore (Marshal.from_string (Marshal.to_string (Hashtbl.find kept (n mod 500) |> fun (a, b, _) -> (a, b)) []) 0);
  if n mod 1000 = 0 && Sys.file_exists Sys.argv.(1) then () else go (n + 1)
let () = go 1
""")

script("node", "nodejs", "node", "FILE", "STOP", file="work.js", text=r"""
const { Worker, isMainThread, workerData } = require("worker_threads");
const crypto = require("crypto"), zlib = require("zlib"), fs = require("fs");
const stop = isMainThread ? process.argv[2] : workerData;
let n = 0, kept = [];
function turn() {
  for (let i = 0; i < 300; i++) {
    n++;
    kept[n % 400] = { n, text: "x".repeat(n % 300) + n, buffer: Buffer.alloc(n % 9000, 1), f: () => n };
    crypto.createHash("sha256").update(String(n)).digest("hex");
  }
  zlib.gunzipSync(zlib.gzipSync(Buffer.concat(kept.filter(k => k).map(k => k.buffer))));
  new RegExp("(a|b)*" + n).test("abab" + n);
  if (isMainThread && n % 3000 == 0) new Worker("setTimeout(() => {}, 20)", { eval: true });
  if (!fs.existsSync(stop)) setImmediate(turn);
}
if (isMainThread) new Worker(__filename, { workerData: stop });
turn();
""")

script("emacs", "emacs-nox", "emacs", "-Q", "--batch", "-l", "FILE", "STOP", file="work.el", text=r"""
(let ((n 0) (kept (make-hash-table :test 'equal)) (stop (car (last command-line-args))))
  (setq command-line-args-left nil)
  (while (not (file-exists-p stop))
    (dotimes (_ 300)
      (setq n (1+ n))
      (puthash (% n 300) (list (make-string (% n 200) ?x) (number-to-string n) (make-vector (% n 40) n)) kept))
    (with-temp-buffer
      (dotimes (i 500) (insert (format "line %d of %d\n" i n)))
      (goto-char (point-min))
      (while (re-search-forward "\\([0-9]\\)\\([0-9]+\\)" nil t) (replace-match "\\2\\1"))
      (sort-lines nil (point-min) (point-max))
      (let ((o (make-overlay 1 50))) (overlay-put o 'face 'bold))
      (undo-boundary)
      (json-parse-string (json-serialize (vector 1 2 (buffer-substring 1 100)))))
    (eval (read (format "(defun f%d (x) (+ x %d))" (% n 20) n)))))
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
