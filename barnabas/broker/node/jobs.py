"""Long work in bounded steps, one job after the other in turn. A job that waits for the disk is out of the way."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from barnabas.broker.jobs import Job
from barnabas.broker.ports import Token

logger = logging.getLogger(__name__)

Ended = Callable[[Exception | None], None]


class _Entry:
    __slots__ = ("ended", "first", "job", "name", "steps", "waits")

    def __init__(self, name: str, job: Job[Any], ended: Ended | None, first: bool) -> None:
        self.name = name
        self.job = job
        self.ended = ended
        self.first = first
        self.steps = 0
        self.waits = False


class JobQueue:
    """All jobs of one broker. `on_runnable` is called when a step can be taken again after none could."""

    def __init__(self, on_runnable: Callable[[], None]) -> None:
        self._on_runnable = on_runnable
        self._runnable: deque[_Entry] = deque()
        self._entries: dict[int, _Entry] = {}
        self._running: _Entry | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, name: str, job: Job[Any], ended: Ended | None = None, *, first: bool = False) -> Callable[[], None]:
        """Take on a job; `ended` is called once, with what it raised, if it did. Others wait for a `first` one.

        Returns:
            What ends the job where it stands, without a word, and lets go of all that it holds: at once, though it be
            the turn of others for long.
        """
        entry = _Entry(name, job, ended, first)
        self._entries[id(entry)] = entry
        self._make_runnable(entry)
        return lambda: self._drop(entry)

    def step(self) -> bool:
        """One step of the next job; True while another can be taken at once."""
        if not self._runnable:
            return False
        entry = self._runnable.popleft()
        if id(entry) not in self._entries:
            return bool(self._runnable)
        entry.steps += 1
        self._running = entry
        try:
            token = next(entry.job)
        except StopIteration:
            self._end(entry, None)
        except Exception as fault:
            if entry.ended is None:
                logger.exception("job %s failed", entry.name)
            self._end(entry, fault)
        else:
            self._go_on(entry, token)
        finally:
            self._running = None
        return bool(self._runnable)

    def clear(self) -> None:
        """Drop all jobs where they stand, without a word to anybody."""
        entries = list(self._entries.values())
        self._entries.clear()
        self._runnable.clear()
        for entry in entries:
            entry.job.close()

    def snapshot(self) -> list[dict[str, Any]]:
        """All jobs as plain values."""
        return [
            {"name": entry.name, "steps": entry.steps, "waits_for_disk": entry.waits}
            for entry in self._entries.values()
        ]

    def _go_on(self, entry: _Entry, token: Token | None) -> None:
        if token is None:
            self._enqueue(entry)
            return

        def ready() -> None:
            if id(entry) in self._entries:
                entry.waits = False
                self._make_runnable(entry)

        entry.waits = True
        token.on_ready(ready)

    def _enqueue(self, entry: _Entry) -> None:
        if entry.first:
            self._runnable.appendleft(entry)
        else:
            self._runnable.append(entry)

    def _make_runnable(self, entry: _Entry) -> None:
        self._enqueue(entry)
        if len(self._runnable) == 1 and self._running is None:
            self._on_runnable()

    def _end(self, entry: _Entry, fault: Exception | None) -> None:
        self._entries.pop(id(entry), None)
        if entry.ended is not None:
            entry.ended(fault)

    def _drop(self, entry: _Entry) -> None:
        if entry is not self._running and self._entries.pop(id(entry), None) is not None:
            entry.job.close()
            entry.job, entry.ended = _nothing(), None  # it may be in line still


def _nothing() -> Job[None]:
    yield from ()
