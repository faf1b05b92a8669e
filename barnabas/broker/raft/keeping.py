"""Nothing leaves before what it rests on is kept: what is promised goes to the device, and effects wait for that."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from barnabas.broker.raft.kept import Kept
from barnabas.broker.raft.world import Done

Effect: TypeAlias = Callable[[int], None]
"""Something that others see, told the time (monotonic ms)."""


class Keeping:
    """What holds now, and what waits until it is on the device. One is written at a time, then the newest.

    Args:
        kept: what is on the device.
        save: brings it there.
        failed: hears that it cannot be.
    """

    def __init__(self, kept: Kept, save: Callable[[Kept, Done], None], failed: Callable[[str], None]) -> None:
        self.kept = kept
        self._save = save
        self._failed = failed
        self._saved = self._version = 0
        self._saving = False
        self._waiting: deque[tuple[int, Effect]] = deque()

    def keep(self, kept: Kept) -> None:
        """This holds from now on."""
        if kept != self.kept:
            self.kept = kept
            self._version += 1
            self._go_on()

    def when_kept(self, effect: Effect, now_ms: int) -> None:
        """Do it once all that holds now is on the device; at once where it is."""
        if self._saved == self._version:
            effect(now_ms)
        else:
            self._waiting.append((self._version, effect))

    def end(self) -> None:
        """What waits is never done."""
        self._waiting.clear()

    def _go_on(self) -> None:
        if not self._saving and self._saved < self._version:
            self._saving = True
            self._save(self.kept, partial(self._written, self._version))

    def _written(self, version: int, error: Exception | None, now_ms: int) -> None:
        self._saving = False
        if error is not None:
            self._failed(f"what this voter promises cannot be kept: {error}")
            return
        self._saved = version
        self._go_on()
        while self._waiting and self._waiting[0][0] <= self._saved:
            self._waiting.popleft()[1](now_ms)
