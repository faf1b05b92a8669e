"""What a batch must be to enter the log (Kafka's UnifiedLog.analyzeAndValidateRecords and LogValidator).

A leader checks in this order, and the first finding answers the request:

    a  one whole batch of format v2          INVALID_RECORD, or CORRUPT_MESSAGE where the framing is senseless
    b  base offset 0                         INVALID_RECORD
    c  size up to `max.message.bytes`        MESSAGE_TOO_LARGE
    d  the sum fits                          CORRUPT_MESSAGE (of a large one it is taken apart, see `look.Unsummed`)
    e  record count, control bit, sequence   INVALID_RECORD, or UNKNOWN_SERVER_ERROR for an unknown codec
    f  keys (compacted topics), timestamps   INVALID_RECORD or INVALID_TIMESTAMP with the records at fault
    g  the size again, where re-encoded      MESSAGE_TOO_LARGE

Records are walked only where the header cannot tell: on compacted topics, for a `compression.type` of the topic's own,
where a timestamp is out of range or the lower bound is set, and with `validate_full`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from barnabas.broker.config import TopicConfig
from barnabas.broker.log.look import (
    ERRORS_MAX,
    LARGE,
    Asked,
    ClientBatch,
    Summed,
    Unsummed,
    look_at_once,
    refused,
    stamped,
    too_large,
    unfitting,
)
from barnabas.broker.log.types import AppendOrigin, InvalidRecord
from barnabas.protocol.batch import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    crc_ok,
    read_header,
    unpack_header,
)
from barnabas.protocol.compression import Codec
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import Buffer, Records, TopicPartition
from barnabas.protocol.primitives import crc32c
from barnabas.protocol.records import RECORD_SIZE_MIN

_LONG_MAX: Final = 2**63 - 1
_LEGACY_SIZE_MIN: Final = 14
_MAGIC_END: Final = 17
# An enum's member is looked up in its class at every use.
_CLIENT: Final = AppendOrigin.CLIENT
_CODEC_MAX: Final = int(Codec.ZSTD)
_CODECS: Final = {  # `producer` is none of them
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class Demands(NamedTuple):
    """What a topic's settings ask beyond a batch's header: the broker's time, a codec (None: as sent), every record."""

    append_time: bool = False
    codec: Codec | None = None
    walked: bool = False


_NOTHING: Final = Demands()
_shared: Final = cache(Demands)  # thousands of logs have the same


def demands(config: TopicConfig) -> Demands | None:
    """Found out once for settings, for all batches that come under them; None, as mostly: nothing."""
    append_time = config.message_timestamp_type == "LogAppendTime"
    bounded_below = config.message_timestamp_before_max_ms < _LONG_MAX and not append_time
    found = _shared(
        append_time, _CODECS.get(config.compression_type), bounded_below or "compact" in config.cleanup_policy
    )
    return None if found == _NOTHING else found


def validate_client_batch(
    records: Records | Summed,
    asked: Demands | None,
    config: TopicConfig,
    partition: TopicPartition,
    now_ms: int,
    origin: AppendOrigin,
    validate_full: bool,
) -> tuple[memoryview, tuple[int, ...], int]:
    """The one batch of a produce request, checked and (in a writable buffer: in place) stamped.

    It comes as `ClientBatch` says, the header as the plain tuple of its fields: every batch comes this way.

    Raises:
        Costly: its records are to be looked at apart, by `look_apart`; summed before (`Unsummed`), by `sum_apart`.
        InvalidRecord: INVALID_RECORD or INVALID_TIMESTAMP.
        KafkaError: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, UNKNOWN_SERVER_ERROR (compressed data that is broken).
    """
    view = records if type(records) is memoryview else _view_of(records)
    size = len(view)
    if size < HEADER_SIZE or view.readonly:
        view = _only_batch(view)
        size = len(view)
    header: tuple[int, ...] = unpack_header(view, 0)
    base, length, _, magic, crc, attributes, last_delta, _, max_timestamp, producer_id, _, sequence, count = header
    if magic != MAGIC or length != size - LOG_OVERHEAD:
        return validate_client_batch(_only_batch(view), asked, config, partition, now_ms, origin, validate_full)
    if base and origin is _CLIENT:
        raise InvalidRecord(f"the base offset of a batch sent to {partition} is {base}, not 0")
    if size > config.max_message_bytes:
        raise too_large(size, config, partition)
    if size > LARGE and origin is _CLIENT:
        if type(records) is not Summed:
            raise Unsummed(view, BatchHeader._make(header), Asked(config, partition, now_ms, 0))
    elif crc32c(view[ATTRIBUTES_AT:]) != crc:
        raise unfitting(partition)
    if (
        last_delta != count - 1
        or count <= 0
        or sequence < 0 <= producer_id
        or (attributes and (attributes & CONTROL or attributes & COMPRESSION_MASK > _CODEC_MAX))
    ) and origin is _CLIENT:
        raise _bad_header(BatchHeader._make(header), partition)
    if count * RECORD_SIZE_MIN > size - HEADER_SIZE and not attributes & COMPRESSION_MASK:
        raise InvalidRecord(f"a batch sent to {partition} counts {count} records in {size - HEADER_SIZE} bytes")
    # A record's time can be out of range if the largest is, which the header has, or where there is a lower bound.
    if (
        max_timestamp - now_ms > config.message_timestamp_after_max_ms
        or validate_full
        or asked is not None
        or (attributes and attributes & LOG_APPEND_TIME)
    ) and origin is _CLIENT:  # no topic's settings change our own records
        close = BatchHeader._make(header)
        return _as_asked(view, close, asked or _NOTHING, config, partition, now_ms, validate_full)
    return view, header, -1


