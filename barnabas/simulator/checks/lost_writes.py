"""Lost writes: an acknowledged record is there at the end, and so is every record that a consumer was given."""

from __future__ import annotations

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.history import Acknowledged, Kept, Polled
from barnabas.simulator.world import Broken


class LostWrites(Check):
    """Holds for acks=all, after every fault that the run's settings promise to survive."""

    def __init__(self) -> None:
        self._promised: dict[TopicPartition, dict[bytes, tuple[str, int]]] = {}
        self.rules = {Acknowledged: self._acknowledged, Polled: self._polled, Kept: self._kept}

    def _acknowledged(self, event: Acknowledged) -> None:
        self._promised.setdefault(event.partition, {})[event.value] = ("acknowledged", event.offset)

    def _polled(self, event: Polled) -> None:
        self._promised.setdefault(event.partition, {}).setdefault(event.value, ("consumed", event.offset))

    def _kept(self, event: Kept) -> None:
        kept = {value for _, value in event.records}
        for value, (how, offset) in self._promised.get(event.partition, {}).items():
            if value not in kept:
                raise Broken(f"lost write: {value!r}, {how} at {event.partition} offset {offset}, is not there")
