"""A shorter way for requests that say the same again and again: heartbeats of both protocols, and who joins nameless.

    api_key i16, version i16, correlation_id i32 | client_id ... the end      looked up as bytes

The same bytes are the same request, save the correlation id. A member says between two rebalances always the same, and
those who start a group together say the same, too, until each has an id. A request that is kept is changed by nobody,
looks into no frame (only records do), and is small: who says more (what it has, what it wants) is decoded as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from barnabas.protocol.api import ApiKey, RequestHeader

FRAMES_MAX: Final = 4096
"""Of each API and version; then all are forgotten."""
FRAME_BYTES_MAX: Final = 256

_new: Final = object.__new__


class Said:
    """What was said of one API, by version and bytes."""

    __slots__ = ("_key", "_tables", "_worth")

    def __init__(self, key: int) -> None:
        self._key = key
        self._worth = _WORTH[key]
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
        table = self._tables.setdefault(header.api_version, {})
        if len(table) >= FRAMES_MAX:
            table.clear()
        table[frame[8:].tobytes()] = header.client_id, request


def _is_nameless(request: Any) -> bool:
    return not request.member_id and request.group_instance_id is None


def _says_nothing(request: Any) -> bool:
    return request.subscribed_topic_names is None and request.topic_partitions is None


_WORTH: Final[dict[int, Callable[[Any], bool]]] = {
    ApiKey.JOIN_GROUP: _is_nameless,
    ApiKey.HEARTBEAT: lambda request: True,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _says_nothing,
}
