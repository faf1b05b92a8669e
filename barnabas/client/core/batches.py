"""From a partition's fetched bytes to the batches a consumer may see: framing, checksum, transactions, decompression.

What is cut off at the end (the byte limit may cut the last batch) is left for the next fetch; control batches and the
data of aborted transactions are passed over, and the position passes them too (Kafka's CompletedFetch).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.protocol import batch as wire
from barnabas.protocol.compression import decompress
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.ids import NO_PRODUCER_ID, Buffer, Records
from barnabas.protocol.primitives import read_varint, read_varlong
from barnabas.protocol.records import RECORD_SIZE_MIN
from barnabas.protocol.requests.fetch import AbortedTransaction


@dataclass(slots=True)
class Batch:
    """One batch ready for decoding: its header and its record area, decompressed.

    An area that came uncompressed is the part of `source` from byte `at` on.
    """

    header: wire.BatchHeader
    area: Buffer
    source: memoryview | None = None
    at: int = 0


def readable_batches(
    where: object,
    records: Records | None,
    position: int,
    *,
    check_crcs: bool = True,
    aborted: Sequence[AbortedTransaction] | None = None,
) -> tuple[list[Batch], int]:
    """Walks one partition's fetched bytes.

    Args:
        where: the partition, for messages.
        records: whole batches, the last one possibly cut.
        position: the offset asked for; batches wholly below it are left out.
        check_crcs: whether to verify every batch's CRC-32C (`check.crcs`).
        aborted: aborted transactions of a read_committed answer; None or empty where there are none.

    Returns:
        The batches that hold records for the application, and the offset behind the last whole batch (`position` if
        there is none): the position once all of them are consumed.

    Raises:
        KafkaError: CORRUPT_MESSAGE (framing, magic, checksum, compressed data).
    """
    data = one_buffer(records)
    found: list[Batch] = []
    next_position = position
    pending = sorted(aborted, key=lambda entry: entry.first_offset) if aborted else []
    aborting: set[int] = set()
    try:
        for at, size in wire.batches(data):
            header = wire.read_header(data, at)
            _check(data, at, size, header, check_crcs)
            while pending and pending[0].first_offset <= header.last_offset:
                aborting.add(pending.pop(0).producer_id)
            if header.is_control:
                if header.producer_id in aborting and _is_abort_marker(data[at + wire.HEADER_SIZE : at + size]):
                    aborting.discard(header.producer_id)
            elif header.is_transactional and header.producer_id != NO_PRODUCER_ID and header.producer_id in aborting:
                pass  # data of an aborted transaction
            elif header.record_count and header.last_offset >= position:
                found.append(_ready(data, at, size, header))
            next_position = max(next_position, header.next_offset)
    except (ProtocolError, IndexError) as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{where}, at or after offset {next_position}: {error}") from error
    return found, next_position


def last_batch(where: object, data: memoryview, *, check_crcs: bool = True) -> wire.BatchHeader | None:
    """The header of the last whole batch, which says where the next fetch goes on; None if there is no whole one.

    Only this one is looked at, the others are for `readable_batches`. (No batch's sum covers its base offset.)

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
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{where}: {error}") from error
    return header


def _check(data: memoryview, at: int, size: int, header: wire.BatchHeader, check_crcs: bool) -> None:
    if header.magic != wire.MAGIC or header.record_count < 0 or header.last_offset_delta < 0:
        raise ProtocolError(f"magic {header.magic}, {header.record_count} records")
    if check_crcs and not wire.crc_ok(data, at, size):
        raise ProtocolError(f"the batch at offset {header.base_offset} does not match its checksum")


def _ready(data: memoryview, at: int, size: int, header: wire.BatchHeader) -> Batch:
    area: Buffer = data[at + wire.HEADER_SIZE : at + size]
    if header.compression:
        area = decompress(header.compression, area)
    if header.record_count * RECORD_SIZE_MIN > len(area):
        raise ProtocolError(f"{header.record_count} records in {len(area)} bytes")
    return Batch(header, area) if header.compression else Batch(header, area, data, at + wire.HEADER_SIZE)


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
