"""The high watermark never falls within an incarnation, but with a damaged log, and never passes the log's end."""

from __future__ import annotations

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.history import Gone, Looked
from barnabas.simulator.world import Broken


class HighWatermark(Check):
    """After every turn of a broker."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, TopicPartition], tuple[int, int]] = {}
        self.rules = {Looked: self._looked, Gone: self._gone}

    def _gone(self, event: Gone) -> None:
        self._last.pop((event.broker, event.partition), None)

    def _looked(self, event: Looked) -> None:
        what = f"high watermark: {event.high_watermark} of {event.partition} at {event.broker}"
        if event.high_watermark > event.end:
            raise Broken(f"{what} is past the log's end {event.end}")
        key = (event.broker, event.partition)
        incarnation, last = self._last.get(key, (0, 0))
        if incarnation == event.incarnation and event.high_watermark < last:
            raise Broken(f"{what} has fallen from {last}")
        self._last[key] = (event.incarnation, event.high_watermark)
