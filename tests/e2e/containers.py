# SPDX-License-Identifier: Apache-2.0
"""Containers made by hand: a program in namespaces of its own, with a root of its own and another glibc in it."""

import os
import pathlib
import re
import subprocess

import pytest

import support
from support import E2E_BUILD, PART, TARGETS, Target

STARTER = pathlib.Path(__file__).parent / "special" / "container.py"
NAMESPACES = ("mount", "pid", "net", "uts", "ipc")
ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to mount")

# Of a root or in a container, and nothing else.
ONLY_PTRACE = ["setpriv", "--bounding-set=-all,+sys_ptrace"]
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def can_have(*namespaces):
    """Skips the test where such namespaces cannot be made."""
    done = subprocess.run(["unshare", *[f"--{one}" for one in namespaces], "--fork", "true"], stderr=subprocess.PIPE,
                          text=True)
    if done.returncode:
        pytest.skip(f"no namespaces to be had: {done.stderr.strip()}")


def compile_inside(name, suite, *flags, compiler="gcc"):
    """Build tests/targets/NAME as the suite itself would: with its loader and libraries at their usual places."""
    source = TARGETS / name
    root = support.suite_root(suite)
    lib = root / "usr/lib/x86_64-linux-gnu"
    newest = max(file.stat().st_mtime for file in [source, *TARGETS.glob("*.h")])
    return support.build(E2E_BUILD / suite / f"{source.stem}-inside", newest,
                         [compiler, "-O1", "-g", "-pthread", f"--sysroot={root}", f"-B{lib}/", f"-L{lib}", "-o", PART,
                          source, *flags, "-ldl", "-lrt"])


class Container(Target):
    """A program in a container, whose files are the suite's, or all that are here; @how: "init", it is process 1 there, or "child", of that.

    @pid is that of the one that waits for it; @scan_pid the program's, as it is seen from here.
    """

    def __init__(self, folder, suite, program, *args, how="init", place="/opt/app", namespaces=NAMESPACES, copies=(),
                 env=None):
        can_have(*namespaces)
        lower = "/" if suite is None else support.suite_root(suite)
        place = program if suite is None else place
        files = ":".join(f"{source}={where}" for source, where in [(program, place), *copies] if suite)
        self.inside, self.suite = str(place), suite
        super().__init__(["unshare", *[f"--{one}" for one in namespaces], "--fork", "/usr/bin/python3", "-I", STARTER,
                          folder, lower, files, how, place, *map(str, args)], env)

    def read_facts(self, seconds):
        super().read_facts(seconds)
        first = support.children_of(self.pid)[0]
        self.init = first
        self.scan_pid = first if os.readlink(f"/proc/{first}/exe") == self.inside else support.children_of(first)[0]
        text = pathlib.Path(f"/proc/{self.scan_pid}/status").read_text()
        self.inner_pid = int(re.search(r"NSpid:.*\t(\d+)\n", text)[1])

    def ends(self, seconds=20):
        assert self.finish(seconds) == 0
