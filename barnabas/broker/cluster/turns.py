"""Whose turn it is to change the metadata: small operations at once, one after the other; a large one alone.

An operation is a job. A small one is run to its end where it is asked for. One that concerns many partitions is run in
bounded steps: it begins when nothing is in flight, and whoever comes meanwhile waits in line, so that what it decides
over stays as it is until its own records are in force.

Of small ones so many are begun in one step, and so many are in flight (`AT_ONCE_MAX`): what is written with one sync is
put in force in one step, and behind a large one thousands may have come.

There are two lines. What the cluster itself needs comes first (a broker is fenced, an ISR changes), and does not wait
for what clients have asked for: a flood of that would put off every election. A large operation under way is not broken
off for it.

A defect of ours ends one operation, never the line: `failed`, which comes with each, answers who asked for it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

SMALL_MAX: Final = 250
"""Partitions that an operation may concern to be run as one step: a few ms."""

OPERATION: Final = 7
"""To begin an operation, to write it and to act on its commit takes as long as so many of its records."""
AT_ONCE_MAX: Final = 256
"""Records in flight, or partitions begun with in this step, and `OPERATION` for each operation: then others wait."""

RunJob = Callable[[Job[None], Callable[[Exception | None], None]], object]
"""Takes on a job; the callback hears of its end, and of what it raised, if it did."""
Failed = Callable[[KafkaError], None]


def answer_defect(defect: Exception, failed: Failed) -> None:
    """Log what an operation should never have raised, and tell who asked for it. Never raises."""
    logger.error("a change of the metadata failed", exc_info=defect)
    try:
        failed(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker failed to do it, see its log"))
    except Exception:
        logger.exception("and nobody could be told")


class Turns:
    """The line of operations. `in_flight` tells what was appended and is not committed yet, as `AT_ONCE_MAX` counts."""

    def __init__(self, run: RunJob, in_flight: Callable[[], int]) -> None:
        self._run = run
        self._in_flight = in_flight
        self._first: deque[tuple[int, Job[None], Failed]] = deque()
        self._waiting: deque[tuple[int, Job[None], Failed]] = deque()
        self._pausing = False
        self.alone = False
        """Whether a large operation is under way."""

    def take(self, partitions: int, operation: Job[None], failed: Failed, *, first: bool = False) -> None:
        """Do an operation that concerns so many partitions, now if it can be; `first`: the cluster itself needs it."""
        (self._first if first else self._waiting).append((partitions, operation, failed))
        self.go_on()

    def do(self, step: Callable[[], None], failed: Failed) -> None:
        """Do a small operation that is a single step, and that the cluster itself needs."""
        if self.alone or self._first or self._in_flight() >= AT_ONCE_MAX:
            self._first.append((0, _single(step), failed))
        else:
            _finish(_single(step), failed)

    def go_on(self) -> None:
        """Do what waits; to be called after each commit."""
        begun = 0
        while (line := self._first or self._waiting) and not self.alone and not self._pausing:
            partitions, operation, failed = line[0]
            if partitions <= SMALL_MAX:
                if self._in_flight() >= AT_ONCE_MAX:
                    return
                if begun >= AT_ONCE_MAX:
                    self._pausing = True
                    self._run(_pause(), self._paused)
                    return
                begun += OPERATION + partitions
                line.popleft()
                _finish(operation, failed)
            elif self._in_flight():
                return
            else:
                line.popleft()
                self.alone = True
                self._run(operation, partial(self._ended, failed))

    def _paused(self, _defect: Exception | None) -> None:
        self._pausing = False
        self.go_on()

    def _ended(self, failed: Failed, defect: Exception | None) -> None:
        if defect is not None:
            answer_defect(defect, failed)
        self.alone = False
        self.go_on()


def _finish(operation: Job[None], failed: Failed) -> None:
    try:
        for _ in operation:
            pass
    except Exception as defect:
        answer_defect(defect, failed)


def _pause() -> Job[None]:
    yield None


def _single(step: Callable[[], None]) -> Job[None]:
    step()
    yield None