def _as_asked(
    view: memoryview,
    header: BatchHeader,
    asked: Demands,
    config: TopicConfig,
    partition: TopicPartition,
    now_ms: int,
    walked: bool,
) -> ClientBatch:
    """(f) and (g): the records looked at where anything asks for it, and the time and codec that the topic wants."""
    append_time = asked.append_time
    attributes = header.attributes
    flagged = attributes & LOG_APPEND_TIME
    if append_time and flagged:
        message = "Producer should not set timestamp type to LogAppendTime."
        count = min(header.record_count, ERRORS_MAX)
        raise refused([(index, message) for index in range(count)], ErrorCode.INVALID_TIMESTAMP)
    own = attributes & COMPRESSION_MASK
    codec = own if asked.codec is None else asked.codec
    if (
        walked
        or asked.walked
        or codec != own
        or (not append_time and header.max_timestamp - now_ms > config.message_timestamp_after_max_ms)
    ):
        view, header = look_at_once(view, header, Asked(config, partition, now_ms, codec))
    if append_time or flagged:
        return stamped(view, header, config, now_ms)
    return ClientBatch(view, header, -1)


def follower_batches(records: Records) -> Iterator[ClientBatch]:
    """The whole batches a leader sent, each with its sum checked; a cut last one is left out.

    Raises:
        KafkaError: CORRUPT_MESSAGE, when the bad batch is reached.
    """
    view = memoryview(_joined(records))
    while len(view) >= LOG_OVERHEAD:
        size = _size_at(view)
        if size < HEADER_SIZE:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a fetched batch has {size} bytes, fewer than its header")
        if size > len(view):
            return
        data = view[:size]
        header = read_header(data)
        if header.magic != 2 or not crc_ok(data, 0, size):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the fetched batch at offset {header.base_offset} is corrupt")
        yield ClientBatch(data, header, -1)
        view = view[size:]


def _view_of(records: Records | Summed) -> memoryview:
    if isinstance(records, Summed):
        return records.data
    return memoryview(bytearray().join(records) if isinstance(records, list) else records)


def _joined(records: Records) -> Buffer:
    return b"".join(records) if isinstance(records, list) else records


def _size_at(view: memoryview) -> int:
    return LOG_OVERHEAD + int.from_bytes(view[8:12], "big", signed=True)


def _only_batch(view: memoryview) -> memoryview:
    """(a) The first and only whole batch, writable. What follows it and makes no batch is ignored."""
    if len(view) < _MAGIC_END:
        raise KafkaError(ErrorCode.INVALID_RECORD, "the records hold no complete batch")
    size = _size_at(view)
    magic = view[16]
    if size - LOG_OVERHEAD < _LEGACY_SIZE_MIN or magic > 2:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch of format {magic} announces {size - LOG_OVERHEAD} bytes")
    if size > len(view):
        raise KafkaError(ErrorCode.INVALID_RECORD, "the records hold no complete batch")
    if magic != 2:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"a batch has the old format {magic}, only 2 is taken")
    if size < HEADER_SIZE:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch has {size} bytes, fewer than its header")
    rest = view[size:]
    if len(rest) >= _MAGIC_END and _size_at(rest) - LOG_OVERHEAD >= _LEGACY_SIZE_MIN and _size_at(rest) <= len(rest):
        raise KafkaError(ErrorCode.INVALID_RECORD, "the records hold more than one batch")
    view = view[:size]
    return memoryview(bytearray(view)) if view.readonly else view


def _bad_header(header: BatchHeader, partition: TopicPartition) -> KafkaError:
    """(e) What is wrong with a header that no client may send."""
    count = header.record_count
    if count <= 0 or header.last_offset_delta != count - 1:
        return InvalidRecord(
            f"a batch sent to {partition} counts {count} records and a last offset delta of {header.last_offset_delta}"
        )
    if header.is_control:
        return InvalidRecord(f"a client may not send control records to {partition}")
    if header.producer_id >= 0 and header.base_sequence < 0:
        return InvalidRecord(
            f"a batch of producer {header.producer_id} sent to {partition} has sequence {header.base_sequence}"
        )
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"codec {header.compression} is unknown")
