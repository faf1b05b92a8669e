"""The asyncio forms: `Broker`, `Producer`, `Consumer` and `Admin` for code that runs on an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.broker.host.embedded import AsyncBroker as Broker
    from barnabas.client.async_admin import AsyncAdmin as Admin
    from barnabas.client.async_consumer import AsyncConsumer as Consumer
    from barnabas.client.async_producer import AsyncProducer as Producer

__all__ = ["Admin", "Broker", "Consumer", "Producer"]

_HOMES = {
    "Broker": ("barnabas.broker.host.embedded", "AsyncBroker"),
    "Admin": ("barnabas.client.async_admin", "AsyncAdmin"),
    "Consumer": ("barnabas.client.async_consumer", "AsyncConsumer"),
    "Producer": ("barnabas.client.async_producer", "AsyncProducer"),
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
