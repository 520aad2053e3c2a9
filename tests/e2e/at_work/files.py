# SPDX-License-Identifier: Apache-2.0
"""File systems in a process (FUSE): the kernel alone knows of the files that are open in them."""

import contextlib
import os
import signal
import subprocess

import pytest

import support
from at_work import of, program


def use(folder, kept):
    """Make, write, keep open, read and remove files there."""
    def work(i, turn):
        path = f"{folder}/{i}-{turn % 50}"
        kept.append(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        os.write(kept[-1], b"x" * (turn % 5000))
        with open(path, "rb") as file:
            file.read()
        if turn % 3 == 0:
            os.unlink(path)
        os.listdir(folder)
        while len(kept) > 300:
            os.close(kept.pop(0))
    return work


def serve(place, command, *argv, **more):
    """A server of one folder, by another."""
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        pytest.skip("no file system may be mounted here")
    for name in ("source", "mounted"):
        os.mkdir(f"{place.folder}/{name}")
    mounted = f"{place.folder}/mounted"
    process = place.start(place.command(command), *argv, mounted, **more)
    place.stack.callback(lambda: os.path.ismount(mounted) and subprocess.run(["umount", "-l", mounted], check=False))
    place.wait(lambda: os.path.ismount(mounted), f"{command} serves")
    kept = []
    place.busy(use(mounted, kept))
    yield of(process)
    place.end_work()
    for fd in kept:
        with contextlib.suppress(OSError):
            os.close(fd)
    support.kill(process.pid, signal.SIGTERM)
    place.end(process, 0, 1, -signal.SIGTERM)


@program("bindfs", "bindfs")
def bindfs(place):
    yield from serve(place, "bindfs", "-f", f"{place.folder}/source")


@program("sshfs", "sshfs openssh-sftp-server")
def sshfs(place):
    """Without a network: what it takes for ssh is the server of files itself."""
    ssh = place.write("ssh", "#!/bin/sh\nexec /usr/lib/openssh/sftp-server\n", 0o755)
    yield from serve(place, "sshfs", "-f", "-o", f"ssh_command={ssh}", f"here:{place.folder}/source")
