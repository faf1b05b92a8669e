"""Kafka's murmur2 of all keys of a column at once; `partitioner.murmur2` is the same for one key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995


def murmur2_of(keys: pa.Array) -> NDArray[np.int64]:
    """The hash of each key of a binary array as a number from 0 to 2^32 - 1; that of a null means nothing."""
    import numpy as np

    _, offsets, data = keys.buffers()
    ends = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    starts, lengths = ends[:-1], np.diff(ends)
    stored = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    raw = np.concatenate((stored, np.zeros(4, np.uint8)))  # four bytes are read wherever a key's last begin
    m = np.uint32(_M)
    hashed = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    at = 0
    rows = np.flatnonzero(lengths >= 4)
    while len(rows):
        k = _four_bytes(raw, starts[rows] + at) * m
        hashed[rows] = (hashed[rows] * m) ^ ((k ^ (k >> np.uint32(24))) * m)
        at += 4
        rows = rows[lengths[rows] >= at + 4]
    over = (lengths & 3).astype(np.uint32)
    rows = np.flatnonzero(over)
    last = _four_bytes(raw, starts[rows] + (lengths[rows] & ~3))
    mask = (np.uint32(1) << (over[rows] * np.uint32(8))) - np.uint32(1)
    hashed[rows] = (hashed[rows] ^ (last & mask)) * m
    hashed = (hashed ^ (hashed >> np.uint32(13))) * m
    return (hashed ^ (hashed >> np.uint32(15))).astype(np.int64)


def _four_bytes(raw: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Those from each place on, as little-endian numbers."""
    import numpy as np

    found = raw[at].astype(np.uint32)
    for index in (1, 2, 3):
        found |= raw[at + index].astype(np.uint32) << np.uint32(8 * index)
    return found
