# SPDX-License-Identifier: Apache-2.0
"""Whether the name of a block is right, by what is known of the block otherwise."""

import bisect
import re
import string

PRINTABLE = set(string.printable.encode())

# What is called otherwise in debug information.
ALSO = {
    "FILE": ("_IO_FILE", "_IO_FILE_plus", "locked_FILE", "_IO_FILE_complete_plus"),
    "DIR": ("__dirstream",),
    "struct link_map": ("link_map",),
    "table of thread-local storage": ("dtv", "dtv_t", "dtv_slotinfo_list"),
    "SSL": ("ssl_st",),
    "SSL_CTX": ("ssl_ctx_st",),
    "BIO": ("bio_st",),
    "data of QList": ("QListData::Data",),
    "data of QHash": ("QHashData",),
    "node of QHash": ("QHashData::Node",),
    "data of QString": ("QTypedArrayData<unsigned short>",),
    "data of QByteArray": ("QTypedArrayData<char>",),
}

# Of a container's block: what it is in the debugger's view.
PARTS = {
    "node of std::list": ("list",),
    "node of std::map or std::set": ("tree",),
    "node of an unordered container": ("hash",),
    "buckets of an unordered container": ("buckets",),
    "elements of std::vector": ("vector", "rust vec"),
    "map of std::deque": ("deque map",),
    "elements of std::deque": ("deque part",),
    "buffer of std::string": ("string",),
    "closure of std::function": ("closure",),
    "characters of String": ("rust string",),
    "elements of Vec": ("rust vec", "rust deque"),
    "table of HashMap or HashSet": ("rust table",),
}


def same_name(a, b):
    def bare(name):
        name = re.sub(r"\b(struct|class|std::__cxx11::|__cxx11::)\b ?", "", name).replace("std::", "")
        return re.sub(r"\s+", "", name)

    return bare(a) == bare(b)


