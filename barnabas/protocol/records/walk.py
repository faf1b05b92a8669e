"""Looking at every record of a batch without building one: what a broker has to know before it lets a batch in."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.protocol.batch import BatchHeader
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.records.decode import read_record


class Walked(NamedTuple):
    """What the records of a batch are like.

    Timestamps relative to the batch's (ms; of no records the smallest is above the largest), how many have no key, and
    whether offsets go on by one from the batch's.
    """

    smallest_delta: int
    largest_delta: int
    null_keys: int
    in_order: bool


def walk_area(area: bytes, header: BatchHeader) -> Walked:
    """Check each record of a decompressed record area, in the way of `decode_area` (offset deltas of three bytes, too).

    Raises:
        ProtocolError: anything but exactly the announced records.
    """
    size = len(area)
    smallest, largest = 2**63 - 1, -(2**63)
    null_keys = end = 0
    in_order = True
    for index in range(header.record_count):
        start = end
        p = start + 2
        try:
            n = area[start]
            if n > 127:
                n = n & 127 | area[p - 1] << 7
                p += 1
            end = p - 1 + (n >> 1)
            t = area[p]
            p += 1
            if t > 127:
                t = t & 127 | area[p] << 7
                p += 1
            d = area[p]
            p += 1
            if d > 127:
                d = d & 127 | area[p] << 7
                p += 1
                if d > 16383:  # offsets above 8191
                    d = d & 16383 | area[p] << 14
                    p += 1
            k = area[p]
            if k == 1:
                p += 1
            elif k < 128:
                p += 1 + (k >> 1)
            else:
                k = k & 127 | area[p + 1] << 7
                p += 2 + (k >> 1)
            v = area[p]
            if v == 1:
                p += 1
                v = 0
            elif v < 128:
                p += 1 + (v >> 1)
            else:
                v = v & 127 | area[p + 1] << 7
                p += 2 + (v >> 1)
            odd = n | t | v | (k if k != 1 else 0)
            ordinary = p + 1 == end <= size and odd < 16384 and d < 2097152 and not (odd | d) & 1 and area[p] == 0
        except IndexError:
            ordinary = False
        if ordinary:
            t >>= 1
            d >>= 1
            if k == 1:
                null_keys += 1
        else:
            t, d, key, _, _, end = read_record(area, start)
            null_keys += key is None
        smallest = t if t < smallest else smallest
        largest = t if t > largest else largest
        in_order = in_order and d == index
    if end != size:
        raise ProtocolError(f"{size - end} bytes follow the last of {header.record_count} records")
    return Walked(smallest, largest, null_keys, in_order)
