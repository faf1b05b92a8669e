"""Images: what brokers have of the metadata up to one offset is the same."""

from __future__ import annotations

from barnabas.simulator.checks import Check
from barnabas.simulator.history import Imaged
from barnabas.simulator.world import Broken


class Images(Check):
    """Sums by offset."""

    def __init__(self) -> None:
        self._digests: dict[int, tuple[str, str]] = {}
        self.rules = {Imaged: self._imaged}

    def _imaged(self, event: Imaged) -> None:
        by, digest = self._digests.setdefault(event.end, (event.broker, event.digest))
        if digest != event.digest:
            raise Broken(f"images: {event.broker} and {by} have other metadata up to offset {event.end}")
