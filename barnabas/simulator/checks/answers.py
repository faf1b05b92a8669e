"""Answers: of each connection in the order of its requests, one for each."""

from __future__ import annotations

from collections import deque

from barnabas.simulator.checks import Check
from barnabas.simulator.history import Answered, Asked
from barnabas.simulator.world import Broken


class Answers(Check):
    """As the bytes on the wire say."""

    def __init__(self) -> None:
        self._open: dict[str, deque[int]] = {}
        self.rules = {Asked: self._asked, Answered: self._answered}

    def _asked(self, event: Asked) -> None:
        self._open.setdefault(event.connection, deque()).append(event.correlation_id)

    def _answered(self, event: Answered) -> None:
        waiting = self._open.get(event.connection)
        if not waiting:
            raise Broken(f"answers: {event.connection} answers {event.correlation_id}, which nobody waits for")
        expected = waiting.popleft()
        if expected != event.correlation_id:
            raise Broken(f"answers: {event.connection} answers {event.correlation_id} before {expected}")
