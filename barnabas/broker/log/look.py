"""Looking at every record of a client's batch: at once where it holds little, else apart (LogValidator).

`look_at_once` gives up with `Costly` before it has changed anything; `look_apart` goes on from there as a job. Whoever
has waited for a job asks again whether this broker leads, and appends what came out of it, `stamped`.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Self

from barnabas.broker.config import TopicConfig
from barnabas.broker.jobs import Job
from barnabas.broker.log.apart import BYTES_AT_ONCE, PACKED_AT_ONCE, RECORDS_AT_ONCE, Apart
from barnabas.broker.log.types import InvalidRecord
from barnabas.protocol.batch import (
    COMPRESSION_MASK,
    LOG_APPEND_TIME,
    BatchHeader,
    crc_ok,
    read_header,
    set_max_timestamp,
)
from barnabas.protocol.compression import LZ4_FAST, Codec, DecompressionError, HoldsTooMuch
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.ids import NO_TIMESTAMP, Buffer, TopicPartition
from barnabas.protocol.records import BatchRewriter, Walked, decode_slices_of, plain_area, walk_area, walk_next

ERRORS_MAX: Final = 10_000
"""Record errors of one answer. Apache Kafka lists all of them, as many as a batch holds."""
_SHOWN_ERRORS: Final = 3
_LEVEL_MAX: Final = 6
_RECORDS_PER_SLICE: Final = 500
_CONVERTED_AT_ONCE: Final = 128 * 1024
"""Bytes that are compressed anew on the loop: 3 ms at zstd's level 6."""
_KEPT_MIN: Final = 256 * 1024
"""Smaller batches are copied while they wait: they may lie in a buffer that all connections receive into."""


WORK_AT_ONCE: Final = 5_000
"""So much is done for the batches of one request in one step: about 5 ms, and the last of them."""
_KIB_PACKED: Final = 20
"""Compressing a KiB anew, zstd at level 6."""
_OPENED: Final = 150
"""Unpacking at all: of gzip a batch may have 33 members (`compression.BLOCK_BYTES`)."""
_RECORD_REWRITTEN: Final = 2
"""A record or a header made and written anew."""
ROLL: Final = 200
"""Opening a new segment: a file made, and the last one handed to be synced."""


class Spent:
    """What batches have cost the loop, about 1 µs each: a record or header looked at, a KiB unpacked.

    One for the process: whoever bounds a step looks at what came to it since the step began.
    """

    __slots__ = ("work",)

    def __init__(self) -> None:
        self.work = 0


SPENT: Final = Spent()


class ClientBatch(NamedTuple):
    """A batch that may be written: its bytes, its header, and the time the broker stamped it with (-1: it did not)."""

    data: memoryview
    header: BatchHeader
    log_append_time_ms: int


class Asked(NamedTuple):
    """What the records of a batch are to be: the topic's settings, the time of day (ms), and the codec in the end."""

    config: TopicConfig
    partition: TopicPartition
    now_ms: int
    codec: int


LARGE: Final = 4 * 1024 * 1024
"""A larger batch is not summed or written on the loop at once (2 ms a MB), see `staging`."""


class Costly(Exception):
    """A batch holds, or may hold, more than the loop has time for; its header passed, nothing was changed."""

    def __init__(self, view: memoryview, header: BatchHeader, asked: Asked) -> None:
        super().__init__(f"a batch for {asked.partition} is looked at apart")
        self.view = kept(view)
        self.header = header
        self.asked = asked

    def bare(self) -> Self:
        """To be kept: without the frames it came through, which hold it, and with it all that the batch unpacked to."""
        self.__traceback__ = self.__context__ = None
        return self


class Unsummed(Costly):
    """A large batch, of which no more than the header was looked at."""


class Large(Costly):
    """A batch that is looked through, and holds more bytes than the loop has time to write."""

    def __init__(self, batch: ClientBatch, asked: Asked) -> None:
        super().__init__(batch.data, batch.header, asked)
        self.batch = ClientBatch(self.view, *batch[1:])


class Summed(NamedTuple):
    """The only batch of a request, writable, whose sum fits."""

    data: memoryview


def kept(view: memoryview) -> memoryview:
    """The bytes of a batch that has to wait."""
    return view if len(view) >= _KEPT_MIN and not view.readonly else memoryview(bytearray(view))


def sum_apart(data: memoryview, partition: TopicPartition, apart: Apart) -> Job[Summed]:
    """A large batch is summed in a thread: 100 MB take 8 to 15 ms.

    Raises:
        KafkaError: CORRUPT_MESSAGE, the sum does not fit.
    """
    if not (yield from apart.done(lambda: crc_ok(data, 0, len(data)))):
        raise unfitting(partition)
    return Summed(data)


