# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import tempfile

import pytest

import support

rows = []


def pytest_sessionstart(session):
    if not support.MEMSCAN.exists():
        raise pytest.UsageError(f"{support.MEMSCAN} does not exist; run make first")


@pytest.fixture(autouse=True)
def nothing_left_behind():
    yield
    left = support.leftovers()
    assert not left, f"processes left behind: {left}"


@pytest.fixture
def folder():
    """A short path that any user can enter (unlike pytest's)."""
    path = tempfile.mkdtemp(prefix="memscan-e2e-")
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def table():
    """Rows (name, report, seconds) of scanned programs, summed up at the end."""
    return rows


@pytest.fixture(scope="session")
def notes():
    """Lines to be printed at the end of the run."""
    return lines


lines = []


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
    for line in lines:
        terminalreporter.write_line(line)
