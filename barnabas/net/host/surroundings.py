"""What a client takes from the world besides sockets: two times and chance. Tests and simulations hand in others."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from barnabas.net.backoff import Random


class Surroundings(NamedTuple):
    """`now_ms` is monotonic and drives timers, `wall_ms` (since the epoch) stamps records, `uniform` is in [0, 1)."""

    now_ms: Callable[[], int]
    wall_ms: Callable[[], int]
    uniform: Random


def monotonic_ms() -> int:
    """Whole milliseconds, monotonic."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Time of day in ms since the epoch."""
    return time.time_ns() // 1_000_000


REAL: Final = Surroundings(monotonic_ms, wall_ms, random.SystemRandom().random)
"""Chance is the system's: a client's thread leaves the program's own numbers alone, whatever that seeded them with, and
forked processes do not draw the same."""
