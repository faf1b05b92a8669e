"""What a consumer is about to be given is summed up first, where another broker could lead instead.

No consumer can be relied on to tell of a bad batch. librdkafka sums nothing up unless it is told to (`check.crcs`), and
passes over what is wrong then; Java's, and the bundled one, stop there and ask for it no more. So the leader looks:

    the first batch is bad         KAFKA_STORAGE_ERROR: the consumer looks for who leads, and that is soon another
    a later one is                 what comes before it
    nobody else is in sync         all of it as it lies on the disk: whoever sums it up finds it

In any case it gives up the partition, if another can take it (`damage`). An answer is cut where it would take more than
about a ms; a large batch is summed up in a thread. What has no followers is given unseen, for nobody else has it.

The sum does not cover where a batch lies: that offsets rise and end before the log does is looked at instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker.jobs import Job
from barnabas.broker.log.look import large
from barnabas.broker.replica import damage
from barnabas.protocol.batch import ATTRIBUTES_AT, HEADER_SIZE, LENGTH_MIN, LOG_OVERHEAD, MAGIC
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.primitives import crc32c

if TYPE_CHECKING:
    from barnabas.broker.replica.hosted import HostedPartitions
    from barnabas.broker.replica.partition import Partition
    from barnabas.broker.replica.types import FetchResult

BYTES_MAX: Final = 8 * 1024 * 1024
"""Of an answer; what begins before is summed up to its end."""
BATCHES_MAX: Final = 1000
"""Of an answer: about 0.5 µs each, beside their bytes."""

# base_offset i64 | length i32 | ... | magic i8 | crc u32 | ... | last_offset_delta i32
_LOOK: Final = Struct(">qi4xbI2xi").unpack_from


class Seen(NamedTuple):
    """Of some records: how many bytes and batches are good, and from which offset on they are not (-1: none is bad)."""

    good_bytes: int
    batches: int
    bad_offset: int = -1


def look(records: memoryview, offset: int, end_offset: int, bytes_max: int, batches_max: int) -> Seen:
    """Sum up batches, of which the first came whole; with one that is cut at the end the next answer begins.

    `offset` was asked for; all lies below `end_offset`. Where offsets do not rise the batch before may be the bad one.
    """
    position = before = count = 0
    size_of_all, behind, behind_before = len(records), offset, offset
    while position < size_of_all:
        if position >= bytes_max or count >= batches_max:
            return Seen(position, count)
        if size_of_all - position < HEADER_SIZE:
            return Seen(position, count, -1 if count else offset)
        base, length, magic, crc, delta = _LOOK(records, position)
        size = length + LOG_OVERHEAD
        if size > size_of_all - position:
            return Seen(position, count, -1 if count else offset)
        if length < LENGTH_MIN or magic != MAGIC or crc32c(records[position + ATTRIBUTES_AT : position + size]) != crc:
            return Seen(position, count, behind)
        last = base + delta
        if delta < 0 or (count and base < behind) or not behind <= last < end_offset:
            return Seen(before, max(count - 1, 0), behind_before)
        before, behind_before = position, behind
        behind = last + 1
        position += size
        count += 1
    return Seen(position, count)


def sum_up(hosted: HostedPartitions, results: Mapping[TopicPartition, FetchResult]) -> list[TopicPartition]:
    """Take from an answer what is bad, and what would take too long; of which partitions a thread is to look."""
    bytes_left, batches_left = BYTES_MAX, BATCHES_MAX
    apart: list[TopicPartition] = []
    for key, result in results.items():
        partition = hosted.online.get(key) if result.records else None
        if partition is None or not partition.remotes:
            continue
        records = memoryview(result.records)
        size = large(records)
        if size:
            result.records = records[:size]
            apart.append(key)
            bytes_left -= size
            continue
        seen = look(records, _asked(result), partition.log.log_end_offset, bytes_left, batches_left)
        bytes_left -= seen.good_bytes
        batches_left -= seen.batches
        _settle(partition, result, seen)
    return apart


def sum_up_apart(
    hosted: HostedPartitions, results: Mapping[TopicPartition, FetchResult], keys: Sequence[TopicPartition]
) -> Job[None]:
    """The same for large batches, each in a thread."""
    for key in keys:
        partition, result = hosted.online.get(key), results[key]
        if partition is None or not partition.remotes:
            continue
        log, records = partition.log, memoryview(result.records)
        asked, end_offset = _asked(result), log.log_end_offset
        seen = yield from log.apart.done(lambda: look(records, asked, end_offset, len(records), 1))  # noqa: B023
        _settle(partition, result, seen)


def _asked(result: FetchResult) -> int:
    assert result.start is not None, "records were read from somewhere"
    return result.start.offset


def _settle(partition: Partition, result: FetchResult, seen: Seen) -> None:
    """Leave of an answer what may leave."""
    if seen.bad_offset >= 0:
        reason = f"the batch at offset {seen.bad_offset} is damaged, as a consumer was to be given it"
        damage.resign(partition, reason, seen.bad_offset)
        if len(partition.isr.committed) < 2:
            return
        if not seen.good_bytes:
            result.error_code, result.records = ErrorCode.KAFKA_STORAGE_ERROR, b""
            return
    if seen.good_bytes < len(result.records):
        result.records = result.records[: seen.good_bytes]
