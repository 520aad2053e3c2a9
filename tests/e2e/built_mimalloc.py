# SPDX-License-Identifier: Apache-2.0
"""libmimalloc of versions that no suite packages, from the copies that emscripten's source package has.

What cannot be had is skipped: an archive may have no sources, or another version by now.
"""

import fcntl
import re
import subprocess
import tarfile

import pytest

import support

FOLDER = support.E2E_BUILD / "mimalloc"
SUITES = {"2.1.2": "trixie", "3.4.1": "sid"}


def fetch(suite, folder):
    """Unpack the copy in @suite's source package, by the configuration of apt that the suite's packages came by."""
    support.suite_root(suite)
    apt = support.BUILD / "glibc" / suite / "apt"
    (folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    line = (apt / "sources.list").read_text()
    (folder / "sources.list").write_text(re.sub(r"^deb \[arch=\S+ ", "deb-src [", line))
    command = ["apt-get", "-q", "-c", apt / "apt.conf", "-o", f"Dir::Etc::sourcelist={folder}/sources.list",
               "-o", f"Dir::State::lists={folder}/lists"]
    for more in (["update"], ["source", "--tar-only", "emscripten"]):
        # one part of a source package may be missing where the one that is wanted is there
        subprocess.run([*command, *more], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    for name in folder.glob("emscripten_*.orig.tar.xz"):
        with tarfile.open(name) as archive:
            archive.extractall(folder / "source", [m for m in archive if "/system/lib/mimalloc/" in m.name])


def source(version):
    """The folder of mimalloc @version."""
    suite = SUITES[version]
    folder = FOLDER / suite
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "source").exists():
            fetch(suite, folder)
    for header in folder.glob("source/*/system/lib/mimalloc/include/mimalloc.h"):
        digits = re.search(r"define MI_MALLOC_VERSION (\d+)", header.read_text()).group(1)
        numbers = [digits[0], *(digits[1:3], digits[3:5])] if len(digits) == 5 else list(digits)
        if ".".join(str(int(number)) for number in numbers) == version:
            return header.parent.parent
    pytest.skip(f"{suite} has no source of mimalloc {version}")


def library(version, flags=()):
    """libmimalloc.so of @version, built with @flags as well, to be preloaded."""
    folder = source(version)
    name = "-".join(["libmimalloc", version, *(flag.replace("=", "") for flag in flags)]) + ".so"
    return support.build(FOLDER / name, (folder / "src" / "static.c").stat().st_mtime,
                         ["gcc", "-O2", "-shared", "-fPIC", "-DNDEBUG", "-DMI_SHARED_LIB", "-DMI_SHARED_LIB_EXPORT",
                          "-DMI_MALLOC_OVERRIDE", "-ftls-model=initial-exec", "-fno-builtin-malloc", "-w", *flags,
                          "-I", folder / "include", "-o", support.PART, folder / "src" / "static.c", "-lpthread"])
