# SPDX-License-Identifier: Apache-2.0
"""What people read: help, man pages and README say the same, in plain words."""

import re
import shutil
import subprocess

import pytest

from support import ROOT, memscan

COMMANDS = ["scan", "run", "stacks", "trigger", "heapdump", "records", "why", "retained", "diff", "attach",
            "detach"]
PAGES = sorted((ROOT / "man").iterdir())
TEXTS = [ROOT / "README.md", *PAGES, ROOT / "docs" / "DESIGN.md", ROOT / "docs" / "LIMITS.md"]
# a thing reports, prints or says; the rest has a subject
AVOIDED = re.compile(r"\b(tells?|told|nobody|whoever|leave\w* away|wrong call|call was wrong)\b", re.IGNORECASE)


def help_of(command):
    done = memscan(command, "--help")
    assert done.status == 0 and not done.stderr, str(done)
    return done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_its_place_in_the_man_page(command):
    page = (ROOT / "man" / "memscan.1").read_text()
    described = {name for line in page.splitlines() if line.startswith(".It ")
                 for name in re.findall(r"\bFl Fl ([a-z-]+)", line)}
    options = set(re.findall(r"(?<![\w-])--([a-z-]+)", help_of(command)))
    assert options and options <= described, f"not in memscan(1): {options - described}"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_and_says_how_it_ends(command):
    text = help_of(command)
    assert text.startswith("Usage: memscan ") and "\nExit status: " in text and "usage error" in text
    long = [line for line in text.splitlines() if len(line) > 100]
    assert not long, long
    assert not AVOIDED.search(text), AVOIDED.search(text)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_plain_words(path):
    found = [f"{number}: {line}" for number, line in enumerate(path.read_text().splitlines(), 1) if AVOIDED.search(line)]
    assert not found, found


def test_man_pages_are_sound():
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed; tools/install-deps check")
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *PAGES], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0 and not done.stdout, done.stdout


def test_readme_names_every_command_and_document():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 140, "README is for someone whose process leaks right now"
    for command in COMMANDS[1:]:
        assert f"memscan {command} " in text
    for page in PAGES:
        assert page.stem in text
