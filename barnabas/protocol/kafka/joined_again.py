"""A shorter way for JoinGroup and SyncGroup: who come to a group together say the same, save for who they are.

    api_key i16, version i16, correlation_id i32 | client_id ... | member id | ... the end
                                                   `before`                    `behind`, both looked up as bytes

What stands around the member id was decoded once; the same bytes around another id mean the same of another member, for
the decoder reads from left to right, and what it finds before the id says where that begins: client id, group id, and
numbers of a known size. So a member that is told its id, and comes again with it, is recognised, and so are all others.
A SyncGroup that brings assignments is decoded as any other. What is kept is changed by nobody and looks into no frame.

The answer without members (to all but the leader, and errors) is put together of what all are told and what one is:

    JoinGroup v2    length i32, correlation_id i32, throttle_time i32, error i16, generation i32 |
                    protocol string, leader string | member id string, no members i32 = 0
              v6    tags u8 behind the correlation id, compact strings, no members u8 = 1, tags u8
              v7    type of the protocol before its name, both may be null
              v9    no skipping u8 behind the leader
    SyncGroup v1    length i32, correlation_id i32, throttle_time i32, error i16 | assignment bytes
              v4    tags u8 behind the correlation id, assignment compact bytes, tags u8
              v5    type of the protocol, and its name, before the assignment; both may be null
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct, error
from typing import Any, Final, NamedTuple, TypeAlias

from barnabas.protocol.api import ApiKey, RequestHeader
from barnabas.protocol.ids import Buffer
from barnabas.protocol.primitives import uvarint
from barnabas.protocol.requests.join_group import JoinGroupRequest
from barnabas.protocol.requests.sync_group import SyncGroupRequest

SURROUNDINGS_MAX: Final = 4096
"""Of each API, in all versions; then all are forgotten. What it takes counts for nobody."""
AROUND_BYTES_MAX: Final = 256
FRAME_BYTES_MAX: Final = 512

_COMPACT_MAX: Final = 126  # the length of a compact text takes one byte
_ID_MAX: Final = _COMPACT_MAX
_JOIN: Final = int(ApiKey.JOIN_GROUP)
_JOIN_FLEXIBLE: Final = 6
_SYNC_FLEXIBLE: Final = 4

_short_at: Final = Struct(">h").unpack_from
_new: Final = object.__new__

_Known: TypeAlias = tuple[str | None, Any]
"""Client, and what another has said."""


class _Around(NamedTuple):
    """What stands around an id in frames of one size: the id's length is the last of what is before it."""

    version: int
    before: bytes
    behind: bytes
    at: int
    end: int
    known: _Known


