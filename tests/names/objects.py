# SPDX-License-Identifier: Apache-2.0
"""A Python program that says where its objects are, and of which type: of each a line in a file.

	python3 objects.py FILE

A child of it, which has all of them at the same places, writes the file, so that the objects
which this takes are not its own. It runs until its input ends.
"""

import collections
import ctypes
import decimal
import email.message
import gc
import json
import logging
import os
import sys
import types
import unittest
import xml.dom.minidom

LIST_ITEMS, DICT_KEYS, DICT_VALUES, SET_TABLE = 24, 32, 40, 40

# The collector of cycles does not look into it.
OF_CODE = ("co_consts", "co_names", "co_filename", "co_name", "co_qualname", "co_linetable", "co_exceptiontable")


class Session:
    def __init__(self, i):
        self.name, self.tokens, self.peers = f"session {i}", [str(i) * 3] * 4, set(range(i % 20))


class Slotted:
    __slots__ = ("number", "next")

    def __init__(self, number, next_):
        self.number, self.next = number, next_


def fill():
    chain = None
    for i in range(500):
        chain = Slotted(i * 1000, chain)
    return [
        [{"number": i * 1000, "text": str(i) * 5, "set": set(range(i % 20)), "float": i / 3} for i in range(2000)],
        [Session(i) for i in range(500)], chain, collections.deque(range(1000, 2000)), [decimal.Decimal(i) / 7 for i in range(300)],
        xml.dom.minidom.parseString("<a>" + "<b c='d'>text</b>" * 200 + "</a>"), [bytes([65 + i % 26]) * i for i in range(300)],
        [email.message.Message() for _ in range(50)], [lambda i=i: i for i in range(200)], {(i, str(i)): i for i in range(500)},
        logging.getLogger("memscan"), json.loads("[" + ",".join('{"k": [1, 2, "three"]}' for _ in range(300)) + "]"), unittest.TestCase,
    ]


def word(at):
    return ctypes.c_uint64.from_address(at).value


def parts(thing):
    at = id(thing)
    if isinstance(thing, list):
        yield word(at + LIST_ITEMS), "items of list"
    elif isinstance(thing, dict):
        yield word(at + DICT_KEYS), "keys of dict"
        yield word(at + DICT_VALUES), "values of dict"
    elif isinstance(thing, (set, frozenset)):
        yield word(at + SET_TABLE), "table of set"


def write(path):
    seen, todo = {}, gc.get_objects()
    while todo:
        thing = todo.pop()
        if id(thing) in seen:
            continue
        seen[id(thing)] = thing
        todo.extend(gc.get_referents(thing))
        todo.extend(getattr(thing, name) for name in OF_CODE if isinstance(thing, types.CodeType) and hasattr(thing, name))
    with open(path, "w") as out:
        for at, thing in seen.items():
            out.write(f"{at:#x} {type(thing).__name__}\n")
            for part, name in parts(thing):
                out.write(f"{part:#x} {name}\n")


gc.disable()
kept = fill()
child = os.fork()
if not child:
    write(sys.argv[1] + ".new")
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    os._exit(0)
os.waitpid(child, 0)
sys.stdin.read()
