"""Batches that hold much are looked through apart from the loop: unpacked in a thread, walked in steps, one at a time.

A few bytes of a compressed batch may hold a hundred MB and millions of records. Whoever looks into such a batch takes
its turn, so that one is unpacked at a time in the whole broker, however many are sent; small ones need no turn.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from barnabas.broker.jobs import Gate, Job, wait
from barnabas.broker.ports import Disk
from barnabas.protocol.batch import BatchHeader
from barnabas.protocol.compression import BYTES_MAX, HoldsTooMuch
from barnabas.protocol.ids import Buffer
from barnabas.protocol.records import plain_area, record_area

T = TypeVar("T")

RECORDS_AT_ONCE: Final = 2000
"""Records of a batch that are looked at in one step: about 1 ms."""
BYTES_AT_ONCE: Final = 1024 * 1024
"""Bytes that are unpacked on the loop: about 1 ms."""
PACKED_AT_ONCE: Final = 256 * 1024
"""Compressed bytes that are unpacked on the loop: zstd's smallest frames and blocks, which hold nothing, take 6 ms."""
RECORDS_MAX: Final = 1_000_000
"""Default of `barnabas.batch.records.max`: a batch of 1 MiB has 150,000 of the smallest records."""


def is_small(header: BatchHeader) -> bool:
    """Whether a batch may be opened on the loop, as far as its header tells."""
    bytes_max = PACKED_AT_ONCE if header.compression else BYTES_AT_ONCE
    return header.record_count <= RECORDS_AT_ONCE and header.size <= bytes_max


class Apart:
    """One per broker.

    Args:
        disk: whose threads do the work.
        records_max: records a client's batch may hold.
        bytes_max: bytes a client's batch may hold, unpacked.
    """

    def __init__(self, disk: Disk, records_max: int = RECORDS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self.records_max = records_max
        self.bytes_max = bytes_max
        self.searches: WeakValueDictionary[tuple[int, int, int, int], Any] = WeakValueDictionary()
        """Of `search`: those under way, or held by who asked, by file, position, timestamp and least offset."""
        self._disk = disk
        self._taken = False
        self._waiting: list[tuple[int, int, Gate]] = []
        self._came = 0

    def take(self, records: int) -> Job[None]:
        """Wait for one's turn to look at a batch of so many records; it ends with `release`.

        The smallest is next: a few KB that hold a million take a second, and forty of them came before what is honest.
        """
        if self._taken:
            gate = Gate()
            self._came += 1
            place = records, self._came, gate
            heappush(self._waiting, place)
            try:
                yield from wait(gate)
            except BaseException:  # whoever asked is gone: nobody waits for ever for a turn that nobody takes
                self._leave(place)
                raise
        self._taken = True

    def release(self) -> None:
        """The turn is over: the next one's begins."""
        if self._waiting:
            heappop(self._waiting)[-1].open()
        else:
            self._taken = False

    def _leave(self, place: tuple[int, int, Gate]) -> None:
        """Whoever waited does so no more; if the turn was his already it is the next one's."""
        if place[-1].is_open:
            self.release()
        else:
            self._waiting.remove(place)
            heapify(self._waiting)

    def opened(
        self, data: Buffer, position: int, header: BatchHeader, bytes_max: int = BYTES_MAX
    ) -> Job[tuple[Buffer, bool]]:
        """The records of any batch at `position`, and whether that took a turn, which the caller is to `release`.

        Raises:
            ProtocolError: as `plain_area`.
        """
        if is_small(header):
            try:
                return record_area(data, position, header, BYTES_AT_ONCE), False
            except HoldsTooMuch:
                pass
        yield from self.take(header.record_count)
        try:
            return (yield from self.unpacked(data, position, header, bytes_max)), True
        except BaseException:
            self.release()
            raise

    def unpacked(self, data: Buffer, position: int, header: BatchHeader, bytes_max: int) -> Job[Buffer]:
        """The records of the batch at `position`, unpacked in a thread.

        Raises:
            ProtocolError: as `plain_area`.
        """
        if not header.compression:
            return plain_area(data, position, header, bytes_max)
        return (yield from self.done(lambda: plain_area(data, position, header, bytes_max)))

    def done(self, work: Callable[[], T]) -> Job[T]:
        """Do `work` in a thread.

        Raises:
            Exception: what it raised.
        """
        made: list[T] = []
        fault: list[Exception] = []

        def run() -> None:
            try:
                made.append(work())
            except Exception as error:
                fault.append(error)

        gate = Gate()
        self._disk.aside(run, gate.open)
        yield from wait(gate)
        if fault:
            raise fault.pop()
        return made.pop()
