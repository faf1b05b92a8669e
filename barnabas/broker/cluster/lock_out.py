"""Settings that would lock everybody out, or give anybody what is the machine's, though each is one that Kafka takes.

They are refused when somebody sets them while the broker runs, and ignored aloud where they are stored (`dynamic`). Who
starts a broker with them has the configuration at hand, and has what was asked for.
"""

from __future__ import annotations

from typing import Any, Final

from barnabas.broker.cluster.image import Image
from barnabas.broker.config import ConfigError, Key, TopicConfig, keys_of
from barnabas.broker.config.topic_config import SYNONYMS

_LOW: Final = {
    "log.cleaner.backoff.ms": (100, "all logs would be looked at without a pause"),
    "log.cleaner.dedupe.buffer.size": (1_048_576, "nothing could be compacted"),
    "log.index.size.max.bytes": (1024, "every batch would begin a segment of its own"),
    "log.message.timestamp.after.max.ms": (1000, "records of clocks that are a little ahead would be refused"),
    "log.message.timestamp.before.max.ms": (1000, "records that were on their way for a moment would be refused"),
    "max.connection.creation.rate": (10, "one client would keep all others out"),
    "max.connections": (10, "one client would keep all others out"),
    "max.connections.per.ip": (10, "one client would keep the others of its address out"),
    "message.max.bytes": (1024, "hardly a record could be written"),
}
_HIGH: Final = {
    "barnabas.controller.mutation.burst": (
        100_000,
        "a partition is 6 to 10 KB of memory, which a start alone can give",
    ),
    "barnabas.controller.mutation.rate": (1000, "it is all that bounds them, and a start alone can take that away"),
    "log.cleaner.dedupe.buffer.size": (268_435_456, "it is memory, which a start alone can give"),
}
_TOPIC_KEYS: Final = {
    broker_name: keys_of(TopicConfig)[name] for name, broker_name in SYNONYMS.items() if name != "retention.ms"
}
"""What a topic takes from the broker is to be what a topic may have (retention: any negative is "for ever")."""


def check(key: Key, value: Any, image: Image) -> None:
    """Look at a value that is to hold from now on.

    Raises:
        ConfigError: it would lock out everybody, or everybody but a few, or give away too much; says why, and what to
            write.
    """
    text = f"{key.name}={key.text(value)}"
    topic_key = _TOPIC_KEYS.get(key.name)
    problem = topic_key.check(value) if topic_key is not None and topic_key.check is not None else None
    if problem is not None:
        raise ConfigError(f"{text}: {problem}")
    low, without = _LOW.get(key.name, (None, ""))
    if low is not None and value < low:
        raise ConfigError(f"{text}: too small, {without}; write {low} or more")
    high, because = _HIGH.get(key.name, (None, ""))
    if high is not None and value > high:
        raise ConfigError(f"{text}: too large, {because}; write {high} at most")
    brokers = max(len(image.brokers), 1)
    if key.name == "min.insync.replicas" and value > brokers:
        raise ConfigError(f"{text}: nobody could write with acks=all to {brokers} broker(s); write {brokers} at most")