def look_at_once(view: memoryview, header: BatchHeader, asked: Asked) -> tuple[memoryview, BatchHeader]:
    """(f) and (g) of `validate`: look at every record; re-encode where codec, offsets or the largest timestamp ask.

    Raises:
        Costly: it is too much for that.
        KafkaError: what is wrong with them.
    """
    packed = header.attributes & COMPRESSION_MASK
    same = asked.codec == packed
    bytes_max = BYTES_AT_ONCE if same else _CONVERTED_AT_ONCE
    size = len(view)
    if header.record_count > RECORDS_AT_ONCE or size > bytes_max or (packed and size > PACKED_AT_ONCE):  # `is_small`
        raise Costly(view, header, asked)
    SPENT.work += WORK_AT_ONCE  # what is refused, or unpacked in vain, is the last of its step
    try:
        area = plain_area(view, 0, header, bytes_max)
        walked = walk_area(area, header)
    except HoldsTooMuch:
        raise Costly(view, header, asked) from None
    except ProtocolError as error:
        raise _unreadable(error, asked.partition) from error
    if same and walked.in_order and header.base_offset == 0 and _all_pass(header, walked, asked):  # nearly every batch
        view, header = _with_largest(view, header, walked)
    else:
        steps = _judged(area, walked, view, header, asked, None)
        try:
            while True:
                next(steps)
        except StopIteration as stop:
            view, header = stop.value
    SPENT.work += _work_of(len(area), walked, packed != 0, not same) - WORK_AT_ONCE
    return view, header


def _work_of(size: int, walked: Walked, packed: bool, rewritten: bool) -> int:
    members = walked.looked_at + walked.headers
    work = members + (size >> 10) + (_OPENED if packed else 0)
    return work + members * _RECORD_REWRITTEN + (size >> 10) * _KIB_PACKED if rewritten else work


def look_apart(costly: Costly, apart: Apart) -> Job[tuple[memoryview, BatchHeader]]:
    """The same for a batch that holds much: unpacked and compressed in a thread, looked at in steps.

    Raises:
        KafkaError: MESSAGE_TOO_LARGE for more records or bytes than a batch may hold (a producer in Java splits such a
            batch and sends the parts); what else is wrong with them.
    """
    view, header, asked = costly.view, costly.header, costly.asked
    if header.record_count > apart.records_max:
        raise too_many(header.record_count, apart.records_max, asked.partition)
    yield from apart.take(header.record_count)
    try:
        try:
            area = yield from apart.unpacked(view, 0, header, apart.bytes_max)
            walked = yield from _walked(area, header)
        except ProtocolError as error:
            raise _unreadable(error, asked.partition) from error
        view, header = yield from _judged(area, walked, view, header, asked, apart)
        del area
    finally:
        apart.release()
    return view, header


def stamped(view: memoryview, header: BatchHeader, config: TopicConfig, now_ms: int) -> ClientBatch:
    """The batch with the broker's time, or with its own."""
    if config.message_timestamp_type == "LogAppendTime":
        set_max_timestamp(view, 0, len(view), now_ms, log_append_time=True)
        return ClientBatch(view, header._replace(max_timestamp=now_ms), now_ms)
    if header.is_log_append_time:
        set_max_timestamp(view, 0, len(view), header.max_timestamp, log_append_time=False)
    return ClientBatch(view, header, -1)


def _walked(area: Buffer, header: BatchHeader) -> Job[Walked]:
    whole = Walked(2**63 - 1, -(2**63), 0, True, 0)
    first = end = 0
    while first < header.record_count:
        count = min(RECORDS_AT_ONCE, header.record_count - first)
        part, end = walk_next(area, end, first, count)
        first += part.looked_at
        whole = Walked(
            min(whole.smallest_delta, part.smallest_delta),
            max(whole.largest_delta, part.largest_delta),
            whole.null_keys + part.null_keys,
            whole.in_order and part.in_order,
            first,
            whole.headers + part.headers,
        )
        yield None
    if end != len(area):
        raise ProtocolError(f"{len(area) - end} bytes follow the last of {header.record_count} records")
    return whole


def _judged(
    area: Buffer, walked: Walked, view: memoryview, header: BatchHeader, asked: Asked, apart: Apart | None
) -> Job[tuple[memoryview, BatchHeader]]:
    """The batch as it may be written; `apart` None: at once, nothing is waited for."""
    config, partition, _, codec = asked
    yield from _check_records(area, header, walked, asked)
    in_order = walked.in_order and header.base_offset == 0
    if not in_order and header.compression:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"compressed records sent to {partition} have wrong offsets")
    if codec != header.compression:
        attributes = header.attributes & ~COMPRESSION_MASK | codec
        rewriter = BatchRewriter(header._replace(attributes=attributes), level=level_of(config, codec))
        index = 0
        for records in decode_slices_of(area, header, _RECORDS_PER_SLICE):
            for record in records:
                record.offset = index
                index += 1
            if apart is None:
                rewriter.add(records)
            else:
                yield from apart.done(lambda records=records: rewriter.add(records))  # type: ignore[misc]
            if rewriter.least_bytes > config.max_message_bytes:  # before all of it is held twice
                raise too_large(rewriter.least_bytes, config, partition, "at least ")
        view = memoryview(rewriter.build() if apart is None else (yield from apart.done(rewriter.build)))
        if len(view) > config.max_message_bytes:
            raise too_large(len(view), config, partition)
        return view, read_header(view)
    return _with_largest(view, header, walked)


