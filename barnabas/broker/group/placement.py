"""Which partition of `__consumer_offsets` a group belongs to. Source: `GroupCoordinatorService.partitionFor`."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

KEPT_LENGTH_MAX: Final = 255
"""Of ids of so many characters at most it is kept where they belong: every request of a member asks for it."""

_MASK: Final = 0xFFFFFFFF
_MIN: Final = 0x80000000


def java_hash(text: str) -> int:
    """`String.hashCode` of Java: 32 bits, signed, over the UTF-16 form."""
    result = 0
    if text.isascii():
        for unit in text.encode():
            result = (result * 31 + unit) & _MASK
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        for at in range(0, len(units), 2):
            result = (result * 31 + (units[at] << 8 | units[at + 1])) & _MASK
    return result - (1 << 32) if result & _MIN else result


def partition_of(group_id: str, partitions: int) -> int:
    """The partition of a group among so many; the one number without an absolute value in Java counts as zero."""
    return _kept(group_id, partitions) if len(group_id) <= KEPT_LENGTH_MAX else _computed(group_id, partitions)


def _computed(group_id: str, partitions: int) -> int:
    number = java_hash(group_id)
    return 0 if number == -_MIN else abs(number) % partitions


_kept: Final = lru_cache(maxsize=4096)(_computed)
