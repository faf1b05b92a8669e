"""Inconsistent offsets: one offset of a partition means one record, whoever tells of it, and for ever."""

from __future__ import annotations

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.history import Acknowledged, Kept, Polled
from barnabas.simulator.world import Broken


class InconsistentOffsets(Check):
    """What an acknowledgement, a consumer and the end say of an offset is the same."""

    def __init__(self) -> None:
        self._values: dict[tuple[TopicPartition, int], tuple[str, bytes]] = {}
        self.rules = {
            Acknowledged: lambda event: self._told("acknowledged", event.partition, event.offset, event.value),
            Polled: lambda event: self._told(event.consumer, event.partition, event.offset, event.value),
            Kept: self._kept,
        }

    def _kept(self, event: Kept) -> None:
        for offset, value in event.records:
            self._told("the end", event.partition, offset, value)

    def _told(self, who: str, partition: TopicPartition, offset: int, value: bytes) -> None:
        if offset < 0:
            return
        by, first = self._values.setdefault((partition, offset), (who, value))
        if first != value:
            raise Broken(f"inconsistent offsets: {partition} offset {offset} is {first!r} ({by}) and {value!r} ({who})")
