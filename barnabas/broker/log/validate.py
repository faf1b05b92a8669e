"""What a batch must be to enter the log (Kafka's UnifiedLog.analyzeAndValidateRecords and LogValidator).

A leader checks in this order, and the first finding answers the request:

    a  one whole batch of format v2          INVALID_RECORD, or CORRUPT_MESSAGE where the framing is senseless
    b  base offset 0                         INVALID_RECORD
    c  size up to `max.message.bytes`        MESSAGE_TOO_LARGE
    d  the sum fits                          CORRUPT_MESSAGE
    e  record count, control bit, sequence   INVALID_RECORD
    f  keys (compacted topics), timestamps   INVALID_RECORD or INVALID_TIMESTAMP with the records at fault
    g  the size again, where re-encoded      MESSAGE_TOO_LARGE

Records are walked only where the header cannot tell: on compacted topics, for a `compression.type` of the topic's own,
where a timestamp is out of range or the lower bound is set, and with `validate_full`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from barnabas.broker.config import TopicConfig
from barnabas.broker.log.look import ERRORS_MAX, Asked, ClientBatch, look_at_once, refused, stamped, too_large
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
_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def takes_as_is(config: TopicConfig) -> bool:
    """Whether a topic asks nothing of a batch but what `accept` sees in its header."""
    return (
        config.message_timestamp_type == "CreateTime"
        and config.message_timestamp_before_max_ms == _LONG_MAX
        and config.compression_type == "producer"
        and "compact" not in config.cleanup_policy
    )


def accept(view: memoryview, config: TopicConfig, now_ms: int) -> tuple[int, ...] | None:
    """The header's fields of a client's batch that passes (a) to (f) at a glance, for a topic that `takes_as_is`.

    None says nothing: `validate_client_batch` looks closely and knows what is wrong, if anything is.
    """
    size = len(view)
    if size < HEADER_SIZE or view.readonly:
        return None
    fields: tuple[int, ...] = unpack_header(view, 0)
    base, length, _, magic, crc, attributes, last_delta, _, max_timestamp, producer_id, _, sequence, count = fields
    if (
        base == 0
        and magic == MAGIC
        and length == size - LOG_OVERHEAD
        and size <= config.max_message_bytes
        and 0 <= attributes <= _CODEC_MAX  # a codec, and no flag
        and 0 <= last_delta == count - 1
        and (attributes or count * RECORD_SIZE_MIN <= size - HEADER_SIZE)
        and (producer_id < 0 or sequence >= 0)
        and max_timestamp - now_ms <= config.message_timestamp_after_max_ms
        and crc32c(view[ATTRIBUTES_AT:]) == crc
    ):
        return fields
    return None


def validate_client_batch(
    records: Records,
    config: TopicConfig,
    partition: TopicPartition,
    now_ms: int,
    origin: AppendOrigin,
    validate_full: bool,
) -> ClientBatch:
    """The one batch of a produce request, checked and (in a writable buffer: in place) stamped.

    Raises:
        Costly: its records are to be looked at apart, by `look_apart`.
        InvalidRecord: INVALID_RECORD or INVALID_TIMESTAMP.
        KafkaError: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, UNKNOWN_SERVER_ERROR (compressed data that is broken).
    """
    view = memoryview(records) if not isinstance(records, list) else memoryview(bytearray().join(records))
    size = len(view)
    if size < HEADER_SIZE or view.readonly:
        view = _only_batch(view)
    header = read_header(view)
    if header.magic != MAGIC or header.length != size - LOG_OVERHEAD:
        view = _only_batch(view)
        header = read_header(view)
    size = len(view)
    base, _, _, _, crc, attributes, last_delta, _, max_timestamp, producer_id, _, sequence, count = header
    from_client = origin is _CLIENT
    if base != 0 and from_client:
        raise InvalidRecord(f"the base offset of a batch sent to {partition} is {base}, not 0")
    if size > config.max_message_bytes:
        raise too_large(size, config, partition)
    if crc32c(view[ATTRIBUTES_AT:]) != crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the checksum of a batch sent to {partition} does not fit it")
    codec = attributes & COMPRESSION_MASK
    if from_client and (
        last_delta != count - 1
        or count <= 0
        or attributes & CONTROL
        or (sequence < 0 and producer_id >= 0)
        or codec > _CODEC_MAX
    ):
        raise _bad_header(header, partition)
    if not codec and count * RECORD_SIZE_MIN > size - HEADER_SIZE:
        raise InvalidRecord(f"a batch sent to {partition} counts {count} records in {size - HEADER_SIZE} bytes")
    append_time = config.message_timestamp_type == "LogAppendTime"
    flagged = attributes & LOG_APPEND_TIME
    if append_time and flagged:
        message = "Producer should not set timestamp type to LogAppendTime."
        raise refused([(index, message) for index in range(min(count, ERRORS_MAX))], ErrorCode.INVALID_TIMESTAMP)
    wanted = _CODECS.get(config.compression_type, codec)
    # A record's time can be out of range if the largest is, which the header has, or where there is a lower bound.
    if (
        codec != wanted
        or validate_full
        or "compact" in config.cleanup_policy
        or (
            not append_time
            and (
                max_timestamp - now_ms > config.message_timestamp_after_max_ms
                or config.message_timestamp_before_max_ms < _LONG_MAX
            )
        )
    ):
        view, header = look_at_once(view, header, Asked(config, partition, now_ms, wanted))
    if append_time or flagged:
        return stamped(view, header, config, now_ms)
    return tuple.__new__(ClientBatch, (view, header, -1))  # half the price of the call


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


def _joined(records: Records) -> Buffer:
    return b"".join(records) if isinstance(records, list) else records


def _size_at(view: memoryview) -> int:
    return LOG_OVERHEAD + int.from_bytes(view[8:12], "big", signed=True)


def _only_batch(view: memoryview) -> memoryview:
    """(a) The first and only whole batch, writable. What follows it and makes no batch is ignored."""
    if len(view) < _MAGIC_END:
        raise InvalidRecord("the records hold no complete batch")
    size = _size_at(view)
    magic = view[16]
    if size - LOG_OVERHEAD < _LEGACY_SIZE_MIN or magic > 2:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch of format {magic} announces {size - LOG_OVERHEAD} bytes")
    if size > len(view):
        raise InvalidRecord("the records hold no complete batch")
    if magic != 2:
        raise InvalidRecord(f"a batch has the old format {magic}, only 2 is taken")
    if size < HEADER_SIZE:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch has {size} bytes, fewer than its header")
    rest = view[size:]
    if len(rest) >= _MAGIC_END and _size_at(rest) - LOG_OVERHEAD >= _LEGACY_SIZE_MIN and _size_at(rest) <= len(rest):
        raise InvalidRecord("the records hold more than one batch")
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
