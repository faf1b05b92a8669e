"""Records of committed offsets: Apache Kafka's names, fields and defaults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct as Format
from typing import Final, TypeAlias

from barnabas.protocol.batch import BASE_TIMESTAMP_AT, HEADER_SIZE, LOG_OVERHEAD, pack_header, set_crc
from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.kafka.data import Data
from barnabas.protocol.kafka.schema import INT32, INT64, STRING, UUID, Field, Struct
from barnabas.protocol.limits import RESPONSE_ELEMENTS_MAX
from barnabas.protocol.primitives import uvarint
from barnabas.protocol.records import single
from barnabas.protocol.requests import message


@message
class OffsetCommitKey:
    group: str = ""
    topic: str = ""
    partition: int = 0


@message
class OffsetCommitValue:
    offset: int = 0
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = 0
    expire_timestamp: int = -1
    topic_id: bytes = ZERO_UUID


OFFSET_COMMIT_KEY = Data(
    Struct(
        OffsetCommitKey,
        Field("group", STRING, "0"),
        Field("topic", STRING, "0"),
        Field("partition", INT32, "0"),
    ),
    (0, 0),
    elements_max=RESPONSE_ELEMENTS_MAX,
)
OFFSET_COMMIT_VALUE = Data(
    Struct(
        OffsetCommitValue,
        Field("offset", INT64, "0+"),
        Field("leader_epoch", INT32, "3+", ignorable=True),
        Field("metadata", STRING, "0+"),
        Field("commit_timestamp", INT64, "0+"),
        Field("expire_timestamp", INT64, "1", ignorable=True),
        Field("topic_id", UUID, "4+", tag=0, ignorable=True),
    ),
    (0, 4),
    flexible_from=4,
    elements_max=RESPONSE_ELEMENTS_MAX,
)

# The two as nearly all commits have them, written by hand in a third of the time:
#
#   key      number i16 = 1, group string, topic string, partition i32
#   value    version i16 = 4, offset i64, leader epoch i32, metadata compact string, time i64,
#            one tag u8 = 1, its number u8 = 0, its size u8 = 16, topic id; or no tags u8 = 0
KEPT_LENGTH_MAX: Final = 255
"""Keys of groups with so many characters at most are kept: a group commits the same partitions again and again."""
_TEXT: Final = Format(">h")
_KEY: Final = Format(">hh")
_PARTITION: Final = Format(">i")
_VALUE: Final = Format(">hqi")
_TIME: Final = Format(">qb")
_NO_METADATA: Final = b"\x01"
_TIMES: Final = Format(">qq")
_COMMITTED: Final = Format(">q")
_COMMITTED_AT: Final = _VALUE.size + len(_NO_METADATA)
_TAGS_OF_ID: Final = b"\x00\x10"
COMMITS_MAX: Final = 64
"""A batch of so many: the delta of an offset is one byte of a varint then."""
_DELTA_AT: Final = 2
"""Where it stands behind a record's length: attributes u8, delta of the timestamp as a varint, 0."""
_MORE: Final = 128

_Form: TypeAlias = tuple[Callable[..., bytes], bytes, bytes, bytes, bytes]


def commit_key(group: str, topic: str, partition: int) -> bytes:
    """An `OffsetCommitKey` with its number.

    Raises:
        struct.error: a name of more than 32767 bytes, which no request can hold.
    """
    if len(group) <= KEPT_LENGTH_MAX:
        return _kept_key(group, topic, partition)
    return _commit_key(group, topic, partition)


def _commit_key(group: str, topic: str, partition: int) -> bytes:
    group_name, topic_name = group.encode(), topic.encode()
    head, between = _KEY.pack(1, len(group_name)), _TEXT.pack(len(topic_name))
    return b"".join((head, group_name, between, topic_name, _PARTITION.pack(partition)))


_kept_key: Final = lru_cache(maxsize=4096)(_commit_key)


