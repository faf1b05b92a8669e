"""Virtual time, chance from a seed, and the queue of what will happen.

One event runs at a time, and time passes in between: from each to the next one in the queue. It also passes while one
runs, wherever a process looks at its clock, for that is how a broker finds out that a turn has taken long
(`Clock.work_ns`); whatever was due meanwhile happens behind it, as on a machine with one processor.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Final

from barnabas.simulator.incarnations import Incarnations
from barnabas.simulator.trace import Trace

MS: Final = 1_000_000
SECOND: Final = 1_000 * MS
"""Nanoseconds."""


class Broken(AssertionError):
    """A promise was broken: the sentence says which."""


class World:
    """Everything of one seed.

    Attributes:
        now_ns: virtual time since the beginning.
        seed: what all chance comes from.
        trace: what happened.
        reached: how often what is worth counting happened, by its name.
        broken: what went wrong first, in one sentence; the run ends with it.
        incarnations: its topics, told apart where they have one name.
    """

    def __init__(self, seed: str) -> None:
        self.now_ns = 0
        self.seed = seed
        self.trace = Trace()
        self.reached: Counter[str] = Counter()
        self.broken: str | None = None
        self.incarnations = Incarnations()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def chance(self, name: str) -> random.Random:
        """A source of chance of somebody's own: what others draw changes nothing for him."""
        return random.Random(f"{self.seed}/{name}")

    def note(self, what: str) -> None:
        """Write down what happened."""
        self.trace.note(self.now_ns, what)

    def count(self, name: str, times: int = 1) -> None:
        """Count what a run is to reach."""
        self.reached[name] += times

    def fail(self, sentence: str) -> None:
        """A promise was broken. Raised, it could be caught: whoever called may be any code that is shipped."""
        if self.broken is None:
            self.broken = sentence

    # -- time

    def at(self, at_ns: int, call: Callable[[], None]) -> None:
        """Call at that time; among equals those come first that were asked for first."""
        if at_ns < self.now_ns:
            at_ns = self.now_ns
        heapq.heappush(self._events, (at_ns, next(self._order), call))

    def after(self, delay_ns: int, call: Callable[[], None]) -> None:
        """Call after so long."""
        heapq.heappush(self._events, (self.now_ns + delay_ns, next(self._order), call))

    def run(self, until_ns: int, ended: Callable[[], bool] | None = None) -> bool:
        """Let things happen until that time, or until `ended()`; whether it has.

        Raises:
            Broken: somebody has told of it (`fail`).
        """
        events = self._events
        while ended is None or not ended():
            if not events or events[0][0] > until_ns:
                self.now_ns = max(self.now_ns, until_ns)
                return False
            at_ns, _, call = heapq.heappop(events)
            if at_ns > self.now_ns:
                self.now_ns = at_ns
            call()
            if self.broken is not None:
                raise Broken(self.broken)
        return True
