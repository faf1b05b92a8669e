"""Memory: large pieces, of which a page is taken when it is first written, and what is kept for one reader alone."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from typing import Final

from barnabas.protocol.ids import Buffer


class Copied(bytearray):
    """Bytes of a file, copied for one reader."""

    __slots__ = ()


_OWN: Final = (bytes, Copied)


def own_bytes(buffers: Iterable[Buffer]) -> int:
    """What is kept for these answers alone (bytes).

    Records are views into maps of files, or into blocks that are there anyway, but for those that were copied out of a
    file or put together.
    """
    return sum(map(own_bytes_of, buffers))


def own_bytes_of(one: Buffer) -> int:
    """The same of one."""
    return len(one) if type(one) is not memoryview or type(one.obj) in _OWN else 0


def pages(size: int) -> mmap.mmap | bytearray:
    """`size` bytes of zeros, at one place. A `bytearray` takes all of them at once: 0.4 ms a MiB.

    Where the system has no room for another map it is one all the same.
    """
    try:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        return bytearray(size)
