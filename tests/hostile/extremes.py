"""Well-formed requests that ask for as much as they can, made from the field tables of every API and version.

A request is a function of its seed: one array of it is made as long as its API allows (or twice that), strings, bytes
and numbers lie at their limits. Both dialects write the same message. `exact` makes one whose lengths are told.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from barnabas.protocol.api import VERSIONS, ApiKey
from barnabas.protocol.errors import EncodeError
from barnabas.protocol.kafka import APIS
from barnabas.protocol.kafka import codec as kafka
from barnabas.protocol.kafka.schema import BOOL, BYTES, RECORDS, STRING, UUID, Array, Primitive, Struct, Type
from barnabas.protocol.limits import REQUEST_ELEMENTS_MAX
from barnabas.protocol.native import codec as native
from tests.broker.node.world import batch

SAFE: dict[str, tuple[int, ...]] = {
    "max_wait_ms": (0, 1, 50),
    "timeout_ms": (0, 1, 50),
    "rebalance_timeout_ms": (0, 1, 50),
    "acks": (0, 1, -1, 5),
}
"""Fields whose extremes would only have the generator wait."""
TEXT_MAX = 32_767
"""Bytes of a string, in every version of Kafka's protocol."""
LENGTHS = (TEXT_MAX, TEXT_MAX - 1, TEXT_MAX + 1, 4_097, 256)
"""Of strings, as long as there is room for them: `LONG_BYTES`. The one too many travels in the native dialect alone."""
SIZES = (4_097, 65_536, 2**20, 2**20 + 1, 2**22)
"""Of bytes: telemetry has 1 MiB, a group with its members more than one of 4 MiB."""
LONG_BYTES = 7 * 2**20
"""Of all long strings and bytes of a request: below what a request may have, which is refused unread."""
NAMES = ("t", "t", "", "no-such-topic", "a.b_c", "..", "n" * 249, "n" * 250, "ü" * 200, "__cluster_metadata", "1")
BITS = {"b": 8, "h": 16, "i": 32, "q": 64}


class Extreme(NamedTuple):
    """One request: where it comes from, its frame, and how many elements its large array has."""

    api_key: int
    version: int
    dialect: str
    elements: int
    frame: bytes

    def __str__(self) -> str:
        name = ApiKey(self.api_key).name
        return f"{self.dialect} {name} v{self.version}, {self.elements} elements, {len(self.frame)} bytes"


def chosen(random: Random) -> tuple[int, int, Any]:
    """API, version and dialect of one request."""
    key = random.choice(list(VERSIONS))
    return key, random.randint(*VERSIONS[key]), random.choice((kafka, kafka, native))


