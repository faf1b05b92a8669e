"""What is looked at while a run goes on: partitions and parked operations after each turn, and frames on the wire."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from barnabas.broker.delayed import DelayedOperation
from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.broker import BrokerProcess
from barnabas.simulator.history import Answered, Asked, Completed, Event, Looked, Parked
from barnabas.simulator.wire import Wire

_LENGTH: Final = Struct(">i")
_CORRELATION: Final = Struct(">i")
_REQUEST_AT: Final = 8
"""Where the correlation id stands in a request: behind length (4), API key (2) and version (2)."""
_ANSWER_AT: Final = 4


class BrokerWatch:
    """Looks at one broker after each of its turns, and tells of what has changed."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._tell = tell
        self._incarnation = 0
        self._stands: dict[TopicPartition, tuple[int, int]] = {}
        self._parked: dict[DelayedOperation, int] = {}
        self._count = 0

    def look(self, broker: BrokerProcess) -> None:
        """A turn is over."""
        core = broker.core
        if core is None or not core.ready:
            return
        if broker.incarnation != self._incarnation:
            self._incarnation = broker.incarnation
            self._stands.clear()
            self._parked.clear()
        for partition, log in core.logs.logs.items():
            stands = (log.high_watermark, log.log_end_offset)
            if self._stands.get(partition) != stands:
                self._stands[partition] = stands
                self._tell(Looked(broker.name, self._incarnation, partition, *stands))
        now_ms = broker.machine.clock.mono_ns() // 1_000_000
        waiting: dict[DelayedOperation, None] = {}
        for purgatory in core.replicas.shared.purgatories:
            waiting.update((one, None) for one in purgatory.timer.tasks() if isinstance(one, DelayedOperation))
        for operation in [one for one in self._parked if one not in waiting]:
            number = self._parked.pop(operation)
            broker.machine.world.count("operations that expired", operation.deadline_ms <= now_ms)
            self._tell(Completed(broker.name, self._incarnation, number, operation.completed))
        for operation in waiting:
            if operation not in self._parked:
                self._count += 1
                broker.machine.world.count("operations parked")
                self._parked[operation] = self._count
            elif operation.deadline_ms >= now_ms:
                continue
            number = self._parked[operation]
            self._tell(Parked(broker.name, self._incarnation, number, operation.deadline_ms, now_ms))


class FrameWatch:
    """Cuts what a broker reads and writes into frames, and tells of each."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._tell = tell
        self._begun: dict[tuple[str, bool], bytearray] = {}

    def tap(self, wire: Wire, read: bool, data: bytes) -> None:
        """Bytes of one direction, in order."""
        begun = self._begun.setdefault((wire.name, read), bytearray())
        begun += data
        kind: Any = Asked if read else Answered
        at = 0
        while len(begun) - at >= _LENGTH.size:
            end = at + _LENGTH.size + _LENGTH.unpack_from(begun, at)[0]
            if end > len(begun):
                break
            self._tell(kind(wire.name, _CORRELATION.unpack_from(begun, at + (_REQUEST_AT if read else _ANSWER_AT))[0]))
            at = end
        del begun[:at]
