"""Rooms that act on their own when their time has come: `Core` holds a list of them, and knows no more than this.

Those that leave something to the end of a step have a `drain(now_ms)` in another list of `Core`, which is gone
through after every step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from barnabas.broker.node.startup import Phase

if TYPE_CHECKING:
    from barnabas.broker.node.core import Core

_READY: Final = Phase.READY  # an enum's member is looked up in its class at every use


class Timed(Protocol):
    """The partitions and what is parked at them, the logs' house-keeping; a coordinator is one more."""

    def tick(self, now_ms: int) -> None:
        """Do what is due at `now_ms` (monotonic)."""

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do (monotonic ms); None for never."""


class LogJobs:
    """The house-keeping of the logs, as jobs among the broker's others; only while it serves."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._next_deadline_ms = core.logs.next_deadline_ms

    def tick(self, now_ms: int) -> None:
        """Hand the jobs that are due to the queue."""
        core = self._core
        if core.phase is _READY:
            for job in core.logs.due_jobs(now_ms):
                core.jobs.add("log", job)

    def next_deadline_ms(self) -> int | None:
        """When a job is due."""
        return self._next_deadline_ms() if self._core.phase is _READY else None
