# SPDX-License-Identifier: Apache-2.0
"""Programs in Rust as their makers build them: stripped, their allocator linked in, glibc's or musl's;
add-ons of node's, which bring mimalloc; and Dart's virtual machine, linked dynamically with musl.

They come from npm, which has what runs on machines without Rust. Only with PROGRAMS, as
`make check-programs` sets it.
"""

import array
import bisect
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import time

import pytest

import support
from support import Process, check_scanned, memscan, scan

WANTED = os.environ.get("PROGRAMS", "")
FILES = support.E2E_BUILD / "npm"

pytestmark = pytest.mark.skipif(WANTED != "all" and "rust" not in WANTED.split(","), reason="only in make check-programs")


def fetched(package, program):
    """The program of a package of npm's, unpacked where the tests build."""
    if not shutil.which("npm"):
        pytest.skip("npm is not installed")
    folder = FILES / package.replace("/", "-")
    if not folder.exists():
        FILES.mkdir(parents=True, exist_ok=True)
        name = subprocess.run(["npm", "pack", "--silent", package], cwd=FILES, check=True, capture_output=True,
                              text=True).stdout.split()[-1]
        part = folder.with_name(folder.name + ".part")
        with tarfile.open(FILES / name) as archive:
            archive.extractall(part)
        part.rename(folder)
    path = next(folder.rglob(program))
    path.chmod(0o755)
    return path


def sources(folder, n):
    """So many files with something to find fault with."""
    for i in range(n):
        lines = [f"export function f{i}_{k}(a, b) {{ var x = a + b; let unused; return [a, b].map(q => q == x) }}"
                 for k in range(40)]
        (folder / f"f{i}.js").write_text("\n".join(lines))
    (folder / "biome.json").write_text("{}")


