"""A shorter way for the commonest OffsetCommit: one partition without metadata, and its answer.

A member's commits of a partition differ in the correlation id, the offset and the leader epoch. What stands between the
first and the others was decoded once, by the compiled decoder; the same bytes again mean the same:

    api_key i16, version i16, correlation_id i32 | client_id ... partition index | offset i64, leader epoch i32, end
                                                   `prefix`, looked up as bytes

The end is an empty string, i16 before v8; from then on one byte of it, and three empty tagged sections. A prefix is
remembered if the whole frame is just what the compiled encoder writes for what was decoded, so that no other reading of
it is possible. Whatever differs from this shape in any way is left to the compiled functions, errors too.

Those of one member that lie behind each other have the same length, and are read as one table (`Said.again`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from struct import Struct, error
from typing import Any, Final, NamedTuple

from barnabas.protocol.api import VERSIONS, ApiKey, RequestHeader
from barnabas.protocol.ids import Buffer
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.offset_commit import OffsetCommitRequest, OneCommitRequest, OneCommitResponse

PREFIXES_MAX: Final = 4096
FRAME_BYTES_MAX: Final = 512

_FIRST: Final = 6  # before it no leader epoch is told
_LAST: Final = VERSIONS[ApiKey.OFFSET_COMMIT][1]
_FLEXIBLE: Final = 8
_TOPIC_IDS: Final = 10
_NAME_MAX: Final = 126  # its compact length takes one byte
_TOPIC_NAME_MAX: Final = 249  # longer ones are refused: no format is kept for them
_ID_BYTES: Final = 16
# offset | leader epoch | the end, which is the same in all of them
_PLAIN: Final = Struct(">qih")
_COMPACT: Final = Struct(">qii")
_COMPACT_END: Final = 0x01_00_00_00

_HEAD: Final = Struct(">ihh").pack
_new: Final = object.__new__


class Said(NamedTuple):
    """What a commit says, but for its offset, and the bytes that say so."""

    client_id: str | None
    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    name: str
    topic_id: bytes
    partition: int
    version: int
    prefix: bytes

    def again(self, behind: memoryview, most: int) -> tuple[list[tuple[int, int, int]], int]:
        """Correlation id, offset and leader epoch of those that `behind` begins with; see `SaidAgain`."""
        version, prefix = self.version, self.prefix
        length, read, end = _row(version >= _FLEXIBLE, len(prefix))
        size = 4 + length
        head = _HEAD(length, ApiKey.OFFSET_COMMIT, version)
        found = []
        for first, correlation_id, around, offset, leader_epoch, ended in read(
            behind[: min(len(behind) // size, most) * size]
        ):
            if first != head or around != prefix or ended != end:
                break
            found.append((correlation_id, offset, leader_epoch))
        return found, len(found) * size


_tables: Final[dict[int, dict[bytes, Said]]] = {version: {} for version in range(_FIRST, _LAST + 1)}


def recall(
    frame: memoryview, version: int, correlation_id: int, client_id_length: int
) -> tuple[RequestHeader, OffsetCommitRequest] | None:
    """Header and request if the frame's prefix is known, else None. Never raises."""
    size = len(frame)
    table = _tables.get(version)
    if table is None or size > FRAME_BYTES_MAX:
        return None
    at, tail, end = (size - 16, _COMPACT, _COMPACT_END) if version >= _FLEXIBLE else (size - 14, _PLAIN, 0)
    known = table.get(frame[8:at].tobytes()) if at > 8 else None
    if known is None:
        return None
    request, header = _new(OneCommitRequest), _new(RequestHeader)  # made without `__init__`, as in `produce_again`
    request.offset, request.leader_epoch, ended = tail.unpack_from(frame, at)
    if ended != end:
        return None
    (
        header.client_id,
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        request.name,
        request.topic_id,
        request.index,
        _,
        _,
    ) = request.said = known
    request.retention_time_ms = -1
    header.api_key, header.api_version, header.correlation_id = 8, version, correlation_id
    return header, request