class Known:
    """@views: of addresses, by gdb; @own: gives what the program says itself, of blocks."""

    def __init__(self, pid, folder, blocks, views, own):
        self.views = views
        self.seen = sorted(views)
        self.memory = open(f"/proc/{pid}/mem", "rb", buffering=0)
        with open(blocks) as lines:
            self.begins = sorted(int(line.split()[0], 16) for line in lines)
        self.own = own(folder, self.begins) if own else {}

    def read(self, at, size):
        try:
            self.memory.seek(at)
            return self.memory.read(size) or b""
        except (OSError, OverflowError, ValueError):
            return b""

    def word(self, at):
        return int.from_bytes(self.read(at, 8), "little")

    def looks_like_text(self, begin, size):
        text = self.read(begin, min(size, 1 << 16))
        head, nul, _ = text.partition(b"\0")
        if not nul or len(head) < 3:
            return False
        try:
            head.decode()
        except UnicodeDecodeError:
            return False
        return all(byte in PRINTABLE or byte >= 0x80 for byte in head)

    def python_name(self, at):
        """The name of the type of Python's object there, behind what may stand in front of it."""
        for header in (0, 16, 32):
            refs, type_ = self.word(at + header), self.word(at + header + 8)
            if not 0 < refs & 0xffffffff < 1 << 31 or self.read(refs, 1) or not self.has_type(type_):
                continue
            return self.read(self.word(type_ + 24), 200).split(b"\0")[0].decode(errors="replace")
        return None

    def has_type(self, type_):
        """Whether it is of a type, and that in turn, up to the type of types."""
        for _ in range(8):
            above = self.word(type_ + 8)
            if above == type_ and above:
                return self.read(self.word(type_ + 24), 5) == b"type\0"
            type_ = above
        return False

    def is_qt_text(self, drawn):
        """As Qt 5 or 6 has it: text of 16 bits a character, as long as it says, or its holder does."""
        size = int.from_bytes(self.read(drawn.at + 4, 4), "little")
        text = self.read(drawn.at + 24, 2 * size + 2) if self.word(drawn.at + 16) == 24 else self.read(drawn.at + 16, 8)
        try:
            return bool(text) and "\ufffd" not in text.decode("utf-16-le")
        except UnicodeDecodeError:
            return False

    def inside(self, at, size):
        first = bisect.bisect_left(self.seen, at)
        last = bisect.bisect_left(self.seen, at + size)
        return [view for address in self.seen[first:last] for view in self.views[address]]

    def judge(self, drawn):
        """right, wrong or unknown; and what is known."""
        if drawn.at in self.own:
            known, name = self.own[drawn.at], self.split(drawn.name)[0]
            return ("right" if name in known or name.rpartition(".")[2] in known else "wrong"), sorted(known)
        views = self.views.get(drawn.at, [])
        within = self.inside(drawn.at, drawn.size)
        name, owner = self.split(drawn.name)
        if drawn.how == "text" or name == "sds string":
            return self.judge_text(drawn, views, within)
        if not views and drawn.how == "object" and self.python_name(drawn.at):
            known = self.python_name(drawn.at)
            return ("right" if name == known else "wrong"), [["python", known, 0]]
        if name == "data of QString" and not views:
            return ("right" if self.is_qt_text(drawn) else "wrong"), views
        told = [view for view in views if view[0] != "numbers"]
        if not told:
            if name in ("buffer of FILE", "pixels of QImage") and views:
                return "right", views
            # redis declares it so; its first word says how long it is.
            if name == "listpack" and views and all(view[1] == "unsigned char" for view in views):
                return ("right" if 7 <= self.word(drawn.at) & 0xffffffff <= drawn.size else "wrong"), views
            return ("unknown" if not views else "wrong"), views or within
        if any(self.fits(name, view) for view in told):
            return ("right" if self.has_owner(owner, told) else "wrong"), told
        return "wrong", told

    @staticmethod
    def split(name):
        """A name, and the type and offset that it says the holder has."""
        found = re.match(r"(.*) in (.*)\+0x([0-9a-f]+)$", name)
        return (found[1], (found[2], int(found[3], 16))) if found else (name, None)

    def judge_text(self, drawn, views, within):
        if any(view[0] in ("numbers", "string", "rust string") for view in within):
            return "right", within
        if any(view[0] in ("object", "pointers", "vector", "tree", "list", "hash", "buckets") for view in views):
            return "wrong", views
        if drawn.how == "text" and self.looks_like_text(drawn.at, drawn.size):
            return "right", [["text by its bytes", "", 0]]
        return "unknown", within

    @staticmethod
    def fits(name, view):
        kind, type_, _ = view
        if name == "Rust trait object":
            return kind == "rust dyn" or (kind in ("object", "rust counted") and re.search(r"\bdyn ", type_))
        if name in PARTS:
            return kind in PARTS[name]
        if name == "table of dict":
            return kind == "pointers" and type_ == "dictEntry"
        if name == "buckets of QHash":
            return kind == "pointers" and type_ == "QHashData::Node"
        if name == "QArrayData":
            return kind == "object" and re.match(r"QTypedArrayData\b|QArrayData$", type_)
        if name == "unused memory context":
            return kind == "context" and type_ == "unused"
        if name.startswith("memory context "):
            return kind == "context" and type_ == name[len("memory context "):]
        if name.endswith(" *[]"):
            return kind == "pointers" and same_name(name[:-4], type_)
        if name.endswith("[]"):
            return kind in ("object", "vector") and same_name(name[:-2], type_)
        if name in ALSO:
            return kind == "object" and type_ in ALSO[name]
        return kind in ("object", "vector", "deque part") and same_name(name, type_)

    def has_owner(self, owner, views):
        """Whether the container stands where the name says."""
        if not owner:
            return True
        for _, _, holder in views:
            at = self.views.get(holder - owner[1], []) if holder else []
            if any(same_name(owner[0], type_) for kind, type_, _ in at if kind == "object"):
                return True
        return False
