# SPDX-License-Identifier: Apache-2.0
"""What all of pytest's processes have: one, or with -n several side by side.

Then a file's tests go to one of them, one after the other; those marked "spread", each to
whichever is free. What is marked "alone" has no place beside others (check-e2e in Makefile).
"""

import collections
import os
import pickle
import shutil
import signal
import tempfile
import zlib

import pytest

import messages
import support

rows = []

# Whoever started this may have ignored or blocked signals, as a script's "&" does, and what
# is started from here would inherit that. Python ignores two by itself, but not in children.
for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_SETMASK, ())


def pytest_sessionstart(session):
    if not support.MEMSCAN.exists():
        raise pytest.UsageError(f"{support.MEMSCAN} does not exist; run make first")


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: measures time, must meet a scan at work, or changes the machine: no other test runs beside it")
    config.addinivalue_line("markers", "spread: the tests of the file need not run one after the other")


def values(item):
    """Its parameters with their values."""
    return {(name, str(value)) for name, value in item.callspec.params.items()} if hasattr(item, "callspec") else set()


def covering(items):
    """The ids of enough tests that each value of a parameter is in one."""
    # in an order that is no parameter's, or the first values would be in all of them
    shuffled = sorted(items, key=lambda item: zlib.crc32(item.nodeid.encode()))
    own = {item.nodeid: values(item) for item in shuffled}
    seen, enough = collections.defaultdict(set), {item.nodeid for item in items if not own[item.nodeid]}
    # those first of which most is new: fewer are enough then
    for least in range(max(map(len, own.values()), default=0), 0, -1):
        for item in shuffled:
            known = seen[item.path, item.originalname]
            if len(own[item.nodeid] - known) >= least:
                known |= own[item.nodeid]
                enough.add(item.nodeid)
    return enough


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    if os.environ.get("COMBINATIONS") != "all":
        enough = covering(items)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in enough])
        items[:] = [item for item in items if item.nodeid in enough]
    items.sort(key=lambda item: item.get_closest_marker("spread") is not None)
    for item in items:
        if not item.get_closest_marker("spread"):
            item.add_marker(pytest.mark.xdist_group(item.path.name))


# The slowest takes a tenth of it. A test that hangs is a failure with a traceback, and those behind it run.
LIMIT_SECONDS = int(os.environ.get("TEST_SECONDS", 600)) + int(float(os.environ.get("PROGRAM_SECONDS") or 0))


def end_test(number, frame):
    raise TimeoutError(f"not over after {LIMIT_SECONDS} s")


def limited(item):
    signal.signal(signal.SIGALRM, end_test)
    signal.alarm(LIMIT_SECONDS)
    yield
    signal.alarm(0)


pytest_runtest_setup = pytest_runtest_call = pytest_runtest_teardown = pytest.hookimpl(hookwrapper=True)(limited)


@pytest.fixture(autouse=True)
def nothing_left_behind():
    yield
    left = support.leftovers()
    assert not left, f"processes left behind: {left}"


def reap_adopted():
    """The process beside is an orphan, and the test runner adopts orphans."""
    for pid in support.own_children():
        if pid not in support.our_children and support.state_of(pid) == "Z":
            os.waitpid(pid, 0)


@pytest.fixture
def adopted(nothing_left_behind):
    """What a test leaves for others to wait for has ended, and is waited for."""
    yield
    support.wait_until(lambda: reap_adopted() or not [p for p in support.own_children() if p not in support.our_children],
                       what="the end of adopted orphans")


@pytest.fixture
def folder():
    """A short path that any user can enter (unlike pytest's)."""
    path = tempfile.mkdtemp(prefix="memscan-e2e-")
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def memory_group():
    """A cgroup that limits memory, and the names of the limit and of the usage there."""
    with support.cgroup("memory", 10) as (group, version):
        yield group, *(("memory.limit_in_bytes", "memory.usage_in_bytes") if version == 1 else ("memory.max", "memory.current"))


@pytest.fixture(scope="session")
def table():
    """Rows (name, report, seconds) of scanned programs, summed up at the end."""
    return rows


@pytest.fixture(scope="session")
def notes():
    """Lines to be printed at the end of the run."""
    return lines


lines = []
found = []


@pytest.fixture(scope="session")
def outcomes():
    """What was told of programs at work, and turned out false, for a table at the end."""
    return found


def write_outcomes(write_line):
    write_line(f"{'program':<32} {'scans':>5} {'told':>6} {'freed later':>11} {'not there':>9} {'possible':>8} {'refused':>7} "
               f"{'not verified':>12} {'longest scan':>12} {'longest pause':>13}")
    for one in found:
        write_line(f"{one.name:<32} {one.scans:>5} {one.leaks():>6} {one.used_later:>11} {len(one.false) - one.used_later:>9} "
                   f"{one.possible:>8} {len(one.refused):>7} {len(one.unverified):>12} {one.longest_scan * 1e3:>9.0f} ms "
                   f"{one.longest_pause * 1e3:>10.2f} ms")
    for one in found:
        for text in sorted(set(one.refused)):
            write_line(f"{one.name}, refused {one.refused.count(text)} times: {text}")
        for text in sorted(set(one.unverified)):
            write_line(f"{one.name}, not verified {one.unverified.count(text)} times: {text}")


def pytest_sessionfinish(session):
    if messages.seen:
        messages.write(support.E2E_BUILD / "messages", os.environ.get("PYTEST_XDIST_WORKER", "alone"))
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["summary"] = pickle.dumps((rows, lines, found))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """One of several is done: take over what is to be printed at the end."""
    output = getattr(node, "workeroutput", {})
    if "summary" in output:
        for mine, theirs in zip((rows, lines, found), pickle.loads(output["summary"])):
            mine.extend(theirs)


def pytest_terminal_summary(terminalreporter):
    if rows:
        terminalreporter.section("programs scanned at work")
        terminalreporter.write_line(f"{'program':<32} {'scans':>5} {'blocks':>9} {'bytes':>12} {'leaked':>7} "
                                    f"{'pause ms':>9} {'tries':>5} {'scan ms':>8}")
        for name in dict.fromkeys(row[0] for row in rows):
            mine = [row for row in rows if row[0] == name]
            reports = [row[1] for row in mine]
            totals = reports[-1]["totals"]
            leaked = sorted({r["totals"]["leaked_allocations"] for r in reports})
            terminalreporter.write_line(
                f"{name:<32} {len(mine):>5} {totals['allocations']:>9} {totals['allocation_bytes']:>12} "
                f"{'-'.join(str(n) for n in {leaked[0]: 0, leaked[-1]: 0}):>7} "
                f"{max(r['scan']['pause_ns'] for r in reports) / 1e6:>9.2f} "
                f"{max(r['scan']['attempts'] for r in reports):>5} {max(row[2] for row in mine) * 1e3:>8.0f}")
    if found:
        terminalreporter.section("leaks of programs at work, looked up in the log of their malloc")
        write_outcomes(terminalreporter.write_line)
    for line in lines:
        terminalreporter.write_line(line)
