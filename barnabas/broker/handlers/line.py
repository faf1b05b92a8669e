"""Requests with large answers, in line: so few at a time that what they make fits into memory.

A request of eleven bytes may ask for all topics. Four hundred of them at once, each a slice at a time, would have four
hundred answers half made; here the first two are made and sent, then the next. Who waits has done nothing yet, and
leaves the line with its connection. Kafka has as many at a time as it has threads (`num.io.threads`).
"""

from __future__ import annotations

from typing import Final, TypeVar

from barnabas.broker.jobs import Gate, Job, wait

AT_ONCE_MAX: Final = 2
"""An answer of 50,000 topics takes some 50 MB while it is made."""

T = TypeVar("T")


class Line:
    """One per broker."""

    __slots__ = ("_served", "_waiting")

    def __init__(self) -> None:
        self._served: set[Gate] = set()
        self._waiting: dict[int, Gate] = {}

    def within(self, connection_id: int, steps: Job[T]) -> Job[T | None]:
        """Take the steps of a request once it is its turn. A connection has one request at a time.

        Returns:
            What the steps did, behind its turn; None if the connection is gone.
        """
        gate = Gate()
        if len(self._served) < AT_ONCE_MAX:
            self._served.add(gate)
            gate.open()
        else:
            self._waiting[connection_id] = gate
        try:
            yield from wait(gate)
            if gate in self._served:
                return (yield from steps)
            return None
        finally:
            steps.close()
            if gate in self._served:
                self._served.remove(gate)
                self._next()

    @property
    def is_empty(self) -> bool:
        """Whether nobody is served or waits."""
        return not self._served

    def disconnected(self, connection_id: int) -> None:
        """Nobody waits for that answer any more."""
        gate = self._waiting.pop(connection_id, None)
        if gate is not None:
            gate.open()

    def _next(self) -> None:
        if self._waiting:
            gate = self._waiting.pop(next(iter(self._waiting)))
            self._served.add(gate)
            gate.open()
