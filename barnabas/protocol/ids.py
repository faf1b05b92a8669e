"""Identifiers and aliases that every floor shares: pure values, no behaviour beyond formatting."""

from __future__ import annotations

import base64
from typing import Annotated, Final, NamedTuple, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
"""One run of bytes, passed by reference."""

Records: TypeAlias = Buffer | list[Buffer]
"""Record batches as bytes. A codec decodes to one memoryview into the frame; it encodes either form by reference."""

Bytes: TypeAlias = Annotated[bytes, "of any length"]
"""What a message carries for somebody else to read. The annotation tells it from a uuid, which has 16 bytes."""

ZERO_UUID: Final = bytes(16)
"""The absent topic id. A uuid is its 16 raw bytes everywhere inside; `format_uuid` gives Kafka's text form."""

NATIVE_PREAMBLE: Final = b"BNB1"
"""What a client of the native dialect sends first, once per connection."""

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER: Final = -1
NO_TIMESTAMP: Final = -1

EARLIEST_TIMESTAMP: Final = -2
LATEST_TIMESTAMP: Final = -1
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5

CONSUMER_REPLICA_ID: Final = -1
DEBUGGING_REPLICA_ID: Final = -2


class TopicPartition(NamedTuple):
    """A partition by name; also the watch key of the partition-bound purgatories."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def format_uuid(raw: bytes) -> str:
    """Kafka's text form of a uuid: URL-safe base64 without padding (22 characters)."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def parse_uuid(text: str) -> bytes:
    """The 16 raw bytes of Kafka's text form.

    Raises:
        ValueError: the text is not 22 characters of URL-safe base64.
    """
    raw = base64.urlsafe_b64decode(text + "==")
    if len(raw) != 16 or format_uuid(raw) != text:
        raise ValueError(f"{text!r} is no uuid: 22 characters of URL-safe base64 are one")
    return raw
