"""Polls: what a consumer is given of a partition goes neither back nor past a record."""

from __future__ import annotations

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.history import Kept, Polled
from barnabas.simulator.world import Broken


class Polls(Check):
    """Going back is seen at once, what was passed over at the end."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[str, TopicPartition], list[int]] = {}
        self.rules = {Polled: self._polled, Kept: self._kept}

    def _polled(self, event: Polled) -> None:
        offsets = self._offsets.setdefault((event.consumer, event.partition), [])
        if offsets and event.offset <= offsets[-1]:
            raise Broken(
                f"poll goes back: {event.consumer} is given {event.partition} offset {event.offset} after {offsets[-1]}"
            )
        offsets.append(event.offset)

    def _kept(self, event: Kept) -> None:
        for (consumer, partition), offsets in self._offsets.items():
            if partition == event.partition:
                given = set(offsets)
                for offset, value in event.records:
                    if offset < offsets[-1] and offset not in given:
                        raise Broken(
                            f"poll skips: {consumer} was given {partition} up to offset {offsets[-1]}, but not "
                            f"{value!r} at {offset}"
                        )
