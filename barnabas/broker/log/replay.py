"""Reading a log from an offset to its end, in bounded steps, as whoever keeps state in a log does at the start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from barnabas.broker.jobs import Job
from barnabas.broker.log.log import Log
from barnabas.broker.log.types import Isolation
from barnabas.broker.ports import NotYet, Token
from barnabas.protocol.batch import BatchHeader, batches, read_header
from barnabas.protocol.ids import Buffer
from barnabas.protocol.records import Record, decode_slices

RECORDS_PER_STEP: Final = 250
"""Records that are taken in one step: what becomes of them is the caller's."""
_WINDOW: Final = 32 * 1024


def replay(
    log: Log,
    offset: int,
    take: Callable[[BatchHeader, Sequence[Record]], object],
) -> Job[int]:
    """Hand all records from `offset` to the end of the log to `take`, in order, at most `RECORDS_PER_STEP` at a time.

    A batch comes in one or more pieces, each with the header of the whole. What is appended meanwhile is read, too,
    and what is not committed yet. The log is believed, sums are not checked: whoever must bear a damaged one takes
    `salvage`.

    Returns:
        The bytes of the batches that were read.

    Raises:
        ProtocolError: a batch holds no such records as it announces.
        OSError: the disk failed.
        Exception: what `take` raised.
    """
    read_bytes = 0
    while offset < log.log_end_offset:
        view = yield from _read(log, offset)
        for position, _ in batches(view):
            header = read_header(view, position)
            for records in decode_slices(view, position, RECORDS_PER_STEP):
                take(header, records)
                if header.record_count > RECORDS_PER_STEP:
                    yield None
            read_bytes += header.size
            offset = header.next_offset
        yield None
    return read_bytes


def _read(log: Log, offset: int) -> Job[Buffer]:
    held: list[Token] = []
    while True:
        try:
            return log.read(offset, _WINDOW, Isolation.LOG_END).records
        except NotYet as pending:
            held.append(pending.token)
        yield held[-1]