def remember(frame: memoryview, header: RequestHeader, request: OffsetCommitRequest) -> None:
    """Keep the prefix of a frame that the compiled decoder has read, if it is of the common shape."""
    version = header.api_version
    topics = request.topics
    if version < _FIRST or len(frame) > FRAME_BYTES_MAX or len(topics) != 1 or len(topics[0].partitions) != 1:
        return
    topic, part = topics[0], topics[0].partitions[0]
    if part.committed_metadata != "":
        return
    common = codec.encode_request(ApiKey.OFFSET_COMMIT, version, header.correlation_id, header.client_id, request)
    if memoryview(b"".join(common))[4:] != frame:
        return
    table = _tables[version]
    if len(table) >= PREFIXES_MAX:
        table.clear()
    who = request.group_id, request.generation_id_or_member_epoch, request.member_id, request.group_instance_id
    prefix = frame[8 : len(frame) - (_COMPACT if version >= _FLEXIBLE else _PLAIN).size].tobytes()
    table[prefix] = Said(header.client_id, *who, topic.name, topic.topic_id, part.partition_index, version, prefix)


@lru_cache(maxsize=256)
def _row(flexible: bool, prefix_bytes: int) -> tuple[int, Callable[[memoryview], Iterator[tuple[Any, ...]]], int]:
    """A frame's length, what reads such frames that lie behind each other, and what each of them ends with.

    length i32, api_key i16, version i16 | correlation_id i32 | prefix | offset i64, leader epoch i32, end
    """
    tail, end = (_COMPACT, _COMPACT_END) if flexible else (_PLAIN, 0)
    form = Struct(f">8si{prefix_bytes}s{tail.format[1:]}")
    return form.size - 4, form.iter_unpack, end


# The answer for one partition as one format:
#
# to v7      length i32, correlation_id i32, throttle_time i32, count i32, name length i16, name | count i32, index i32,
#            error i16
# from v8    length i32, correlation_id i32, tags u8, throttle_time i32, count u8, name length u8, name (v10: id) |
#            count u8, index i32, error i16 | tags u8 of the partition, the topic, and the answer
Pack = Callable[..., bytes]
_packs: Final[dict[tuple[int, int], tuple[Pack, int]]] = {}


def answer(version: int, correlation_id: int, response: object) -> list[Buffer] | None:
    """The frame of an answer that is laid flat, else None. Never raises."""
    if type(response) is not OneCommitResponse:
        return None
    try:
        by_id = version >= _TOPIC_IDS
        name = response.topic_id if by_id else response.name.encode()
        size = len(name)
        pack, length = _packs.get((version, size)) or _packer(version, size)
        throttle_ms, index, code = response.throttle_time_ms, response.index, response.error_code
        if version < _FLEXIBLE:
            data = pack(length, correlation_id, throttle_ms, 1, size, name, 1, index, code)
        elif by_id:
            data = pack(length, correlation_id, 0, throttle_ms, 2, name, 2, index, code, 0, 0, 0)
        else:
            data = pack(length, correlation_id, 0, throttle_ms, 2, size + 1, name, 2, index, code, 0, 0, 0)
        return [data]
    except (error, AttributeError, TypeError, ValueError):
        return None  # what the compiled encoder refuses in its own words


def _packer(version: int, size: int) -> tuple[Pack, int]:
    """The format for a name (or id) of `size` bytes, and the length that the frame announces.

    Raises:
        ValueError: a name that is too long for a topic or a compact length of one byte, an id of another length, or a
            version without a short form.
    """
    if _FIRST <= version < _FLEXIBLE and size <= _TOPIC_NAME_MAX:
        form = f">iiiih{size}siih"
    elif _FLEXIBLE <= version <= _LAST and (size == _ID_BYTES if version >= _TOPIC_IDS else size <= _NAME_MAX):
        form = f">iiBiB{'' if version >= _TOPIC_IDS else 'B'}{size}sBihBBB"
    else:
        raise ValueError
    made = Struct(form)
    found = _packs[version, size] = made.pack, made.size - 4
    return found