def _with_largest(view: memoryview, header: BatchHeader, walked: Walked) -> tuple[memoryview, BatchHeader]:
    """The header tells the largest timestamp of its records."""
    largest = header.base_timestamp + walked.largest_delta if header.record_count else NO_TIMESTAMP
    if largest != header.max_timestamp and not header.attributes & LOG_APPEND_TIME:
        set_max_timestamp(view, 0, len(view), largest, log_append_time=False)
        header = header._replace(max_timestamp=largest)
    return view, header


def _unreadable(error: ProtocolError, partition: TopicPartition) -> KafkaError:
    if isinstance(error, HoldsTooMuch):
        return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"a batch sent to {partition} holds too much: {error}")
    if isinstance(error, DecompressionError):
        message = f"compressed records sent to {partition} are broken: {error}"
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
    return InvalidRecord(f"a record sent to {partition} is malformed: {error}")


def _all_pass(header: BatchHeader, walked: Walked, asked: Asked) -> bool:
    """Whether what was seen of all records says that none is at fault: without a key, or out of the topic's time."""
    config, _, now_ms, _ = asked
    if walked.null_keys and "compact" in config.cleanup_policy:
        return False
    age_ms = now_ms - header.base_timestamp
    return config.message_timestamp_type == "LogAppendTime" or (
        age_ms - walked.smallest_delta <= config.message_timestamp_before_max_ms
        and walked.largest_delta - age_ms <= config.message_timestamp_after_max_ms
        and not header.attributes & LOG_APPEND_TIME
    )


def _check_records(area: Buffer, header: BatchHeader, walked: Walked, asked: Asked) -> Job[None]:
    """(f) The records at fault, if there are any: only then is each looked at once more."""
    if _all_pass(header, walked, asked):
        return
    config, partition, now_ms, _ = asked
    compact = "compact" in config.cleanup_policy
    append_time = config.message_timestamp_type == "LogAppendTime"
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    errors: list[tuple[int, str | None]] = []
    code = ErrorCode.INVALID_RECORD
    index = -1
    for records in decode_slices_of(area, header, _RECORDS_PER_SLICE):
        for record in records:
            index += 1
            if compact and record.key is None:
                message = f"Compacted topic cannot accept message without key in topic partition {partition}."
                errors.append((index, message))
            elif not append_time and record.timestamp != NO_TIMESTAMP and not earliest <= record.timestamp <= latest:
                message = (
                    f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. "
                    f"The timestamp should be within [{earliest}, {latest}]"
                )
                errors.append((index, message))
                code = ErrorCode.INVALID_TIMESTAMP
        if len(errors) >= ERRORS_MAX:
            break
        yield None
    if errors:
        raise refused(errors[:ERRORS_MAX], code)


def unfitting(partition: TopicPartition) -> KafkaError:
    """A batch of another sum than it says."""
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the checksum of a batch sent to {partition} does not fit it")


def refused(errors: list[tuple[int, str | None]], code: ErrorCode) -> InvalidRecord:
    """Records at fault, by index."""
    if code is ErrorCode.INVALID_TIMESTAMP:
        return InvalidRecord("One or more records have been rejected due to invalid timestamp", errors, code)
    shown = "; ".join(f"record {index}: {message}" for index, message in errors[:_SHOWN_ERRORS])
    return InvalidRecord(f"{len(errors)} records were rejected, the first of them: {shown}", errors)


def too_large(size: int, config: TopicConfig, partition: TopicPartition, least: str = "") -> KafkaError:
    """A batch of more bytes than the topic takes."""
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"a batch of {least}{size} bytes for {partition} exceeds max.message.bytes {config.max_message_bytes}",
    )


def too_many(count: int, records_max: int, partition: TopicPartition) -> KafkaError:
    """A batch of more records than the broker takes."""
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"a batch of {count} records for {partition} exceeds barnabas.batch.records.max {records_max}; send smaller",
    )


def level_of(config: TopicConfig, codec: int) -> int | None:
    """The level that the topic asks for, but none above `_LEVEL_MAX`: nobody else is served meanwhile.

    A MB of text takes zstd 500 ms at level 22 and 20 ms at 6, for a sixth less. Kafka, which has other threads to serve
    with, takes the level as it is.
    """
    if codec == Codec.GZIP:
        level = config.compression_gzip_level
        return None if level == -1 else min(level, _LEVEL_MAX)
    if codec == Codec.LZ4:
        return config.compression_lz4_level if config.compression_lz4_level <= LZ4_FAST else LZ4_FAST
    if codec == Codec.ZSTD:
        return min(config.compression_zstd_level, _LEVEL_MAX)
    return None


def large(records: memoryview) -> int:
    """Bytes of the first batch, if it is a large one that came whole; it is the only one of such an answer."""
    size = read_header(records).size if len(records) > LARGE else 0
    return size if LARGE < size <= len(records) else 0
