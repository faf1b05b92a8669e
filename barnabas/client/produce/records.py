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


OnDelivery = Callable[[RecordMetadata | None, BarnabasError | None], Any]
"""Called on the sender's thread with a record's metadata or its error."""
