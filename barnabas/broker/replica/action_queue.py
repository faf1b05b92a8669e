"""Work put off to the end of the step. Source: `ActionQueue`, `DelayedActionQueue` of Apache Kafka.

An append does not check the purgatories in place: answers would leave before its own bookkeeping is done, and a
completed operation that appends again would recurse. It leaves an action here; the queue is drained at the very end of
request handling. Completions of the disk come the same way, so that they run with the step's time.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

Action: TypeAlias = Callable[[int], None]
"""Called with the step's time (monotonic ms)."""

logger = logging.getLogger(__name__)


class ActionQueue(deque[Action]):
    """First in, first out."""

    __slots__ = ()

    def add(self, action: Action) -> None:
        """Run `action` in the next drain."""
        self.append(action)

    def drain(self, now_ms: int) -> int:
        """Run what was queued when the drain began; what is added meanwhile waits for the next. Returns how many ran.

        An action that raises is logged; the rest go on.
        """
        count = len(self)
        for _ in range(count):
            action = self.popleft()
            try:
                action(now_ms)
            except Exception:
                logger.exception("a deferred check failed: %r", action)
        return count
