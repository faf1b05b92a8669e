"""What a producer is given and gives back: the record before, its metadata after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from barnabas.protocol.errors import BarnabasError

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(slots=True)
class ProducerRecord:
    """A record as the application hands it over; interceptors see and may replace it."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class RecordMetadata(NamedTuple):
    """Where a record came to lie. `offset` is -1 with acks=0; `timestamp` is ms since the epoch."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class _Plain(tuple[Any, ...]):
    """A tuple whose subclasses are made as tuples are: of one iterable, by no line of Python."""

    __slots__ = ()


class QuickMetadata(_Plain, RecordMetadata):
    """A `RecordMetadata` that is made of a tuple of its fields, in four fifths of the time. Copies are plain ones."""

    __slots__ = ()
    __new__ = tuple.__new__  # type: ignore[assignment]  # of one iterable

    def __reduce__(self) -> tuple[type[RecordMetadata], tuple[Any, ...]]:
        return RecordMetadata, tuple(self)

    def __repr__(self) -> str:
        return repr(RecordMetadata(*self))


OnDelivery = Callable[[RecordMetadata | None, BarnabasError | None], Any]
"""Called on the sender's thread with a record's metadata or its error."""
