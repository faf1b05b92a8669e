"""What both producers share besides their core: its making, the clock of stamps, callbacks, the words of a timeout."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from barnabas.client.errors import BufferExhausted
from barnabas.client.futures import RecordFuture
from barnabas.client.produce.batch import BatchResult
from barnabas.client.produce.config import ProducerConfig
from barnabas.client.produce.core import NeedMemory, NeedMetadata, ProducerCore
from barnabas.client.produce.records import RecordMetadata
from barnabas.net.errors import ClientTimeout
from barnabas.net.host.connection import Client
from barnabas.net.metadata import Metadata
from barnabas.protocol.errors import BarnabasError

F = TypeVar("F")

OnDelivery = Callable[[RecordMetadata | None, BarnabasError | None], Any]
"""Called on the sender's thread with a record's metadata or its error."""


def wall_ms() -> int:
    """Time of day in ms since the epoch: what a record is stamped with unless the caller says otherwise."""
    return time.time_ns() // 1_000_000


def make_core(config: ProducerConfig, future: Callable[[BatchResult, int, int], F]) -> tuple[Client, ProducerCore[F]]:
    """A client and the producer's core on it; `future` makes what `send` returns."""
    metadata = Metadata(config, random.random, topic_idle_ms=config.metadata_max_idle_ms)
    client = Client(config, metadata)
    return client, ProducerCore(config, metadata, client.network, random.random, future)


def too_long(need: NeedMetadata | NeedMemory, topic: str, partition: int | None, wait_ms: int) -> BarnabasError:
    """The error of a send that waited `max.block.ms` in vain."""
    if isinstance(need, NeedMemory):
        return BufferExhausted(f"no {need.size} bytes of buffer.memory became free within max.block.ms ({wait_ms} ms)")
    what = f"topic {topic}" if partition is None else f"partition {partition} of topic {topic}"
    return ClientTimeout(f"{what} is not in the metadata after max.block.ms ({wait_ms} ms)")


def watch(core: ProducerCore[Any], future: RecordFuture, on_delivery: OnDelivery | None) -> None:
    """Tell the callback and the interceptors of a record's outcome."""

    def told(future: RecordFuture) -> None:
        metadata, error = future.outcome()
        if core.interceptors:
            core.interceptors.on_acknowledgement(metadata, error)
        if on_delivery is not None:
            on_delivery(metadata, error)

    future.add_done_callback(told)
