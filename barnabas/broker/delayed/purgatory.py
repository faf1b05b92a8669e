"""Where delayed operations wait, watched by key. Source: `DelayedOperationPurgatory` of Apache Kafka.

An operation stands in the list of every key it watches and in the timer. An event on a key tries that key's list alone;
an operation it completes leaves that list at once and the timer, and stays behind in the lists of its other keys until
an event there, or the lazy purge, finds it completed:

    watch(A; k1, k2)   k1:[A] k2:[A]      watched 2, delayed 1
    event k1 completes A   k2:[A x]       watched 1, delayed 0
    purge, or event k2     nothing        watched 0, delayed 0

A list is a dict without values: in order like a list, and an operation leaves it wherever it stands at the same price.
So a purge costs what has finished, however many wait. What an operation of many keys leaves behind is more than that is
worth: it may leave its lists itself (`leave_in_steps`), which Kafka's does not.

Thousands may wait for one key, or hundreds for each of hundreds, and an event completes them all. In a ms no more are
tried than `AT_ONCE` allows; the lists that are left are walked in steps, whatever happens on their keys meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from barnabas.broker.delayed.operation import DESCRIBED_MAX, DelayedOperation
from barnabas.broker.delayed.timer import Timer
from barnabas.broker.jobs import Job, at_once
from barnabas.broker.metrics import MetricsRegistry
from barnabas.broker.planned import PLANNED

PURGE_INTERVAL_COUNT: Final = 1000
REAPER_TICK_MS: Final = 200
MANY_KEYS: Final = 16
"""Who watches so many keys is told which of them has news: looking at all of them each time is dear."""
AT_ONCE: Final = 3000
"""So much is done in a ms: a look at a key counts one (2 µs), an answer `COMPLETED` and one for each of its keys."""
COMPLETED: Final = 10
LISTED_MAX: Final = 100
"""Entries of one list that a look shows."""
_ABSENT: Final = object()

logger = logging.getLogger(__name__)


class Purgatory:
    """Parks operations until an event on one of their keys completes them, or their timer does.

    `purge_interval` is the number of finished operations (of those that were watched) above which the lists are swept:
    strictly more than that. The timer belongs to this purgatory alone, for its size is the number of delayed
    operations. `watchers` is empty when nobody waits for anything. `run` takes on the walk through lists that were left
    to it; all at once, if nobody else does.

    Two ledgers tell what has finished, for two questions. When to purge is Kafka's: `estimated_total`, all that were
    watched since the last purge, less those in the timer; it counts those that have left every list as well, so the
    moment of a purge, which PurgatorySize shows, is Kafka's to the operation. What to purge is `finished`: completed
    operations that may still stand in a list, so that a purge need not look at those that wait.
    """

    __slots__ = (
        "_behind",
        "_budget_ms",
        "_left",
        "_reaped_ms",
        "_walks",
        "estimated_total",
        "finished",
        "name",
        "purge_interval",
        "run",
        "timer",
        "watchers",
    )

    def __init__(
        self,
        name: str,
        timer: Timer,
        purge_interval: int = PURGE_INTERVAL_COUNT,
        registry: MetricsRegistry | None = None,
        run: Callable[[Job[None]], object] = at_once,
    ) -> None:
        self.name = name
        self.timer = timer
        self.purge_interval = purge_interval
        self.estimated_total = 0
        self.watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        self.finished: dict[DelayedOperation, None] = {}
        self.run = run
        self._reaped_ms = 0
        self._budget_ms, self._left = -1, AT_ONCE
        self._behind: dict[Hashable, int] = {}  # the time of the last event on keys whose lists are to be walked
        self._walks = False
        if registry is not None:
            tags = {"delayedOperation": name}
            registry.gauge("DelayedOperationPurgatory", "PurgatorySize", tags, lambda: self.watched)
            registry.gauge("DelayedOperationPurgatory", "NumDelayedOperations", tags, lambda: self.num_delayed)

    @property
    def watched(self) -> int:
        """The sum of the lists' lengths: an operation on three keys counts three, completed leftovers count too."""
        return sum(map(len, self.watchers.values()))

    @property
    def num_delayed(self) -> int:
        """Operations that wait in the timer."""
        return self.timer.size

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Collection[Hashable], now_ms: int) -> bool:
        """Complete `operation` at once, or park it under every key; True when this call completed it.

        It is tried a second time once it is watched: an event between the first try and the watching (try_complete may
        run code that raises one) would be missed otherwise. A timeout of 0 or less expires in the next `advance`.
        """
        assert keys, "an operation without a key could only ever time out"
        if operation.try_complete(now_ms):
            return True
        operation.purgatory = self
        operation.keys = keys
        operation.listed = len(keys)
        lists = self.watchers
        for key in keys:
            watchers = lists.get(key)
            if watchers is None:
                lists[key] = {operation: None}
            else:
                watchers[operation] = None
        self.estimated_total += 1
        if operation.completed:
            self.finished[operation] = None  # before it was watched
            return True
        if operation.try_complete(now_ms):
            return True
        if not operation.completed:
            # Nothing runs inside add, so it cannot be completed between this and the return.
            self.timer.add(operation, now_ms + operation.timeout_ms)
        return False

    def watch_in_steps(
        self, operation: DelayedOperation, keys: Sequence[Hashable], deadline_ms: int, size: int, now_ms: int
    ) -> Iterator[None]:
        """As `try_complete_else_watch` for an operation of very many keys, so many in a step (`MANY_KEYS` at least).

        Each key is tried once it is watched, so no event is missed. What completes it meanwhile, or cancels it, ends
        the walk. The timer has it at the end: who is still being parked does not expire. `now_ms` is when it began: who
        takes the steps is not told the time.
        """
        operation.purgatory = self
        operation.keys = keys
        for start in range(0, len(keys), size):
            some = keys[start : start + size]
            for key in some:
                self.watchers.setdefault(key, {})[operation] = None
            operation.listed += len(some)
            if operation.try_keys(some, now_ms):
                break
            yield
            if operation.completed:
                break
        else:
            self.timer.add(operation, deadline_ms)
        # Not before: a purge between two steps would count it as over, and it would lie in the timer uncounted.
        self.estimated_total += 1

    def check_and_complete(self, key: Hashable, now_ms: int) -> int:
        """Try the operations watching `key`, in the order they came; returns how many this call completed.

        What is completed leaves this list, here or elsewhere completed alike. Completing an operation may re-enter: it
        may park others on this key (they wait for the next event), check it again, or purge. One that raises is logged
        and stays until its timeout. Where there are too many for this ms, the list is walked later, in steps.
        """
        watchers = self.watchers.get(key)
        if watchers is None:
            return 0
        if now_ms != self._budget_ms:
            self._budget_ms, self._left = now_ms, AT_ONCE
        operations = tuple(watchers)
        tried, count, self._left = self._try(key, operations, now_ms, self._left)
        if tried < len(operations):
            self._behind[key] = now_ms
            if not self._walks:
                self._walks = True
                self.run(self._walk())
        return count

    def _try(
        self, key: Hashable, operations: Sequence[DelayedOperation], now_ms: int, left: int
    ) -> tuple[int, int, int]:
        """Try those watching `key`, as far as `left` goes; how many were tried and completed, and what is left."""
        count = number = 0
        stale = []
        for number, operation in enumerate(operations, 1):
            if left <= 0:
                number -= 1
                break
            if not operation.completed:
                is_wide = operation.listed >= MANY_KEYS
                left -= 1 if is_wide else operation.listed
                try:
                    if operation.try_key(key, now_ms) if is_wide else operation.try_complete(now_ms):
                        count += 1
                        left -= COMPLETED + len(operation.keys)
                except Exception:
                    logger.exception("%s purgatory: checking %s failed for %r", self.name, key, operation)
            if operation.completed:
                stale.append(operation)
        # In place: a walk further up the stack holds the same list, and later watchers must find it in the map.
        watchers = self.watchers.get(key, {})
        for operation in stale:
            if watchers.pop(operation, _ABSENT) is not _ABSENT:
                operation.listed -= 1
                if not operation.listed:
                    self.finished.pop(operation, None)
        if stale and not watchers:
            self.watchers.pop(key, None)
        if self.estimated_total - self.timer.size > self.purge_interval:
            PLANNED.count += 1  # a purge
        return number, count, left

    def _walk(self) -> Job[None]:
        """Walk the lists that were left, each to its end, so that the last in it have their turn."""
        left = AT_ONCE
        try:
            while self._behind:
                key = next(iter(self._behind))
                now_ms = self._behind.pop(key)
                operations = tuple(self.watchers.get(key, ()))
                while operations:
                    tried, _, left = self._try(key, operations, now_ms, left)
                    operations = operations[tried:]
                    if operations:
                        yield None
                        left = AT_ONCE
        finally:
            self._walks = False

    def cancel(self, operation: DelayedOperation) -> None:
        """Take one operation out of the timer and of all lists; it is neither completed nor answered."""
        if operation.completed:
            return
        operation.completed = True
        self.timer.cancel(operation)
        self.estimated_total -= 1
        self._unlist(operation, operation.keys)

    def advance(self, now_ms: int) -> None:
        """Expire what is due by `now_ms`, of many the first, then purge if enough has finished."""
        self.timer.advance(now_ms)
        self.run_due(now_ms)
        self._reaped_ms = now_ms
        if self.timer.due:
            return  # who is still to expire lies in the timer no more, and is not over
        if self.estimated_total - self.timer.size > self.purge_interval:
            self.purge()

    def leave_in_steps(self, operation: DelayedOperation, size: int) -> Iterator[None]:
        """A completed operation leaves all its lists before a purge would have it do so, so many in a step."""
        walk = iter(operation.keys)
        for _ in range(0, len(operation.keys), size):
            operation.listed -= self._unlist(operation, islice(walk, size))
            yield
        self.finished.pop(operation, None)

    def run_due(self, now_ms: int) -> int:
        """Run what is due already (a timeout of 0, or what the last look left); a part of the drain of every step."""
        due, count, left = self.timer.due, 0, AT_ONCE // 2  # a step looks twice at most
        while due and left > 0:
            operation = due[0]
            assert isinstance(operation, DelayedOperation), "the timer is this purgatory's own"
            left -= COMPLETED + len(operation.keys)
            count += self.timer.run_due(now_ms, 1)
        return count

    def next_deadline_ms(self) -> int | None:
        """When `advance` has something to do: a bucket expires, or the purge check within 200 ms of the last one.

        The check is asked for only while enough has finished to purge, so that an idle broker sleeps.
        """
        deadline_ms = self.timer.next_deadline_ms()
        if self.estimated_total - self.timer.size > self.purge_interval:
            purge_ms = self._reaped_ms + REAPER_TICK_MS
            return purge_ms if deadline_ms is None else min(purge_ms, deadline_ms)
        return deadline_ms

    def purge(self) -> int:
        """Drop completed operations from all lists; returns how many entries went."""
        self.estimated_total = self.timer.size
        finished, self.finished = self.finished, {}
        return sum(self._unlist(operation, operation.keys) for operation in finished)

    def _unlist(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> int:
        """Take it out of these keys' lists; returns in how many of them it still stood."""
        lists = self.watchers
        count = 0
        for key in keys:
            watchers = lists.get(key)
            if watchers is not None and watchers.pop(operation, _ABSENT) is not _ABSENT:
                count += 1
                if not watchers:
                    del lists[key]
        return count

    def lists(self) -> dict[Hashable, tuple[DelayedOperation, ...]]:
        """The watch lists as they stand, completed leftovers included, keys in the order they were first watched."""
        return {key: tuple(watchers) for key, watchers in self.watchers.items()}

    def snapshot(self, first: int = 0, end: int | None = None) -> dict[str, Any]:
        """Counts, the parked operations from `first` to before `end`, the lists of as many keys, and the wheel.

        The operations are those in the timer, soonest first but for ties of a bucket: a walk over the lists would take
        as long as all their keys. Each tells its first keys, and how many it has. `completed` counts
        entries that wait for nothing but to be purged; in the lists they stand as `completed`, too.
        """
        parked = (one for one in self.timer.tasks() if isinstance(one, DelayedOperation))
        return {
            "name": self.name,
            "watched": self.watched,
            "delayed": self.num_delayed,
            "operations": [
                operation.describe()
                | {
                    "keys": [str(key) for key in islice(operation.keys, DESCRIBED_MAX)],
                    "keys_count": len(operation.keys),
                }
                for operation in islice(parked, first, end)
            ],
            "completed": sum(operation.listed for operation in self.finished),
            "lists": [self._list(key) for key in islice(self.watchers, first, end)],
            "wheel": self.timer.snapshot(),
        }

    def _list(self, key: Hashable) -> dict[str, Any]:
        """One key's list in order, its first entries; `more` counts the others."""
        watchers = self.watchers[key]
        entries = [
            {
                "kind": type(operation).__name__,
                "deadline_ms": operation.deadline_ms,
                "completed": operation.completed,
            }
            for operation in islice(watchers, LISTED_MAX)
        ]
        return {"key": str(key), "entries": entries, "more": len(watchers) - len(entries)}
