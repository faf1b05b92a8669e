"""A message on its way to Kafka, and the record that becomes of it."""

from __future__ import annotations

from typing import Final, NamedTuple

from barnabas.mqtt.ledger import Open
from barnabas.mqtt.mapping import Headers, Message

_KEPT_BYTES: Final = 512
"""What is kept of an open message beside its topic, payload and properties, about."""


class Item:
    """One message on its way.

    `open` is its line in the ledger (None with QoS 0), `why` what makes it a dead letter, `bare` of one whether it goes
    without its payload, of `size` bytes. It takes about `kept` bytes.
    """

    __slots__ = ("at_ms", "bare", "kept", "message", "open", "size", "tries", "why")

    def __init__(self, message: Message, opened: Open | None, at_ms: int) -> None:
        self.message = message
        self.open = opened
        self.at_ms = at_ms
        self.tries = 0
        self.why = ""
        self.bare = False
        self.size = len(message.payload)
        self.kept = self.size + len(message.topic) + _KEPT_BYTES
        if message.more:
            self.kept += sum(len(name) + len(data) for name, data in message.more)

    def too_large(self, limit: int) -> None:
        """Let go of the payload: it is for the dead letters, without it."""
        self.message = self.message._replace(payload=b"")
        self.kept -= self.size
        self.why, self.bare = f"a payload of {self.size} bytes is more than payload_bytes_max ({limit})", True

    @property
    def said(self) -> Message:
        """The message; marked as a duplicate once a record of it was tried that may be there, unacknowledged."""
        return self.message._replace(dup=True) if self.tries else self.message


class Record(NamedTuple):
    """What becomes of an item; `device` chooses the partition where the key must not."""

    item: Item
    topic: str
    value: bytes
    key: bytes | None
    headers: Headers
    device: bytes | None
