# SPDX-License-Identifier: Apache-2.0
"""Profiles for pprof: read by a reader of the wire format, and held against folded stacks.

Source: github.com/google/pprof, proto/profile.proto.
"""

import collections
import os
import pty
import subprocess

import pytest

import support
from support import MEMSCAN, memscan
from test_backtraces import start
from test_heapdump import GOLDEN
from test_sampled import start as start_sampled

TYPE, SAMPLE, MAPPING, LOCATION, FUNCTION, STRING = range(1, 7)


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def numbers(data):
    """Packed numbers, with their signs."""
    at, out = 0, []
    while at < len(data):
        value, at = varint(data, at)
        out.append(value - (1 << 64) if value >> 63 else value)
    return out


def fields(data):
    """Each field's values: numbers, or bytes."""
    at, out = 0, collections.defaultdict(list)
    while at < len(data):
        key, at = varint(data, at)
        assert key & 7 in (0, 2), f"kind {key & 7} is not used"
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
            assert isinstance(value, bytes)
        out[key >> 3].append(value)
    assert at == len(data)
    return out


class Profile:
    def __init__(self, path):
        parts = fields(path.read_bytes())
        self.strings = [text.decode() for text in parts[STRING]]
        assert self.strings[0] == ""
        self.types = [self.texts(part, 1, 2) for part in parts[TYPE]]
        self.mappings = self.numbered(parts[MAPPING])
        self.functions = self.numbered(parts[FUNCTION])
        self.locations = self.numbered(parts[LOCATION])
        self.samples = [fields(part) for part in parts[SAMPLE]]

    def texts(self, part, *which):
        return tuple(self.strings[fields(part)[n][0]] for n in which)

    @staticmethod
    def numbered(parts):
        out = {fields(part)[1][0]: fields(part) for part in parts}
        assert len(out) == len(parts) and 0 not in out
        return out

    def frames(self, number):
        """The functions of a place, outermost first; as folded stacks have them."""
        place = self.locations[number]
        if not place[4]:
            mapping = self.mappings.get(place[2][0])
            if not mapping:
                return [f"{place[3][0]:#x}"]
            assert mapping[2][0] <= place[3][0] < mapping[3][0]
            return [f"{os.path.basename(self.strings[mapping[5][0]])}+{place[3][0] - mapping[2][0]:#x}"]
        return [self.strings[self.functions[fields(line)[1][0]][2][0]] for line in reversed(place[4])]

    def labels(self, sample):
        """Of texts and numbers."""
        out = {}
        for label in sample[3]:
            parts = fields(label)
            out[self.strings[parts[1][0]]] = self.strings[parts[2][0]] if parts[2] else parts[3][0]
        return out

    def stacks(self):
        """The bytes of each stack, old ones and others."""
        out = collections.defaultdict(lambda: [0, 0])
        for sample in self.samples:
            names = [name for number in reversed(numbers(sample[1][0])) for name in self.frames(number)]
            labels = self.labels(sample)
            names = [labels[name] for name in ("group",) if name in labels] + names
            stack = ";".join(name.replace(";", ":") for name in names)
            _, size = numbers(sample[2][0])
            out[stack][labels.get("pprof::base") != "true"] += size
        return dict(out)


def folded_stacks(text):
    return {stack: int(size) for stack, size in (line.rsplit(" ", 1) for line in text.splitlines())}


def check_same(profile, folded):
    assert profile.types == [("inuse_objects", "count"), ("inuse_space", "bytes")]
    assert {stack: new for stack, (_, new) in profile.stacks().items()} == folded
    assert folded


def test_leaks(tmp_path):
    with start() as target:
        done = memscan("--pid", target.pid, "--format", "pprof", "-o", tmp_path / "leaks")
        folded = memscan("--pid", target.pid, "--format", "folded").stdout
    assert done.status == support.SCANNED_LEAKS and done.stdout == "", str(done)
    profile = Profile(tmp_path / "leaks")
    check_same(profile, folded_stacks(folded))
    files = {profile.strings[function[4][0]] for function in profile.functions.values()}
    assert any(name.endswith(".c") for name in files), files


def test_what_lives(tmp_path):
    with start_sampled("pie", 65536, 1) as target:
        done = memscan("live", "--pid", target.pid, "--format", "pprof", "-o", tmp_path / "live")
        folded = memscan("live", "--pid", target.pid, "--format", "folded").stdout
    assert done.status == 0, str(done)
    check_same(Profile(tmp_path / "live"), folded_stacks(folded))


@pytest.mark.parametrize("args", [[], ["--reverse"], ["--by", "size"]], ids=["stack", "reverse", "size"])
def test_heap_dumps(args, tmp_path):
    def heapdump(form, *rest):
        return memscan("heapdump", *rest, "-f", form, GOLDEN / "v1.2-arm64.txt", "-o", tmp_path / form)

    assert heapdump("pprof", *args).status == heapdump("folded").status == 0
    profile = Profile(tmp_path / "pprof")
    check_same(profile, folded_stacks((tmp_path / "folded").read_text()))
    for sample in profile.samples:
        count, size = numbers(sample[2][0])
        each = profile.labels(sample).get("bytes")
        assert each * count == size if args == ["--by", "size"] else each is None


def test_two_heap_dumps(tmp_path):
    files = [GOLDEN / f"v1.2-arm64{later}.txt" for later in ("", "-later")]
    assert memscan("heapdump", "-f", "pprof", *files, "-o", tmp_path / "pprof").status == 0
    lines = memscan("heapdump", "-f", "folded", *files).stdout.splitlines()
    folded = {stack: [-int(old), int(new)] for stack, old, new in (line.rsplit(" ", 2) for line in lines)}
    assert Profile(tmp_path / "pprof").stacks() == folded


@pytest.mark.parametrize("command", [["--pid", "1"], ["live", "--pid", "1"], ["heapdump", "x"], ["run", "true"]],
                         ids=lambda command: command[0])
def test_a_terminal_is_given_no_bytes(command):
    ours, theirs = pty.openpty()
    done = subprocess.run([MEMSCAN, command[0], "-f", "pprof", *command[1:]] if command[0] != "--pid" else
                          [MEMSCAN, "-f", "pprof", *command], stdin=theirs, stdout=theirs, stderr=theirs, check=False)
    said = os.read(ours, 4096).decode()
    os.close(ours)
    os.close(theirs)
    assert done.returncode == support.COULD_NOT_WRITE and "no text for a terminal" in said, said
