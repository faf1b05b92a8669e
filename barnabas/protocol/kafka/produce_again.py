"""A shorter way for the commonest request: one batch for one partition, and its answer.

A producer's requests to a partition differ in three places: the correlation id, the length of the records, and the
records. What stands before the records was decoded once, by the compiled decoder; the same bytes again mean the same:

    api_key i16, version i16, correlation_id i32 | client_id ... partition index | length, records | tagged sections
                                                   `prefix`, looked up as bytes

A prefix is remembered if it is just what `_prefix` writes for what was decoded, so that no other reading of it is
possible. Whatever differs from this shape in any way is left to the compiled functions, errors too.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, error
from typing import Final, NamedTuple, TypeAlias

from barnabas.protocol.api import VERSIONS, ApiKey, RequestHeader
from barnabas.protocol.ids import Buffer
from barnabas.protocol.primitives import VarintError, read_uvarint
from barnabas.protocol.requests.produce import OneBatchRequest, OneBatchResponse, ProduceRequest, ProduceResponse

PREFIXES_MAX: Final = 4096
NAMES_BYTES_MAX: Final = 255

_FIRST, _LAST = VERSIONS[ApiKey.PRODUCE]
_FLEXIBLE: Final = 9
_TOPIC_IDS: Final = 13
_FIELDS_OF_V8: Final = 8
_LOG_START: Final = 5
_NAME_MAX: Final = 126  # its compact length takes one byte
_TOPIC_NAME_MAX: Final = 249  # longer ones are refused: no format is kept for them
# Bytes from the end of client_id to the topic's name or id, and from its end to the length of the records:
# transactional_id i16, acks i16, timeout i32, count i32, name length i16 | count i32, index i32
_PLAIN_AT, _PLAIN_REST = 14, 8
# tags u8, transactional_id u8, acks i16, timeout i32, count u8, name length u8 (ids have none) | count u8, index i32
_COMPACT_AT, _ID_AT, _COMPACT_REST = 10, 9, 5
_ID_BYTES: Final = 16

_length_at: Final = Struct(">i").unpack_from
_new: Final = object.__new__


class _Known(NamedTuple):
    """What a prefix says."""

    client_id: str | None
    acks: int
    timeout_ms: int
    name: str
    topic_id: bytes
    partition: int


_Table: TypeAlias = dict[bytes, tuple[str | None, int, int, str, bytes, int]]
"""Prefix to the fields of `_Known`, as a plain tuple: that is taken apart several times faster."""

_known: Final[tuple[_Table, _Table, _Table]] = ({}, {}, {})
_plain, _compact, _by_id = _known


def recall(
    frame: memoryview, version: int, correlation_id: int, client_id_length: int
) -> tuple[RequestHeader, ProduceRequest] | None:
    """Header and request if the frame's prefix is known, else None. Never raises."""
    start = 10 + client_id_length if client_id_length > 0 else 10
    try:
        if version < _FLEXIBLE:
            at = start + _PLAIN_AT + frame[start + _PLAIN_AT - 1] + _PLAIN_REST
            known = _plain.get(frame[8:at].tobytes()) if version >= _FIRST else None
            if known is None:
                return None
            (size,) = _length_at(frame, at)
            at += 4
            end = at + size
            if size < 0 or end > len(frame):
                return None
        else:
            if version < _TOPIC_IDS:
                at = start + _COMPACT_AT + frame[start + _COMPACT_AT - 1] - 1 + _COMPACT_REST
                known = _compact.get(frame[8:at].tobytes())
            else:
                at = start + _ID_AT + _ID_BYTES + _COMPACT_REST
                known = _by_id.get(frame[8:at].tobytes()) if version <= _LAST else None
            if known is None:
                return None
            size, at = read_uvarint(frame, at)
            end = at + size - 1
            if not size or frame[end] or frame[end + 1] or frame[end + 2]:  # null, or something tagged
                return None
    except (IndexError, error, VarintError):
        return None
    # Made without `__init__`: to call it takes longer than to set all fields.
    request, header = _new(OneBatchRequest), _new(RequestHeader)
    header.client_id, request.acks, request.timeout_ms, request.name, request.topic_id, request.index = known
    header.api_key, header.api_version, header.correlation_id = 0, version, correlation_id
    request.transactional_id, request.records = None, frame[at:end]
    return header, request


