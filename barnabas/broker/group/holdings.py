"""How much memory groups may take: they outlive the connections that brought them, so no connection can be charged.

All groups of a broker share `BYTES_MAX`; what one address brought may be half of it, so that others have room left. Who
is above that cannot add: JoinGroup is refused with GROUP_MAX_SIZE_REACHED, a commit for a partition that the group has
no offset of with INVALID_COMMIT_OFFSET_SIZE. What is there may go on: heartbeats, rejoining, later commits. What is
found in the log at a start is taken, whatever it adds up to. Apache Kafka has no such bounds.

Its two error codes say something else to whoever knows them from Kafka (a group that is full, metadata that is too
long), so the log says what it is: once, and again after something was given back.
"""

from __future__ import annotations

import logging
from typing import Final

BYTES_MAX: Final = 96 * 1024 * 1024
ADDRESS_BYTES_MAX: Final = BYTES_MAX // 2
MEMBERS_BYTES_MAX: Final = 10 * 1024 * 1024
"""Of all members of one group: its leader is told them all in one step. What one assigns by must fit into one batch
anyway (1 MiB by default), or the group is never stable."""

GROUP_BYTES: Final = 1400
"""A group without members (measured 670), its name, and what it grows to when it has some."""
MEMBER_BYTES: Final = 1400
"""A member with its alarm (measured 760), and its place in its group; names, protocols and assignment come on top."""
PENDING_BYTES: Final = 600
"""An id that was given out, and its alarm (measured 500, with the id)."""
OFFSET_BYTES: Final = 350
"""One committed offset (measured 230), and its place among others; its metadata comes on top."""
NAME_BYTES: Final = 130
"""A topic that a group consumes (measured 120), without its letters."""

_MIB: Final = 1024 * 1024
logger = logging.getLogger(__name__)


class Holdings:
    """What is held, in bytes: in all, and by the address that brought it ("" for what the log brought)."""

    __slots__ = ("_told", "by_address", "total")

    def __init__(self) -> None:
        self.total = 0
        self.by_address: dict[str, int] = {}
        self._told = False

    def room_for(self, address: str, size: int) -> bool:
        """Whether the address may bring so many bytes more; where not, who asks is refused."""
        own = self.by_address.get(address, 0)
        if self.total + size <= BYTES_MAX and (not address or own + size <= ADDRESS_BYTES_MAX):
            return True
        if not self._told:
            self._told = True
            logger.warning(
                "groups and what they committed take %.1f of %d MiB, of which %s brought %.1f of %d; members, groups "
                "and offsets that would add to it are refused (GROUP_MAX_SIZE_REACHED, INVALID_COMMIT_OFFSET_SIZE) "
                "until others leave, are deleted or expire",
                self.total / _MIB,
                BYTES_MAX // _MIB,
                address or "the log",
                own / _MIB,
                ADDRESS_BYTES_MAX // _MIB,
            )
        return False

    def leaves_half(self, address: str, size: int) -> bool:
        """Whether the address may bring so many bytes more that groups can do without, and others have half left."""
        return self.total + size <= BYTES_MAX // 2 and (
            not address or self.by_address.get(address, 0) + size <= ADDRESS_BYTES_MAX // 2
        )

    def take(self, address: str, size: int) -> None:
        """So many bytes more (fewer, if negative)."""
        if size < 0:
            self._told = False
        self.total += size
        left = self.by_address.get(address, 0) + size
        assert left >= 0, f"{address!r} gives back {-left} bytes more than it took"
        if left:
            self.by_address[address] = left
        else:
            self.by_address.pop(address, None)


def size_of_text(text: str) -> int:
    """Bytes that a text takes in memory, at most."""
    return len(text) if text.isascii() else 4 * len(text)
