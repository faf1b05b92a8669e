"""Well-formed requests that ask for as much as they can, made from the field tables of every API and version.

A request is a function of its seed: one array of it is made as long as its API allows (or twice that), strings, bytes
and numbers lie at their limits, and so does what lies within its bytes (`inner`). Both dialects write the same message.
What stands in `SENSIBLE` mostly has such a value: else nothing behind it would be looked at. `exact` makes a request
whose lengths are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from barnabas.protocol.api import VERSIONS, ApiKey
from barnabas.protocol.errors import EncodeError
from barnabas.protocol.kafka import APIS
from barnabas.protocol.kafka import codec as kafka
from barnabas.protocol.kafka.data import Data
from barnabas.protocol.kafka.schema import BOOL, BYTES, RECORDS, STRING, UUID, Array, Primitive, Struct, Type
from barnabas.protocol.limits import REQUEST_ELEMENTS_MAX
from barnabas.protocol.native import codec as native
from barnabas.protocol.requests.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.requests.join_group import JoinGroupRequest
from barnabas.protocol.requests.produce import ProduceRequest
from tests.broker.node.world import batch
from tests.hostile.inner import WITHIN, WITHIN_ELEMENTS, records, said

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
TOPICS: dict[str, dict[str, str]] = {
    "t": {},
    "compacted": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "packed": {"compression.type": "zstd"},
}
"""Topics that are there, with their settings: batches to the last three are looked into."""
NAMES = (*TOPICS, "t", "", "no-such-topic", "a.b_c", "..", "n" * 249, "n" * 250, "ü" * 200, "__cluster_metadata", "1")
SENSIBLE: dict[tuple[type, str], tuple[Any, ...]] = {
    (ProduceRequest, "transactional_id"): (None,),
    (JoinGroupRequest, "session_timeout_ms"): (6_000, 10_000),
    (JoinGroupRequest, "group_instance_id"): ("one", "two"),  # has its member's id at once
    (JoinGroupRequest, "member_id"): ("",),
    (JoinGroupRequest, "protocol_type"): ("consumer",),
    (ConsumerGroupHeartbeatRequest, "member_id"): ("m", "n"),
    (ConsumerGroupHeartbeatRequest, "member_epoch"): (0,),
    (ConsumerGroupHeartbeatRequest, "instance_id"): (None,),
    (ConsumerGroupHeartbeatRequest, "rack_id"): (None,),
    (ConsumerGroupHeartbeatRequest, "server_assignor"): (None, "uniform", "range"),
    (ConsumerGroupHeartbeatRequest, "topic_partitions"): ([],),
    (ConsumerGroupHeartbeatRequest, "subscribed_topic_regex"): (
        None,
        ".*",
        "(a|b|ab)*c",
        "(((a{30}){30}){30}){30}",
        "a{1001}",
        "[^t]" * 1_024,
        "(" * 4_096,
        "t|" * 2_047 + "t",
    ),
}
"""What a field mostly has, by its message."""
SENSIBLE_OFTEN = 0.8
DIFFERENT = ("topics", "subscribed_topic_names")
"""Of a long list of names under this name none is like the other: what is told of them is kept for each."""
DIFFERENT_BYTES = 6
WITHIN_BYTES = 2**20
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


def chosen(random: Random, keys: Sequence[int] = tuple(VERSIONS)) -> tuple[int, int, Any]:
    """API, version and dialect of one request."""
    key = random.choice(keys)
    return key, random.randint(*VERSIONS[key]), random.choice((kafka, kafka, native))


def extreme(random: Random, keys: Sequence[int] = tuple(VERSIONS)) -> Extreme:
    """One request, ready to be sent, its length included, of one of these APIs."""
    key, version, dialect = chosen(random, keys)
    allowed = REQUEST_ELEMENTS_MAX[key]
    elements = random.choice((0, 1, 7, 300, allowed // 3, allowed - 2, 2 * allowed))
    maker = _Maker(random, version, elements)
    while True:
        try:
            request = maker.struct(APIS[key].request)
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


def inner_maker(random: Random) -> Callable[[int], Any]:
    """Makes what `inner.said` asks for, by its version, as a request would have it made that has room for it."""
    return _Maker(random, 0, 0)._inner


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
        self._made: dict[str, list[bytes]] = {}

    def struct(self, kind: Struct) -> Any:
        message = kind.cls()
        for field in kind.fields:
            if not field.is_in(self._version) or self._random.random() < 0.1:
                continue
            sensible = SENSIBLE.get((kind.cls, field.name))
            within = WITHIN.get((kind.cls, field.name))
            if sensible is not None and self._random.random() < SENSIBLE_OFTEN:
                setattr(message, field.name, self._random.choice(sensible))
            elif field.is_nullable(self._version) and self._random.random() < 0.1:
                setattr(message, field.name, None)
            elif within is not None and self._random.random() < 0.9:
                setattr(message, field.name, self._fits(self._one_of(within.name, self._said(within))))
            else:
                setattr(message, field.name, self.value(field.type, field.name))
        return message

    def _said(self, within: Data) -> Callable[[], bytes]:
        return lambda: said(self._random, within, self._inner)

    def _one_of(self, kind: str, make: Callable[[], bytes]) -> bytes:
        """Of a kind there are few different ones in a request: thousands would take long to make."""
        made = self._made.setdefault(kind, [])
        if len(made) < DIFFERENT_BYTES:
            made.append(make())
            return made[-1]
        return self._random.choice(made)

    def _inner(self, version: int) -> _Maker:
        """Makes what lies within bytes, with a large array of its own, as far as there is room."""
        room = self._long_bytes // 16
        inner = _Maker(self._random, version, min(self._random.choice(WITHIN_ELEMENTS), room))
        inner._long_bytes = min(self._long_bytes // 2, WITHIN_BYTES)
        return inner

    def _fits(self, data: bytes) -> bytes:
        if len(data) > self._long_bytes:
            return b""
        self._long_bytes -= len(data)
        return data

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
            return memoryview(self._fits(self._one_of("", lambda: records(random))))
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
        holds_more = isinstance(kind.of, Struct) and any(
            isinstance(field.type, Array) or (kind.of.cls, field.name) in WITHIN for field in kind.of.fields
        )
        if self._left > 0 and (not holds_more or self._random.random() < 0.5):
            size, self._left = self._left, 0
        else:
            size = self._random.choice((0, 1, 1, 2, 3))
        if kind.of is STRING and name in DIFFERENT and size > 3 and self._random.random() < 0.7:
            head = self._random.choice(("n", "n" * 100))
            return [f"{head}{number}" for number in range(size)]
        return [self.value(kind.of, name) for _ in range(size)]
