"""One account of what the broker keeps in memory for others, in bytes, by holder and by kind.

    RECEIVED   bytes received and not handled yet
    REQUESTS   decoded requests that wait for their answer
    PARKED     what fetches that wait keep beside their request, by partition
    KEPT       fetch sessions: what outlives its request
    UNREAD     answers that the peer has not read, and what is read from the device for them

Beside it, each with a bound of its own, stands what is tied to no connection: producers (`producer_state`), settings
(`settings_room`), topics (the mutation quota), and caches of names (4,096 prefixes of requests, 4,096 topics). Not
counted are the system's pages, and of a connection 64 KiB of answers, 512 bytes of a request, 8 partitions that wait.

A holder is a connection, by its id; `BROKER` holds what is tied to none. Whole buffers and transitions are charged, not
what comes and goes within one event: a small request that is answered at once costs this account nothing. Whoever
charges releases the same bytes of the same holder and kind, once.

Two marks: above `low` memory is *short*, and the host stops reading from those who hold much; above `limit` it ends the
connections that hold most. Between them fits one largest frame, and what comes until the host has stopped reading, so
that one can always be finished (`host/relief.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

BROKER: Final = 0

RECEIVED: Final = "received"
REQUESTS: Final = "requests"
PARKED: Final = "parked"
KEPT: Final = "kept"
UNREAD: Final = "unread"
KINDS: Final = (RECEIVED, REQUESTS, PARKED, KEPT, UNREAD)

UNLIMITED: Final = 2**63


class Account:
    """What is held now, and where it becomes too much.

    Args:
        limit: bytes that may be held in all.
        frame_bytes_max: the largest frame (`socket.request.max.bytes`), for which there is to be room above `low`.
    """

    __slots__ = ("by_holder", "by_kind", "limit", "low", "on_released", "on_short", "total")

    def __init__(self, limit: int = UNLIMITED, frame_bytes_max: int = 0) -> None:
        self.limit = limit
        self.low = max(limit // 4, (limit - frame_bytes_max) * 3 // 4)
        self.total = 0
        self.by_kind: dict[str, int] = dict.fromkeys(KINDS, 0)
        self.by_holder: dict[int, int] = {}
        self.on_short: Callable[[], None] = _nothing
        """Called after every charge while memory is short."""
        self.on_released: Callable[[], None] | None = None
        """Called after every release, while somebody waits for room."""

    @property
    def short(self) -> bool:
        """Whether more is held than should be."""
        return self.total > self.low

    def charge(self, holder: int, kind: str, size: int) -> None:
        """`holder` keeps `size` bytes more."""
        self.total += size
        self.by_kind[kind] += size
        self.by_holder[holder] = self.by_holder.get(holder, 0) + size
        if self.total > self.low:
            self.on_short()

    def release(self, holder: int, kind: str, size: int) -> None:
        """`holder` keeps `size` bytes less."""
        left = self.by_holder.get(holder, 0) - size
        assert left >= 0, f"holder {holder} gives back {-left} bytes more than it was charged"
        self.total -= size
        self.by_kind[kind] -= size
        if left:
            self.by_holder[holder] = left
        else:
            self.by_holder.pop(holder, None)
        if self.on_released is not None:
            self.on_released()

    def change(self, holder: int, kind: str, before: int, after: int) -> int:
        """`holder` keeps `after` bytes of something, of which it kept `before`; returns `after`."""
        if before:
            self.release(holder, kind, before)
        if after:
            self.charge(holder, kind, after)
        return after

    def held_by(self, holder: int) -> int:
        """What `holder` keeps."""
        return self.by_holder.get(holder, 0)


def text_bytes(text: str) -> int:
    """What a text takes in memory, as CPython 3.11 lays it out: 1, 2 or 4 bytes a character, after a header.

    `sys.getsizeof` says another size in another release, one that grows where CPython keeps a text's UTF-8 with it, and
    none under PyPy. A bound is to be the same everywhere, and what is given back is to be what was charged.
    """
    if text.isascii():
        return 49 + len(text)
    highest = max(text)
    if highest < "\u0100":
        return 73 + len(text)
    return 74 + 2 * len(text) if highest < "\U00010000" else 76 + 4 * len(text)


def _nothing() -> None:
    """Nobody listens."""
