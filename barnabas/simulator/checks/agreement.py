"""Agreement: below the high watermark all replicas have the same batches at the same offsets, in every life.

But for who is apart: it may differ until it is cut there, and is cut before it is in sync again.
"""

from __future__ import annotations

from collections import defaultdict

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.checks.apart import Apart
from barnabas.simulator.history import Committed, Decided, Epochs, Gone, PowerLost
from barnabas.simulator.world import Broken


class Agreement(Check):
    """A batch by its first offset: last offset, leader epoch and sum."""

    def __init__(self) -> None:
        self._batches: dict[tuple[TopicPartition, int], tuple[str, tuple[int, int, int]]] = {}
        self._apart = Apart()
        self._differs: defaultdict[tuple[str, TopicPartition], dict[int, str]] = defaultdict(dict)
        """Where it is to be cut yet, and how it differs there: in this life, for the next one tells all of it again."""
        self._lives: dict[tuple[str, TopicPartition], int] = {}
        self.rules = {
            Committed: self._committed,
            PowerLost: self._apart.lost_power,
            Decided: self._decided,
            Epochs: self._cut,
            Gone: self._gone,
        }

    def _committed(self, event: Committed) -> None:
        told = (event.last_offset, event.leader_epoch, event.crc)
        at, log = (event.partition, event.offset), (event.broker, event.partition)
        if self._lives.get(log) != event.incarnation:
            self._lives[log] = event.incarnation
            self._differs.pop(log, None)
        may_differ = log in self._apart
        by, first = self._batches.get(at, (event.broker, told))
        if first != told:
            why = (
                f"agreement: {event.broker} has committed {told} (last offset, epoch, sum) at {event.partition} offset "
                f"{event.offset}, {by} {first}"
            )
            if not may_differ:
                raise Broken(why)
            self._differs[log][event.offset] = why
        elif not may_differ:
            self._batches.setdefault(at, (by, first))

    def _decided(self, event: Decided) -> None:
        for one in self._apart.decided(event):
            for why in self._differs.get((one, event.partition), {}).values():
                raise Broken(f"{why}, and is in sync again")

    def _cut(self, event: Epochs) -> None:
        differs = self._differs.get((event.broker, event.partition))
        if differs and event.is_cut:
            self._differs[event.broker, event.partition] = {at: why for at, why in differs.items() if at < event.end}

    def _gone(self, event: Gone) -> None:
        self._differs.pop((event.broker, event.partition), None)
