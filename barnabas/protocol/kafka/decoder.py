"""Writes the source of a decoder for one message at one version.

All structs of a message are unrolled into one function. Adjacent fixed-width fields, together with the length that
follows them, are read by one precompiled `unpack_from`:

    partition i32, offset i64, then a compact string  ->  v1, v2, n3 = unpack_from_iqB(b, p); p += 13

where a compact length takes its first byte with it and goes on only if that byte says so. Every length is compared with
the bytes that are left before anything is made of it, and the elements of all arrays of a frame are counted (see
`limits`): a hundred bytes of objects can come of one byte on the wire. Records become a slice of the frame; nothing
else keeps it alive.
"""

from __future__ import annotations

import struct
from typing import Any

from barnabas.protocol.kafka.schema import BYTES, RECORDS, STRING, Array, Field, Primitive, Struct, Type
from barnabas.protocol.kafka.source import Source
from barnabas.protocol.limits import TEXT_BYTES_PER_ELEMENT


def min_size(kind: Type, version: int, flexible: bool, nullable: bool = False) -> int:
    """The fewest bytes a value of a type takes."""
    if isinstance(kind, Primitive):
        if kind.code:
            return kind.size
        return 1 if flexible else 2 if kind is STRING else 4
    if isinstance(kind, Array):
        return 1 if flexible else 4
    if nullable:
        return 1
    fields = (field for field in kind.fields if field.is_in(version) and field.tag is None)
    total = sum(min_size(field.type, version, flexible, field.is_nullable(version)) for field in fields)
    return total + 1 if flexible else total