@pytest.mark.parametrize("kind,libc", [("linux-x64", "glibc"), ("linux-x64-musl", "musl mallocng")])
def test_biome_at_work(kind, libc, tmp_path, notes):
    """Its jemalloc counts nothing and is built for 57 bits of address; its tables are packed structures."""
    biome = fetched(f"@biomejs/cli-{kind}@2.6.8", "biome")
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_RUNTIME_DIR": str(tmp_path)}
    work = tmp_path / "work"
    work.mkdir()
    sources(work, 100)
    with Process([biome, "__run_server"], env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        support.wait_until(lambda: list((tmp_path / "cache").rglob("biome-socket*")), 20, "its socket")
        scans, proved = 0, 0
        for _ in range(4):
            with Process([biome, "lint", "--use-server", work], env, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL) as asking:
                while asking.popen.poll() is None:
                    done = scan(server.pid)
                    scans += 1
                    # a thread may be inside of an allocator that is linked in, at each attempt
                    proved += not support.is_in_doubt(done)
                    if done.report:
                        assert not done.report["leaks"], str(done)
                    time.sleep(0.1)
            for how in ("fork", "copy"):
                report = check_scanned(scan(server.pid, "--snapshot", how))
                assert {heap["allocator"] for heap in report["heaps"]} == {libc, "jemalloc"}
                assert all(heap["verified"] for heap in report["heaps"]), report["warnings"]
                assert not report["leaks"] and report["totals"]["allocations"] > 10000
        notes.append(f"biome, {libc}: {report['totals']['allocations']} blocks; {proved} of {scans} scans while it "
                     "worked could be trusted")


def test_dprint(tmp_path, notes):
    """A static program with musl's allocator."""
    dprint = fetched("@dprint/linux-x64-musl@0.57.4", "dprint")
    with Process([dprint, "lsp"], {"XDG_CACHE_HOME": str(tmp_path)}, cwd=tmp_path) as server:
        time.sleep(1)
        for how in ("fork", "copy"):
            report = check_scanned(scan(server.pid, "--snapshot", how))
            assert [heap["allocator"] for heap in report["heaps"]] == ["musl mallocng"]
            assert report["heaps"][0]["verified"] and not report["leaks"], report["leaks"]
        notes.append(f"dprint: {report['totals']['allocations']} blocks")


ADD_ONS = (("@rspack/binding-linux-x64-gnu@1.6.0", "transform", "2.1.7"),
           ("@oxc-parser/binding-linux-x64-gnu@0.80.0", "parse", "2.2.4 to 2.2.6"),
           ("@oxc-parser/binding-linux-x64-gnu@0.110.0", "parse", "2.2.4 to 2.2.6"),
           ("@oxc-parser/binding-linux-x64-gnu@0.159.0", "parse", "2.5.1"),
           ("@rspack/binding-linux-x64-gnu@2.3.3", "transform", "3.1.5"),
           ("@rolldown/binding-linux-x64-gnu@1.3.2", "bundle", "3.6.1"))


def pieces(pid):
    """All memory that can be written to and is not zeros: where it begins, its words, the file that it is of, or follows."""
    last = (0, "")
    with open(f"/proc/{pid}/mem", "rb", 0) as memory, open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            span, mode, _, _, _, *name = line.split()
            begin, end = (int(x, 16) for x in span.split("-"))
            file = name[0] if name else last[1] if last[0] == begin else ""
            last = (end, file)
            for at in range(begin, end, 1 << 20) if mode[:2] == "rw" else []:
                memory.seek(at)
                try:
                    found = memory.read(min(end - at, 1 << 20))
                except OSError:  # a guard page of MADV_GUARD_INSTALL, or behind the end of a file
                    continue
                if found.count(0) < len(found):
                    yield at, array.array("Q", found), file


def only_words(pid, add_on):
    """Words of an add-on's variables that alone lead to the begin of a block: {where: to which}."""
    words = {}
    everything = list(pieces(pid))
    anonymous = sorted((begin, begin + 8 * len(found)) for begin, found, file in everything if not file)
    for begin, found, file in everything:
        for i, word in enumerate(found if file == str(add_on) else []):
            at = bisect.bisect_right(anonymous, (word, 1 << 64)) - 1
            if word % 8 == 0 and at >= 0 and word < anonymous[at][1]:
                words[begin + 8 * i] = word
    n = dict.fromkeys(words.values(), 0)
    for _, found, _ in everything:
        for word in n.keys() & set(found):
            n[word] += found.count(word)
    return {place: word for place, word in words.items() if n[word] == 1}


def led_into(pid, blocks):
    """Those of blocks that a word outside of them leads into."""
    begins = sorted(blocks)
    led = set()

    def block_at(address):
        at = bisect.bisect_right(begins, address) - 1
        return begins[at] if at >= 0 and address < begins[at] + blocks[begins[at]] else None

    for begin, found, _ in pieces(pid):
        if any(block_at(word) for word in set(found)):
            led |= {block_at(word) for i, word in enumerate(found) if block_at(word) != block_at(begin + 8 * i)}
    return led


def chosen(pid, add_on):
    """Five of these that a block begins at, with its size; mimalloc's own words lead to none."""
    places = {}
    for place, word in only_words(pid, add_on).items():
        done = memscan("why", "--pid", pid, "--json", hex(word))
        block = json.loads(done.stdout)["subjects"][0] if done.status == 0 else {}
        if block.get("address") == hex(word):
            places[place] = (word, block["size"])
        if len(places) == 5:
            break
    return places


@contextlib.contextmanager
def zeroed(pid, places):
    """What variables hold is gone; meanwhile the process must not be asked to do anything."""
    with open(f"/proc/{pid}/mem", "r+b", 0) as memory:
        def write(place, word):
            memory.seek(place)
            memory.write(word.to_bytes(8, "little"))

        for place in places:
            write(place, 0)
        try:
            yield
        finally:
            for place, (word, _) in places.items():
                write(place, word)


def scans_at_work(process):
    """While it works nothing is reported as leaked; returns how many scans, and how many of all heaps."""
    scans, proved = 0, 0
    process.popen.stdin.write(b"work\n")
    process.popen.stdin.flush()
    end = time.monotonic() + 1.8
    while time.monotonic() < end:
        done = scan(process.pid)
        scans += 1
        if support.is_in_doubt(done):
            continue
        assert not done.report["leaks"], str(done)
        proved += all(heap["verified"] for heap in done.report["heaps"])
    process.line()
    return scans, proved


@pytest.mark.parametrize("package,work,version", ADD_ONS)
def test_add_ons_with_mimalloc(package, work, version, notes):
    """Whatever memory it has: what only a variable held is a leak when the variable is cleared, and nothing else."""
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    add_on = fetched(package, "*.node")
    script = pathlib.Path(__file__).parent / "programs" / "addon.js"
    with Process(["node", script, add_on, work]) as node:
        assert node.line() == "ready"
        totals = [0, 0]
        for _ in range(3):
            totals = [a + b for a, b in zip(totals, scans_at_work(node))]
            time.sleep(0.5)
            for how in ("fork", "copy"):
                report = check_scanned(scan(node.pid, "--snapshot", how))
                heaps = {heap["allocator"]: heap for heap in report["heaps"]}
                assert heaps["mimalloc"]["version"] == version and heaps["mimalloc"]["allocations"]
                assert not report["leaks"] and not any("mimalloc" in w for w in report["warnings"]), report["warnings"]
        places = chosen(node.pid, add_on)
        with zeroed(node.pid, places):
            planted = dict(places.values())
            # what something else leads into may be reachable still
            planted_alone = planted.keys() - led_into(node.pid, planted)
            leaks = support.addresses(check_scanned(scan(node.pid, "--no-fold")))
            # versions 2.2 had no such variable
            assert planted_alone or "2.2" in version, planted
            assert planted_alone <= leaks.keys(), (planted_alone, leaks)
            assert all(leaks[at] == planted[at] for at in planted_alone), (planted, leaks)
            direct = support.addresses(check_scanned(scan(node.pid)), "direct")
            assert direct.keys() <= planted.keys(), (planted, direct)
        assert not check_scanned(scan(node.pid))["leaks"]
        notes.append(f"{package}: {heaps['mimalloc']['allocations']} blocks of mimalloc {version}, {len(planted_alone)} planted; "
                     f"{totals[1]} of {totals[0]} scans while it worked were of all heaps")


def styles(folder):
    """Enough to compile that it takes a while."""
    folder.mkdir()
    for i in range(30):
        rules = [f".a{i}-{k} {{ color: mix(red, blue, {k}%); @for $i from 1 through 5 {{ .b#{{$i}} {{ width: $i * {k}px }} }} }}"
                 for k in range(40)]
        (folder / f"f{i}.scss").write_text("\n".join(rules))


def test_sass_at_work(tmp_path, notes):
    """A program linked dynamically with musl, whose loader is Debian's; its virtual machine has eight threads or more."""
    dart = fetched("sass-embedded-linux-musl-x64@1.105.0", "dart")
    styles(tmp_path / "work")
    out = tmp_path / "out"
    with Process([dart, dart.parent / "sass.snapshot", "--watch", "--no-source-map", f"{tmp_path / 'work'}:{out}"],
                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as sass:
        support.wait_until(lambda: list(out.glob("*.css")), 60, "its first output")
        scans, proved = 0, 0
        for how in ("fork", "copy") * 5:
            done = scan(sass.pid, "--snapshot", how)
            scans += 1
            if support.is_in_doubt(done):
                continue
            report = done.report
            assert [heap["allocator"] for heap in report["heaps"]] == ["musl mallocng"]
            assert not report["leaks"], report["leaks"]
            proved += report["heaps"][0]["verified"]
        assert sass.running() and proved
        notes.append(f"sass, musl: {report['totals']['allocations']} blocks; {proved} of {scans} scans while it worked "
                     "could be trusted")