class SaidByAll:
    """What was said of one API, by version and by the bytes around the member id."""

    __slots__ = ("_as_said_by", "_between", "_count", "_flexible", "_key", "_last", "_tables")

    def __init__(self, key: int) -> None:
        joins = key == _JOIN
        self._key = key
        self._between = 8 if joins else 4  # bytes of the numbers between group and member; JoinGroup v0 has one
        self._flexible = _JOIN_FLEXIBLE if joins else _SYNC_FLEXIBLE
        self._as_said_by: Callable[[Any, str], Any] = _join_by if joins else _sync_by
        self._count = 0
        self._tables: dict[int, dict[tuple[bytes, bytes], _Known]] = {}
        self._last: dict[int, _Around] = {}
        """What was recalled last of that size: one group after the other comes together, its ids of one length."""

    def recall(
        self, frame: memoryview, version: int, correlation_id: int, client_id_length: int
    ) -> tuple[RequestHeader, Any] | None:
        """Header and request of a frame whose surroundings are known, else None. Never raises."""
        size = len(frame)
        last = self._last.get(size)
        if last is not None:
            said_in, before, behind, at, end, known = last
            data = frame[8:].tobytes()
        if last is None or said_in != version or not data.startswith(before) or not data.endswith(behind):
            if size > FRAME_BYTES_MAX:
                return None
            data = frame[8:].tobytes()
            last = self._find(data, version, client_id_length)
            if last is None:
                return None
            self._last[size] = last
            _, _, _, at, end, known = last
        try:
            member_id = str(data[at:end], "utf-8")
        except UnicodeDecodeError:
            return None
        header = _new(RequestHeader)  # made without `__init__`, as in `produce_again`
        header.client_id, said = known
        header.api_key, header.api_version, header.correlation_id = self._key, version, correlation_id
        return header, said if said.member_id == member_id else self._as_said_by(said, member_id)

    def _find(self, data: bytes, version: int, client_id_length: int) -> _Around | None:
        """What stands around an id, by where the numbers in the frame say that this is, if that is known."""
        table = self._tables.get(version)
        if table is None:
            return None
        start = 2 + client_id_length if client_id_length > 0 else 2
        try:
            if version < self._flexible:
                start += 2 + _short_at(data, start)[0] + (self._between if version else 4)
                at = start + 2
                end = at + _short_at(data, start)[0]
            else:
                start += 1 + data[start + 1] + self._between
                at = start + 1
                end = start + data[start]
        except (error, IndexError):
            return None
        known = table.get((data[:start], data[end:]))
        if known is None or not 0 <= end - at <= _ID_MAX:
            return None  # also where the id is not there at all: what is behind it may begin with a zero
        return _Around(version, data[:at], data[end:], at, end, known)

    def remember(self, frame: memoryview, header: RequestHeader, request: Any) -> None:
        """Keep what stands around the member id of a frame that the compiled decoder has read."""
        if self._key != _JOIN and request.assignments:
            return
        flexible = header.api_version >= self._flexible
        try:
            member_id, group_id = request.member_id.encode(), request.group_id.encode()
        except UnicodeEncodeError:
            return
        (length,) = _short_at(frame, 8)
        at = 10 + max(length, 0)
        before = at + 2 + len(group_id) + (self._between if header.api_version else 4)
        behind = before + (1 if flexible else 2) + len(member_id)
        if before - 8 + len(frame) - behind > AROUND_BYTES_MAX:
            return
        if flexible and (frame[at] or len(group_id) > _COMPACT_MAX or len(member_id) > _ID_MAX):
            return  # tags in the header, or a length of more than a byte
        if frame[behind - len(member_id) : behind] != member_id:
            return
        around = frame[8:before].tobytes(), frame[behind:].tobytes()
        if around in self._tables.get(header.api_version, ()):
            return
        if self._count >= SURROUNDINGS_MAX:
            self._tables.clear()
            self._last.clear()
            self._count = 0
        self._count += 1
        self._tables.setdefault(header.api_version, {})[around] = header.client_id, request


def _join_by(said: JoinGroupRequest, member_id: str) -> JoinGroupRequest:
    made = _new(JoinGroupRequest)
    made.group_id, made.member_id, made.group_instance_id = said.group_id, member_id, said.group_instance_id
    made.session_timeout_ms, made.rebalance_timeout_ms = said.session_timeout_ms, said.rebalance_timeout_ms
    made.protocol_type, made.protocols, made.reason = said.protocol_type, said.protocols, said.reason
    return made


def _sync_by(said: SyncGroupRequest, member_id: str) -> SyncGroupRequest:
    made = _new(SyncGroupRequest)
    made.group_id, made.member_id, made.group_instance_id = said.group_id, member_id, said.group_instance_id
    made.generation_id, made.assignments = said.generation_id, said.assignments
    made.protocol_type, made.protocol_name = said.protocol_type, said.protocol_name
    return made


_JOINED: Final = Struct(">iiihi").pack
_JOINED_FLEXIBLE: Final = Struct(">iiBihi").pack
_SYNCED: Final = Struct(">iiihi").pack
_SYNCED_FLEXIBLE: Final = Struct(">iiBih").pack
_TEXT: Final = Struct(">h").pack
_NOBODY: Final = bytes(4)
_NOBODY_FLEXIBLE: Final = b"\x01\x00"
_THROTTLED_JOIN_FROM: Final = 2
_TYPE_FROM: Final = 7
_SKIP_FROM: Final = 9
_THROTTLED_SYNC_FROM: Final = 1
_NAMES_FROM: Final = 5
_KEPT_LENGTH_MAX: Final = 255


