"""What a bridge counts, and under which names `/metrics` tells it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from barnabas.broker.metrics import Histogram, MetricsRegistry, Reading

TYPE: Final = "barnabas:Mqtt"

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Side:
    """One connection to the MQTT broker. `why` is what ended the last one, or keeps it from being made.

    `connected` once it carries messages: its subscriptions are granted, its consumer has begun.
    """

    name: str
    connected: bool = False
    connections: int = 0
    failures: int = 0
    sessions_lost: int = 0
    why: str = "it has not connected yet"

    def up(self) -> None:
        """It carries messages from now on."""
        self.connected, self.why = True, ""
        log.info("%s: connected", self.name)


@dataclass(slots=True)
class Figures:
    """Counters of messages in and records out; they begin at 0 with the process."""

    received_qos0: int = 0
    received_qos1: int = 0
    duplicates: int = 0
    retained_skipped: int = 0
    forwarded: int = 0
    dead_lettered: int = 0
    lost_qos0: int = 0
    lost_dead_letters: int = 0
    retried: int = 0
    published: int = 0
    out_skipped: int = 0
    out_refused: int = 0
    retrying: dict[int, str] = field(default_factory=dict)
    """Why the messages that are tried again have failed, by the number of the try's timer."""
    took_ms: Histogram = field(default_factory=Histogram)


_COUNTERS: Final = {
    "ForwardedMessages": ("forwarded", "Messages whose record is acknowledged, by their rule's topic"),
    "DeadLetters": (
        "dead_lettered",
        "Messages that no rule took, or Kafka refused for good: they lie in the dead letters",
    ),
    "DuplicateMessages": (
        "duplicates",
        "Messages that the MQTT broker marked as delivered again; their records say so",
    ),
    "RetainedSkipped": ("retained_skipped", "Retained messages that came though none are wanted"),
    "LostQos0Messages": (
        "lost_qos0",
        "Messages of QoS 0 that were dropped: too many were open, Kafka took them not, or the bridge was about to end",
    ),
    "LostDeadLetters": (
        "lost_dead_letters",
        "Messages and records that are lost: Kafka took not even a dead letter without payload",
    ),
    "RetriedRecords": ("retried", "Records that failed for now, and were sent again"),
    "PublishedMessages": ("published", "Records that were published to the MQTT broker"),
    "SkippedRecords": ("out_skipped", "Records that were not published, for they came from MQTT"),
    "RefusedRecords": ("out_refused", "Records that could not be published, and lie in the dead letters"),
}
_MEANINGS: Final = {
    **{name: what for name, (_, what) in _COUNTERS.items()},
    "ReceivedMessages": "Messages that came from the MQTT broker, by their QoS",
    "AcknowledgedMessages": "Messages of QoS 1 that were acknowledged to the MQTT broker",
    "RuleMessages": "Messages that a rule has taken, by its place",
    "OpenMessages": "Messages that came and are not acknowledged yet",
    "OpenBytes": "About so many bytes are kept of messages that are not settled yet",
    "OldestOpenMs": "Age of the oldest open message (ms)",
    "RetryingRecords": "Records that wait for another try",
    "ForwardTimeMs": "From a message to its record's acknowledgement (ms)",
    "Connected": "1 while a connection to the MQTT broker stands, by direction",
    "Connections": "Connections to the MQTT broker that were made, by direction",
    "SessionsLost": "Connections for which the MQTT broker kept nothing, though there had been one before",
}


def meaning(reading: Reading) -> str:
    """What a metric means."""
    return _MEANINGS[reading.name]


def register(registry: MetricsRegistry, figures: Figures) -> None:
    """All counters of one bridge; what others hold they register themselves."""
    for name, (attribute, _) in _COUNTERS.items():
        registry.counter(TYPE, name, None, _reader(figures, attribute))
    for qos in (0, 1):
        registry.counter(TYPE, "ReceivedMessages", {"qos": str(qos)}, _reader(figures, f"received_qos{qos}"))
    registry.gauge(TYPE, "RetryingRecords", None, lambda: len(figures.retrying))
    figures.took_ms = registry.histogram(TYPE, "ForwardTimeMs")


def register_side(registry: MetricsRegistry, side: Side) -> None:
    """The figures of one connection."""
    tags = {"direction": side.name}
    registry.gauge(TYPE, "Connected", tags, lambda: int(side.connected))
    registry.counter(TYPE, "Connections", tags, _reader(side, "connections"))
    registry.counter(TYPE, "SessionsLost", tags, _reader(side, "sessions_lost"))


def _reader(owner: object, attribute: str) -> Callable[[], int]:
    return lambda: int(getattr(owner, attribute))
