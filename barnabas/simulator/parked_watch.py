"""What is looked at of parked operations after each turn of a broker: who came, who went, who is late."""

from __future__ import annotations

from typing import Final

from barnabas.broker.delayed import DelayedOperation, Purgatory, Timer
from barnabas.broker.node.core import Core
from barnabas.simulator.broker import BrokerProcess
from barnabas.simulator.history import Completed, Parked, Tell
from barnabas.simulator.world import MS

_NEVER_NS: Final = 2**62


class ParkedWatch:
    """Looks at one broker; operations are numbered through all of its lives."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._count = 0
        self._purgatories: tuple[Purgatory, ...] = ()
        self._places: list[_Place] = []

    def begin(self) -> None:
        """Another life begins."""
        self._purgatories, self._places = (), []

    def look(self, broker: BrokerProcess, core: Core) -> None:
        """A turn is over."""
        purgatories = core.replicas.shared.purgatories
        if purgatories is not self._purgatories:
            self._purgatories, self._places = purgatories, [_Place(one, one.timer) for one in purgatories]
        now_ns = broker.machine.world.now_ns
        for place in self._places:
            size, total = place.timer.size, place.purgatory.estimated_total
            if size == place.size and total == place.total and now_ns < place.due_ns:
                continue  # nobody came, nobody went, nobody is late
            place.size, place.total = size, total
            self._look_at(place, broker)

    def _look_at(self, place: _Place, broker: BrokerProcess) -> None:
        waiting = {one: None for one in place.timer.tasks() if isinstance(one, DelayedOperation)}
        parked, world, clock = place.parked, broker.machine.world, broker.machine.clock
        now_ms = clock.mono_ns() // MS
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
        due_ms = min([one.deadline_ms for one in waiting], default=None)
        place.due_ns = _NEVER_NS if due_ms is None else clock.when(due_ms * MS)


class _Place:
    """What was seen of one purgatory: each operation's number, and when the first of them is due (the world's ns)."""

    __slots__ = ("due_ns", "parked", "purgatory", "size", "timer", "total")

    def __init__(self, purgatory: Purgatory, timer: Timer) -> None:
        self.purgatory = purgatory
        self.timer = timer
        self.size = self.total = 0
        self.due_ns = _NEVER_NS
        self.parked: dict[DelayedOperation, int] = {}
