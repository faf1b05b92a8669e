"""What `send_columns` returns: the outcome of many rows, kept as one per batch."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from barnabas.client.arguments import milliseconds
from barnabas.client.futures import check_may_wait
from barnabas.client.produce.result import BatchResult
from barnabas.net.errors import ClientTimeout
from barnabas.protocol.errors import BarnabasError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]


class SentColumns:
    """The outcome of the rows of one `send_columns`.

    Attributes:
        error: why rows from some on were never sent (no memory or no topic in `max.block.ms`); None if all were.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._batches: list[tuple[BatchResult, Rows]] = []
        self._seen = 0
        self.error: BarnabasError | None = None

    def add(self, result: BatchResult, rows: Rows) -> None:
        """Take the outcome of one batch, which holds these rows."""
        self._batches.append((result, rows))

    def __len__(self) -> int:
        """Rows."""
        return self._count

    def done(self) -> bool:
        """Whether every row was acknowledged or has failed."""
        return self._unfinished() is None

    def _unfinished(self) -> BatchResult | None:
        while self._seen < len(self._batches):
            for leaf, _ in _leaves(*self._batches[self._seen]):
                if not leaf.done:
                    return leaf
            self._seen += 1
        return None

    def _outcome(self) -> pa.Table:
        """A row each, in the order in which they were given."""
        import numpy as np
        import pyarrow as pa

        partition, offset = np.full(self._count, -1, np.int32), np.full(self._count, -1, np.int64)
        errors: list[str | None] = [None if self.error is None else str(self.error)] * self._count
        for batch in self._batches:
            for leaf, rows in _leaves(*batch):
                leaf.looked_at = True
                partition[rows] = leaf.where.partition
                if leaf.error is None and leaf.base_offset >= 0:
                    offset[rows] = leaf.base_offset + np.arange(len(rows))
                for index, row in enumerate(rows.tolist()) if leaf.error or self.error else ():
                    error = leaf.error_of(index)
                    errors[row] = None if error is None else str(error)
        return pa.table({"partition": partition, "offset": offset, "error": pa.array(errors, pa.string())})

    def _first_error(self) -> BarnabasError | None:
        for batch in self._batches:
            for leaf, _ in _leaves(*batch):
                leaf.looked_at = True
                if leaf.error is not None:
                    return leaf.error_of(next(iter(leaf.record_errors), 0))
        return self.error

    def _result(self) -> pa.Table:
        error = self._first_error()
        if error is not None:
            raise error
        return self._outcome().drop_columns(["error"])


class BlockingSentColumns(SentColumns):
    """The outcome for threads."""

    def result(self, timeout: float | None = None) -> pa.Table:
        """Wait for all rows, at most `timeout` seconds (None: as long as it takes).

        Returns:
            `partition` (int32) and `offset` (int64, -1 with acks=0) of each row, in the order given.

        Raises:
            ConfigError: the timeout is no time to wait.
            WaitRefused: called from a delivery callback.
            ClientTimeout: some have no outcome yet.
            BarnabasError: the first failure; `outcome` tells which rows were written.
        """
        self._wait(timeout)
        return self._result()

    def outcome(self, timeout: float | None = None) -> pa.Table:
        """Wait like `result`; the table has a column `error` (string), null for rows that were written."""
        self._wait(timeout)
        return self._outcome()

    def _wait(self, timeout: float | None) -> None:
        wait_ms = milliseconds(timeout)
        deadline = None if wait_ms is None else time.monotonic() + wait_ms / 1000
        while (leaf := self._unfinished()) is not None:
            check_may_wait("result()")
            outcome = threading.Event()
            leaf.watch(0, outcome.set)
            if not outcome.wait(None if deadline is None else max(deadline - time.monotonic(), 0)):
                raise ClientTimeout(f"some of {self._count} rows have no outcome within {timeout} s{leaf.why()}")


class AsyncSentColumns(SentColumns):
    """The outcome for coroutines of the producer's loop: `table = await sent`."""

    def __await__(self) -> Generator[Any, None, pa.Table]:
        """Wait for all rows; returns and raises like `BlockingSentColumns.result`."""
        yield from self._all().__await__()
        return self._result()

    async def outcome(self) -> pa.Table:
        """Wait for all rows; returns like `BlockingSentColumns.outcome`."""
        await self._all()
        return self._outcome()

    async def _all(self) -> None:
        while (leaf := self._unfinished()) is not None:
            outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def wake(outcome: asyncio.Future[None] = outcome) -> None:
                if not outcome.done():
                    outcome.set_result(None)

            leaf.watch(0, wake)
            await outcome


def _leaves(result: BatchResult, rows: Rows) -> Iterator[tuple[BatchResult, Rows]]:
    """The outcomes that stand: a batch that was split has those of its parts."""
    if not result.parts:
        yield result, rows
        return
    starts = [start for start, _ in result.parts]
    for (start, part), end in zip(result.parts, [*starts[1:], len(rows)], strict=True):
        yield from _leaves(part, rows[start:end])
