# SPDX-License-Identifier: Apache-2.0
"""Go with C: pages in the midst of what its runtime has reserved are not lost."""

import os
import shutil
import subprocess

import pytest

import support
from support import Process, check_scanned, scan

PROGRAM = """
package main

// #include <stdlib.h>
// #include <string.h>
// char *lose(int n) { return memset(malloc(n), 'l', n); }
import "C"
import ("fmt"; "os")

var kept = map[int][]byte{}

func main() {
	for i := 0; i < 2000; i++ {
		C.lose(600)
		kept[i % 100] = make([]byte, 9000)
	}
	fmt.Println("READY")
	os.Stdin.Read(make([]byte, 1))
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if not shutil.which("go"):
        pytest.skip("no go")
    folder = tmp_path_factory.mktemp("go")
    (folder / "main.go").write_text(PROGRAM)
    (folder / "go.mod").write_text("module program\n\ngo 1.19\n")
    env = {**os.environ, "GOCACHE": str(folder / "cache"), "GOFLAGS": "-mod=mod", "GOPROXY": "off"}
    subprocess.run(["go", "build", "-o", "program", "."], cwd=folder, env=env, check=True)
    return folder / "program"


@pytest.mark.parametrize("how", ["copy", "fork"])
def test_reserved_ranges_are_the_runtimes_own(program, how):
    with Process([program]) as go:
        assert go.line() == "READY"
        report = check_scanned(scan(go.pid, "--snapshot", how))
        assert 1990 <= report["totals"]["leaked_allocations"] <= 2000, report["leaks"][:3]
        assert not report.get("unreachable_mappings"), support.hexes(
            int(mapping["address"], 16) for mapping in report["unreachable_mappings"])
