"""What is looked at of parked operations after each turn of a broker: who came, who went, who is late."""

from __future__ import annotations

from typing import Final

from barnabas.broker.delayed import DelayedOperation, Purgatory
from barnabas.broker.node.core import Core
from barnabas.simulator.broker import BrokerProcess
from barnabas.simulator.history import Completed, Parked, Tell
from barnabas.simulator.world import MS

_NEVER_MS: Final = 2**62


class ParkedWatch:
    """Looks at one broker; operations are numbered through all of its lives."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._count = 0
        self._places: dict[Purgatory, _Place] = {}

    def begin(self) -> None:
        """Another life begins."""
        self._places.clear()

    def look(self, broker: BrokerProcess, core: Core) -> None:
        """A turn is over."""
        now_ms = broker.machine.clock.mono_ns() // MS
        for purgatory in core.replicas.shared.purgatories:
            place = self._places.get(purgatory)
            if place is None:
                place = self._places[purgatory] = _Place()
            counts = purgatory.timer.size, purgatory.estimated_total
            if counts != place.counts or now_ms >= place.due_ms:  # else nobody came, nobody went, nobody is late
                place.counts = counts
                self._look_at(place, purgatory, broker, now_ms)

    def _look_at(self, place: _Place, purgatory: Purgatory, broker: BrokerProcess, now_ms: int) -> None:
        waiting = {one: None for one in purgatory.timer.tasks() if isinstance(one, DelayedOperation)}
        parked, world = place.parked, broker.machine.world
        for operation in [one for one in parked if one not in waiting]:
            number = parked.pop(operation)
            world.count("operations that expired", operation.deadline_ms <= now_ms)
            self._tell(Completed(broker.name, broker.incarnation, number, operation.completed))
        for operation in waiting:
            if operation not in parked:
                self._count += 1
                world.count("operations parked")
                parked[operation] = self._count
            elif operation.deadline_ms >= now_ms:
                continue
            told = Parked(broker.name, broker.incarnation, parked[operation], operation.deadline_ms, now_ms)
            self._tell(told)
        place.due_ms = min((one.deadline_ms for one in waiting), default=_NEVER_MS)


class _Place:
    """What was seen of one purgatory: the number of each operation in it, and when the first of them is due."""

    __slots__ = ("counts", "due_ms", "parked")

    def __init__(self) -> None:
        self.counts = (0, 0)
        self.due_ms = _NEVER_MS
        self.parked: dict[DelayedOperation, int] = {}
