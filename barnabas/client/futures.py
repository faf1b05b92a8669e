"""What `send` returns: one record's outcome, cheap to make because a batch's records share one result."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable, Generator
from typing import Any

from barnabas.client.arguments import milliseconds
from barnabas.client.produce.records import RecordMetadata
from barnabas.client.produce.result import BatchResult
from barnabas.net.errors import ClientTimeout, WaitRefused
from barnabas.protocol.errors import BarnabasError

log = logging.getLogger(__name__)

_local = threading.local()


def waiting_is_refused() -> None:
    """The calling thread brings outcomes: whoever waited for one on it would wait for ever."""
    _local.brings_outcomes = True


def check_may_wait(what: str) -> None:
    """Refuse a wait on the thread that brings the outcomes.

    Raises:
        WaitRefused: it is that thread.
    """
    if getattr(_local, "brings_outcomes", False):
        raise WaitRefused(f"{what} inside a delivery callback would wait for the thread it runs on; use a callback")


class RecordFuture:
    """The outcome of one `send`. Await it (asyncio), or call `result` (threads)."""

    __slots__ = ("_index", "_result", "_timestamp_ms")

    def __init__(self, result: BatchResult, index: int, timestamp_ms: int) -> None:
        self._result = result
        self._index = index
        self._timestamp_ms = timestamp_ms

    def done(self) -> bool:
        """Whether the record was acknowledged or has failed."""
        return self._result.part_of(self._index)[0].done

    def add_done_callback(self, call: Callable[[RecordFuture], Any]) -> None:
        """Call `call(self)` once the outcome is there, on the sender's thread; at once if it is there already."""

        def run() -> None:
            try:
                call(self)
            except Exception:
                log.exception("a delivery callback failed")

        self._result.watch(self._index, run)

    def outcome(self) -> tuple[RecordMetadata | None, BarnabasError | None]:
        """Metadata or error, whichever there is; for callbacks, which run after the outcome."""
        error = self._error()
        return (None, error) if error is not None else (self._metadata(), None)

    def _error(self) -> BarnabasError | None:
        result, index = self._result.part_of(self._index)
        result.looked_at = True
        return result.error_of(index)

    def _metadata(self) -> RecordMetadata:
        error = self._error()
        if error is not None:
            raise error
        result, index = self._result.part_of(self._index)
        offset = result.base_offset + index if result.base_offset >= 0 else -1
        timestamp_ms = result.log_append_ms if result.log_append_ms >= 0 else self._timestamp_ms
        return RecordMetadata(result.where.topic, result.where.partition, offset, timestamp_ms)


class BlockingRecordFuture(RecordFuture):
    """A record's outcome for threads."""

    __slots__ = ()

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the outcome, at most `timeout` seconds (None: as long as it takes).

        Raises:
            ConfigError: the timeout is no time to wait.
            WaitRefused: called from a delivery callback.
            ClientTimeout: no outcome yet, or the record ran out of its `delivery.timeout.ms`.
            KafkaError: a broker refused the record.
            BarnabasError: it never left (too large, no memory or metadata in `max.block.ms`, producer closed).
        """
        self._wait(timeout)
        return self._metadata()

    def as_future(self) -> concurrent.futures.Future[RecordMetadata]:
        """A future of `concurrent.futures` (for `wait`, `as_completed`); it cannot be cancelled."""
        real: concurrent.futures.Future[RecordMetadata] = concurrent.futures.Future()
        real.set_running_or_notify_cancel()
        self._result.watch(self._index, lambda: _tell(real, *self.outcome()))
        return real

    def exception(self, timeout: float | None = None) -> BarnabasError | None:
        """Wait like `result`; return the error, or None for a record that was written."""
        self._wait(timeout)
        return self._error()

    def _wait(self, timeout: float | None) -> None:
        wait_ms = milliseconds(timeout)
        if self.done():
            return
        check_may_wait("result()")
        outcome = threading.Event()
        self._result.watch(self._index, outcome.set)
        if not outcome.wait(None if wait_ms is None else wait_ms / 1000):
            raise ClientTimeout(f"no outcome of the record within {timeout} s{self._result.why()}")


class AsyncRecordFuture(RecordFuture):
    """A record's outcome for coroutines of the producer's loop: `metadata = await future`."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        """Wait for the outcome; raises like `BlockingRecordFuture.result`."""
        if not self.done():
            outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def wake() -> None:
                if not outcome.done():
                    outcome.set_result(None)

            self._result.watch(self._index, wake)
            yield from outcome
        return self._metadata()

    def as_future(self) -> asyncio.Future[RecordMetadata]:
        """A future of asyncio (for `wait`, `shield`). Cancelled, it is told nothing; the record is sent."""
        real: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        self._result.watch(self._index, lambda: None if real.done() else _tell(real, *self.outcome()))
        return real

    def result(self) -> RecordMetadata:
        """The outcome that is already there.

        Raises:
            asyncio.InvalidStateError: there is none yet: await the future.
        """
        if not self.done():
            raise asyncio.InvalidStateError("the record has no outcome yet")
        return self._metadata()

    def exception(self) -> BarnabasError | None:
        """The error that is already there, or None for a record that was written."""
        if not self.done():
            raise asyncio.InvalidStateError("the record has no outcome yet")
        return self._error()


def _tell(
    real: concurrent.futures.Future[RecordMetadata] | asyncio.Future[RecordMetadata],
    metadata: RecordMetadata | None,
    error: BarnabasError | None,
) -> None:
    if error is not None:
        real.set_exception(error)
    else:
        assert metadata is not None
        real.set_result(metadata)
