"""Order: what an idempotent producer sends to one partition stands there in the order in which it was sent."""

from __future__ import annotations

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.history import Kept, Sent
from barnabas.simulator.world import Broken


class Order(Check):
    """Records may be missing (they failed), but none comes before one that was sent earlier."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[TopicPartition, bytes], tuple[str, int]] = {}
        self.rules = {Sent: self._sent, Kept: self._kept}

    def _sent(self, event: Sent) -> None:
        if event.idempotent:
            self._numbers[event.partition, event.value] = (event.producer, len(self._numbers))

    def _kept(self, event: Kept) -> None:
        last: dict[str, tuple[int, bytes]] = {}
        for offset, value in event.records:
            found = self._numbers.get((event.partition, value))
            if found is None:
                continue
            producer, number = found
            before = last.get(producer)
            if before is not None and number < before[0]:
                raise Broken(
                    f"order: {value!r} at {event.partition} offset {offset} was sent before {before[1]!r}, which "
                    "stands before it"
                )
            last[producer] = (number, value)
