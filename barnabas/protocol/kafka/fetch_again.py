"""A shorter way for the commonest Fetch, of one partition, and for its answer without an error.

A consumer's requests differ in three places: the correlation id, the epoch of its session (v7 on), and the offset. The
rest was decoded once, by the compiled decoder; the same bytes again mean the same:

    api_key i16, version i16, correlation_id i32 | client_id ... | epoch i32 | ... | offset i64 | ... the end
                                                   looked up as bytes, by version

What lies where depends on bytes that are looked up, too, so that no other reading is possible. A follower of this
cluster says more from v15 on; it, and whatever differs from this shape, is left to the compiled decoder.

The answer, as one format:

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
from typing import Final, TypeAlias

from barnabas.protocol.api import VERSIONS, ApiKey, RequestHeader
from barnabas.protocol.ids import ZERO_UUID, Buffer
from barnabas.protocol.primitives import uvarint
from barnabas.protocol.requests.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

FRAMES_MAX: Final = 4096
"""Requests that are known, in all versions; then all are forgotten. What it takes counts for nobody."""
FRAME_BYTES_MAX: Final = 512

_FIRST, _LAST = VERSIONS[ApiKey.FETCH]
_LOG_START: Final = 5
_SESSIONS: Final = 7
_EPOCHS: Final = 9
_PREFERRED: Final = 11
_FLEXIBLE: Final = 12
_TOPIC_IDS: Final = 13
_REPLICA_TAGGED: Final = 15
_NAME_MAX: Final = 126  # its compact length takes one byte
_TOPIC_NAME_MAX: Final = 249  # longer ones are refused: no format is kept for them
_ID_BYTES: Final = 16
_NO_TAGS: Final = b"\0\0\0"

_CLIENT_AT: Final = 10
# From the end of client_id to the session's epoch: header's tags u8 (v12 on), replica i32 (to v14), max_wait i32,
# min_bytes i32, max_bytes i32, isolation i8, session i32 (v7 on).
_EPOCH_AT: Final = {
    version: 21 if version < _FLEXIBLE else 22 if version < _REPLICA_TAGGED else 18
    for version in range(_SESSIONS, _LAST + 1)
}
_NOWHERE: Final = 17  # before v7: nothing is left out there
# Count, and length of the name, between the epoch (4 bytes) and the name or id; a count, the index, the leader's epoch.
_PLAIN_REST: Final = 8
_COMPACT_REST: Final = 9
_LEADER_EPOCH: Final = 4

_Known: TypeAlias = tuple[str | None, int, int, int, int, int, int, str, str, bytes, int, int, int, int, int]
"""client_id; of the request replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, rack_id; of its
topic the name and id; of its partition all but the offset and the tagged fields, which followers alone send."""
_known: Final[dict[int, dict[bytes, _Known]]] = {}
_KEY: Final = int(ApiKey.FETCH)
_ONE: Final = 2  # as the count of a compact array
_NO_WATERMARK: Final = 2**63 - 1
_new: Final = object.__new__
_int_at: Final = Struct(">i").unpack_from
_long_at: Final = Struct(">q").unpack_from

_packs: Final[dict[tuple[int, int], tuple[Callable[..., bytes], int]]] = {}


def recall(
    frame: memoryview, version: int, correlation_id: int, client_id_length: int
) -> tuple[RequestHeader, FetchRequest] | None:
    """Header and request of a frame that is known but for its epoch and offset, else None. Never raises."""
    table = _known.get(version)
    if table is None or len(frame) > FRAME_BYTES_MAX:
        return None
    epoch_at, at = _places(frame, version, client_id_length)
    if version >= _SESSIONS:
        known = table.get(b"".join((frame[8:epoch_at], frame[epoch_at + 4 : at], frame[at + 8 :])))
    else:
        known = table.get(b"".join((frame[8:at], frame[at + 8 :])))
    if known is None:
        return None
    # Made without `__init__`: to call it takes longer than to set all fields.
    header, request, topic, part = _new(RequestHeader), _new(FetchRequest), _new(FetchTopic), _new(FetchPartition)
    (
        header.client_id,
        request.replica_id,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.rack_id,
        topic.topic,
        topic.topic_id,
        part.partition,
        part.current_leader_epoch,
        part.last_fetched_epoch,
        part.log_start_offset,
        part.partition_max_bytes,
    ) = known
    header.api_key, header.api_version, header.correlation_id = _KEY, version, correlation_id
    request.session_epoch = _int_at(frame, epoch_at)[0] if version >= _SESSIONS else -1
    request.cluster_id = request.replica_state = None
    request.topics, request.forgotten_topics_data = [topic], []
    topic.partitions = [part]
    (part.fetch_offset,) = _long_at(frame, at)
    part.replica_directory_id, part.high_watermark = ZERO_UUID, _NO_WATERMARK
    return header, request


def _places(frame: memoryview, version: int, client_id_length: int) -> tuple[int, int]:
    """Where the epoch and the offset are, if the frame is of the common shape; the end of it where it is too short."""
    start = _CLIENT_AT + client_id_length if client_id_length > 0 else _CLIENT_AT
    if version < _SESSIONS:
        epoch_at = start + _NOWHERE
        name_at = epoch_at + 6
    else:
        epoch_at = start + _EPOCH_AT[version]
        name_at = epoch_at + (10 if version < _FLEXIBLE else 6 if version < _TOPIC_IDS else 5)
    if version >= _TOPIC_IDS:
        return epoch_at, name_at + _ID_BYTES + _COMPACT_REST
    if name_at > len(frame):
        return epoch_at, len(frame)
    if version >= _FLEXIBLE:
        return epoch_at, name_at + frame[name_at - 1] - 1 + _COMPACT_REST
    return epoch_at, name_at + frame[name_at - 1] + _PLAIN_REST + (_LEADER_EPOCH if version >= _EPOCHS else 0)


def remember(frame: memoryview, header: RequestHeader, request: FetchRequest) -> None:
    """Keep a frame that the compiled decoder has read, if it is of the common shape."""
    version, topics = header.api_version, request.topics
    if (
        len(frame) > FRAME_BYTES_MAX
        or len(topics) != 1
        or len(topics[0].partitions) != 1
        or request.forgotten_topics_data
        or request.cluster_id is not None
        or request.replica_state is not None
    ):
        return
    topic, part = topics[0], topics[0].partitions[0]
    if part.replica_directory_id != ZERO_UUID or part.high_watermark != _NO_WATERMARK:
        return
    client_bytes = max(int.from_bytes(frame[8:_CLIENT_AT], "big", signed=True), 0)
    epoch_at, at = _places(frame, version, client_bytes)
    if not _are_theirs(frame, version, topic, _CLIENT_AT + client_bytes, epoch_at, at):
        return
    table = _known.setdefault(version, {})
    if sum(map(len, _known.values())) >= FRAMES_MAX:
        for each in _known.values():
            each.clear()
    key = (frame[8:epoch_at], frame[epoch_at + 4 : at]) if version >= _SESSIONS else (frame[8:at],)
    table[b"".join((*key, frame[at + 8 :]))] = (
        header.client_id,
        request.replica_id,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.rack_id,
        topic.topic,
        topic.topic_id,
        part.partition,
        part.current_leader_epoch,
        part.last_fetched_epoch,
        part.log_start_offset,
        part.partition_max_bytes,
    )


def _are_theirs(
    frame: memoryview, version: int, topic: FetchTopic, tags_at: int, epoch_at: int, offset_at: int
) -> bool:
    """Whether counts and lengths take the bytes that `_places` takes them for: varints have longer forms, too."""
    size = len(topic.topic.encode())
    if version < _FLEXIBLE:
        size_at = epoch_at + (4 if version < _SESSIONS else 8)
        return size <= _TOPIC_NAME_MAX and frame[size_at : size_at + 2] == bytes((0, size))
    places = {tags_at: 0, epoch_at + 4: _ONE, offset_at - _COMPACT_REST: _ONE}
    if version < _TOPIC_IDS:
        places[epoch_at + 5] = size + 1
    return size <= _NAME_MAX and all(frame[at : at + 1] == bytes((byte,)) for at, byte in places.items())


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
