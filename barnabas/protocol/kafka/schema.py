"""What the field tables are made of: types, fields with version ranges, structs, APIs.

A table says once, for all versions, how a dataclass of the vocabulary travels. Ranges are written as in Kafka's own
message definitions: "3+", "0-12", "8". `compile.py` turns (API, version, direction) into code.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from barnabas.protocol.api import ApiKey, name_of

LAST: Final = 32767
NEVER: Final = LAST + 1
"""For `flexible_from`, where no version is flexible."""


class Primitive:
    """A type without parts. `code` is its `struct` letter, empty where the length varies."""

    __slots__ = ("code", "name", "size")

    def __init__(self, name: str, code: str = "", size: int = 0) -> None:
        self.name = name
        self.code = code
        self.size = size


INT8 = Primitive("int8", "b", 1)
INT16 = Primitive("int16", "h", 2)
UINT16 = Primitive("uint16", "H", 2)
INT32 = Primitive("int32", "i", 4)
INT64 = Primitive("int64", "q", 8)
FLOAT64 = Primitive("float64", "d", 8)
BOOL = Primitive("bool", "?", 1)
UUID = Primitive("uuid", "16s", 16)
STRING = Primitive("string")
BYTES = Primitive("bytes")
RECORDS = Primitive("records")


class Array:
    """A counted run of one type."""

    __slots__ = ("of",)

    def __init__(self, of: Type) -> None:
        self.of = of


def version_range(text: str) -> tuple[int, int]:
    """First and last version of "3+", "0-12", "8", or "" (never)."""
    if not text:
        return (1, 0)
    if text.endswith("+"):
        return int(text[:-1]), LAST
    low, _, high = text.partition("-")
    return int(low), int(high or low)


class Field:
    """One field.

    `versions` are those that carry it, `nullable` those in which it may be null. With `tag` it travels in the tagged
    section of flexible versions. `ignorable`: versions that lack it drop it silently when encoding; without it a value
    other than the default is refused there, as Kafka does. `null_as_empty`: None is written as zero length.
    """

    __slots__ = ("ignorable", "name", "null_as_empty", "nullable", "tag", "type", "versions")

    def __init__(
        self,
        name: str,
        type: Type,  # noqa: A002 - reads best in the tables
        versions: str,
        *,
        nullable: str = "",
        tag: int | None = None,
        ignorable: bool = False,
        null_as_empty: bool = False,
    ) -> None:
        self.name = name
        self.type = type
        self.versions = version_range(versions)
        self.nullable = version_range(nullable)
        self.tag = tag
        self.ignorable = ignorable
        self.null_as_empty = null_as_empty

    def is_in(self, version: int) -> bool:
        """Whether `version` carries the field."""
        return self.versions[0] <= version <= self.versions[1]

    def is_nullable(self, version: int) -> bool:
        """Whether the field may be null in `version`."""
        return self.nullable[0] <= version <= self.nullable[1]


class Struct:
    """A dataclass and its fields, in the order of the wire."""

    __slots__ = ("cls", "fields")

    def __init__(self, cls: type, *fields: Field) -> None:
        self.cls = cls
        self.fields = fields

    def default(self, name: str) -> Any:
        """The default of a field in the dataclass (a fresh value where it is made by a factory)."""
        field = next(field for field in dataclasses.fields(self.cls) if field.name == name)
        if field.default_factory is not dataclasses.MISSING:
            return field.default_factory()
        return field.default


Type = Primitive | Array | Struct


class Api:
    """One API: its number and its two messages. Its versions are those of `protocol/api.py`.

    `flexible_from` is the first version with compact lengths and tagged fields.
    """

    __slots__ = ("flexible_from", "key", "request", "response")

    def __init__(self, key: ApiKey, *, flexible_from: int, request: Struct, response: Struct) -> None:
        self.key = key
        self.flexible_from = flexible_from
        self.request = request
        self.response = response

    @property
    def name(self) -> str:
        """As Kafka writes it: `FindCoordinator`."""
        return name_of(self.key)

    def is_flexible(self, version: int) -> bool:
        """Whether `version` has compact lengths and tagged fields."""
        return version >= self.flexible_from
