"""Whose turn it is to change the metadata: small operations at once, one after the other; a large one alone.

An operation is a job. A small one is run to its end where it is asked for. One that concerns many partitions is run in
bounded steps: it begins when nothing is in flight, and whoever comes meanwhile waits in line, so that what it decides
over stays as it is until its own records are in force.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from barnabas.broker.log import Job

logger = logging.getLogger(__name__)

SMALL_MAX: Final = 250
"""Partitions that an operation may concern to be run as one step: a few ms."""

RunJob = Callable[[Job[None], Callable[[Exception | None], None]], None]
"""Takes on a job; the callback hears of its end, and of what it raised, if it did."""


class Turns:
    """The line of operations. `in_flight` tells whether records were appended that are not committed yet."""

    def __init__(self, run: RunJob, in_flight: Callable[[], bool]) -> None:
        self._run = run
        self._in_flight = in_flight
        self._waiting: deque[tuple[int, Job[None]]] = deque()
        self.alone = False
        """Whether a large operation is under way."""

    def take(self, partitions: int, operation: Job[None]) -> None:
        """Do an operation that concerns so many partitions, now if it can be."""
        self._waiting.append((partitions, operation))
        self.go_on()

    def do(self, step: Callable[[], None]) -> None:
        """Do a small operation that is a single step."""
        if self.alone or self._waiting:
            self._waiting.append((0, _single(step)))
        else:
            step()

    def go_on(self) -> None:
        """Do what waits; to be called after each commit."""
        while self._waiting and not self.alone:
            partitions, operation = self._waiting[0]
            if partitions <= SMALL_MAX:
                self._waiting.popleft()
                for _ in operation:
                    pass
            elif self._in_flight():
                return
            else:
                self._waiting.popleft()
                self.alone = True
                self._run(operation, self._ended)

    def _ended(self, fault: Exception | None) -> None:
        if fault is not None:
            logger.error("an operation on many partitions failed", exc_info=fault)
        self.alone = False
        self.go_on()


def _single(step: Callable[[], None]) -> Job[None]:
    step()
    yield None
