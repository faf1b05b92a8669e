"""Never seen: in the end every consumer that reads was given every record that is there."""

from __future__ import annotations

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.history import Kept, Over, Polled
from barnabas.simulator.world import Broken


class Unseen(Check):
    """Whoever was given anything goes on to the end of every partition."""

    def __init__(self) -> None:
        self._given: dict[str, dict[TopicPartition, int]] = {}
        self._ends: dict[TopicPartition, int] = {}
        self.rules = {Polled: self._polled, Kept: self._kept, Over: self._over}

    def _polled(self, event: Polled) -> None:
        self._given.setdefault(event.consumer, {})[event.partition] = event.offset

    def _kept(self, event: Kept) -> None:
        if event.records:
            self._ends[event.partition] = event.records[-1][0]

    def _over(self, event: Over) -> None:
        for consumer, given in self._given.items():
            for partition, last in self._ends.items():
                if given.get(partition, -1) < last:
                    raise Broken(
                        f"never seen: {partition} goes to offset {last}, {consumer} was given "
                        f"{given.get(partition, 'nothing')}, {event.since_healed_ms} ms after all was healed"
                    )