def remember(frame: memoryview, header: RequestHeader, request: ProduceRequest) -> None:
    """Keep the prefix of a frame that the compiled decoder has read, if it is of the common shape."""
    topics = request.topic_data
    if request.transactional_id is not None or len(topics) != 1 or len(topics[0].partition_data) != 1:
        return
    topic = topics[0]
    partition = topic.partition_data[0].index
    known = _Known(header.client_id, request.acks, request.timeout_ms, topic.name, topic.topic_id, partition)
    prefix = _prefix(known, header.api_version)
    if not prefix or frame[8 : 8 + len(prefix)] != prefix:
        return
    version = header.api_version
    table = _known[0 if version < _FLEXIBLE else 1 if version < _TOPIC_IDS else 2]
    if len(table) >= PREFIXES_MAX:
        table.clear()
    table[prefix] = (*known,)


def _prefix(known: _Known, version: int) -> bytes:
    """The bytes from client_id to the partition's index, in their shortest form; empty where `recall` has no use."""
    client_id = b"" if known.client_id is None else known.client_id.encode()
    name = known.name.encode()
    if len(client_id) + len(name) > NAMES_BYTES_MAX or (version >= _FLEXIBLE and len(name) > _NAME_MAX):
        return b""
    head = Struct(">h").pack(-1 if known.client_id is None else len(client_id)) + client_id
    if version < _FLEXIBLE:
        body = Struct(">hhiih").pack(-1, known.acks, known.timeout_ms, 1, len(name)) + name
        return head + body + Struct(">ii").pack(1, known.partition)
    body = Struct(">BBhiB").pack(0, 0, known.acks, known.timeout_ms, 2)
    body += known.topic_id if version >= _TOPIC_IDS else bytes((len(name) + 1,)) + name
    return head + body + Struct(">Bi").pack(2, known.partition)


# The answer to one partition without explanations, as one format:
#
# to v8      length i32, correlation_id i32, count i32, name length i16, name | count i32, index i32, error i16,
#            base_offset i64, log_append_time i64, log_start_offset i64 (v5 on), record_errors i32, error_message i16
#            (v8) | throttle_time i32
# from v9    length i32, correlation_id i32, tags u8, count u8, name length u8, name (v13: id) | count u8, index i32,
#            error i16, base_offset i64, log_append_time i64, log_start_offset i64, record_errors u8, error_message u8,
#            tags u8 | tags u8, throttle_time i32, tags u8
Pack = Callable[..., bytes]
_packs: Final[dict[tuple[int, int], tuple[Pack, int]]] = {}


def answer(version: int, correlation_id: int, response: ProduceResponse) -> list[Buffer] | None:
    """The frame of an answer that is laid flat, else None. Never raises."""
    if not isinstance(response, OneBatchResponse):
        return None
    try:
        by_id = version >= _TOPIC_IDS
        name = response.topic_id if by_id else response.name.encode()
        size = len(name)
        pack, length = _packs.get((version, size)) or _packer(version, size)
        index, code, offset = response.index, response.error_code, response.base_offset
        append_ms, start = response.log_append_time_ms, response.log_start_offset
        throttle_ms = response.throttle_time_ms
        # Written out: passing values on as a list costs as much as packing them.
        if version < _LOG_START:
            data = pack(length, correlation_id, 1, size, name, 1, index, code, offset, append_ms, throttle_ms)
        elif version < _FIELDS_OF_V8:
            data = pack(length, correlation_id, 1, size, name, 1, index, code, offset, append_ms, start, throttle_ms)
        elif version < _FLEXIBLE:
            data = pack(
                length, correlation_id, 1, size, name, 1, index, code, offset, append_ms, start, 0, -1, throttle_ms
            )
        elif by_id:
            data = pack(
                length, correlation_id, 0, 2, name, 2, index, code, offset, append_ms, start, 1, 0, 0, 0, throttle_ms, 0
            )
        else:
            data = pack(
                length, correlation_id, 0, 2, size + 1, name, 2, index, code, offset, append_ms, start, 1, 0, 0, 0,
                throttle_ms, 0,
            )  # fmt: skip
        return [data]
    except (error, AttributeError, TypeError, ValueError):
        return None  # what the compiled encoder refuses in its own words


def _packer(version: int, size: int) -> tuple[Pack, int]:
    """The format for a name (or id) of `size` bytes, and the length that the frame announces.

    Raises:
        ValueError: a name that is too long for a topic or a compact length of one byte, or an id of another length.
    """
    if version < _FLEXIBLE and size <= _TOPIC_NAME_MAX:
        form = f">iiih{size}siihqq{'q' if version >= _LOG_START else ''}{'ih' if version >= _FIELDS_OF_V8 else ''}i"
    elif version >= _FLEXIBLE and (size == _ID_BYTES if version >= _TOPIC_IDS else size <= _NAME_MAX):
        form = f">iiBB{'' if version >= _TOPIC_IDS else 'B'}{size}sBihqqqBBBBiB"
    else:
        raise ValueError
    made = Struct(form)
    found = _packs[version, size] = made.pack, made.size - 4
    return found
