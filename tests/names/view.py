# SPDX-License-Identifier: Apache-2.0
"""What a debugger knows of the blocks of a process: run inside of gdb, which is attached to it.

	gdb -p PID -batch -x tests/names/view.py -ex 'python main("BLOCKS", "OUT")'

From each variable that no function has for itself, pointers are followed by their declared types,
and containers by what their types say that they hold. BLOCKS has a line for each block of the
heap, its address and size; they say no more than how far a pointer may be followed. In OUT is,
for each address that was reached, all that pointers to it were declared as.
Nothing here is shared with memscan: both can be wrong, but not in the same way.
"""

import bisect
import collections
import json
import re
import struct

import gdb

MOST_ELEMENTS = 100000
MOST_EXPANDED = 20000
MOST_DEPTH = 24
WORD = 8

STRUCTURES = (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION)
POINTERS = (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF)
NUMBERS = (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_FLT, gdb.TYPE_CODE_ENUM)

# ---- memory ----


class Memory:
    def __init__(self, pid, blocks):
        self.file = open(f"/proc/{pid}/mem", "rb", buffering=0)
        self.begins = [begin for begin, _ in blocks]
        self.sizes = dict(blocks)
        self.mapped, self.files = [], []
        with open(f"/proc/{pid}/maps") as maps:
            for line in maps:
                begin, end = line.split()[0].split("-")
                self.mapped.append((int(begin, 16), int(end, 16)))
                if "/" in line:
                    self.files.append(self.mapped[-1])

    def read(self, at, n):
        try:
            self.file.seek(at)
            got = self.file.read(n)
        except (OSError, OverflowError, ValueError):
            return None
        return got if got and len(got) == n else None

    def word(self, at):
        got = self.read(at, WORD)
        return struct.unpack("<Q", got)[0] if got else 0

    def words(self, at, n):
        got = self.read(at, n * WORD)
        return struct.unpack(f"<{n}Q", got) if got else (0,) * n

    def is_mapped(self, at, ranges=None):
        ranges = self.mapped if ranges is None else ranges
        i = bisect.bisect_right(ranges, (at, 1 << 64)) - 1
        return i >= 0 and at < ranges[i][1]

    def room(self, at):
        """Bytes from `at` to the end of its block; None: it is in none."""
        i = bisect.bisect_right(self.begins, at) - 1
        if i < 0 or at >= self.begins[i] + self.sizes[self.begins[i]]:
            return None
        return self.begins[i] + self.sizes[self.begins[i]] - at


# ---- types ----


def plain(type_):
    return type_.strip_typedefs().unqualified()


def name_of(type_):
    return type_.name or type_.tag or ""


