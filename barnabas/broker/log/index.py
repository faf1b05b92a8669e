"""The two sparse indexes of a segment, in Kafka's formats (OffsetIndex, TimeIndex).

    .index      8 bytes:  offset - base i32 | position i32          (last offset of a batch, where the batch starts)
    .timeindex  12 bytes: timestamp i64 ms | offset - base i32      (largest timestamp so far, and where it was)

An index is a run of bytes in memory: grown by the active segment and written out when that is sealed or flushed at a
clean shutdown; for an older segment a leased view of its file, taken at the first lookup. What is not on disk yet can
always be rebuilt from the segment, and is, because the recovery point only moves past a segment together with its
indexes.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import Final

from barnabas.protocol.ids import Buffer

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
OFFSET_ENTRY_SIZE: Final = 8
TIME_ENTRY_SIZE: Final = 12


class OffsetIndex:
    """Offsets to positions."""

    __slots__ = ("base", "data", "last_offset")

    def __init__(self, base: int, data: Buffer = b"") -> None:
        self.base = base
        self.data: Buffer = data
        self.last_offset = base + _INT.unpack_from(data, len(data) - OFFSET_ENTRY_SIZE)[0] if len(data) else -1

    def __len__(self) -> int:
        return len(self.data) // OFFSET_ENTRY_SIZE

    def append(self, offset: int, position: int) -> None:
        """Add an entry; `offset` and `position` rise."""
        if not isinstance(self.data, bytearray):
            self.data = bytearray(self.data)
        self.data += _OFFSET_ENTRY.pack(offset - self.base, position)
        self.last_offset = offset

    def lookup(self, offset: int, back: int = 0) -> int:
        """Position of the entry with the greatest offset not above `offset`, or of one before; 0 if there is none."""
        data = self.data
        unpack = _INT.unpack_from
        count = len(data) // OFFSET_ENTRY_SIZE
        index = bisect_right(range(count), offset - self.base, key=lambda i: unpack(data, i * OFFSET_ENTRY_SIZE)[0])
        index = max(index - back, 0)
        return int(unpack(data, index * OFFSET_ENTRY_SIZE - 4)[0]) if index else 0

    def truncate(self, offset: int) -> None:
        """Drop entries at or above `offset`."""
        if self.last_offset < offset:
            return
        data = self.data
        unpack = _INT.unpack_from
        count = bisect_right(
            range(len(self)), offset - self.base - 1, key=lambda i: unpack(data, i * OFFSET_ENTRY_SIZE)[0]
        )
        self.data = bytearray(data[: count * OFFSET_ENTRY_SIZE])
        self.last_offset = self.base + unpack(self.data, len(self.data) - OFFSET_ENTRY_SIZE)[0] if count else -1


class TimeIndex:
    """Timestamps to offsets. Both rise strictly from entry to entry."""

    __slots__ = ("base", "data", "last_offset", "last_timestamp")

    def __init__(self, base: int, data: Buffer = b"") -> None:
        self.base = base
        self.data: Buffer = data
        self.last_timestamp = -1
        self.last_offset = base
        self._read_last()

    def __len__(self) -> int:
        return len(self.data) // TIME_ENTRY_SIZE

    def _read_last(self) -> None:
        if len(self.data) >= TIME_ENTRY_SIZE:
            timestamp, offset = _TIME_ENTRY.unpack_from(self.data, len(self.data) - TIME_ENTRY_SIZE)
            self.last_timestamp, self.last_offset = timestamp, self.base + offset
        else:
            self.last_timestamp, self.last_offset = -1, self.base

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if the timestamp is larger than all before."""
        if timestamp <= self.last_timestamp:
            return
        if not isinstance(self.data, bytearray):
            self.data = bytearray(self.data)
        self.data += _TIME_ENTRY.pack(timestamp, offset - self.base)
        self.last_timestamp = timestamp
        self.last_offset = offset

    def entry(self, timestamp: int) -> tuple[int, int] | None:
        """Timestamp and offset of the entry with the greatest timestamp not above `timestamp`."""
        data = self.data
        unpack = _LONG.unpack_from
        count = len(data) // TIME_ENTRY_SIZE
        index = bisect_right(range(count), timestamp, key=lambda i: unpack(data, i * TIME_ENTRY_SIZE)[0])
        if not index:
            return None
        found, offset = _TIME_ENTRY.unpack_from(data, (index - 1) * TIME_ENTRY_SIZE)
        return found, self.base + offset

    def truncate(self, offset: int) -> None:
        """Drop entries at or above `offset`."""
        data = self.data
        unpack = _INT.unpack_from
        count = bisect_right(
            range(len(self)), offset - self.base - 1, key=lambda i: unpack(data, i * TIME_ENTRY_SIZE + 8)[0]
        )
        if count < len(self):
            self.data = bytearray(data[: count * TIME_ENTRY_SIZE])
            self._read_last()