def extreme(random: Random) -> Extreme:
    """One request, ready to be sent, its length included."""
    key, version, dialect = chosen(random)
    allowed = REQUEST_ELEMENTS_MAX[key]
    elements = random.choice((0, 1, 7, 300, allowed // 3, allowed - 2, 2 * allowed))
    maker = _Maker(random, version, elements)
    while True:
        request = maker.struct(APIS[key].request)
        try:
            buffers = dialect.encode_request(
                key, version, random.randrange(2**31), random.choice(("", None, "c" * 900)), request
            )
        except EncodeError:  # a combination that this version cannot carry
            maker = _Maker(random, version, min(elements, 7))
            continue
        frame = b"".join(bytes(one) for one in buffers)
        return Extreme(key, version, "kafka" if dialect is kafka else "native", elements, frame)


def exact(
    key: int, version: int, dialect: Any, *, into: str = "", elements: int = 1, text: int = 1, data: int = 1
) -> Extreme:
    """A request in which no field is left out: strings of `text` bytes, bytes of `data`, one member in each array.

    `into`: the path of the array that has `elements`, as in `paths`; arrays around it have one member then, others
    none, and there are no tagged fields, which count as elements.
    """
    request = _Exact(version, into, elements, text, data).struct(APIS[key].request)
    frame = b"".join(bytes(one) for one in dialect.encode_request(key, version, 7, "c", request))
    return Extreme(key, version, "kafka" if dialect is kafka else "native", elements, frame)


def paths(kind: Type, version: int, at: str = "") -> Iterator[tuple[str, Type]]:
    """All fields of a message at any depth: `topics[]`, `topics[].name`, with what they are."""
    if isinstance(kind, Array):
        yield at + "[]", kind
        yield from paths(kind.of, version, at + "[]")
    elif isinstance(kind, Struct):
        for field in kind.fields:
            if field.is_in(version):
                yield from paths(field.type, version, f"{at}.{field.name}".lstrip("."))
    else:
        yield at, kind


class _Exact:
    def __init__(self, version: int, into: str, elements: int, text: int, data: int) -> None:
        self._version = version
        self._into = into
        self._elements = elements
        self._text = "s" * text
        self._data = bytes(data)

    def struct(self, kind: Struct, at: str = "") -> Any:
        message = kind.cls()
        for field in kind.fields:
            if field.is_in(self._version) and not (self._into and field.tag is not None):
                setattr(message, field.name, self._value(field.type, f"{at}.{field.name}".lstrip(".")))
        return message

    def _value(self, kind: Type, at: str) -> Any:
        if isinstance(kind, Struct):
            return self.struct(kind, at)
        if isinstance(kind, Array):
            inner = at + "[]"
            size = self._elements if inner == self._into else int(self._into.startswith(inner) or not self._into)
            return [self._value(kind.of, inner) for _ in range(size)]
        name = at.rpartition(".")[2]
        if kind is STRING:
            return self._text
        if kind is BYTES:
            return self._data
        if kind is RECORDS:
            return memoryview(batch(b"v"))
        if kind is UUID:
            return b"\x01" * 16
        return SAFE.get(name, (1,))[-1] if kind is not BOOL else False


class _Maker:
    def __init__(self, random: Random, version: int, elements: int) -> None:
        self._random = random
        self._version = version
        self._left = elements  # of one array; all others are short
        self._long_bytes = LONG_BYTES
        self._records = bytes(batch(b"v" * random.choice((0, 10, 1000))))

    def struct(self, kind: Struct) -> Any:
        message = kind.cls()
        for field in kind.fields:
            if not field.is_in(self._version) or self._random.random() < 0.1:
                continue
            if field.is_nullable(self._version) and self._random.random() < 0.1:
                setattr(message, field.name, None)
            else:
                setattr(message, field.name, self.value(field.type, field.name))
        return message

    def value(self, kind: Type, name: str) -> Any:
        random = self._random
        if isinstance(kind, Struct):
            return self.struct(kind)
        if isinstance(kind, Array):
            return self.array(kind, name)
        assert isinstance(kind, Primitive)
        if kind is STRING:
            long = self._long(LENGTHS, 0.02)
            return random.choice(NAMES) if long is None else "l" * long
        if kind is RECORDS:
            return memoryview(random.choice((self._records, self._records, b"", self._records[:30])))
        if kind is BYTES:
            long = self._long(SIZES, 0.3)
            return random.choice((b"", b"\0\1\0\0", random.randbytes(40))) if long is None else bytes(long)
        if kind is UUID:
            return random.choice((bytes(16), b"\x01" * 16, random.randbytes(16)))
        if kind is BOOL:
            return random.random() < 0.5
        if name in SAFE:
            return random.choice(SAFE[name])
        top = 1 << (BITS[kind.code] - 1)
        return random.choice((0, 0, 0, 1, -1, 7, top - 1, -top))

    def _long(self, lengths: tuple[int, ...], often: float) -> int | None:
        """Seldom one of these lengths, while there is room for it."""
        length = self._random.choice(lengths) if self._random.random() < often else self._long_bytes + 1
        if length > self._long_bytes:
            return None
        self._long_bytes -= length
        return length

    def array(self, kind: Array, name: str) -> list[Any]:
        holds_more = isinstance(kind.of, Struct) and any(isinstance(field.type, Array) for field in kind.of.fields)
        if self._left > 0 and (not holds_more or self._random.random() < 0.5):
            size, self._left = self._left, 0
        else:
            size = self._random.choice((0, 1, 1, 2, 3))
        return [self.value(kind.of, name) for _ in range(size)]
