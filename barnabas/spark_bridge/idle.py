"""Clients between two tasks of a worker: the next task with the same settings takes one over instead of connecting.

A worker may serve for hours, one query after the other, each with brokers or settings of its own: the last few clients
are kept, the oldest is closed. Spark's workers run one task at a time, so nothing here is locked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

KEPT_MAX: Final = 8
"""Of the consumers and of the producers of one worker; each has a thread and its connections."""


class Client(Protocol):
    """A consumer or a producer."""

    def close(self, timeout: float | None = None) -> None:
        """Ends its connections, after so many seconds at the latest."""


C = TypeVar("C", bound=Client)


class Idle(Generic[C]):
    """Those of one kind that no task uses now."""

    def __init__(self, kept_max: int = KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._clients: dict[tuple[int, str], C] = {}

    def take(self, settings: Mapping[str, Any]) -> C | None:
        """One with these settings, which is the caller's from now on."""
        return self._clients.pop(_key(settings), None)

    def put(self, settings: Mapping[str, Any], client: C) -> None:
        """Keeps a client that a task is through with."""
        self._clients[_key(settings)] = client
        while len(self._clients) > self._kept_max:
            self._clients.pop(next(iter(self._clients))).close(0)


def _key(settings: Mapping[str, Any]) -> tuple[int, str]:
    """With the process: a fork's copy of a client has no running thread."""
    return os.getpid(), repr(sorted(settings.items()))
