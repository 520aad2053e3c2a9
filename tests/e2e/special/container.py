# SPDX-License-Identifier: Apache-2.0
"""container.py FOLDER LOWER COPIES HOW PROGRAM [ARG]...: what begins a container, in namespaces made by unshare(1).

Its root, below FOLDER, is an overlay of the folder LOWER, with files copied into it (COPIES: "from=to", separated by
colons); or all that is here, when LOWER is /. It has its own /proc. HOW is "init", then PROGRAM becomes process 1; or "child", then process 1 waits for it.
"""

import ctypes
import os
import pathlib
import shutil
import sys

MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH, SYS_PIVOT_ROOT = 1 << 12, 1 << 14, 1 << 18, 2, 155
libc = ctypes.CDLL(None, use_errno=True)


def mount(what, where, kind, flags=0, data=None):
    words = [word and str(word).encode() for word in (what, where, kind)]
    if libc.mount(*words, ctypes.c_ulong(flags), data and data.encode()):
        raise OSError(ctypes.get_errno(), f"mounting {kind or what} on {where}")


def enter(folder, lower, copies):
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    root, upper, work = (folder / name for name in ("root", "upper", "work"))
    if lower == "/":
        root = folder
        mount("/", root, None, MS_BIND | MS_REC)
    else:
        mount("none", folder, "tmpfs")
        for path in (root, upper, work):
            path.mkdir()
        mount("overlay", root, "overlay", 0, f"lowerdir={lower},upperdir={upper},workdir={work}")
    for source, place in copies:
        place = root / place.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, place)
    (root / "proc").mkdir(exist_ok=True)
    mount("proc", root / "proc", "proc")
    os.chdir(root)
    if libc.syscall(SYS_PIVOT_ROOT, b".", b"."):
        raise OSError(ctypes.get_errno(), "pivot_root")
    # what was the root lies on top of what is it now
    if libc.umount2(b".", MNT_DETACH):
        raise OSError(ctypes.get_errno(), "umount")
    os.chdir("/")


def main(folder, lower, copies, how, program, *args):
    enter(pathlib.Path(folder), lower, [one.split("=") for one in copies.split(":") if one])
    if how == "child" and (child := os.fork()):
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 255)
    os.execv(program, [program, *args])


main(*sys.argv[1:])
