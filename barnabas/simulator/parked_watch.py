"""What is looked at of parked operations after each turn of a broker: who came or went, who is late or overlooked."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from barnabas.broker.delayed import DelayedOperation, Purgatory, Timer
from barnabas.broker.node.core import Core
from barnabas.broker.replica.delayed_produce import DelayedProduce
from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.broker import BrokerProcess
from barnabas.simulator.history import Completed, Overlooked, Parked, Tell
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

    def look(self, broker: BrokerProcess, core: Core, rose: Iterable[TopicPartition]) -> None:
        """A turn is over, in which the high watermarks of these rose."""
        purgatories = core.replicas.shared.purgatories
        if purgatories is not self._purgatories:
            self._purgatories, self._places = purgatories, [_Place(one, one.timer) for one in purgatories]
        now_ns = broker.machine.world.now_ns
        for place in self._places:
            size, total = place.timer.size, place.purgatory.estimated_total
            if size == place.size and total == place.total and now_ns < place.due_ns:
                continue  # nobody came, nobody went, nobody is late
            place.size, place.total = size, total
            self._look_at(place, broker, core)
        for key in rose:
            for operation in core.replicas.shared.produce.watchers.get(key, ()):
                self._overlooked(operation, (key,), broker, core)

    def _look_at(self, place: _Place, broker: BrokerProcess, core: Core) -> None:
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
                self._overlooked(operation, operation.keys, broker, core)
            elif operation.deadline_ms >= now_ms:
                continue
            told = Parked(broker.name, broker.incarnation, parked[operation], operation.deadline_ms, now_ms)
            self._tell(told)
        due_ms = min([one.deadline_ms for one in waiting], default=None)
        place.due_ns = _NEVER_NS if due_ms is None else clock.when(due_ms * MS)

    def _overlooked(
        self, operation: DelayedOperation, keys: Iterable[Hashable], broker: BrokerProcess, core: Core
    ) -> None:
        """Whoever waits for one of these has begun to, or it rose: nobody is to wait for what is committed."""
        if operation.completed or not isinstance(operation, DelayedProduce):
            return
        waits, logs = operation.describe()["pending"], core.logs.logs
        for key in keys:
            offset = waits.get(str(key))
            if offset is not None and key in logs and logs[key].high_watermark >= offset:
                self._tell(Overlooked(broker.name, str(key), offset))


class _Place:
    """What was seen of one purgatory: each operation's number, and when the first of them is due (the world's ns)."""

    __slots__ = ("due_ns", "parked", "purgatory", "size", "timer", "total")

    def __init__(self, purgatory: Purgatory, timer: Timer) -> None:
        self.purgatory = purgatory
        self.timer = timer
        self.size = self.total = 0
        self.due_ns = _NEVER_NS
        self.parked: dict[DelayedOperation, int] = {}
