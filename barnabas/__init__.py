"""A small, instant, transparent Kafka broker in Python, with its client and a PySpark source.

`Broker`, `Producer`, `Consumer` and `Admin` block; `barnabas.aio` has their asyncio twins. What they raise is a
`BarnabasError`. Names load when they are first used (PEP 562): importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.broker.config.settings import BrokerSettings
    from barnabas.broker.host.embedded import Broker
    from barnabas.client.admin import Admin, NewTopic
    from barnabas.client.consume.group.assignors import PartitionAssignor
    from barnabas.client.consume.group.health import Health
    from barnabas.client.consume.group.values import OffsetAndMetadata
    from barnabas.client.consume.record import ConsumerRecord
    from barnabas.client.consumer import Consumer
    from barnabas.client.errors import (
        BufferExhausted,
        CommitFailed,
        InvalidRecord,
        LogTruncated,
        NoPosition,
        RecordTooLarge,
        SerializationFailed,
    )
    from barnabas.client.produce.records import RecordMetadata
    from barnabas.client.producer import Producer
    from barnabas.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
    from barnabas.net.errors import ClientClosed, ClientTimeout, Disconnected, FeatureMissing, WaitRefused
    from barnabas.protocol.errors import BarnabasError, ConfigError, ErrorCode, KafkaError
    from barnabas.protocol.ids import TopicPartition

__version__ = "0.1.0"
__all__ = [
    "Admin",
    "BarnabasError",
    "Broker",
    "BrokerSettings",
    "BufferExhausted",
    "ClientClosed",
    "ClientSettings",
    "ClientTimeout",
    "CommitFailed",
    "ConfigError",
    "Consumer",
    "ConsumerRecord",
    "ConsumerSettings",
    "Disconnected",
    "ErrorCode",
    "FeatureMissing",
    "Health",
    "InvalidRecord",
    "KafkaError",
    "LogTruncated",
    "NewTopic",
    "NoPosition",
    "OffsetAndMetadata",
    "PartitionAssignor",
    "Producer",
    "ProducerSettings",
    "RecordMetadata",
    "RecordTooLarge",
    "SerializationFailed",
    "TopicPartition",
    "WaitRefused",
    "__version__",
]

_HOMES = {
    "barnabas.broker.config.settings": ("BrokerSettings",),
    "barnabas.broker.host.embedded": ("Broker",),
    "barnabas.client.admin": (
        "Admin",
        "NewTopic",
    ),
    "barnabas.client.consume.group.assignors": ("PartitionAssignor",),
    "barnabas.client.consume.group.values": ("OffsetAndMetadata",),
    "barnabas.client.consume.group.health": ("Health",),
    "barnabas.client.consume.record": ("ConsumerRecord",),
    "barnabas.client.consumer": ("Consumer",),
    "barnabas.client.errors": (
        "BufferExhausted",
        "CommitFailed",
        "InvalidRecord",
        "LogTruncated",
        "NoPosition",
        "RecordTooLarge",
        "SerializationFailed",
    ),
    "barnabas.client.produce.records": ("RecordMetadata",),
    "barnabas.client.producer": ("Producer",),
    "barnabas.client.settings": (
        "ClientSettings",
        "ConsumerSettings",
        "ProducerSettings",
    ),
    "barnabas.net.errors": (
        "ClientClosed",
        "ClientTimeout",
        "Disconnected",
        "FeatureMissing",
        "WaitRefused",
    ),
    "barnabas.protocol.errors": (
        "BarnabasError",
        "ConfigError",
        "ErrorCode",
        "KafkaError",
    ),
    "barnabas.protocol.ids": ("TopicPartition",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
