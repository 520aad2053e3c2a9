# SPDX-License-Identifier: Apache-2.0
"""Programs annotated for LeakSanitizer, linked against libmemunreachable instead.

memscan knows nothing of annotations: what they say must be in what the library
keeps in the scanned process's memory.
"""

import os
import subprocess

import pytest

import support
from support import BUILD, Target, check_scanned, compile_special, compile_target, scan

LIBRARY = BUILD / "libmemunreachable.so"
INCLUDE = support.ROOT / "include"
LINK = (f"-L{BUILD}", "-lmemunreachable", f"-Wl,-rpath,{BUILD}")

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not built")


def annotated():
    return compile_target("annotated", libs=LINK, tag="-linked")


def preloadable():
    return compile_target("annotated")


def scenarios():
    done = subprocess.run([preloadable(), "list"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                          text=True, check=True)
    return done.stdout.split()


def check_told(target):
    for how in ("fork", "copy"):
        report = check_scanned(scan(target.scan_pid, "--no-fold", "--possible", "--snapshot", how))
        support.check_truth(report, target)
        reasons = {int(leak["address"], 16): leak.get("reason") for leak in report["leaks"]}
        told = {a for a in support.addresses(report, "possible") if reasons[a] == "mapping"}
        assert told == target.blocks("possible").keys()
    support.check_untouched(target.scan_pid)


@pytest.mark.parametrize("how", ("linked", "preloaded"))
@pytest.mark.parametrize("scenario", scenarios())
def test_tells_what_is_not_annotated(scenario, how):
    argv, env = ([annotated(), scenario], {}) if how == "linked" else (
        [preloadable(), scenario], {"LD_PRELOAD": str(LIBRARY)})
    with Target(argv, env) as target:
        check_told(target)
        assert target.finish() == 0