def commit_value(
    offset: int, leader_epoch: int, metadata: str, committed_ms: int, topic_id: bytes = ZERO_UUID
) -> bytes:
    """An `OffsetCommitValue` at version 4. Metadata has what a request's string can hold."""
    said = _NO_METADATA
    if metadata:
        text = metadata.encode()
        said = uvarint(len(text) + 1) + text
    head = _VALUE.pack(4, offset, leader_epoch)
    if topic_id == ZERO_UUID:
        return b"".join((head, said, _TIME.pack(committed_ms, 0)))
    return b"".join((head, said, _TIME.pack(committed_ms, 1), _TAGS_OF_ID, topic_id))


def commit_batch(
    group: str,
    topic: str,
    partition: int,
    offset: int,
    leader_epoch: int,
    committed_ms: int,
    topic_id: bytes,
    wall_ms: int,
) -> bytearray:
    """The batch of one commit without metadata: `single` of key and value, of which the numbers alone are written anew.

    Raises:
        struct.error: as `commit_key`.
    """
    kept = _kept_batch if len(group) <= KEPT_LENGTH_MAX else _batch
    known, value_at = kept(group, topic, partition, topic_id)
    data = bytearray(known)
    _TIMES.pack_into(data, BASE_TIMESTAMP_AT, wall_ms, wall_ms)
    _VALUE.pack_into(data, value_at, 4, offset, leader_epoch)
    _COMMITTED.pack_into(data, value_at + _COMMITTED_AT, committed_ms)
    set_crc(data, 0, len(data))
    return data


def commits_batch(
    runs: Sequence[tuple[str, str, int, int, bytes, Sequence[tuple[int, int, int]]]], wall_ms: int
) -> bytearray:
    """The batch of `COMMITS_MAX` commits at most, one at least, in runs that differ in offset and leader epoch alone.

    Args:
        runs: group, topic, partition, time, topic id; and of each a number that is not written, offset and epoch.
        wall_ms: the time of the batch.

    Raises:
        struct.error: as `commit_key`.
    """
    parts: list[bytes] = [bytes(HEADER_SIZE)]
    for group, topic, partition, committed_ms, topic_id, said in runs:
        kept = _kept_record if len(group) <= KEPT_LENGTH_MAX else _record
        pack, head, key, between, end = kept(group, topic, partition, topic_id)
        for number, (_, offset, leader_epoch) in enumerate(said, len(parts) - 1):
            parts.append(pack(head, number << 1, key, 4, offset, leader_epoch, between, committed_ms, end))
    data = bytearray().join(parts)
    size, last = len(data), len(parts) - 2
    pack_header(data, 0, 0, size - LOG_OVERHEAD, -1, 2, 0, 0, last, wall_ms, wall_ms, -1, -1, -1, last + 1)
    set_crc(data, 0, size)
    return data


def _batch(group: str, topic: str, partition: int, topic_id: bytes) -> tuple[bytes, int]:
    """A batch, and where the value of its only record begins, behind which there is a count of no headers."""
    value = commit_value(0, 0, "", 0, topic_id)
    data = bytes(single(0, commit_key(group, topic, partition), value))
    return data, len(data) - 1 - len(value)


_kept_batch: Final = lru_cache(maxsize=4096)(_batch)


def _record(group: str, topic: str, partition: int, topic_id: bytes) -> _Form:
    """The record of that batch as one format, and what of it all commits have.

    That stands before the delta of its offset, up to the value, between leader epoch and time, and behind that.
    """
    batch, value_at = _batch(group, topic, partition, topic_id)
    known, value_at = batch[HEADER_SIZE:], value_at - HEADER_SIZE
    delta_at = (1 if known[0] < _MORE else 2 if known[1] < _MORE else 3) + _DELTA_AT
    time_at = value_at + _COMMITTED_AT
    form = f">{delta_at}sB{value_at - delta_at - 1}shqi{len(_NO_METADATA)}sq{len(known) - time_at - _COMMITTED.size}s"
    parts = known[:delta_at], known[delta_at + 1 : value_at], _NO_METADATA, known[time_at + _COMMITTED.size :]
    return Format(form).pack, *parts


_kept_record: Final = lru_cache(maxsize=4096)(_record)
