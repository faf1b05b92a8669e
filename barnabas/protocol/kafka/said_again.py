"""A shorter way for requests that say the same again and again: heartbeats of both protocols.

    api_key i16, version i16, correlation_id i32 | client_id ... the end      looked up as bytes

The same bytes are the same request, save the correlation id. A member says between two rebalances always the same. A
request that is kept is changed by nobody, looks into no frame (only records do), and is small: a heartbeat that says
more (what its member has, what it wants) is decoded as any other.

The answer to a heartbeat that brings nothing but an error code, or an epoch, is one format:

    classic     length i32, correlation_id i32, throttle_time i32, error i16; from v4 tags u8 before and behind the two
    consumer    length i32, correlation_id i32, tags u8, throttle_time i32, error i16, no message u8 = 0,
                id length u8, id, epoch i32, interval i32, no assignment i8 = -1, tags u8
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, error
from typing import Any, Final

from barnabas.protocol.api import ApiKey, RequestHeader
from barnabas.protocol.ids import Buffer

FRAMES_MAX: Final = 4096
"""Of each API, in all versions; then all are forgotten. What it takes counts for nobody."""
FRAME_BYTES_MAX: Final = 256

_new: Final = object.__new__


class Said:
    """What was said of one API, by version and bytes."""

    __slots__ = ("_count", "_key", "_tables", "_worth")

    def __init__(self, key: int) -> None:
        self._key = key
        self._worth = _WORTH[key]
        self._count = 0
        self._tables: dict[int, dict[bytes, tuple[str | None, Any]]] = {}

    def recall(
        self, frame: memoryview, version: int, correlation_id: int, client_id_length: int
    ) -> tuple[RequestHeader, Any] | None:
        """Header and request of a frame that is known, else None. Never raises."""
        table = self._tables.get(version)
        if table is None or len(frame) > FRAME_BYTES_MAX:
            return None
        known = table.get(frame[8:].tobytes())
        if known is None:
            return None
        header = _new(RequestHeader)  # made without `__init__`, as in `produce_again`
        header.client_id, request = known
        header.api_key, header.api_version, header.correlation_id = self._key, version, correlation_id
        return header, request

    def remember(self, frame: memoryview, header: RequestHeader, request: Any) -> None:
        """Keep a frame that the compiled decoder has read, if it is likely to come again."""
        if len(frame) > FRAME_BYTES_MAX or not self._worth(request):
            return
        if self._count >= FRAMES_MAX:
            self._tables.clear()
            self._count = 0
        self._count += 1
        table = self._tables.setdefault(header.api_version, {})
        table[frame[8:].tobytes()] = header.client_id, request


def _says_nothing(request: Any) -> bool:
    return request.subscribed_topic_names is None and request.topic_partitions is None


_WORTH: Final[dict[int, Callable[[Any], bool]]] = {
    ApiKey.HEARTBEAT: lambda request: True,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _says_nothing,
}


_PLAIN: Final = Struct(">iiih").pack
_FLEXIBLE: Final = Struct(">iiBihB").pack
_PLAIN_FROM: Final = 1
_FLEXIBLE_FROM: Final = 4
_CONSUMER_LAST: Final = 1
_ID_MAX: Final = 126  # its compact length takes one byte
_forms: Final[dict[int, tuple[Callable[..., bytes], int]]] = {}


def answer_classic(version: int, correlation_id: int, response: Any) -> list[Buffer] | None:
    """The frame of an answer to Heartbeat; None where the compiled encoder has to say it. Never raises."""
    try:
        if version == _FLEXIBLE_FROM:
            return [_FLEXIBLE(12, correlation_id, 0, response.throttle_time_ms, response.error_code, 0)]
        if _PLAIN_FROM <= version < _FLEXIBLE_FROM:
            return [_PLAIN(10, correlation_id, response.throttle_time_ms, response.error_code)]
    except error:
        pass  # what the compiled encoder refuses in its own words
    return None


def answer_consumer(version: int, correlation_id: int, response: Any) -> list[Buffer] | None:
    """The same of ConsumerGroupHeartbeat, for who is told nothing but its epoch."""
    if (
        response.assignment is not None
        or response.error_message is not None
        or response.member_id is None
        or version > _CONSUMER_LAST
    ):
        return None
    try:
        name = response.member_id.encode()
        size = len(name)
        pack, length = _forms.get(size) or _form(size)
        code, epoch, interval_ms = response.error_code, response.member_epoch, response.heartbeat_interval_ms
        throttle_ms = response.throttle_time_ms
        return [pack(length, correlation_id, 0, throttle_ms, code, 0, size + 1, name, epoch, interval_ms, -1, 0)]
    except (error, ValueError):
        return None


def _form(size: int) -> tuple[Callable[..., bytes], int]:
    """The format for an id of so many bytes, and the length that the frame announces.

    Raises:
        ValueError: an id whose compact length takes more than a byte.
    """
    if size > _ID_MAX:
        raise ValueError
    made = Struct(f">iiBihBB{size}siibB")
    found = _forms[size] = made.pack, made.size - 4
    return found


ANSWERS: Final = {ApiKey.HEARTBEAT: answer_classic, ApiKey.CONSUMER_GROUP_HEARTBEAT: answer_consumer}
