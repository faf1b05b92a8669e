"""What both producers share besides their core: its making, and the callback of a record that found no place."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from barnabas.client.futures import RecordFuture
from barnabas.client.produce.config import ProducerConfig
from barnabas.client.produce.core import ProducerCore
from barnabas.client.produce.figures import metrics, statistics
from barnabas.client.produce.records import OnDelivery
from barnabas.client.produce.result import BatchResult
from barnabas.net.host.connection import Client
from barnabas.net.host.surroundings import Surroundings
from barnabas.net.metadata import Metadata

log = logging.getLogger(__name__)

F = TypeVar("F")


def make_core(
    config: ProducerConfig, surroundings: Surroundings, future: Callable[[BatchResult, int, int], F]
) -> tuple[Client, ProducerCore[F]]:
    """A client and the producer's core on it; `future` makes what `send` returns."""
    metadata = Metadata(config, surroundings.uniform, topic_idle_ms=config.metadata_max_idle_ms)
    client = Client(config, metadata, surroundings=surroundings)
    core = ProducerCore(config, metadata, client.network, surroundings.uniform, future)
    client.figures = partial(metrics, core.accumulator)
    client.statistics_of = partial(statistics, core.accumulator)
    return client, core


def tell(future: RecordFuture, on_delivery: OnDelivery) -> None:
    """Tell the callback what the record failed of; no sender will. What it raises is logged, as the sender does."""
    try:
        on_delivery(*future.outcome())
    except Exception:
        log.exception("a delivery callback failed")
