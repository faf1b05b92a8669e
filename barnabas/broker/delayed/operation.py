"""The contract of what can be parked. Source: `DelayedOperation` of Apache Kafka."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.delayed.timer import TimerTask

if TYPE_CHECKING:
    from barnabas.broker.delayed.purgatory import Purgatory


DESCRIBED_MAX: Final = 10
"""Of the keys of one operation so many are told: one may have thousands, and a page tells of hundreds."""


class DelayedOperation(TimerTask):
    """An answer that is due when its condition holds, or when `timeout_ms` have passed, and exactly once.

    A subclass says what the condition is (`try_complete`) and what to do (`on_complete`, `on_expiration`); the first
    two are told the time of the event (`now_ms`, monotonic). Once it is watched, `purgatory` knows where, `keys` under
    which keys, and `listed` counts the lists it still stands in.
    """

    __slots__ = ("completed", "keys", "listed", "purgatory", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        self._prev = None
        self._next = None
        self.deadline_ms = -1
        self.timeout_ms = timeout_ms
        self.completed = False
        self.purgatory: Purgatory | None = None
        self.keys: Collection[Hashable] = ()
        self.listed = 0

    def force_complete(self, now_ms: int) -> bool:
        """Complete now, unless that has happened; True means that this very call did it.

        The flag is set before `on_complete` runs, so it runs once even if it re-enters or raises.
        """
        if self.completed:
            return False
        self.completed = True
        purgatory = self.purgatory
        if purgatory is not None:
            purgatory.finished[self] = None
            if self._prev is not None:
                purgatory.timer.cancel(self)
        self.on_complete(now_ms)
        return True

    def run(self, now_ms: int) -> None:
        """The deadline has passed. `try_complete` is not asked: nobody noticed in time, so it ends as expired."""
        if self.force_complete(now_ms):
            self.on_expiration()

    def try_complete(self, now_ms: int) -> bool:
        """Evaluate the condition; when it holds, `return self.force_complete(now_ms)`, else False."""
        raise AssertionError(f"{type(self).__name__} has no condition")

    def try_key(self, key: Any, now_ms: int) -> bool:
        """As `try_complete` where only `key` has news; asked of who watches `MANY_KEYS` and more."""
        return self.try_complete(now_ms)

    def try_keys(self, keys: Sequence[Any], now_ms: int) -> bool:
        """As `try_complete` where these keys are newly watched; asked of who is parked in steps."""
        return self.try_complete(now_ms)

    def on_complete(self, now_ms: int) -> None:
        """Send the answer. Called exactly once, on completion and on expiry alike."""
        raise AssertionError(f"{type(self).__name__} has no answer")

    def on_expiration(self) -> None:
        """Count the expiry; the answer was sent by `on_complete` already."""

    def describe(self) -> dict[str, Any]:
        """What a person who looks at the parked operations wants to know; a subclass adds to it."""
        return {"kind": type(self).__name__, "timeout_ms": self.timeout_ms, "deadline_ms": self.deadline_ms}
