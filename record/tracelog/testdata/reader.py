#!/usr/bin/env python3
"""Prints cudatrace logs as `cudatrace dump --format ndjson` does, but for its remarks.

Another reader, written from FORMAT.md and docs/ndjson.md alone: a test compares it with
the one in Go, so that the two documents say all that a reader needs. Blocks that are not
intact are left out. Compressed columns go through the zstd command.

    python3 reader.py LOG...
"""
import json
import pathlib
import re
import struct
import subprocess
import sys

U64 = (1 << 64) - 1
MARKER = b"\xcd\x7a\xb1\x0c"
SCHEMA, RECORDS, FOOTER = 1, 2, 4  # types of block
STRING_KIND, FUNCTION_KIND, CALL_KIND, SAMPLE_KIND, KINDS, FIELDS = 1, 3, 6, 32, 128, 129  # tables
TYPES = ["uint", "int", "hex", "time", "dur", "string", "text"]
UINT, INT, HEX, TIME, DUR, STRING, TEXT = range(1, 8)
MAX_ROWS, MAX_COLUMNS, MAX_BYTES, MAX_TABLES, MAX_LIST = 65536, 64, 16777216, 4, 256
MAX_STRINGS, MAX_STRING = 1048576, 8388608
ARGS = 12


class Malformed(Exception):
    """What was read is not as FORMAT.md says."""


def check(ok, what):
    if not ok:
        raise Malformed(what)


def crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


CRC = crc_table()


def crc32c(data):
    c = 0xFFFFFFFF
    for b in data:
        c = CRC[(c ^ b) & 0xFF] ^ c >> 8
    return c ^ 0xFFFFFFFF


