"""Agreement: below the high watermark all replicas have the same batches at the same offsets, in every life."""

from __future__ import annotations

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.history import Committed
from barnabas.simulator.world import Broken


class Agreement(Check):
    """A batch by its first offset: last offset, leader epoch and sum."""

    def __init__(self) -> None:
        self._batches: dict[tuple[TopicPartition, int], tuple[str, tuple[int, int, int]]] = {}
        self.rules = {Committed: self._committed}

    def _committed(self, event: Committed) -> None:
        told = (event.last_offset, event.leader_epoch, event.crc)
        by, first = self._batches.setdefault((event.partition, event.offset), (event.broker, told))
        if first != told:
            raise Broken(
                f"agreement: {event.broker} has committed {told} (last offset, epoch, sum) at {event.partition} offset "
                f"{event.offset}, {by} {first}"
            )
