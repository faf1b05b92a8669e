"""The bytes of one file in memory, and how many of them a power failure leaves."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from barnabas.broker.pages import pages
from barnabas.protocol.ids import Buffer

BLOCK: Final = 4096
"""Bytes that a device writes as a whole; a block that was not written reads as zeros."""
_LARGEST_BLOCK: Final = 4 * 1024 * 1024
_JOINED: Final = 1024 * 1024
"""Bytes that a read of `some` copies together at most: 0.8 ms. A batch never lies in two blocks."""


class Named:
    """What stands in a directory (`above`; None: in none) under a name. Its path follows all who stand above it."""

    __slots__ = ("above", "name")

    def __init__(self, above: Named | None = None, name: str = "") -> None:
        self.above = above
        self.name = name

    @property
    def path(self) -> str:
        """Its name on the disk."""
        inside = "" if self.above is None else self.above.path
        return f"{inside}/{self.name}" if inside else self.name


class Content(Named):
    """A file's bytes in blocks that double in size and never move, so views of them stay good.

    Attributes:
        size: bytes there are.
        synced: how many of them the device holds for sure.
        before: what the device holds instead, if the file was cut since and no sync has covered that.
    """

    __slots__ = ("before", "blocks", "size", "starts", "synced", "tail_used")

    def __init__(self, data: Buffer = b"", synced: int = 0, above: Named | None = None, name: str = "") -> None:
        super().__init__(above, name)
        self.blocks: list[memoryview] = []
        self.starts: list[int] = []
        self.tail_used = 0  # bytes used in the last block
        self.size = 0
        self.synced = synced
        self.before: Content | None = None
        if data:
            self.append([data])

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Add bytes, which are copied."""
        for buffer in buffers:
            length = len(buffer)
            if not self.blocks or len(self.blocks[-1]) - self.tail_used < length:
                self._grow(length)
            used = self.tail_used
            self.blocks[-1][used : used + length] = buffer
            self.tail_used = used + length
            self.size += length

    def reserve(self, size: int) -> None:
        """The next `size` bytes lie in one block, however many pieces they come in."""
        if not self.blocks or len(self.blocks[-1]) - self.tail_used < size:
            self._grow(size)

    def _grow(self, length: int) -> None:
        """A batch stays in one block: what is left of the last one is given up."""
        if self.blocks:
            self.blocks[-1] = self.blocks[-1][: self.tail_used]
        block = max(min(max(BLOCK, self.size), _LARGEST_BLOCK), length)
        self.blocks.append(memoryview(pages(block) if block > _LARGEST_BLOCK else bytearray(block)))
        self.starts.append(self.size)
        self.tail_used = 0

    def view(self, position: int, length: int) -> memoryview:
        """Up to `length` bytes from `position`."""
        end = min(position + length, self.size)
        if position >= end:
            return memoryview(b"")
        index = bisect_right(self.starts, position) - 1
        start = self.starts[index]
        if index == len(self.starts) - 1 or end <= self.starts[index + 1]:
            return self.blocks[index][position - start : end - start].toreadonly()
        parts = []
        while position < end:
            start = self.starts[index]
            stop = min(end, self.starts[index + 1] if index + 1 < len(self.starts) else self.size)
            parts.append(self.blocks[index][position - start : stop - start])
            position = stop
            index += 1
        return memoryview(b"".join(parts))

    def some(self, position: int, length: int) -> memoryview:
        """As `view`, but of more than `_JOINED` bytes no more than lie together, or than whole blocks make so many."""
        starts = self.starts
        if length > _JOINED and position + _JOINED < self.size:
            ends = max(bisect_right(starts, position), bisect_right(starts, position + _JOINED) - 1)
            if ends < len(starts):
                length = min(length, starts[ends] - position)
        return self.view(position, length)

    def sync(self, size: int) -> None:
        """The device holds the first `size` bytes of what is there now."""
        self.synced = max(self.synced, min(size, self.size))
        self.before = None

    def cut(self, size: int, *, durably: bool) -> None:
        """Keep the first `size` bytes (views of the others stay readable); what is not cut `durably` may come back."""
        before = self.before if durably or self.before is not None else self.prefix(self.synced)
        self._take(self.prefix(size))
        self.before = before

    def flip(self, position: int, bit: int) -> None:
        """Turn one bit; views of the old bytes stay as they are."""
        data = bytearray(self.view(0, self.size))
        data[position] ^= 1 << bit
        self._take(Content(bytes(data), self.synced))

    def survive(self, size: int, uncut: bool, holes: Callable[[], bool]) -> None:
        """A power failure: `size` bytes are left, or what was there before the cut if it is `uncut`.

        Each block above the synced bytes reads as zeros where `holes()` says so: the device had not written it yet.
        """
        if uncut and self.before is not None:
            self._take(self.before)
            size = self.size
        data = bytearray(self.view(0, size))
        for block in range(self.synced - self.synced % BLOCK, size, BLOCK):
            if holes():
                start, end = max(block, self.synced), min(block + BLOCK, size)
                data[start:end] = bytes(end - start)
        self._take(Content(bytes(data), size))

    def prefix(self, size: int) -> Content:
        """A new content with the first `size` bytes."""
        return Content(bytes(self.view(0, size)), min(self.synced, size))

    def _take(self, other: Content) -> None:
        """Hold from now on what `other` holds; blocks are never changed below their end."""
        self.blocks, self.starts, self.tail_used = other.blocks, other.starts, other.tail_used
        self.size, self.synced, self.before = other.size, other.synced, None
