"""Where the records of many batches stand, and their varints, with numpy: no Python step per record where it can be.

A record's place follows from the lengths of those before it, which wants a loop (0.1 us a record). Two guesses avoid
it: records in a row of one length stand at one distance, and a batch is built like the beginning of a longer one. The
guesses are checked for all records at once: each must end where the next one begins, the last where its batch ends.

numpy is imported on first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.ids import Buffer
from barnabas.protocol.primitives import read_varint
from barnabas.protocol.records import RECORD_SIZE_MIN

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

RUN_RECORDS_MIN: Final = 32
"""Testing for records of one length pays from about this many on."""

VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10


def find_records(
    data: bytes | bytearray, places: Sequence[int], counts: Sequence[int], sizes: Sequence[int]
) -> tuple[Ints, Ints]:
    """Where each record's attributes stand and where it ends.

    Args:
        data: what holds the record areas of the batches.
        places: where each area begins.
        counts: each batch's number of records, 1 or more.
        sizes: each area's bytes.

    Raises:
        ProtocolError: the lengths do not lead to the end of their batch.
        IndexError: they lead out of the data.
    """
    found = _all_records(data, places, counts, sizes, guess=True) or _all_records(
        data, places, counts, sizes, guess=False
    )
    if found is None:
        raise ProtocolError("the lengths of its records do not lead to the end of a batch")
    return found


def _all_records(
    data: bytes | bytearray, places: Sequence[int], counts: Sequence[int], sizes: Sequence[int], *, guess: bool
) -> tuple[Ints, Ints] | None:
    """Starts and ends of all records, None when they do not form chains (or the guess was wrong)."""
    import numpy as np

    raw = np.frombuffer(data, np.uint8)
    longest: Ints = np.zeros(0, np.int64)  # the places of the most records so far in one batch, and where they end
    shapes: list[Ints] = []
    for at, count, size in zip(places, counts, sizes, strict=True):
        if guess and count < len(longest) and longest[count] == size:
            shapes.append(longest[:count])
        else:
            shape, _ = _scan(data, raw, at, at + size, count)
            shapes.append(shape)
            if count >= len(longest):
                longest = np.append(shape, size)
    bases = np.array(places, np.int64)
    heads = np.concatenate(shapes) + np.repeat(bases, counts)
    try:
        length, starts = varints(raw, heads, VARINT_BYTES_MAX)
    except IndexError:
        return None
    ends = starts + length
    due = np.empty_like(ends)  # where the next one begins, or the batch ends
    due[:-1] = heads[1:]
    due[np.cumsum(counts) - 1] = bases + sizes
    chained = bool((ends == due).all())
    return (starts, ends) if chained and int(length.min()) >= RECORD_SIZE_MIN - 1 else None


def pieces(data: Buffer, count: int, count_max: int) -> Iterator[tuple[int, int, int]]:
    """Cuts a record area into pieces of at most `count_max` records: where each begins and ends, and its records.

    Raises:
        IndexError: the lengths lead out of the data.
    """
    import numpy as np

    raw = np.frombuffer(data, np.uint8)
    start = 0
    while count > count_max:
        _, end = _scan(data, raw, start, len(data), count_max)
        if end > len(data):
            raise IndexError
        yield start, end, count_max
        start = end
        count -= count_max
    yield start, len(data), count


def _scan(data: Buffer, raw: NDArray[np.uint8], at: int, limit: int, count: int) -> tuple[Ints, int]:
    """Where the next `count` records start, counted from the first one, and where the last of them ends.

    Looks for runs of one length, walks where there are none, and looks again after ever more records.
    """
    import numpy as np

    base, left, block = at, count, RUN_RECORDS_MIN
    found: list[Ints] = []
    while left:
        if left >= RUN_RECORDS_MIN:
            run, step = _equal_run(data, raw, at, limit, left)
            if run >= RUN_RECORDS_MIN:
                found.append(np.arange(at, at + run * step, step, dtype=np.int64))
                at += run * step
                left -= run
                continue
        share = min(left, block)
        walked: list[int] = []
        at = _walk(data, at, share, walked)
        found.append(np.array(walked, np.int64))
        left -= share
        block *= 2
    return (found[0] if len(found) == 1 else np.concatenate(found)) - base, at


def _equal_run(data: Buffer, raw: NDArray[np.uint8], at: int, limit: int, count: int) -> tuple[int, int]:
    """How many records from `at` on have the length of the first one, and the distance between them."""
    import numpy as np

    first, second = data[at], data[at + 1]
    step = (first >> 1) + 1 if first < 128 else (first >> 1) + (second << 6) - 62
    last = at + (RUN_RECORDS_MIN - 1) * step
    if step < 1 or last >= limit or data[at + step] != first or data[last] != first:
        return 0, 0  # nearly always so where lengths differ, and cheaper than numpy
    if first < 128:
        same = raw[at : min(at + step * count, limit) : step] == first
    elif second < 128:
        same = raw[at : min(at + step * count, limit - 1) : step] == first
        same &= raw[at + 1 : min(at + 1 + step * count, limit) : step] == second
    else:
        return 0, 0  # records of 8 KiB and more: so few that walking costs nothing
    return (len(same) if same.all() else int(np.argmin(same))), step


def _walk(data: Buffer, at: int, count: int, starts: list[int]) -> int:
    """Adds the starts of the next `count` records, from length to length (0.1 us a record); returns the end."""
    add = starts.append
    for _ in range(count):
        add(at)
        byte = data[at]
        if byte < 128:
            at += (byte >> 1) + 1
            continue
        second = data[at + 1]
        if second < 128:
            at += (byte >> 1) + (second << 6) - 62
            continue
        length, after = read_varint(data, at)
        if length < 0:
            raise IndexError
        at = after + length
    return at


def varints(raw: NDArray[np.uint8], at: Ints, bytes_max: int) -> tuple[Ints, Ints]:
    """Reads the zig-zag varint at every position: values, and the positions behind them.

    The first two bytes are read of all varints at once (nearly all end there), round k after that reads byte k of those
    that go on. The last byte of a varint of 32 or 64 bits has room for few of its seven: more is an overflow.

    Raises:
        IndexError: a varint is too long, or runs past the end of the data.
    """
    import numpy as np

    byte = raw[at]
    after = at + 1
    if not len(byte) or byte.max() < 128:
        return _zigzag().take(byte), after
    more = byte > 127
    second = raw.take(after, mode="clip")  # what ends with its first byte may stand at the very end
    value = (byte & 127).astype(np.uint64)
    value |= np.where(more, second & 127, 0).astype(np.uint64) << np.uint64(7)
    after += more
    left = np.flatnonzero(more & (second > 127))
    if len(left):
        last_shift, last_max = 7 * (bytes_max - 1), 15 if bytes_max == VARINT_BYTES_MAX else 1
        shift = 14
        while len(left):
            byte = raw[after[left]]
            if shift == last_shift and (byte > last_max).any():
                raise IndexError
            value[left] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
            after[left] += 1
            left = left[byte > 127]
            shift += 7
    one = np.uint64(1)
    return (value >> one).view(np.int64) ^ -(value & one).view(np.int64), after


@lru_cache
def _zigzag() -> Ints:
    """What each varint of one byte means."""
    import numpy as np

    plain = np.arange(128, dtype=np.int64)
    return (plain >> 1) ^ -(plain & 1)
