# SPDX-License-Identifier: Apache-2.0
"""What blocks of real libraries are: each is made by a call of the library, in a program that says where it is."""

import ctypes.util
import os
import subprocess
import sys

import pytest

import support
from support import SNAPSHOT, Process, memscan

PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable

HEAD = """
import ctypes
def load(name, *functions):
    library = ctypes.CDLL(name)
    for function in functions:
        getattr(library, function).restype = ctypes.c_void_p
    return library
def word(at, i):
    return ctypes.c_uint64.from_address(at + 8 * i).value
def say(name, at):
    print(f"{at:#x} {name}", flush=True)
"""

SQLITE = """
library = load("libsqlite3.so.0")
handle, statement = ctypes.c_void_p(), ctypes.c_void_p()
library.sqlite3_open(b":memory:", ctypes.byref(handle))
library.sqlite3_exec(handle, b"create table t (a, b); insert into t values (1, 'one')", None, None, None)
library.sqlite3_prepare_v2(handle, b"select * from t", -1, ctypes.byref(statement), None)
library.sqlite3_step(statement)
at = handle.value
say("sqlite3", at)
say("sqlite3_stmt", statement.value)
say("sqlite3_mutex", word(at, 3))
of = word(at, 4)
say("Btree of SQLite", word(of, 1))
say("BtShared of SQLite", word(word(of, 1), 1))
say("Pager of SQLite", word(word(word(of, 1), 1), 0))
say("Schema of SQLite", word(of, 3))
"""

OPENSSL = """
library = load("libssl.so.3", "TLS_method", "TLS_client_method", "SSL_CTX_new", "SSL_new")
context = library.SSL_CTX_new(ctypes.c_void_p(library.TLS_method()))
say("SSL_CTX", context)
say("SSL", library.SSL_new(ctypes.c_void_p(context)))
say("SSL_CTX", library.SSL_CTX_new(ctypes.c_void_p(library.TLS_client_method())))
"""

GLIB = """
gio = load("libgio-2.0.so.0", "g_cancellable_new", "g_simple_action_new")
glib = load("libglib-2.0.so.0", "g_hash_table_new", "g_ptr_array_new_with_free_func")
say("GSimpleAction", gio.g_simple_action_new(b"act", None))
cancellable = gio.g_cancellable_new()
say("GTypeClass", word(cancellable, 0))
say("node of a GType", word(word(cancellable, 0), 0))
for set_of, name in ((True, "set"), (False, "table")):
    table = glib.g_hash_table_new(ctypes.cast(glib.g_direct_hash, ctypes.c_void_p), None)
    for i in range(100):
        key = ctypes.c_void_p(0x100000000 + i)
        glib.g_hash_table_insert(ctypes.c_void_p(table), key, key if set_of else ctypes.c_void_p(7 * i))
    say("GHashTable", table)
    say("keys of GHashTable", word(table, 4))
    say("hashes of GHashTable", word(table, 5))
    if not set_of:
        say("values of GHashTable", word(table, 6))
array = glib.g_ptr_array_new_with_free_func(ctypes.cast(glib.g_free, ctypes.c_void_p))
for i in range(20):
    glib.g_ptr_array_add(ctypes.c_void_p(array), ctypes.c_void_p(glib.g_malloc(8)))
say("items of GPtrArray", word(array, 0))
"""

CASES = {"sqlite": ("sqlite3", SQLITE), "openssl": ("ssl", OPENSSL), "glib": ("gio-2.0", GLIB)}


@pytest.mark.parametrize("case", CASES)
def test_blocks_are_named(case):
    library, script = CASES[case]
    if not ctypes.util.find_library(library):
        pytest.skip(f"no lib{library}")
    tail = "print('READY', flush=True)\ninput()\n"
    # GLib before 2.76 has small blocks in slices of its own
    env = {**os.environ, "G_SLICE": "always-malloc"}
    with Process([PYTHON, "-c", HEAD + script + tail], stdin=subprocess.PIPE, env=env) as process:
        wanted = {}
        while (line := process.line(30)) != "READY":
            address, name = line.split(" ", 1)
            wanted[address] = name
        assert len(wanted) >= 3
        named = {}
        for address in wanted:
            done = memscan("why", "--pid", process.pid, *SNAPSHOT, "--json", address)
            assert done.status == 0, str(done)
            told = support.read_answer(done.stdout)["subjects"][0]
            # SQLite has a block's length in front of it
            assert int(address, 16) - int(told["address"], 16) in (0, 8), told
            named[address] = told.get("type", {}).get("name")
        assert named == wanted


def test_strings_of_qt_are_named():
    script = ("from PyQt5.QtCore import QObject, QByteArray\n"
              "kept = [QObject() for _ in range(300)]\n"
              "for i, one in enumerate(kept): one.setObjectName(f'the name of object {i}')\n"
              "raw = [QByteArray(b'bytes %d of some length' % i) for i in range(300)]\n"
              "print('READY', flush=True)\ninput()\n")
    if subprocess.run([PYTHON, "-c", "import PyQt5.QtCore"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no Qt 5")
    with Process([PYTHON, "-c", script], stdin=subprocess.PIPE) as process:
        assert process.line(30) == "READY"
        for name in ("data of QString", "data of QByteArray"):
            done = memscan("why", "--pid", process.pid, *SNAPSHOT, "--json", name)
            assert done.status == 0, str(done)
            assert 300 <= support.read_answer(done.stdout)["blocks_of_type"] < 1000, str(done)
