"""From a partition's fetched bytes to the batches a consumer may see: framing, checksum, transactions.

What is cut off at the end (the byte limit may cut the last batch) is left for the next fetch; control batches and the
data of aborted transactions are passed over, and the position passes them too (Kafka's CompletedFetch).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.protocol import batch as wire
from barnabas.protocol.compression import decompress
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.ids import NO_PRODUCER_ID, Buffer, Records
from barnabas.protocol.primitives import read_varint, read_varlong
from barnabas.protocol.records import RECORD_SIZE_MIN
from barnabas.protocol.requests.fetch import AbortedTransaction

_OFFSET_MAX: Final = 2**63 - 2
"""The last offset that another can follow."""


@dataclass(slots=True)
class Batch:
    """One batch as it came: its header, and its record area, the part of `source` from byte `at` to `end`."""

    header: wire.BatchHeader
    source: memoryview
    at: int
    end: int

    def open(self) -> Buffer:
        """The record area, decompressed: the only place where a batch takes more memory than it came in.

        Raises:
            ProtocolError: broken data, more than a batch may decompress to, or more records than its bytes can hold.
        """
        area: Buffer = self.source[self.at : self.end]
        if self.header.compression:
            area = decompress(self.header.compression, area)
        if self.header.record_count * RECORD_SIZE_MIN > len(area):
            raise ProtocolError(f"{self.header.record_count} records in {len(area)} bytes")
        return area


class Walk:
    """Walks one partition's fetched bytes; yields the batches that hold records for the application, one at a time.

    Nothing is checked or decompressed before it is asked for: a batch of a few bytes may hold millions of records.

    Args:
        where: the partition, for messages.
        data: whole batches, the last one possibly cut.
        position: the offset asked for; batches wholly below it are left out.
        check_crcs: whether to verify every batch's CRC-32C (`check.crcs`).
        aborted: aborted transactions of a read_committed answer; None or empty where there are none.

    Attributes:
        next_position: the offset behind the last whole batch that was passed (`position` before the first).
    """

    def __init__(
        self,
        where: object,
        data: memoryview,
        position: int,
        *,
        check_crcs: bool = True,
        aborted: Sequence[AbortedTransaction] | None = None,
    ) -> None:
        self.next_position = position
        self._where = where
        self._data = data
        self._position = position
        self._check_crcs = check_crcs
        self._pending = sorted(aborted, key=lambda entry: entry.first_offset) if aborted else []
        self._aborting: set[int] = set()

    def __iter__(self) -> Iterator[Batch]:
        """Yields the batches.

        Raises:
            KafkaError: CORRUPT_MESSAGE (framing, magic, checksum, offsets that do not rise).
        """
        data = self._data
        behind = 0
        try:
            for at, size in wire.batches(data):
                header = wire.read_header(data, at)
                _check(data, at, size, header, self._check_crcs)
                if header.base_offset < behind:
                    raise ProtocolError(f"offsets that do not rise: {header.base_offset} behind {behind - 1}")
                behind = header.next_offset
                self.next_position = max(self.next_position, behind)
                if self._is_readable(header, at, size):
                    yield Batch(header, data, at + wire.HEADER_SIZE, at + size)
        except (ProtocolError, IndexError) as error:
            raise corrupt(self._where, self.next_position, error) from error

    def _is_readable(self, header: wire.BatchHeader, at: int, size: int) -> bool:
        pending, aborting = self._pending, self._aborting
        while pending and pending[0].first_offset <= header.last_offset:
            aborting.add(pending.pop(0).producer_id)
        if header.is_control:
            if header.producer_id in aborting and _is_abort_marker(self._data[at + wire.HEADER_SIZE : at + size]):
                aborting.discard(header.producer_id)
            return False
        if header.is_transactional and header.producer_id != NO_PRODUCER_ID and header.producer_id in aborting:
            return False  # data of an aborted transaction
        return bool(header.record_count) and header.last_offset >= self._position


def corrupt(where: object, offset: int, error: Exception) -> KafkaError:
    """The error of a partition whose bytes cannot be read from an offset on."""
    why = str(error) if isinstance(error, ProtocolError) else "a field runs past the end or is no varint"
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{where}, at or after offset {offset}: {why}")


def last_batch(where: object, data: memoryview, position: int, *, check_crcs: bool = True) -> wire.BatchHeader | None:
    """The header of the last whole batch, which says where the next fetch goes on; None if there is no whole one.

    Only this one is looked at, the others are for `Walk`. (No batch's sum covers its base offset.)

    Raises:
        KafkaError: CORRUPT_MESSAGE (framing, magic, checksum).
    """
    at = size = 0
    try:
        for at, size in wire.batches(data):  # noqa: B007  # the last one is wanted
            pass
        if not size:
            return None
        header = wire.read_header(data, at)
        _check(data, at, size, header, check_crcs)
    except ProtocolError as error:
        raise corrupt(where, position, error) from error
    return header


def _check(data: memoryview, at: int, size: int, header: wire.BatchHeader, check_crcs: bool) -> None:
    if header.magic != wire.MAGIC or header.record_count < 0 or header.last_offset_delta < 0:
        raise ProtocolError(f"magic {header.magic}, {header.record_count} records")
    if not 0 <= header.base_offset <= _OFFSET_MAX - header.last_offset_delta:
        raise ProtocolError(f"base offset {header.base_offset} with a last delta of {header.last_offset_delta}")
    if check_crcs and not wire.crc_ok(data, at, size):
        raise ProtocolError(f"the batch at offset {header.base_offset} does not match its checksum")


def one_buffer(records: Records | None) -> memoryview:
    """A partition's records in one piece."""
    if records is None:
        return memoryview(b"")
    if isinstance(records, list):
        return memoryview(records[0] if len(records) == 1 else b"".join(records))
    return memoryview(records)


def _is_abort_marker(area: memoryview) -> bool:
    """Whether a control batch's one record is an ABORT marker (key: version i16, type i16: 0 ABORT, 1 COMMIT)."""
    _, at = read_varint(area, 0)  # the record's length, then a byte of attributes
    _, at = read_varlong(area, at + 1)
    _, at = read_varint(area, at)
    key_length, at = read_varint(area, at)
    return key_length >= 4 and bytes(area[at + 2 : at + 4]) == b"\x00\x00"