class Types:
    """What is where in a type, made once for each."""

    def __init__(self, memory):
        self.memory = memory
        self.plans = {}
        self.found = {}
        self.tables = {}

    def complete(self, type_):
        """The same type with its members, where only its name was declared here."""
        if type_.code not in STRUCTURES or (type_.fields() and type_.sizeof):
            return type_
        name = name_of(type_)
        if name not in self.found:
            self.found[name] = None
            for before in ("", "struct ", "class "):
                try:
                    other = plain(gdb.lookup_type(before + name))
                except gdb.error:
                    continue
                if other.code in STRUCTURES and other.fields():
                    self.found[name] = other
                    break
        return self.found[name] or type_

    def plan(self, type_):
        """Slots (offset, what, type): pointers and containers, of structures in it as well."""
        key = str(type_) if name_of(type_) else None
        if key and key in self.plans:
            return self.plans[key]
        slots = []
        self.add(type_, 0, slots, 0)
        if key:
            self.plans[key] = slots
        return slots

    def add(self, type_, offset, slots, depth):
        type_ = self.complete(plain(type_))
        if depth > MOST_DEPTH or len(slots) > MOST_ELEMENTS:
            return
        if type_.code in POINTERS:
            slots.append((offset, "pointer", plain(type_.target())))
        elif type_.code == gdb.TYPE_CODE_ARRAY:
            self.add_array(type_, offset, slots, depth)
        elif type_.code == gdb.TYPE_CODE_STRUCT:
            container = container_of(type_)
            if container:
                slots.append((offset, container, type_))
            else:
                self.add_members(type_, offset, slots, depth)

    def add_array(self, type_, offset, slots, depth):
        try:
            low, high = type_.range()
        except gdb.error:
            return
        element = plain(type_.target())
        if element.code in NUMBERS:
            return
        for i in range(min(high - low + 1, MOST_EXPANDED)):
            self.add(element, offset + i * element.sizeof, slots, depth + 1)

    def add_members(self, type_, offset, slots, depth):
        for field in type_.fields():
            if not hasattr(field, "bitpos") or field.bitsize or field.type is None:
                continue
            if field.name and field.name.startswith("_vptr"):
                continue
            self.add(field.type, offset + field.bitpos // 8, slots, depth + 1)

    def has_table(self, type_):
        """Whether its objects begin with a pointer to a virtual table."""
        type_ = self.complete(plain(type_))
        for field in type_.fields() if type_.code == gdb.TYPE_CODE_STRUCT else ():
            if field.name and field.name.startswith("_vptr"):
                return True
            if field.is_base_class and getattr(field, "bitpos", 1) == 0 and self.has_table(field.type):
                return True
        return False

    def of_table(self, word):
        """The class whose virtual table is at `word`, by its symbol."""
        if not self.memory.is_mapped(word, self.memory.files):
            return None
        if word not in self.tables:
            self.tables[word] = None
            said = gdb.execute(f"info symbol {word:#x}", to_string=True)
            found = re.match(r"vtable for (.*) \+ 16 in section", said)
            self.tables[word] = found[1] if found else self.of_class_info(word)
        return self.tables[word]

    def of_class_info(self, word):
        """The same where no symbol tells, by what stands before the table."""
        info = self.memory.word(word - WORD)
        if word % WORD or not info or self.memory.word(word - 2 * WORD):
            return None
        said = gdb.execute(f"info symbol {self.memory.word(info):#x}", to_string=True)
        if not re.match(r"vtable for __cxxabiv1::__(si_|vmi_)?class_type_info \+ 16 in", said):
            return None
        name = (self.memory.read(self.memory.word(info + WORD), 512) or b"").split(b"\0")[0].decode(errors="replace").lstrip("*")
        found = re.match(r"typeinfo for (.*)", gdb.execute(f"demangle -l c++ -- _ZTI{name}", to_string=True)) if name else None
        return found[1] if found else None

    def named(self, name):
        try:
            return plain(gdb.lookup_type(name))
        except gdb.error:
            return None


CONTAINERS = (
    (r"std::vector<bool", None),
    (r"std::vector<", "vector"),
    (r"std::(__cxx11::)?basic_string<char,", "string"),
    (r"std::(multi)?(map|set)<", "tree"),
    (r"std::(__cxx11::)?list<", "list"),
    (r"std::deque<", "deque"),
    (r"std::unordered_(multi)?(map|set)<", "hash"),
    (r"std::function<", "function"),
    (r"QList<", "qt list"),
    (r"QHash<", "qt hash"),
    (r"QVector<", "qt vector"),
    (r"alloc::string::String$", "rust string"),
    (r"alloc::vec::Vec<", "rust vec"),
    (r"alloc::collections::vec_deque::VecDeque<", "rust deque"),
    (r"alloc::collections::btree::map::BTreeMap<", "rust tree"),
    (r"alloc::boxed::Box<\(?dyn ", "rust box"),
    (r"hashbrown::raw::RawTable<", "rust table"),
    (r"alloc::(sync::Arc|rc::Rc)<", "rust counted"),
)


def container_of(type_):
    for pattern, kind in CONTAINERS:
        if re.match(pattern, name_of(type_)):
            return kind
    return None


def member(type_, path):
    """The offset and type of a member that is named in steps."""
    offset = 0
    for step in path.split("."):
        type_ = plain(type_)
        for field in type_.fields():
            if field.name == step:
                offset += field.bitpos // 8
                type_ = field.type
                break
        else:
            return None
    return offset, plain(type_)


# ---- the walk ----


class Walk:
    def __init__(self, memory):
        self.memory, self.types = memory, Types(memory)
        self.views = collections.defaultdict(set)
        self.seen, self.queue = set(), collections.deque()

    def see(self, at, kind, type_=None, holder=0):
        self.views[at].add((kind, type_ if isinstance(type_, str) else name_of(type_) if type_ else "", holder))

    def put(self, at, type_, n=1):
        """Objects at `at` are to be followed."""
        key = (at, str(type_), n)
        if n > 0 and key not in self.seen:
            self.seen.add(key)
            self.queue.append((at, type_, n))

    def run(self):
        while self.queue:
            at, type_, n = self.queue.popleft()
            slots = self.types.plan(type_)
            size = type_.sizeof
            for i in range(min(n, MOST_ELEMENTS) if slots else 0):
                self.follow_slots(at + i * size, slots)

    def follow_slots(self, at, slots):
        for offset, what, type_ in slots:
            if what == "pointer":
                self.follow_pointer(self.memory.word(at + offset), type_, at + offset)
            else:
                getattr(self, "follow_" + what.replace(" ", "_"))(at + offset, type_)

    def follow_pointer(self, value, target, at):
        if not value:
            return
        room = self.memory.room(value)
        target = self.types.complete(target)
        if target.code in POINTERS:
            self.see(value, "pointers", plain(target.target()))
            for i in range(min(room // WORD, MOST_ELEMENTS) if room else 0):
                inner = self.memory.word(value + i * WORD)
                if inner and not self.memory.is_mapped(inner):
                    break
                self.follow_pointer(inner, plain(target.target()), value + i * WORD)
        elif target.code in NUMBERS:
            self.see(value, "numbers", str(target), at)
        elif target.code == gdb.TYPE_CODE_STRUCT:
            self.follow_object(value, target, room)
        elif target.code == gdb.TYPE_CODE_UNION:
            self.see(value, "object", target)

    def follow_object(self, value, target, room):
        # What libc has of streams that were never opened leads anywhere.
        if name_of(target).startswith("_IO_FILE") and self.memory.word(value) >> 16 & 0xffff != 0xfbad:
            return
        self.see(value, "object", target)
        container = container_of(target)
        if container and room is None:
            self.put(value, target)
            return
        if self.types.has_table(target):
            name = self.types.of_table(self.memory.word(value))
            exact = self.types.named(name) if name else None
            if name:
                self.see(value, "object", name)
            if exact is not None:
                self.put(value, exact)
                return
        if not target.sizeof or (room is not None and room < target.sizeof):
            return
        n = 1 if room is None else room // target.sizeof
        self.put(value, target, n if n > 1 and self.are_objects(value, target, n) else 1)

    def are_objects(self, at, type_, n):
        """Whether behind the first are more of them: each has pointers where the type has them."""
        slots = [slot for slot in self.types.plan(type_) if slot[1] == "pointer"]
        if not slots:
            return False
        any_ = False
        for i in range(1, min(n, 64)):
            for offset, _, _ in slots:
                word = self.memory.word(at + i * type_.sizeof + offset)
                if word and not self.memory.is_mapped(word):
                    return False
                any_ |= bool(word)
        return any_

    # ---- containers of libstdc++ ----

    def follow_vector(self, at, type_):
        begin, end, _ = self.memory.words(at, 3)
        element = plain(type_.template_argument(0))
        if begin:
            self.see(begin, "vector", element, at)
            self.put(begin, element, (end - begin) // element.sizeof)

    def follow_string(self, at, type_):
        begin = self.memory.word(at)
        if begin != at + 2 * WORD:
            self.see(begin, "string", None, at)

    def value_type(self, type_):
        if re.match(r"std::(unordered_)?(multi)?set<", name_of(type_)):
            return plain(type_.template_argument(0))
        pair = f"std::pair<{type_.template_argument(0)} const, {type_.template_argument(1)}>"
        return (self.types.named(pair) or self.types.named(pair.replace(">>", "> >")) or
                self.types.named(f"std::pair<const {type_.template_argument(0)}, {type_.template_argument(1)}>"))

    def follow_tree(self, at, type_):
        value, todo = self.value_type(type_), [self.memory.word(at + 16)]
        count, left = 0, self.memory.word(at + 40)
        while todo and count < left:
            node = todo.pop()
            if not node:
                continue
            count += 1
            self.see(node, "tree", None, at)
            todo += self.memory.words(node + 16, 2)
            if value is not None:
                self.put(node + 32, value)

    def follow_list(self, at, type_):
        value, node = plain(type_.template_argument(0)), self.memory.word(at)
        for _ in range(self.memory.word(at + 16) & 0xffffffff):
            self.see(node, "list", None, at)
            self.put(node + 16, value)
            node = self.memory.word(node)

    def follow_hash(self, at, type_):
        buckets, n, node, count = self.memory.words(at, 4)
        value = self.value_type(type_)
        if n > 1:
            self.see(buckets, "buckets", None, at)
        for _ in range(count if count < 1 << 32 else 0):
            self.see(node, "hash", None, at)
            if value is not None:
                self.put(node + 8, value)
            node = self.memory.word(node)

    def follow_deque(self, at, type_):
        words = self.memory.words(at, 10)
        element = plain(type_.template_argument(0))
        self.see(words[0], "deque map", None, at)
        for node in range(words[5], words[9] + 1, WORD) if words[9] - words[5] < 1 << 24 else ():
            part = self.memory.word(node)
            self.see(part, "deque part", element, at)
            begin = words[2] if node == words[5] else part
            end = words[6] if node == words[9] else part + words[4] - words[3]
            self.put(begin, element, (end - begin) // element.sizeof)

    def follow_function(self, at, type_):
        word, _, manager, _ = self.memory.words(at, 4)
        if manager and self.memory.room(word):
            self.see(word, "closure", None, at)

    # ---- Qt 5's ----

    def follow_qt_list(self, at, type_):
        data, element = self.memory.word(at), plain(type_.template_argument(0))
        self.see(data, "object", "QListData::Data")
        first, end = struct.unpack("<II", self.memory.read(data + 8, 8) or bytes(8))
        for i in range(first, min(end, MOST_ELEMENTS)):
            item = data + 16 + i * WORD
            # What is longer than a pointer is elsewhere.
            if element.sizeof > WORD:
                self.follow_object(self.memory.word(item), element, None)
            else:
                self.put(item, element)

    def follow_qt_hash(self, at, type_):
        data = self.memory.word(at)
        buckets, n = self.memory.word(data + 8), self.memory.word(data + 32) & 0xffffffff
        node_type = self.types.named(f"QHashNode<{type_.template_argument(0)}, {type_.template_argument(1)}>")
        self.see(data, "object", "QHashData")
        self.see(buckets, "pointers", "QHashData::Node")
        for bucket in range(n if n < 1 << 24 else 0):
            node = self.memory.word(buckets + bucket * WORD)
            while node and node != data:
                self.see(node, "object", "QHashData::Node")
                if node_type is not None:
                    self.put(node, node_type)
                node = self.memory.word(node)

    def follow_qt_vector(self, at, type_):
        data, element = self.memory.word(at), plain(type_.template_argument(0))
        self.see(data, "object", "QTypedArrayData")
        self.put(data + 24, element, struct.unpack("<I", self.memory.read(data + 4, 4) or bytes(4))[0])

    # ---- Rust's ----

    def vec(self, at, type_):
        """Begin, room and length."""
        pointer = member(type_, "buf.ptr.pointer.pointer") or member(type_, "buf.inner.ptr.pointer.pointer")
        room = member(type_, "buf.cap") or member(type_, "buf.inner.cap")
        length = member(type_, "len")
        if not pointer or not room or not length:
            return 0, 0, 0
        return (self.memory.word(at + pointer[0]), self.memory.word(at + room[0]), self.memory.word(at + length[0]))

    def follow_rust_string(self, at, type_):
        inner = member(type_, "vec")
        begin, room, _ = self.vec(at + inner[0], inner[1])
        if room:
            self.see(begin, "rust string", None, at)

    def follow_rust_vec(self, at, type_):
        begin, room, length = self.vec(at, type_)
        element = plain(type_.template_argument(0))
        if room and element.sizeof:
            self.see(begin, "rust vec", element, at)
            self.put(begin, element, length)

    def follow_rust_deque(self, at, type_):
        """A ring: of which elements are in use is of no matter where all are alike."""
        buffer = member(type_, "buf")
        tail, head = member(type_, "tail"), member(type_, "head")
        element = plain(type_.template_argument(0))
        if not buffer or not tail or not head or not element.sizeof:
            return
        pointer, room = member(buffer[1], "ptr.pointer.pointer"), member(buffer[1], "cap")
        begin, n = self.memory.word(at + buffer[0] + pointer[0]), self.memory.word(at + buffer[0] + room[0])
        self.see(begin, "rust deque", element, at)
        i, last = self.memory.word(at + tail[0]), self.memory.word(at + head[0])
        while n and i != last:
            self.put(begin + i * element.sizeof, element)
            i = (i + 1) % n

    def follow_rust_tree(self, at, type_):
        """From 1.63: the root's height and node; a leaf, and behind it, in others, the edges."""
        names = f"<{type_.template_argument(0)}, {type_.template_argument(1)}>"
        leaf = self.types.named("alloc::collections::btree::node::LeafNode" + names)
        root = member(type_, "root")
        if leaf is None or not root or not self.memory.word(at + root[0] + WORD):
            return
        height, node = self.memory.words(at + root[0], 2)
        todo = [(height, node)]
        while todo and height < 16:
            height, node = todo.pop()
            self.see(node, "rust node", leaf, at)
            n = struct.unpack("<H", self.memory.read(node + member(leaf, "len")[0], 2) or b"\0\0")[0]
            for part in ("keys", "vals"):
                offset, array = member(leaf, part)
                element = plain(plain(array.target()).template_argument(0))
                self.put(node + offset, element, n)
            if height:
                todo += [(height - 1, child) for child in self.memory.words(node + leaf.sizeof, n + 1)]

    def follow_rust_box(self, at, _):
        """The type is what its table's first function drops."""
        value, table = self.memory.words(at, 2)
        said = gdb.execute(f"info symbol {self.memory.word(table):#x}", to_string=True)
        found = re.match(r"core::ptr::drop_in_place<(.*)>(::h[0-9a-f]{16})? in section", said)
        type_ = self.types.named(found[1]) if found else None
        self.see(value, "rust dyn", found[1] if found else "", at)
        if type_ is not None:
            self.put(value, type_)

    def follow_rust_table(self, at, type_):
        element = plain(type_.template_argument(0))
        control = member(type_, "table.ctrl.pointer")
        mask = member(type_, "table.bucket_mask")
        if not control or not mask:
            return
        ctrl, n = self.memory.word(at + control[0]), self.memory.word(at + mask[0]) + 1
        if n == 1 or n > 1 << 24:
            return
        begin = ctrl - (n * element.sizeof + 15) // 16 * 16
        self.see(begin, "rust table", element, at)
        used = self.memory.read(ctrl, n) or b""
        for i, byte in enumerate(used):
            if byte < 0x80:
                self.put(ctrl - (i + 1) * element.sizeof, element)

    def follow_rust_counted(self, at, type_):
        pointer = member(type_, "ptr.pointer")
        if not pointer:
            return
        inner = pointer[1]
        if inner.code == gdb.TYPE_CODE_PTR:
            value = self.memory.word(at + pointer[0])
            self.see(value, "rust counted", plain(inner.target()), at)
            self.put(value, plain(inner.target()))


# ---- variables ----


def names_of_variables():
    for line in gdb.execute("info variables -q", to_string=True).splitlines():
        of_rust = re.match(r"0x[0-9a-f]+\s+([\w:]+)::h[0-9a-f]{16}$", line)
        found = re.match(r"(?:\d+:)?\s*(.*);$", line.strip())
        if of_rust:
            yield of_rust[1]
        elif found:
            yield last_name(found[1])


def last_name(declaration):
    """`struct foo *bar[3]` → bar; `std::map<A, B> N::x` → N::x."""
    declaration = re.sub(r"(\[[^\]]*\])+$", "", declaration)
    found = re.search(r"\(\*+\s*([\w:]+)(\[[^\]]*\])*\)\(", declaration) or re.search(r"([\w:$~]+)$", declaration)
    return found[1] if found else None


def symbols():
    for name in sorted(set(names_of_variables()) - {None}):
        found = list(gdb.lookup_static_symbols(name))
        symbol = gdb.lookup_global_symbol(name)
        yield from found + ([symbol] if symbol else [])


def put_symbol(walk, symbol):
    try:
        if not symbol.is_variable or symbol.needs_frame:
            return
        value = symbol.value()
        address, type_ = int(value.address), plain(value.type)
    except (gdb.error, TypeError, RuntimeError):
        return
    walk.put(address, type_)


def of_classes(walk):
    """Objects that say themselves what they are."""
    for begin in walk.memory.begins:
        name = walk.types.of_table(walk.memory.word(begin)) if walk.memory.sizes[begin] >= WORD else None
        if name:
            walk.see(begin, "object", name)
            exact = walk.types.named(name)
            if exact is not None:
                walk.put(begin, exact)


# ---- redis, whose values are behind pointers to anything ----

# Of an encoding: what a value leads to.
OF_ENCODINGS = {2: "dict", 6: "intset", 7: "zset", 9: "quicklist"}
KEYS_AND_VALUES = ("hashDictType",)
KEYS = ("setDictType", "zsetDictType")


def put_redis_value(walk, at):
    walk.see(at, "object", "redisObject")
    head, pointer = walk.memory.words(at, 2)
    type_ = walk.types.named(OF_ENCODINGS.get(head >> 4 & 15, "")) if head & 15 else None
    if type_ is not None:
        walk.follow_pointer(pointer, type_, at + WORD)
    elif head & 15 == 0 and head >> 4 & 15 in (0, 8):
        walk.see(pointer, "numbers", "char", at + WORD)


def put_redis(walk):
    """What the entries of dicts lead to, by the functions of the dict; again for dicts in these."""
    try:
        types = {int(gdb.parse_and_eval(f"&{name}")): name for name in ("dbDictType", *KEYS_AND_VALUES, *KEYS)}
    except gdb.error:
        return
    done = set()
    while True:
        dicts = [at for at, views in walk.views.items() if ("object", "dict", 0) in views and at not in done]
        if not dicts:
            return
        for at in dicts:
            done.add(at)
            put_redis_dict(walk, at, types.get(walk.memory.word(at)))
        walk.run()


def put_redis_dict(walk, at, name):
    sizes = walk.memory.read(at + 6 * WORD + 2, 2)
    for i in range(2 if name and sizes else 0):
        for bucket in range(1 << sizes[i] if sizes[i] < 32 else 0):
            entry = walk.memory.word(walk.memory.word(at + (1 + i) * WORD) + bucket * WORD)
            while entry:
                key, value, next_ = walk.memory.words(entry, 3)
                walk.see(entry, "object", "dictEntry")
                walk.see(key, "numbers", "char", entry)
                if name == "dbDictType":
                    put_redis_value(walk, value)
                elif name in KEYS_AND_VALUES:
                    walk.see(value, "numbers", "char", entry + WORD)
                entry = next_


# ---- PostgreSQL ----

# How a context's blocks are linked: the type of its header, the first of them, and the next of each.
OF_CONTEXTS = (("T_AllocSetContext", "AllocSetContext", "blocks", "next"),)


def blocks_of(context):
    yield int(context)
    for tag, header, first, next_ in OF_CONTEXTS:
        if str(context["type"]) == tag:
            block = context.cast(gdb.lookup_type(header).pointer())[first]
            while int(block):
                yield int(block)
                block = block[next_]


def put_contexts(walk):
    """Memory contexts, from the one that all others are below of; and those kept for the next."""
    try:
        todo = [gdb.parse_and_eval("TopMemoryContext")]
        todo[0]["firstchild"]
        free = gdb.parse_and_eval("context_freelists")
    except gdb.error:
        return
    for i in range(free.type.range()[1] + 1):
        context = free[i]["first_free"]
        while int(context):
            walk.see(int(context), "context", "unused")
            context = context["header"]["nextchild"].cast(context.type)
    while todo:
        context = todo.pop()
        name = context["name"].string()
        for at in blocks_of(context):
            walk.see(at, "context", name)
        child = context["firstchild"]
        while int(child):
            todo.append(child)
            child = child["nextchild"]


def main(blocks_file, out):
    with open(blocks_file) as lines:
        blocks = sorted(tuple(int(word, 0) for word in line.split()) for line in lines)
    walk = Walk(Memory(gdb.selected_inferior().pid, blocks))
    for symbol in symbols():
        put_symbol(walk, symbol)
    walk.run()
    of_classes(walk)
    walk.run()
    put_contexts(walk)
    put_redis(walk)
    with open(out, "w") as file:
        json.dump({f"{at:#x}": sorted(views) for at, views in walk.views.items()}, file)


gdb.execute("set python print-stack full")
