"""What goes wrong with one record on the client's side; what goes wrong on the way stands in `barnabas.net.errors`."""

from __future__ import annotations

from barnabas.net.errors import ClientTimeout
from barnabas.protocol.errors import BarnabasError


class BufferExhausted(ClientTimeout):
    """No memory for the record within `max.block.ms` (Kafka's BufferExhaustedException)."""


class RecordTooLarge(BarnabasError, ValueError):
    """One record is larger than `max.request.size` or `buffer.memory` (Kafka's RecordTooLargeException)."""


class SerializationFailed(BarnabasError, ValueError):
    """A serializer refused the key or the value."""
