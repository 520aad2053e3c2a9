# SPDX-License-Identifier: Apache-2.0
"""Every refusal that the tests of a run provoke, for one table at its end.

A refusal is two lines on standard error: what happened, and what to do about it. A test
that meets one without the second line fails.
"""

import json
import re

NAME = "memscan: "
# 2 to 4 are memscan's own, 126 and 127 those of a program that memscan run could not start
REFUSALS = (2, 3, 4, 126, 127)
# memscan run goes on where one process could not be scanned: both are in one line then
UNSCANNED = re.compile(r"process \d+ was not scanned: (?P<why>.*?); (?P<advice>.*)")

seen = {}


def without_particulars(text):
    """The same text for each process, file and address that a test happens to have."""
    text = re.sub(r"(?<![\w.])/(?:[^\s/:;,'\"]+/)*[^\s/:;,'\"]*[a-z][^\s/:;,'\"]*", "FILE", text)
    text = re.sub(r"\b0x[0-9a-f]+", "ADDRESS", text)
    return re.sub(r"(?<!\()\b\d+\b(?!-bit)", "N", text)


def add(status, what, advice):
    key = (str(status), without_particulars(what))
    seen.setdefault(key, without_particulars(advice))


def check(status, stderr):
    """Keep what a call of memscan, which ended with @status, refused; it must have said what to do."""
    if isinstance(stderr, bytes):
        stderr = stderr.decode(errors="replace")
    ours = [line[len(NAME):] for line in stderr.split("\n") if line.startswith(NAME)]
    for line in ours:
        if " was not scanned: " in line:
            found = UNSCANNED.fullmatch(line)
            assert found, f"what to do is not said: {line}"
            add("PROG's", "process N was not scanned: " + found["why"], found["advice"])
    ours = [line for line in ours if " was not scanned: " not in line]
    if status in REFUSALS and ours:
        assert len(ours) > 1, f"status {status}, and what to do is not said: {stderr}"
        add(status, *ours[-2:])


def table(rows):
    lines = ["# What memscan refuses, and what it says to do", "",
             f"{len(rows)} messages that tests provoked; N stands for any number.", "",
             "| status | message | what to do |", "|---|---|---|"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def write(folder, name):
    """Keep what this process has seen as @name; of what all have, make one table beside @folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [[status, what, advice] for (status, what), advice in seen.items()]
    (folder / f"{name}.json").write_text(json.dumps(rows))
    rows = {(status, what): advice for file in sorted(folder.glob("*.json"))
            for status, what, advice in json.loads(file.read_text())}
    folder.with_suffix(".md").write_text(table(sorted((*key, advice) for key, advice in rows.items())))
