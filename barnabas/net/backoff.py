"""Exponential back-off with jitter (Kafka's `ExponentialBackoff`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Random = Callable[[], float]
"""The network core's only source of chance: a number in [0, 1). Tests hand in their own."""

JITTER = 0.2


@dataclass(slots=True, frozen=True)
class Backoff:
    """Waits of `initial_ms * 2**attempt`, at most `max_ms`, then spread by ±20 %.

    Attempt 0 is the first wait. A wait may pass `max_ms` by the jitter when doubling alone did not reach it; Kafka caps
    the sum too, and so does this.
    """

    initial_ms: int
    max_ms: int
    random: Random
    multiplier: float = 2.0

    def wait_ms(self, attempt: int) -> int:
        """How long to wait before the attempt after `attempt` failures in a row (ms)."""
        if self.max_ms <= 0 or self.initial_ms <= 0:
            return 0
        # 2**32 is past every cap; bounding the exponent keeps the float finite.
        term = min(self.initial_ms * self.multiplier ** min(max(attempt, 0), 32), float(self.max_ms))
        if self.initial_ms >= self.max_ms:
            return int(term)  # a fixed wait carries no jitter
        spread = 1.0 - JITTER + 2.0 * JITTER * self.random()
        return min(int(term * spread), self.max_ms)
