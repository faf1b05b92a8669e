"""Writes the source of an encoder for one message at one version.

The counterpart of `decoder.py`: one function for all structs of a message, adjacent fixed-width fields and the length
behind them in one `pack`. Fields are written to a bytearray `w`; records are not: at each, `w` goes to the list of
buffers, the payload follows by reference, and a new `w` begins.
"""

from __future__ import annotations

from typing import Any, Final

from barnabas.protocol.kafka.schema import BYTES, RECORDS, STRING, Array, Field, Primitive, Struct, Type
from barnabas.protocol.kafka.source import Source

ELEMENTS_PER_STEP: Final = 1000
"""About a millisecond."""
BYTES_PER_STEP: Final = 1024 * 1024
"""What is copied takes as long."""
TEXT_BYTES_MAX: Final = 32767
"""Of a string, in every version."""


def shortened(message: bytes) -> bytes:
    """An error's message that was longer, with the names it tells of: what fits of it, in whole characters."""
    return message[: TEXT_BYTES_MAX - 3].decode(errors="ignore").encode() + b"..."


class EncoderWriter:
    """Writes `encode(w, message) -> [w, ...]`: appends the message to `w` and lists all buffers.

    With `in_steps` it is a generator, which stops after every `ELEMENTS_PER_STEP` array elements and `BYTES_PER_STEP`,
    and returns the list.
    """

    def __init__(self, message: Struct, version: int, flexible: bool, what: str, in_steps: bool = False) -> None:
        self.version = version
        self.in_steps = in_steps
        self.flexible = flexible
        self.source = Source(what)
        self._w = "w"
        self._pending: list[tuple[str, str, str]] = []
        source = self.source
        with source.block("def encode(w, m):"):
            source.line("out = []")
            if in_steps:
                source.line(f"turns = {ELEMENTS_PER_STEP}")
                source.line("yield")
            with source.block("try:"):
                self._struct(message, "m", "")
                self._flush()
            with source.block("except (StructError, AttributeError, TypeError, ValueError) as exc:"):
                source.line("raise unfit(exc) from exc")
            with source.block("if w:"):
                source.line("out.append(w)")
            source.line("return out")

    def build(self) -> Any:
        """The compiled function."""
        return self.source.build("encode")

    def _group(self, code: str, expression: str, path: str) -> None:
        self._pending.append((code, expression, path))

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        if not pending:
            return
        codes = "".join(code for code, _, _ in pending)
        if codes == "x":
            self.source.line(f"{self._w}.append(0)")
            return
        arguments = ", ".join(expression for _, expression, _ in pending if expression)
        first, last = pending[0][2], pending[-1][2]
        path = first if first == last else f"{first} to {last}"
        self.source.line(f"{self._w} += {self.source.format(codes, 'pack')}({arguments})", path)

    def _length(self, code: str, length: str, path: str) -> None:
        """Writes a length (in `length`, negative for null) and all that is pending before it."""
        if not self.flexible:
            self._group(code, length, path)
            self._flush()
            return
        source, pending = self.source, self._pending
        source.line(f"{length} += 1")
        with source.block(f"if {length} < 128:"):
            if pending:
                self._group("B", length, path)
                self._flush()
            else:
                source.line(f"{self._w}.append({length})")
        with source.block("else:"):
            self._pending = [entry for entry in pending if entry[1] != length]
            self._flush()
            source.line(f"{self._w} += uvarint({length})", path)

    def _struct(self, message: Struct, source_name: str, path: str) -> None:
        tagged = []
        for field in message.fields:
            expression = f"{source_name}.{field.name}"
            if not field.is_in(self.version):
                if not field.ignorable:
                    with self.source.block(f"if {self._differs(message, field, expression)}:", path + field.name):
                        self.source.line(f"raise lacks({path + field.name!r}, {expression})")
            elif field.tag is not None:
                tagged.append(field)
            else:
                self._value(field.type, field.is_nullable(self.version), expression, path + field.name, field)
        if self.flexible:
            self._tags(message, tagged, source_name, path)

    def _differs(self, message: Struct, field: Field, expression: str) -> str:
        """An expression that is true where a field holds more than its default."""
        default = message.default(field.name)
        if isinstance(field.type, Struct):
            instance = self.source.constant(field.type.cls(), "default")
            return f"{expression} is not None and {expression} != {instance}"
        if default is None:
            return f"{expression} is not None"
        if default is False or default in ("", []):
            return expression
        if isinstance(default, bytes):
            return f"{expression} != {self.source.constant(default)}"
        return f"{expression} != {default!r}"

    def _tags(self, message: Struct, tagged: list[Field], source_name: str, path: str) -> None:
        if not tagged:
            self._group("x", "", f"{path}tagged fields")
            return
        source = self.source
        tagged.sort(key=lambda field: field.tag or 0)
        differs = [self._differs(message, field, f"{source_name}.{field.name}") for field in tagged]
        pending = self._pending
        with source.block("if " + " or ".join(differs) + ":", path + tagged[0].name):
            self._pending = list(pending)
            self._flush()
            count, body, outer = source.temp("c"), source.temp("w"), self._w
            source.line(f"{count} = 0")
            source.line(f"{body} = bytearray()")
            for field, differ in zip(tagged, differs, strict=True):
                with source.block(f"if {differ}:"):
                    self._w = source.temp("w")
                    source.line(f"{count} += 1")
                    source.line(f"{self._w} = bytearray()")
                    expression = f"{source_name}.{field.name}"
                    self._value(field.type, field.is_nullable(self.version), expression, path + field.name, field)
                    self._flush()
                    source.line(f"{body} += uvarint({field.tag}) + uvarint(len({self._w})) + {self._w}")
            self._w = outer
            source.line(f"{self._w} += uvarint({count}) + {body}")
        with source.block("else:"):
            self._pending = [*pending, ("x", "", f"{path}tagged fields")]
            self._flush()

    def _value(self, kind: Type, nullable: bool, expression: str, path: str, field: Field | None = None) -> None:
        if isinstance(kind, Struct):
            self._nested(kind, nullable, expression, path)
        elif isinstance(kind, Array):
            self._array(kind.of, nullable, expression, path)
        elif kind.code:
            self._group(kind.code, expression, path)
        elif kind is RECORDS:
            assert self._w == "w", "records do not travel in tagged fields"
            self._records(nullable, expression, path, field is not None and field.null_as_empty)
        else:
            self._bytes(kind, nullable, expression, path)

    def _nested(self, kind: Struct, nullable: bool, expression: str, path: str) -> None:
        if not nullable and expression.isidentifier():
            self._struct(kind, expression, f"{path}.")
            return
        name = self.source.temp("m")
        if not nullable:
            self.source.line(f"{name} = {expression}", path)
            self._struct(kind, name, f"{path}.")
            return
        self._flush()
        self.source.line(f"{name} = {expression}", path)
        with self.source.block(f"if {name} is None:"):
            self.source.line(f"{self._w}.append(255)")
        with self.source.block("else:"):
            self._group("b", "1", path)
            self._struct(kind, name, f"{path}.")
            self._flush()

    def _bytes(self, kind: Primitive, nullable: bool, expression: str, path: str) -> None:
        source = self.source
        value, length = source.temp("s"), source.temp("n")
        encode = "" if kind is BYTES else ".encode()"
        if nullable:
            source.line(f"{value} = {expression}", path)
            with source.block(f"if {value} is None:"):
                source.line(f"{length} = -1")
                source.line(f"{value} = b''")
            with source.block("else:"):
                if encode:
                    source.line(f"{value} = {value}{encode}", path)
                source.line(f"{length} = len({value})", path)
        else:
            source.line(f"{value} = {expression}{encode}", path)
            source.line(f"{length} = len({value})", path)
        if kind is STRING and path.endswith("error_message"):
            with source.block(f"if {length} > {TEXT_BYTES_MAX}:"):
                source.line(f"{value} = {source.constant(shortened, 'shortened')}({value})")
                source.line(f"{length} = len({value})")
        elif kind is STRING and self.flexible:
            with source.block(f"if {length} > {TEXT_BYTES_MAX}:"):
                told = f"f'a string of {{{length}}} bytes is longer than {TEXT_BYTES_MAX}'"
                source.line(f"raise ValueError({told})", path)
        self._length("h" if kind is STRING else "i", length, path)
        source.line(f"{self._w} += {value}")

    def _records(self, nullable: bool, expression: str, path: str, null_as_empty: bool) -> None:
        source = self.source
        value, length = source.temp("r"), source.temp("n")
        source.line(f"{value} = {expression}", path)
        with source.block(f"if {value} is None:"):
            if null_as_empty:
                source.line(f"{length} = 0")
            elif nullable:
                source.line(f"{length} = -1")
            else:
                source.line("raise TypeError('null is not allowed')", path)
        with source.block(f"elif type({value}) is list:"):
            source.line(f"{length} = sum(map(len, {value}))", path)
        with source.block("else:"):
            source.line(f"{length} = len({value})", path)
        payload = source.temp("f")
        source.line(f"{payload} = {length} > 0")
        self._length("i", length, path)
        with source.block(f"if {payload}:"):
            source.line("out.append(w)")
            with source.block(f"if type({value}) is list:"):
                source.line(f"out += {value}")
            with source.block("else:"):
                source.line(f"out.append({value})")
            source.line("w = bytearray()")

    def _array(self, kind: Type, nullable: bool, expression: str, path: str) -> None:
        source = self.source
        value, length = source.temp("a"), source.temp("n")
        source.line(f"{value} = {expression}", path)
        if nullable:
            with source.block(f"if {value} is None:"):
                source.line(f"{length} = -1")
                source.line(f"{value} = ()")
            with source.block("else:"):
                source.line(f"{length} = len({value})", path)
        else:
            source.line(f"{length} = len({value})", path)
        self._length("i", length, path)
        if isinstance(kind, Primitive) and len(kind.code) == 1:
            with source.block(f"if {value}:"):
                source.line(f"{self._w} += pack(f'>{{len({value})}}{kind.code}', *{value})", path)
            return
        element = source.temp("m")
        with source.block(f"for {element} in {value}:", path):
            self._value(kind, False, element, f"{path}[]")
            self._flush()
            if self.in_steps:
                source.line("turns -= 1")
                with source.block(f"if not turns or len(w) > {BYTES_PER_STEP}:"):
                    source.line(f"turns = {ELEMENTS_PER_STEP}")
                    with source.block(f"if len(w) > {BYTES_PER_STEP}:"):
                        source.line("out.append(w)")
                        source.line("w = bytearray()")
                    source.line("yield")
