"""In sync: whatever any leader has ever committed, every member of the ISR has, and who is eligible to lead without it.

    high watermark 7 at broker1, ISR {1, 2}    2's log ends at 7: as it must    at 6: broken

So nobody can be elected who lacks it. Apart is a member that lost power with records that no sync had covered, until
it is neither, or is registered anew: it cannot show then that it lost nothing.
"""

from __future__ import annotations

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.history import Decided, Gone, Looked, PowerLost, Registered, Removed
from barnabas.simulator.world import Broken


class InSync(Check):
    """The largest high watermark there ever was against the ends of all logs, whatever happens to either."""

    def __init__(self) -> None:
        self._committed: dict[TopicPartition, tuple[int, str]] = {}
        self._ends: dict[tuple[TopicPartition, str], int] = {}
        self._isr: dict[TopicPartition, tuple[str, ...]] = {}
        self._lost: set[tuple[TopicPartition, str]] = set()
        self._registered: dict[str, int] = {}
        self.rules = {
            Looked: self._looked,
            Gone: self._gone,
            Decided: self._decided,
            Removed: self._removed,
            PowerLost: self._lost_power,
            Registered: self._comes_back,
        }

    def _looked(self, event: Looked) -> None:
        self._ends[event.partition, event.broker] = event.end
        committed, _ = self._committed.get(event.partition, (-1, ""))
        if event.high_watermark > committed:
            self._committed[event.partition] = (event.high_watermark, event.broker)
        self._compare(event.partition)

    def _decided(self, event: Decided) -> None:
        self._isr[event.partition] = member_of = event.isr + event.elr
        self._lost -= {(event.partition, one) for one in event.replicas if one not in member_of}
        self._compare(event.partition)

    def _removed(self, event: Removed) -> None:
        self._isr.pop(event.partition, None)

    def _lost_power(self, event: PowerLost) -> None:
        if not event.synced:
            self._lost.update((partition, event.broker) for partition, one in self._ends if one == event.broker)

    def _gone(self, event: Gone) -> None:
        self._ends[event.partition, event.broker] = 0
        self._compare(event.partition)

    def _comes_back(self, event: Registered) -> None:
        if event.epoch > self._registered.get(event.broker, -1):
            self._registered[event.broker] = event.epoch
            self._lost = {one for one in self._lost if one[1] != event.broker}

    def _compare(self, partition: TopicPartition) -> None:
        committed, by = self._committed.get(partition, (0, ""))
        for member in self._isr.get(partition, ()):
            end = self._ends.get((partition, member), 0)
            if end < committed and (partition, member) not in self._lost:
                raise Broken(
                    f"in sync: {by} has committed {partition} up to {committed}, {member}, of the ISR, ends at {end}"
                )