class DecoderWriter:
    """Writes `decode(b, p) -> (message, position after it)`.

    `elements_max` bounds arrays and tagged fields together, `bytes_max` the frame of a message without records; None:
    the frame has its bound elsewhere. `lenient`: what is not UTF-8 in a string becomes U+FFFD; else it is refused.
    """

    def __init__(
        self,
        message: Struct,
        version: int,
        flexible: bool,
        what: str,
        elements_max: int,
        bytes_max: int | None,
        *,
        lenient: bool = False,
    ) -> None:
        self.version = version
        self.flexible = flexible
        self.elements_max = elements_max
        self.lenient = lenient
        self.keeps_views = holds_records(message)
        self.source = Source(what)
        self._pending: list[tuple[str, str, str]] = []
        source = self.source
        with source.block("def decode(b, p):"):
            source.line("e = len(b)")
            if not self.keeps_views:
                if bytes_max is not None:
                    with source.block(f"if e > {bytes_max}:"):
                        source.line(f"raise too_long(e, {bytes_max})")
                source.line("b = bytes(b)")
            source.line(f"left = {elements_max}")
            with source.block("try:"):
                self._struct(message, "m", "")
            with source.block("except (StructError, IndexError, UnicodeDecodeError, VarintError) as exc:"):
                source.line("raise refused(exc, p, e) from None")
            source.line("return m, p")

    def build(self) -> Any:
        """The compiled function."""
        return self.source.build("decode")

    def _group(self, code: str, name: str, path: str) -> None:
        self._pending.append((code, name, path))

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        if not pending:
            return
        first, last = pending[0][2], pending[-1][2]
        path = first if first == last else f"{first} to {last}"
        codes = "".join(code for code, _, _ in pending)
        size = struct.calcsize(">" + codes)
        if codes == "B":
            self.source.line(f"{pending[0][1]} = b[p]", path)
        else:
            targets = ", ".join(name for _, name, _ in pending)
            comma = "," if len(pending) == 1 else ""
            self.source.line(f"{targets}{comma} = {self.source.format(codes, 'unpack_from')}(b, p)", path)
        self.source.line(f"p += {size}", path)

    def _struct(self, message: Struct, target: str, path: str) -> None:
        values: dict[str, str] = {}
        tagged: list[tuple[Field, str]] = []
        for field in message.fields:
            if not field.is_in(self.version):
                continue
            name = self.source.temp("v")
            values[field.name] = name
            if field.tag is not None:
                tagged.append((field, name))
            else:
                self._value(field.type, field.is_nullable(self.version), name, path + field.name)
        if self.flexible:
            count = self.source.temp("t")
            self._group("B", count, f"{path}tagged fields")
            self._flush()
            self._tags(message, tagged, count, path)
        self._flush()
        self.source.line(f"{target} = new({self.source.constant(message.cls)})")
        for field in message.fields:
            value = values.get(field.name) or self._default(message, field)
            self.source.line(f"{target}.{field.name} = {value}")

    def _default(self, message: Struct, field: Field) -> str:
        value = message.default(field.name)
        return self.source.constant(value) if isinstance(value, bytes) else repr(value)

    def _tags(self, message: Struct, tagged: list[tuple[Field, str]], count: str, path: str) -> None:
        source = self.source
        for field, name in tagged:
            source.line(f"{name} = {self._default(message, field)}")
        with source.block(f"if {count}:"):
            with source.block(f"if {count} > 127:"):
                self._wide(count, f"{path}tagged fields")
            self._count(count, f"{path}tagged fields")
            tag, size, end = source.temp("g"), source.temp("n"), source.temp("q")
            with source.block(f"for _ in range({count}):"):
                source.line(f"{tag}, p = read_uvarint(b, p)", f"{path}tag")
                source.line(f"{size}, p = read_uvarint(b, p)", f"{path}tag size")
                source.line(f"{end} = p + {size}")
                with source.block(f"if {end} > e:"):
                    source.line(f"raise short({path + 'tagged field'!r}, {size}, p, e)")
                for field, name in tagged:
                    with source.block(f"if {tag} == {field.tag}:"):
                        self._value(field.type, field.is_nullable(self.version), name, path + field.name)
                        self._flush()
                        with source.block(f"if p != {end}:"):
                            source.line(f"raise wrong_tag_size({path + field.name!r}, {size}, p + {size} - {end})")
                source.line(f"p = {end}")

    def _value(self, kind: Type, nullable: bool, name: str, path: str) -> None:
        if isinstance(kind, Struct):
            self._nested(kind, nullable, name, path)
        elif isinstance(kind, Array):
            self._array(kind.of, nullable, name, path)
        elif kind.code:
            self._group(kind.code, name, path)
        else:
            self._bytes(kind, nullable, name, path)

    def _nested(self, kind: Struct, nullable: bool, name: str, path: str) -> None:
        if not nullable:
            self._struct(kind, name, f"{path}.")
            return
        marker = self.source.temp("n")
        self._group("b", marker, path)
        self._flush()
        with self.source.block(f"if {marker} < 0:"):
            self.source.line(f"{name} = None")
        with self.source.block("else:"):
            self._struct(kind, name, f"{path}.")

    def _length(self, code: str, path: str) -> str:
        """Reads a length; the name holds the length itself, negative for null."""
        length = self.source.temp("n")
        self._group("B" if self.flexible else code, length, path)
        self._flush()
        if self.flexible:
            with self.source.block(f"if {length} > 127:"):
                self._wide(length, path)
            self.source.line(f"{length} -= 1")
        return length

    def _wide(self, name: str, path: str) -> None:
        """A length of more than one byte, most often of two: a call for each of 20,000 names takes 8 ms."""
        source = self.source
        source.line("w = b[p]", path)
        with source.block("if w < 128:"):
            source.line("p += 1")
            source.line(f"{name} += (w << 7) - 128")
        with source.block("else:"):
            source.line(f"{name}, p = read_uvarint(b, p - 1)", path)

    def _count(self, length: str, path: str) -> None:
        """Takes so many from what the message may still hold."""
        self.source.line(f"left -= {length}")
        with self.source.block("if left < 0:"):
            self.source.line(f"raise too_many({path!r}, {length}, p, {self.elements_max})")

    def _or_null(self, nullable: bool, name: str, path: str) -> None:
        self.source.line(f"{name} = None" if nullable else f"raise null({path!r}, p)")

    def _bytes(self, kind: Primitive, nullable: bool, name: str, path: str) -> None:
        source = self.source
        length = self._length("h" if kind is STRING else "i", path)
        with source.block(f"if {length} < 0:"):
            self._or_null(nullable, name, path)
        with source.block("else:"):
            source.line(f"q = p + {length}")
            too_long = f"q > e or {length} > 32767" if kind is STRING and self.flexible else "q > e"
            with source.block(f"if {too_long}:"):
                source.line(f"raise short({path!r}, {length}, p, e)")
            if kind is not RECORDS and self.keeps_views:
                with source.block(f"if {length} >= {TEXT_BYTES_PER_ELEMENT}:"):
                    self._count(f"{length} // {TEXT_BYTES_PER_ELEMENT}", path)
            if kind is RECORDS:
                source.line(f"{name} = b[p:q]", path)
            elif kind is BYTES:
                source.line(f"{name} = bytes(b[p:q])", path)
            else:
                source.line(f"{name} = {self._text()}", path)
            source.line("p = q")

    def _text(self) -> str:
        if self.lenient:
            return "str(b[p:q], 'utf-8', 'replace')"
        return "str(b[p:q], 'utf-8')" if self.keeps_views else "b[p:q].decode()"

    def _array(self, kind: Type, nullable: bool, name: str, path: str) -> None:
        source = self.source
        length = self._length("i", path)
        smallest = max(min_size(kind, self.version, self.flexible), 1)
        with source.block(f"if {length} < 0:"):
            self._or_null(nullable, name, path)
        with source.block(f"elif {length} == 0:"):
            source.line(f"{name} = []")
        with source.block("else:"):
            needed = length if smallest == 1 else f"{length} * {smallest}"
            with source.block(f"if {needed} > e - p:"):
                source.line(f"raise short({path!r}, {length}, p, e)")
            self._count(length, path)
            if isinstance(kind, Primitive) and len(kind.code) == 1:
                source.line(f"{name} = list(unpack_from(f'>{{{length}}}{kind.code}', b, p))", path)
                source.line(f"p += {needed}")
                return
            element, add = source.temp("m"), source.temp("add")
            source.line(f"{name} = []")
            source.line(f"{add} = {name}.append")
            with source.block(f"for _ in range({length}):"):
                self._value(kind, False, element, f"{path}[]")
                self._flush()
                source.line(f"{add}({element})")


def holds_records(kind: Type) -> bool:
    """Whether record batches travel in a type."""
    if isinstance(kind, Array):
        return holds_records(kind.of)
    if isinstance(kind, Struct):
        return any(holds_records(field.type) for field in kind.fields)
    return kind is RECORDS