def answer_join(version: int, correlation_id: int, response: Any) -> list[Buffer] | None:
    """The frame of an answer to JoinGroup that names no members; None where the compiled encoder has to say it.

    Never raises.
    """
    if response.members or version < _THROTTLED_JOIN_FROM:
        return None
    try:
        to_all = _joined(
            version, response.protocol_type, response.protocol_name, response.leader, response.skip_assignment
        )
        member_id = response.member_id.encode()
        size, told = len(member_id), len(to_all)
        throttle_ms, code, generation = response.throttle_time_ms, response.error_code, response.generation_id
        if version < _JOIN_FLEXIBLE:
            head = _JOINED(20 + told + size, correlation_id, throttle_ms, code, generation)
            return [b"".join((head, to_all, _TEXT(size), member_id, _NOBODY))]
        head = _JOINED_FLEXIBLE(18 + told + size, correlation_id, 0, throttle_ms, code, generation)
        return [b"".join((head, to_all, _SMALL[size], member_id, _NOBODY_FLEXIBLE))]
    except (error, ValueError, IndexError, AttributeError, TypeError):
        return None  # what the compiled encoder refuses in its own words


_SMALL: Final = [bytes((length + 1,)) for length in range(_COMPACT_MAX + 1)]
"""Lengths of compact texts."""


@lru_cache(maxsize=256)
def _joined(version: int, protocol_type: str | None, protocol: str | None, leader: str, skips: bool) -> bytes:
    """What all members of a generation are told alike.

    Raises:
        ValueError: longer than is worth to be kept, or what this version cannot say.
        IndexError: a compact length of more than a byte.
    """
    if skips and version < _SKIP_FROM:
        raise ValueError
    if version < _JOIN_FLEXIBLE:
        parts = [text for one in (protocol, leader) for text in _plain(one)]
    else:
        parts = [_compact(protocol_type)] if version >= _TYPE_FROM else []
        if protocol is None and version < _TYPE_FROM:
            raise ValueError
        parts += (_compact(protocol), _compact(leader))
        if version >= _SKIP_FROM:
            parts.append(bytes((skips,)))
    return b"".join(parts)


def _plain(text: str | None) -> tuple[bytes, bytes]:
    if text is None or len(text) > _KEPT_LENGTH_MAX:
        raise ValueError
    data = text.encode()
    return _TEXT(len(data)), data


def _compact(text: str | None) -> bytes:
    if text is None:
        return b"\x00"
    data = text.encode()
    return _SMALL[len(data)] + data


def answer_sync(version: int, correlation_id: int, response: Any) -> list[Buffer] | None:
    """The same of SyncGroup."""
    if version < _THROTTLED_SYNC_FROM:
        return None
    try:
        assignment = response.assignment
        size, throttle_ms, code = len(assignment), response.throttle_time_ms, response.error_code
        if version < _SYNC_FLEXIBLE:
            return [_SYNCED(14 + size, correlation_id, throttle_ms, code, size) + assignment]
        names = _names(response.protocol_type, response.protocol_name) if version >= _NAMES_FROM else b""
        length = uvarint(size + 1)
        head = _SYNCED_FLEXIBLE(12 + len(names) + len(length) + size, correlation_id, 0, throttle_ms, code)
        return [b"".join((head, names, length, assignment, b"\x00"))]
    except (error, ValueError, IndexError, AttributeError, TypeError):
        return None


@lru_cache(maxsize=256)
def _names(protocol_type: str | None, protocol: str | None) -> bytes:
    return _compact(protocol_type) + _compact(protocol)


ANSWERS: Final = {ApiKey.JOIN_GROUP: answer_join, ApiKey.SYNC_GROUP: answer_sync}
