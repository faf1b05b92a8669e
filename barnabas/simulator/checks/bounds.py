"""Bounds: a broker keeps no more for others than it may, its books agree, and who is gone keeps nothing."""

from __future__ import annotations

from barnabas.simulator.checks import Check
from barnabas.simulator.history import Held
from barnabas.simulator.world import Broken


class Bounds(Check):
    """Each look for itself."""

    def __init__(self) -> None:
        self.rules = {Held: self._held}

    def _held(self, event: Held) -> None:
        if event.total > event.limit:
            raise Broken(f"bounds: {event.broker} keeps {event.total} bytes for others, and may keep {event.limit}")
        if not event.total == event.of_kinds == event.of_holders:
            raise Broken(
                f"bounds: {event.broker} keeps {event.total} bytes, by what they are {event.of_kinds}, and by whose "
                f"{event.of_holders}"
            )
        if event.gone:
            raise Broken(f"bounds: {event.broker} keeps something for connection {event.gone[0]}, which is gone")