class Bytes:
    """Bytes that are taken from the front."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def left(self):
        return len(self.data) - self.at

    def take(self, n):
        check(n <= self.left(), "cut short")
        self.at += n
        return self.data[self.at - n:self.at]

    def uvarint(self):
        v = 0
        for shift in range(0, 70, 7):
            b = self.take(1)[0]
            v |= (b & 0x7F) << shift
            if b < 0x80:
                check(v <= U64, "a number of more than 64 bits")
                return v
        raise Malformed("a number of more than 10 bytes")

    def numbers(self):
        """A list: the first and then the differences."""
        last, out = 0, []
        n = self.uvarint()
        check(n <= MAX_LIST, "a list is too long")
        for _ in range(n):
            last = last + unzigzag(self.uvarint()) & U64
            out.append(last)
        return out


def unzigzag(v):
    return v >> 1 ^ -(v & 1)


def header(log, at):
    """Type, seq, length and checksum of the block at a byte; None where there is none."""
    if log[at:at + 4] != MARKER or len(log) < at + 24:
        return None
    kind, seq, length, crc, own = struct.unpack_from("<4xB3xIIII", log, at)
    return (kind, seq, length, crc) if own == crc32c(log[at:at + 20]) and length <= MAX_BYTES else None


def blocks(log):
    """Yields type and payload of each block that is intact and no repetition."""
    at, seen, footed = 16, set(), False
    while at >= 0:
        h = header(log, at)
        if h:
            kind, seq, length, crc = h
            payload = log[at + 24:at + 24 + length]
            if len(payload) == length and crc32c(payload) == crc:
                if seq == 0 and at > 16 and is_header(log[at - 16:at]):
                    return  # another log begins
                if seq not in seen:
                    yield kind, payload
                seen.add(seq)
                footed = footed or kind == FOOTER
                at += 24 + length
                continue
        if footed and is_trailer(log[at:at + 24]):
            return
        at = log.find(MARKER, at + 1)


def is_header(b):
    return len(b) == 16 and b[:8] == b"CUDATRC\n" and b[12:] == crc32c(b[:12]).to_bytes(4, "little")


def is_trailer(b):
    return len(b) == 24 and b[:8] == b"CUDATEND" and b[20:] == crc32c(b[:20]).to_bytes(4, "little")


class Column:
    def __init__(self, src):
        self.field = src.uvarint()
        encoding = src.take(1)[0]
        self.median, self.rel, self.repr = encoding >> 6 & 1, encoding >> 4 & 3, encoding & 15
        check(self.repr in (1, 2, 3) or self.repr <= 5 and self.rel == self.median == 0, "unknown encoding")
        check(not (self.median and self.rel == 2), "unknown encoding")
        self.ref = src.uvarint() if self.repr == 4 or self.rel == 3 else None
        self.data, self.size, self.frame = src.take(src.uvarint()), 0, None
        if encoding & 0x80:
            packed = Bytes(self.data)
            self.size, self.frame = packed.uvarint(), packed.take(packed.uvarint())
            self.data = packed.take(packed.left())

    def decode(self, rows, earlier):
        check(self.ref is None or self.ref < len(earlier) and earlier[self.ref].repr != 5, "a reference to no earlier column of numbers")
        src = Bytes(self.data)
        self.picks, self.count = None, 0
        x = [self.const, self.varint, self.dict, self.split, self.lookup, self.text][self.repr](src, rows, earlier)
        check(src.left() == 0, "data is left over")
        if self.median:
            x = above_medians(x)
        if self.rel == 0 and self.median:
            x = [unzigzag(n) & U64 for n in x]
        elif self.rel == 1:
            x = sums(x)
        elif self.rel == 2:
            x = sums(zigzag(v) for v in sums(x))
        elif self.rel == 3:
            x = sums(x, [0] + earlier[self.ref].values)
        self.values = x

    def const(self, src, rows, earlier):
        return [src.uvarint()] * rows

    def varint(self, src, rows, earlier):
        return [src.uvarint() for _ in range(rows)]

    def dict(self, src, rows, earlier):
        picks = src.take(rows)
        entries = src.numbers()
        check(max(picks) < len(entries), "a row picks no entry")
        if self.rel == self.median == 0:
            self.picks, self.count = picks, len(entries)
        return [entries[i] for i in picks]

    def split(self, src, rows, earlier):
        symbols = src.take(rows)
        bits, used, out = src.take(src.left()), 0, []
        for s in symbols:
            check(s <= 251, "unknown symbol")
            if s < 8:
                out.append(s)
                continue
            low = (s - 8) // 4 + 1
            here = int.from_bytes(bits[used >> 3:used + low + 7 >> 3], "little") >> (used & 7)
            out.append((4 | s & 3) << low | here & (1 << low) - 1)
            used += low
        check(used + 7 >> 3 == len(bits), "wrong number of bits")
        return out

    def lookup(self, src, rows, earlier):
        by, entries = earlier[self.ref], src.numbers()
        check(by.picks is not None and by.count == len(entries), "a lookup in what is no dictionary")
        return [entries[i] for i in by.picks]

    def text(self, src, rows, earlier):
        lengths = [src.uvarint() for _ in range(rows)]
        check(max(lengths) <= MAX_STRING, "a string is too long")
        return [src.take(n) for n in lengths]


def zigzag(v):
    return (v << 1 ^ (U64 if v >> 63 else 0)) & U64


def above_medians(x):
    """Adds to each of the differences that zigzag numbers are the median of the five sums before it. Gives zigzag numbers."""
    out = [0] * 5
    for n in x:
        out.append(signed(unzigzag(n) + sorted(out[-5:])[2]))
    return [zigzag(v & U64) for v in out[5:]]


def signed(v):
    v &= U64
    return v - (v >> 63 << 64)


def sums(x, also=()):
    """Adds up the differences that zigzag numbers are, and the numbers of also to them."""
    v, out = 0, []
    for i, n in enumerate(x):
        v = v + unzigzag(n) + (also[i] if also else 0) & U64
        out.append(v)
    return out


class Table:
    def __init__(self, data):
        src = Bytes(data)
        self.number, self.rows = src.uvarint(), src.uvarint()
        check(1 <= self.rows <= MAX_ROWS, "wrong number of rows")
        n = src.uvarint()
        check(n <= MAX_COLUMNS, "too many columns")
        columns = [Column(src) for _ in range(n)]
        check(src.left() == 0, "a table has more bytes than its columns")
        unpack(columns)
        for i, c in enumerate(columns):
            c.decode(self.rows, columns[:i])
        self.fields = {c.field: c.values for c in columns}
        self.texts = {c.field: c.repr == 5 for c in columns}
        check(len(self.fields) == n and all(f < MAX_COLUMNS for f in self.fields), "a field twice, or none")

    def column(self, field, kind=UINT):
        return self.fields.get(field, [b"" if kind == TEXT else 0] * self.rows)


def unpack(columns):
    """Decompresses the front of packed columns in one go, since frames may follow each other."""
    packed = [c for c in columns if c.frame is not None]
    check(sum(c.size + len(c.data) for c in columns) <= MAX_BYTES, "too large when decoded")
    if packed:
        zstd = subprocess.run(["zstd", "-dcq"], input=b"".join(c.frame for c in packed), capture_output=True)
        plain = Bytes(zstd.stdout)
        check(zstd.returncode == 0 and plain.left() == sum(c.size for c in packed), "does not decompress to its size")
        for c in packed:
            c.data = plain.take(c.size) + c.data


def tables(payload):
    src, out = Bytes(payload), []
    while src.left():
        check(len(out) < MAX_TABLES, "too many tables")
        out.append(Table(src.take(src.uvarint())))
    return out


KEYS = {}  # the names of the keys of each kind


def own_schema():
    """The tables at the end of FORMAT.md."""
    schema = {}
    text = (pathlib.Path(__file__).parent.parent / "FORMAT.md").read_text()
    work, *parts = re.split(r"\n### (?=\d+ `)", text[text.index("\n### GPU work\n"):])
    for part in parts:
        number, name = re.match(r"(\d+) `(\w+)`", part).groups()
        fields = fields_of(part)
        if "- the fields of [GPU work]" in part:
            fields = fields_of(work) + fields
            part = work + part
        schema[int(number)] = (name, fields)
        KEYS[int(number)] = re.findall(r"^- `(\w+)` \*(?:\w+, )?key\*: ", part, re.M)
    return schema


def fields_of(part):
    """The names and types of the fields that a section lists."""
    fields = []
    for names, special in re.findall(r"^- (`[^:*]*`)(?: \*(.*?)\*)?: ", part, re.M):
        kind = special.split(",")[0]
        first, *others = re.findall(r"`(\w+)`", names)
        if " to " in names:
            stem, last = re.match(r"(\D+)(\d+)", others[0]).groups()
            others = [stem + str(n) for n in range(1, int(last) + 1)]
        fields += [(f, TYPES.index(kind if kind in TYPES else "uint") + 1) for f in (first, *others)]
    return fields


def schema_of(payload):
    """For each kind its name, and the names and types of its fields."""
    schema, own = {}, own_schema()
    for t in tables(payload):
        columns = [t.column(n, kind) for n, (_, kind) in enumerate(own[t.number][1])] if t.number in (KINDS, FIELDS) else []
        for row in zip(*columns):
            if t.number == KINDS:
                schema[row[0]] = (row[1].decode(), [])
            else:
                check(row[0] in schema, "a field of no kind")
                schema[row[0]][1].append((row[1].decode(), row[2]))
    check(schema.get(STRING_KIND, own[STRING_KIND])[1] == own[STRING_KIND][1], "other fields of strings")
    return {**own, **schema}


class Printer:
    def __init__(self):
        self.schema, self.strings, self.functions, self.ids = own_schema(), {}, {}, {}
        self.bytes = {}  # of the strings
        self.described = False  # the schema or records have been read

    def block(self, kind, payload):
        if kind == SCHEMA:
            schema = schema_of(payload)
            check(not self.described, "a schema behind records or another schema")
            self.schema, self.described = schema, True
        elif kind == RECORDS:
            self.described = True
            found = tables(payload)
            check(len(found) == 1 and found[0].number < 128, "no table of records")
            self.records(found[0])

    def records(self, t):
        name, fields = self.schema.get(t.number, ("kind%d" % t.number, None))
        if fields is None:  # all columns, as numbers
            for i in range(t.rows):
                shown = {"field%d" % f: t.fields[f][i] for f in sorted(t.fields) if t.fields[f][i]}
                show({"kind": name, **shown})
            return
        check(all(t.texts[n] == (fields[n][1] == TEXT) for n in t.texts if n < len(fields)), "texts for numbers, or numbers for texts")
        for n, (field, kind) in enumerate(fields):
            check(field not in KEYS.get(t.number, ()) or len(set(t.column(n, kind))) == 1, "records that differ in a key")
        if t.number == STRING_KIND:
            for number, text in zip(t.column(0), t.column(1, TEXT)):
                check(1 <= number <= MAX_STRINGS, "a string with an impossible number")
                check(number > MAX_STRINGS - 2 or self.bytes.get(number, text) == text, "a string with two texts")
            self.bytes.update(zip(t.column(0), t.column(1, TEXT)))
        columns = [self.shown(kind, t.column(n, kind)) for n, (_, kind) in enumerate(fields)]
        names = [f for f, _ in fields]
        for values in zip(*columns):
            row = dict(zip(names, values))
            if t.number == STRING_KIND:
                self.strings[row["id"]] = row["text"]
                continue
            if t.number == FUNCTION_KIND:
                self.functions[row["id"]] = row
                self.ids.setdefault(row["name"], row["id"])
            if t.number == CALL_KIND:
                row = self.call(row)
            if t.number == SAMPLE_KIND:
                row = {f: v for f, v in row.items() if not f.startswith("value") or int(f[len("value"):]) < row["nvalues"]}
            show({"kind": name, **row})

    def shown(self, kind, values):
        if kind == TEXT:
            return [re.sub("[\udc80-\udcff]", "\ufffd", v.decode("utf-8", "surrogateescape")) for v in values]
        if kind == STRING:
            return [self.strings.get(v, "(lost)") if v else "" for v in values]
        change = {INT: unzigzag, HEX: hex}.get(kind)
        return [change(v) for v in values] if change else values

    def call(self, row):
        row = dict(row)
        values = [int(row.pop("arg%d" % i), 16) for i in range(ARGS)][:row.pop("nargs")]
        f = self.functions.get(row["func"], {"name": "", "args": ""})
        row["args"] = {}
        names = f["args"].split()
        for i, v in enumerate(values):
            name, _, kind = names[i].partition(":") if i < len(names) else ("", "", "")
            row["args"][name if bare(name, "=") else "arg%d" % i] = argument(kind, v)
        name = f["name"] if bare(f["name"], "#=") else ""
        row["func"] = name if name and self.ids[name] == row["func"] else "%s#%d" % (name, row["func"])
        return row


def show(record):
    print(json.dumps(record, separators=(",", ":"), ensure_ascii=False))


def bare(text, without):
    """Whether a text can stand in a line of the text form without quotes."""
    return re.fullmatch("[!-~]+", text) and not set(text) & set(without + '"\\`')


def argument(kind, v):
    if kind in ("u8", "u16", "u32", "u64", "size", "enum", "bool"):
        return v
    if kind == "i64":
        return signed(v)
    if kind in ("i32", "int") and v >> 32 == 0:
        return v - (v >> 31 << 32)
    return hex(v)


def main(paths):
    for path in paths:
        log = pathlib.Path(path).read_bytes()
        if log[:8] == b"CUDATRC\n" and int.from_bytes(log[8:10], "little") != 2 or log[:8] != b"CUDATRC\n" and not header(log, 16):
            sys.exit("%s is not a log of version 2" % path)
        printer = Printer()
        for kind, payload in blocks(log):
            try:
                printer.block(kind, payload)
            except Malformed:
                pass  # left out whole


if __name__ == "__main__":
    main(sys.argv[1:])
