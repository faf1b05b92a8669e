"""The high watermark never falls within an incarnation, but with a damaged log, and never passes the log's end.

Of who is apart it falls with the log's end, to which it was taken down as the log was opened.
"""

from __future__ import annotations

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.checks.apart import Apart
from barnabas.simulator.history import Decided, Gone, Looked, PowerLost
from barnabas.simulator.world import Broken


class HighWatermark(Check):
    """After every turn of a broker."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, TopicPartition], tuple[int, int]] = {}
        self._apart = Apart()
        self.rules = {
            Looked: self._looked,
            Gone: self._gone,
            PowerLost: self._apart.lost_power,
            Decided: self._decided,
        }

    def _decided(self, event: Decided) -> None:
        self._apart.decided(event)

    def _gone(self, event: Gone) -> None:
        self._last.pop((event.broker, event.partition), None)

    def _looked(self, event: Looked) -> None:
        what = f"high watermark: {event.high_watermark} of {event.partition} at {event.broker}"
        if event.high_watermark > event.end:
            raise Broken(f"{what} is past the log's end {event.end}")
        key = (event.broker, event.partition)
        incarnation, last = self._last.get(key, (0, 0))
        is_cut = key in self._apart and event.high_watermark == event.end
        if incarnation == event.incarnation and event.high_watermark < last and not is_cut:
            raise Broken(f"{what} has fallen from {last}")
        self._last[key] = (event.incarnation, event.high_watermark)
