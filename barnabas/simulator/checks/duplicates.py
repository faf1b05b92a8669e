"""Duplicates: a record of an idempotent producer stands in the log once, whoever reads it."""

from __future__ import annotations

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.history import Kept, Polled, Sent
from barnabas.simulator.world import Broken


class Duplicates(Check):
    """One offset for each value, among all that were ever seen."""

    def __init__(self) -> None:
        self._once: set[tuple[TopicPartition, bytes]] = set()
        self._offsets: dict[tuple[TopicPartition, bytes], int] = {}
        self.rules = {Sent: self._sent, Polled: self._polled, Kept: self._kept}

    def _sent(self, event: Sent) -> None:
        if event.idempotent:
            self._once.add((event.partition, event.value))

    def _polled(self, event: Polled) -> None:
        self._found(event.partition, event.offset, event.value)

    def _kept(self, event: Kept) -> None:
        for offset, value in event.records:
            self._found(event.partition, offset, value)

    def _found(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        key = (partition, value)
        if key in self._once and self._offsets.setdefault(key, offset) != offset:
            raise Broken(f"duplicate: {value!r} stands at {partition} offsets {self._offsets[key]} and {offset}")
