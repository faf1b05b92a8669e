"""A small, instant, transparent Kafka broker in Python, with its client and a PySpark source.

`Broker`, `Producer`, `Consumer` and `Admin` block; `barnabas.aio` has their asyncio twins. Names load when they are
first used (PEP 562): importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.broker.host.embedded import Broker
    from barnabas.client.admin import Admin
    from barnabas.client.consumer import Consumer
    from barnabas.client.producer import Producer
    from barnabas.protocol.ids import TopicPartition

__version__ = "0.1.0"
__all__ = ["Admin", "Broker", "Consumer", "Producer", "TopicPartition", "__version__"]

_HOMES = {
    "Broker": ("barnabas.broker.host.embedded", "Broker"),
    "Admin": ("barnabas.client.admin", "Admin"),
    "Consumer": ("barnabas.client.consumer", "Consumer"),
    "Producer": ("barnabas.client.producer", "Producer"),
    "TopicPartition": ("barnabas.protocol.ids", "TopicPartition"),
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(home[0]), home[1])
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
