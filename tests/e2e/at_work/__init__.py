# SPDX-License-Identifier: Apache-2.0
"""Unchanged programs from packages, each put to work: one table.

A program's function is a generator: it starts the program and puts work on it, yields a
function that says which processes are to be scanned at the moment, and ends the program
in order. Whatever goes wrong with its work is an error, too.

To add a program: write its function in the file of its kind, decorated with its name and
its packages, which tools/install-deps has to have as well. "check" puts it into `make
check`, where all have to be done within three minutes; `make check-programs` has all.
"""

import contextlib
import dataclasses
import importlib
import os
import pathlib
import pwd
import shutil
import threading
import typing

import pytest

import servers
import support


@dataclasses.dataclass
class Program:
    name: str
    packages: str
    run: typing.Callable
    check: bool
    other_malloc: bool


programs = []

# For what only helps: it writes no log.
NO_LOG = {"LD_PRELOAD": ""}


def program(name, packages, check=False, other_malloc=False):
    def add(run):
        programs.append(Program(name, packages, run, check, other_malloc))
        return run
    return add


class Place:
    """Where a program is at work: a folder, an environment, its processes, and those that keep it busy."""

    def __init__(self, folder, env):
        self.folder, self.env, self.ended = folder, env, False
        self.stack, self.workers, self.wrong = contextlib.ExitStack(), [], []

    def command(self, *names):
        """The first of these commands that is there."""
        for name in names:
            path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin:/usr/games")
            if path:
                return path
        pytest.skip(f"{names[0]} is not installed; tools/install-deps programs")

    def write(self, name, text, mode=0o644):
        path = pathlib.Path(self.folder, name)
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    def start(self, *argv, env=None, **more):
        """Start a program with the log; ended by force at last when its function did not end it."""
        more.setdefault("cwd", self.folder)
        more.setdefault("stdout", self.output())
        more.setdefault("stderr", self.output())
        process = self.stack.enter_context(support.Process(argv, {**self.env, **(env or {})}, **more))
        # what does not read its input any more would keep who writes it, and the lock of the pipe
        self.stack.callback(lambda: process.running() and support.kill(process.pid))
        return process

    def output(self):
        """The file where programs of this place say what they have to."""
        return self.stack.enter_context(open(f"{self.folder}/output", "ab"))

    def said(self):
        return pathlib.Path(self.folder, "output").read_text(errors="replace")[-2000:]

    user = pwd.getpwuid(os.getuid()).pw_name

    @property
    def stop(self):
        """A path that is there when work is to end, for programs that can look."""
        return f"{self.folder}/stop"

    def busy(self, work, n=1):
        """Call work(number of the thread, turn) again and again in so many threads until the end."""
        def repeat(i):
            turn = 0
            try:
                while not self.ended:
                    work(i, turn)
                    turn += 1
            except Exception as error:  # pylint: disable=broad-except
                if not self.ended:
                    self.wrong.append(f"{type(error).__name__}: {error}")
        for i in range(n):
            self.workers.append(threading.Thread(target=repeat, args=(i,), daemon=True))
            self.workers[-1].start()

    def end_work(self):
        self.ended = True
        pathlib.Path(self.stop).touch()
        for worker in self.workers:
            worker.join(30)
        assert not any(worker.is_alive() for worker in self.workers), "work on a program does not end"

    def end(self, process, *statuses, signal=None, seconds=60):
        """No more work; end a program in order, by a signal or with its input."""
        self.end_work()
        if signal:
            support.kill(process.pid, signal)
        status = process.finish(seconds)
        assert status in (statuses or (0,)), f"status {status}: {self.said()}"
        assert not self.wrong, f"{self.wrong[:5]}\n{self.said()}"

    def wait(self, condition, what, seconds=60):
        try:
            support.wait_until(condition, seconds, what)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.said()}") from None

    def listens(self, where):
        """At a port, or at the path of a socket."""
        self.wait(lambda: servers.accepts(where), f"something listens at {where}")


def of(process):
    """To be scanned: this process alone."""
    return lambda: [process.pid]


def with_children(process):
    return lambda: [process.pid, *support.children_of(process.pid)]


# The files of the table, in its order.
for part in "interpreters", "web", "databases", "desktop", "tools", "network", "files":
    importlib.import_module(f"at_work.{part}")
