# SPDX-License-Identifier: Apache-2.0
"""answers.py FOLDER ANSWER: a process that shows the sign of libmemunreachable's handler and answers what it likes."""

import ctypes
import os
import signal
import socket
import sys
import time

folder, answer = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
sign = os.memfd_create("memunreachable:" + folder)
libc.mmap(None, 4096, 0, 2, sign, 0)
os.close(sign)


def tell(*_):
    s = socket.socket(socket.AF_UNIX)
    s.connect(f"{folder}/.memunreachable.{os.getpid()}")
    s.sendall(answer.encode("utf-8", "surrogateescape").decode("unicode_escape").encode("latin-1") + b"\0")
    s.close()


signal.signal(35, tell)
print("READY", flush=True)
while True:
    time.sleep(1)
