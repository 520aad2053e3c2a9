# SPDX-License-Identifier: Apache-2.0
"""Threads, processes, forks, subprocesses, ctypes, mmap: what a Python program may do."""

import ctypes
import hashlib
import json
import mmap
import multiprocessing
import os
import re
import subprocess
import threading
import zlib


def square(n):
    return n * n, len(json.dumps(list(range(n))))


def work(n, results):
    words = [re.sub(r"(\d)(\d+)", r"\2\1", str(i * n)) for i in range(3000)]
    results[n] = hashlib.sha256(zlib.compress("".join(words).encode())).hexdigest()


def in_threads():
    results = {}
    threads = [threading.Thread(target=work, args=(n, results)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print([results[n][:8] for n in range(8)])


def forked():
    pids = []
    for n in range(10):
        pid = os.fork()
        if not pid:
            os._exit(len([str(i) for i in range(n * 100)]) // 100)
        pids.append(pid)
    print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids])


def of_c():
    libc = ctypes.CDLL(None)
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    numbers = (ctypes.c_int * 500)(*((i * 7919) % 1000 for i in range(500)))
    libc.qsort(numbers, 500, 4, compare(lambda a, b: a[0] - b[0]))
    libc.malloc.restype = libc.realloc.restype = ctypes.c_void_p
    p = ctypes.c_void_p(libc.realloc(ctypes.c_void_p(libc.malloc(100)), 200000))
    libc.free(p)
    print(list(numbers) == sorted(numbers))


if __name__ == "__main__":
    if os.environ.get("SIGNAL"):
        os.kill(os.getpid(), int(os.environ["SIGNAL"]))
    in_threads()
    forked()
    of_c()
    with multiprocessing.get_context("fork").Pool(3) as pool:
        print(pool.map(square, range(20)))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(square, range(3)))
    print(subprocess.run("echo $((6 * 7)); exit 4", shell=True, stdout=subprocess.PIPE))
    with mmap.mmap(-1, 1 << 20) as area:
        area[:5] = b"hello"
        print(area[:5])
