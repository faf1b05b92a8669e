"""What both producers share besides their core: its making, and callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from barnabas.client.futures import RecordFuture
from barnabas.client.produce.batch import BatchResult
from barnabas.client.produce.config import ProducerConfig
from barnabas.client.produce.core import ProducerCore
from barnabas.client.produce.records import RecordMetadata
from barnabas.net.host.connection import Client
from barnabas.net.host.surroundings import Surroundings
from barnabas.net.metadata import Metadata
from barnabas.protocol.errors import BarnabasError

F = TypeVar("F")

OnDelivery = Callable[[RecordMetadata | None, BarnabasError | None], Any]
"""Called on the sender's thread with a record's metadata or its error."""


def make_core(
    config: ProducerConfig, surroundings: Surroundings, future: Callable[[BatchResult, int, int], F]
) -> tuple[Client, ProducerCore[F]]:
    """A client and the producer's core on it; `future` makes what `send` returns."""
    metadata = Metadata(config, surroundings.uniform, topic_idle_ms=config.metadata_max_idle_ms)
    client = Client(config, metadata, surroundings=surroundings)
    return client, ProducerCore(config, metadata, client.network, surroundings.uniform, future)


def watch(core: ProducerCore[Any], future: RecordFuture, on_delivery: OnDelivery | None) -> None:
    """Tell the callback and the interceptors of a record's outcome."""

    def told(future: RecordFuture) -> None:
        metadata, error = future.outcome()
        if core.interceptors:
            core.interceptors.on_acknowledgement(metadata, error)
        if on_delivery is not None:
            on_delivery(metadata, error)

    future.add_done_callback(told)
