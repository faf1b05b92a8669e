"""What became of a batch, for its records: their futures and callbacks share one outcome."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from operator import is_, sub
from types import MethodType
from typing import Any

from barnabas.client.produce.records import OnDelivery, QuickMetadata, RecordMetadata
from barnabas.net.errors import ClientClosed
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import NO_TIMESTAMP, TopicPartition

log = logging.getLogger(__name__)


class BatchResult:
    """The outcome that a batch's records share. Read it after `done`; a split batch's outcome is in its `parts`.

    `watch` may be called from another thread than `finish`: the flag is set before the watchers are taken, and looked
    at again after one was added, so none is lost and each runs once.
    """

    __slots__ = (
        "base_offset",
        "calling",
        "calling_ms",
        "deliveries",
        "done",
        "error",
        "log_append_ms",
        "looked_at",
        "parts",
        "record_errors",
        "watchers",
        "where",
        "why",
    )

    def __init__(self, where: TopicPartition) -> None:
        self.where = where
        self.why: Callable[[], str] = str
        self.done = False
        self.looked_at = False
        self.base_offset = -1
        self.log_append_ms = NO_TIMESTAMP
        self.error: BarnabasError | None = None
        self.record_errors: dict[int, str] = {}
        self.parts: list[tuple[int, BatchResult]] = []
        self.watchers: list[tuple[int, Callable[[], None]]] = []
        self.calling: OnDelivery | None = None  # the last record's callback
        self.calling_ms = NO_TIMESTAMP
        self.deliveries: list[Any] = []  # first index, timestamp, callback of each run of records that share the latter

    def __del__(self) -> None:
        """A failure that nobody can learn of any more is said once; what a close left behind, the close has said."""
        if self.error is not None and not self.looked_at and not isinstance(self.error, ClientClosed):
            log.error("what was sent to %s failed, and nobody looked: %s", self.where, self.error)

    def watch(self, index: int, call: Callable[[], None]) -> None:
        """Call once the record `index` has its outcome; at once if it has."""
        target, index = self.part_of(index)
        entry = (index, call)
        target.watchers.append(entry)
        if target.done or target.parts:
            try:
                target.watchers.remove(entry)
            except ValueError:
                return  # whoever finished the batch has taken it, and calls it
            if target.done:
                call()
            else:
                target.watch(index, call)

    def deliver_to(self, index: int, timestamp_ms: int, call: OnDelivery | None) -> None:
        """The record `index`, the batch's last, has this callback (or none). Under the guard."""
        if type(call) is MethodType and call == self.calling:  # `self.told` is made anew at each mention
            call = self.calling
        if call is self.calling and (timestamp_ms == self.calling_ms or call is None):
            return
        self.deliveries += (index, timestamp_ms, call)
        self.calling, self.calling_ms = call, timestamp_ms

    def callbacks(self, count: int) -> tuple[range, Iterator[int], Iterator[OnDelivery | None]]:
        """Indexes, timestamps (ms) and callbacks of the batch's `count` records, but for the first that have none.

        Nothing here, and in `_made`, is a line of Python for each record, for there may be half a million a second.
        """
        starts, stamps, calls = self.deliveries[::3], self.deliveries[1::3], self.deliveries[2::3]
        if starts and len(starts) == count - starts[0]:  # each has one of its own
            return range(starts[0], count), iter(stamps), iter(calls)
        lengths = list(map(sub, [*starts[1:], count], starts))
        all_stamps = chain.from_iterable(map(repeat, stamps, lengths))
        all_calls = chain.from_iterable(map(repeat, calls, lengths))
        return range(starts[0] if starts else count, count), all_stamps, all_calls

    def deliver(self, count: int) -> None:
        """Call the callbacks of the batch's `count` records, in order. What one raises keeps none from the others.

        Raises:
            BaseException: what was no `Exception` (`sys.exit` in a callback), the first of them, once all are told.
        """
        self.looked_at = True
        metadata: RecordMetadata | None
        leaving: BaseException | None = None
        indexes, stamps, calls = self.callbacks(count)
        only = self._only()
        if only is not None and self.error is None:  # nearly always, and a tenth cheaper than what follows
            for metadata in self._made(indexes, stamps):
                try:
                    only(metadata, None)
                except BaseException as problem:
                    leaving = _noted(problem, leaving)
        else:
            for call, metadata, error in zip(calls, *self._told(indexes, stamps), strict=True):
                try:
                    if call is not None:
                        call(metadata, error)
                except BaseException as problem:
                    leaving = _noted(problem, leaving)
        self.deliveries = []
        if leaving is not None:
            raise leaving

    def _only(self) -> OnDelivery | None:
        """The callback, if all that have one have the same."""
        calls = self.deliveries[2::3]
        return calls[0] if calls and all(map(is_, calls, repeat(calls[0]))) else None

    def _told(
        self, indexes: range, stamps: Iterator[int]
    ) -> tuple[Iterator[RecordMetadata | None], Iterator[BarnabasError | None]]:
        nothing = repeat(None, len(indexes))
        if self.error is not None:
            return nothing, map(self.error_of, indexes)
        return self._made(indexes, stamps), nothing

    def _made(self, indexes: range, stamps: Iterator[int]) -> Iterator[RecordMetadata]:
        (topic, partition), base = self.where, self.base_offset
        offsets = range(base + indexes.start, base + indexes.stop) if base >= 0 else repeat(-1, len(indexes))
        at_ms = stamps if self.log_append_ms < 0 else repeat(self.log_append_ms)
        return map(QuickMetadata, zip(repeat(topic), repeat(partition), offsets, at_ms))

    def part_of(self, index: int) -> tuple[BatchResult, int]:
        """The result that holds the record's outcome, and the record's index in it."""
        result = self
        while result.parts:
            first, found = result.parts[0]
            for start, part in result.parts:
                if start <= index:
                    first, found = start, part
            result, index = found, index - first
        return result, index

    def error_of(self, index: int) -> BarnabasError | None:
        """Why the record failed, None when it did not."""
        if self.error is None or not self.record_errors:
            return self.error
        if index in self.record_errors:
            return KafkaError(ErrorCode.INVALID_RECORD, self.record_errors[index] or "the record was refused")
        return KafkaError(ErrorCode.INVALID_RECORD, "another record of the batch was refused, this one was not written")


def _noted(problem: BaseException, leaving: BaseException | None) -> BaseException | None:
    """A callback raised: an `Exception` is logged, the first that is none is what is left with."""
    if isinstance(problem, Exception):
        log.exception("a delivery callback failed")
        return leaving
    return leaving or problem
