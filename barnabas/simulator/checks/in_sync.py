"""In sync: whatever any leader has ever committed, every member of the ISR has, and who is eligible to lead without it.

    high watermark 7 at broker1, ISR {1, 2}    2's log ends at 7: as it must    at 6: broken

So nobody can be elected who lacks it. Apart is a member that lost power with records that no sync had covered, until
it is neither, or is registered anew: it cannot show then that it lost nothing. One whose bit has flipped can, for only
its process died: it finds its loss when it is registered, takes the proof back, and is apart until it is unfenced.
"""

from __future__ import annotations

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.history import Decided, Flipped, Gone, Looked, PowerLost, Registered, Removed, Uncertain
from barnabas.simulator.world import Broken


class InSync(Check):
    """The largest high watermark there ever was against the ends of all logs, whatever happens to either."""

    def __init__(self) -> None:
        self._committed: dict[TopicPartition, tuple[int, str]] = {}
        self._ends: dict[tuple[TopicPartition, str], int] = {}
        self._isr: dict[TopicPartition, tuple[str, ...]] = {}
        self._lost: set[tuple[TopicPartition, str]] = set()
        self._registered: dict[str, int] = {}
        self._flipped: dict[str, bool] = {}
        """Whether it has been fenced since."""
        self.rules = {
            Looked: self._looked,
            Gone: self._gone,
            Decided: self._decided,
            Removed: self._removed,
            Uncertain: self._uncertain,
            PowerLost: self._lost_power,
            Flipped: self._has_flipped,
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
        for one, was_fenced in list(self._flipped.items()):
            if one not in event.alive:
                self._flipped[one] = True
            elif was_fenced:
                del self._flipped[one]
                self._is_held_to_all(one)
        self._compare(event.partition)

    def _removed(self, event: Removed) -> None:
        self._isr.pop(event.partition, None)

    def _uncertain(self, event: Uncertain) -> None:
        self._committed.pop(event.partition, None)

    def _lost_power(self, event: PowerLost) -> None:
        if not event.synced:
            self._is_apart(event.broker)

    def _has_flipped(self, event: Flipped) -> None:
        self._flipped[event.broker] = False
        self._is_apart(event.broker)

    def _is_apart(self, broker: str) -> None:
        self._lost.update((partition, broker) for partition, one in self._ends if one == broker)

    def _is_held_to_all(self, broker: str) -> None:
        self._lost = {one for one in self._lost if one[1] != broker}

    def _gone(self, event: Gone) -> None:
        self._ends[event.partition, event.broker] = 0
        self._compare(event.partition)

    def _comes_back(self, event: Registered) -> None:
        if event.epoch > self._registered.get(event.broker, -1):
            self._registered[event.broker] = event.epoch
            if event.broker not in self._flipped:
                self._is_held_to_all(event.broker)

    def _compare(self, partition: TopicPartition) -> None:
        committed, by = self._committed.get(partition, (0, ""))
        for member in self._isr.get(partition, ()):
            end = self._ends.get((partition, member), 0)
            if end < committed and (partition, member) not in self._lost:
                raise Broken(
                    f"in sync: {by} has committed {partition} up to {committed}, {member}, of the ISR, ends at {end}"
                )
