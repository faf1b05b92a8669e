"""The garbage collector of a broker's process: when it looks, and at what.

A look stops the loop, for 0.25 µs an object: 0.4 ms for the newest 5,000, 116 ms for 500,000 parked operations. So it
looks by itself at the newest alone. At what outlived that, which requests leave no cycles in, it looks every
`LOOK_S` seconds, and only while there is little of it (`GROWN_MAX`, `YOUNG_MAX`: 15 ms); what has grown and stays is
what the broker knows (topics, sessions), and never looked at again. Where as much goes as comes nothing grows, and
there is as much to look at: followers' fetches of 13,000 partitions, made anew each time, took 100 ms at every look.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from typing import Final

THRESHOLDS: Final = (5_000, 1_000_000, 1_000_000)
"""How much the program must grow (objects) before the collector looks at what is new; at anything older it never does
by itself."""
LOOK_S: Final = 10.0
GROWN_MAX: Final = 100_000
"""Blocks of memory more than at the last look: some 60,000 objects that the collector would go through."""
YOUNG_MAX: Final = 60_000
"""Objects that the collector would go through: it counts them only where there may be so many."""
LATE_MAX: Final = 6
"""So often a look is put off before what has grown is taken for lasting."""


class Collector:
    """Looks at older objects from time to time; `begin` on the loop, once all is loaded."""

    def __init__(self) -> None:
        self._blocks = 0
        self._late = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """What is here now stays: the collector need never look at it again."""
        gc.freeze()
        gc.enable()
        gc.set_threshold(*THRESHOLDS)
        self._blocks = sys.getallocatedblocks()
        self._later(loop)

    def end(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(LOOK_S, self._turn, loop)

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self.look()
        self._later(loop)

    def look(self) -> None:
        """Free cycles among what is older, unless that would take long."""
        if sys.getallocatedblocks() - self._blocks <= GROWN_MAX and not self._many():
            gc.collect(1)
        elif self._late < LATE_MAX:
            self._late += 1
            return
        else:
            gc.freeze()
        self._late = 0
        self._blocks = sys.getallocatedblocks()

    @staticmethod
    def _many() -> bool:
        """Whether there is much that has outlived one look; to count it takes a tenth of looking at it."""
        return gc.get_count()[1] * THRESHOLDS[0] > YOUNG_MAX and len(gc.get_objects(generation=1)) > YOUNG_MAX
