# SPDX-License-Identifier: Apache-2.0
"""Programs in Rust as their makers build them: stripped, their allocator linked in, glibc's or musl's.

They come from npm, which has what runs on machines without Rust. Only with PROGRAMS, as
`make check-programs` sets it.
"""

import os
import shutil
import subprocess
import tarfile
import time

import pytest

import support
from support import Process, check_scanned, scan

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
