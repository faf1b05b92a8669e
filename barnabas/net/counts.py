"""What a client counts, under the names of Kafka's metrics and of librdkafka's statistics."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

log = logging.getLogger(__name__)

Metrics = dict[str, dict[str, float]]
"""Groups of figures, by Kafka's names. Totals count from the start of the client; there are no rates."""


@dataclass(slots=True)
class Counts:
    """Totals of one client's connections and requests. Bytes are those of whole frames."""

    connections_made: int = 0
    connections_closed: int = 0
    requests: int = 0
    responses: int = 0
    bytes_out: int = 0
    bytes_in: int = 0


class Statistics:
    """Tells `call` what `look` finds, every so many ms. A driver of the client's step."""

    def __init__(
        self, interval_ms: int, call: Callable[[dict[str, Any]], Any], look: Callable[[int], dict[str, Any]]
    ) -> None:
        self._interval_ms = interval_ms
        self._call = call
        self._look = look
        self._due_ms: int | None = None

    def drive(self, now_ms: int) -> int:
        """Tell if it is time. Returns when it is next (absolute ms)."""
        if self._due_ms is None:
            self._due_ms = now_ms + self._interval_ms
        elif self._due_ms <= now_ms:
            self._due_ms = now_ms + self._interval_ms
            try:
                self._call(self._look(now_ms))
            except Exception:
                log.exception("stats_cb failed")
        return self._due_ms
