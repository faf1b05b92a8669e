"""A shorter way for the commonest answer to Fetch: one partition without an error.

    to v11     length i32, correlation_id i32, throttle_time i32, error i16 and session i32 (v7 on), count i32,
               name length i16, name | count i32, index i32, error i16, high watermark i64, last stable offset i64,
               log start i64 (v5 on), aborted transactions i32 (-1: null), preferred replica i32 (v11), size i32
               | records
    from v12   length i32, correlation_id i32, tags u8, throttle_time i32, error i16, session i32, count u8,
               name length u8, name (v13: id) | count u8, index i32, error i16, high watermark i64,
               last stable offset i64, log start i64, aborted transactions u8 (0: null), preferred replica i32,
               size varint | records | tags of the partition, the topic, and the answer

Whatever is told besides (an error, another epoch, aborted transactions, where a leader is) is left to the compiled
encoder, and so is what this one refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, error
from typing import Final

from barnabas.protocol.api import VERSIONS, ApiKey
from barnabas.protocol.ids import Buffer
from barnabas.protocol.primitives import uvarint
from barnabas.protocol.requests.fetch import FetchableTopicResponse, FetchResponse, PartitionData

_FIRST, _LAST = VERSIONS[ApiKey.FETCH]
_LOG_START: Final = 5
_SESSIONS: Final = 7
_PREFERRED: Final = 11
_FLEXIBLE: Final = 12
_TOPIC_IDS: Final = 13
_NAME_MAX: Final = 126  # its compact length takes one byte
_TOPIC_NAME_MAX: Final = 249  # longer ones are refused: no format is kept for them
_ID_BYTES: Final = 16
_NO_TAGS: Final = b"\0\0\0"

_packs: Final[dict[tuple[int, int], tuple[Callable[..., bytes], int]]] = {}


def answer(version: int, correlation_id: int, response: FetchResponse) -> list[Buffer] | None:
    """The frame of an answer of the common shape, records by reference; else None. Never raises."""
    topics = response.responses
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    data = topics[0].partitions[0]
    records = data.records
    if (
        data.error_code
        or records is None
        or isinstance(records, list)
        or data.aborted_transactions
        or data.diverging_epoch is not None
        or data.current_leader is not None
        or data.snapshot_id is not None
        or response.node_endpoints
    ):
        return None
    try:
        if version >= _FLEXIBLE:
            return [_compact_head(version, correlation_id, response, topics[0], data, len(records)), records, _NO_TAGS]
        head = _plain_head(version, correlation_id, response, topics[0], data, len(records))
        return None if head is None else [head, records]
    except (error, AttributeError, TypeError, ValueError):
        return None  # what the compiled encoder refuses in its own words


# Written out: passing values on as a list costs as much as packing them.
def _compact_head(
    version: int, number: int, response: FetchResponse, topic: FetchableTopicResponse, data: PartitionData, size: int
) -> bytes:
    by_id = version >= _TOPIC_IDS
    name = topic.topic_id if by_id else topic.topic.encode()
    pack, length = _packs.get((version, len(name))) or _packer(version, len(name))
    told = uvarint(size + 1)
    length += len(told) + size
    throttle_ms, code, session = response.throttle_time_ms, response.error_code, response.session_id
    index, watermark, stable = data.partition_index, data.high_watermark, data.last_stable_offset
    start, preferred = data.log_start_offset, data.preferred_read_replica
    aborted = data.aborted_transactions is not None
    if by_id:
        head = pack(
            length, number, 0, throttle_ms, code, session, 2, name, 2, index, 0, watermark, stable, start, aborted,
            preferred,
        )  # fmt: skip
    else:
        head = pack(
            length, number, 0, throttle_ms, code, session, 2, len(name) + 1, name, 2, index, 0, watermark, stable,
            start, aborted, preferred,
        )  # fmt: skip
    return head + told


def _plain_head(
    version: int, number: int, response: FetchResponse, topic: FetchableTopicResponse, data: PartitionData, size: int
) -> bytes | None:
    preferred, session = data.preferred_read_replica, response.session_id
    if (version < _PREFERRED and preferred != -1) or (version < _SESSIONS and session):
        return None  # this version cannot carry it
    name = topic.topic.encode()
    pack, length = _packs.get((version, len(name))) or _packer(version, len(name))
    length += size
    throttle_ms, code = response.throttle_time_ms, response.error_code
    index, watermark, stable = data.partition_index, data.high_watermark, data.last_stable_offset
    start, aborted = data.log_start_offset, -1 if data.aborted_transactions is None else 0
    if version >= _PREFERRED:
        return pack(
            length, number, throttle_ms, code, session, 1, len(name), name, 1, index, 0, watermark, stable, start,
            aborted, preferred, size,
        )  # fmt: skip
    if version >= _SESSIONS:
        return pack(
            length, number, throttle_ms, code, session, 1, len(name), name, 1, index, 0, watermark, stable, start,
            aborted, size,
        )  # fmt: skip
    if version >= _LOG_START:
        return pack(
            length, number, throttle_ms, 1, len(name), name, 1, index, 0, watermark, stable, start, aborted, size
        )
    return pack(length, number, throttle_ms, 1, len(name), name, 1, index, 0, watermark, stable, aborted, size)


def _packer(version: int, size: int) -> tuple[Callable[..., bytes], int]:
    """The format for a name (or id) of `size` bytes, and the length that the frame announces but for its records.

    Raises:
        ValueError: a name that is too long for a topic or a compact length of one byte, an id of another length, or a
            version without a short form.
    """
    if _FIRST <= version < _FLEXIBLE and size <= _TOPIC_NAME_MAX:
        session, start = "hi" if version >= _SESSIONS else "", "q" if version >= _LOG_START else ""
        form = f">iii{session}ih{size}siihqq{start}i{'i' if version >= _PREFERRED else ''}i"
        tail = 0
    elif _FLEXIBLE <= version <= _LAST and (size == _ID_BYTES if version >= _TOPIC_IDS else size <= _NAME_MAX):
        form = f">iiBihiB{'' if version >= _TOPIC_IDS else 'B'}{size}sBihqqqBi"
        tail = len(_NO_TAGS)
    else:
        raise ValueError
    made = Struct(form)
    found = _packs[version, size] = made.pack, made.size - 4 + tail
    return found
