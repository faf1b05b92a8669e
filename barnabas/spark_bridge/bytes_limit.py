"""`maxBytesPerTrigger`: where a batch ends that may hold about so many bytes. Pure functions.

No request tells how many bytes lie between two offsets. The headers of the next batches do for these, exactly; what
lies behind them is taken to be like them. The limit is a soft one: each partition moves on by one batch at least, and
a log whose records suddenly grow is noticed when the next micro-batch is planned.

Bytes are counted as they lie in the log: compressed, with the headers of their batches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.client.sizes import BatchSize
from barnabas.protocol.ids import TopicPartition
from barnabas.spark_bridge.offsets import Offsets

Sizes = Mapping[TopicPartition, Sequence[BatchSize]]

SAMPLE_BYTES: Final = 64 * 1024
"""So much of each partition is looked at before a limited batch."""
_UNITS: Final = {None: 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_FORM: Final = re.compile(r"(\d{1,18})(?:b|([kmgt])b?)?")


def byte_count(text: str) -> int:
    """Bytes of a size as Spark spells it: `1000`, `64k`, `10m`, `1gb`.

    Raises:
        ValueError: it is no such size, or none at all; the text says what one looks like.
    """
    match = _FORM.fullmatch(text.strip().lower())
    if match is None or not int(match[1]):
        raise ValueError(f"{text!r} is no size of at least one byte: write 1000, 64k, 10m or 1g")
    return int(match[1]) * _UNITS[match[2]]


def bytes_between(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], sizes: Sizes) -> Offsets:
    """About how many bytes lie between two offsets of each partition."""
    usual = _usual(start, sizes)
    return {
        where: round(_bytes(start[where], end[where], sizes.get(where, ()), usual))
        for where in end
        if end[where] > start[where]
    }


def limit_bytes(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], bytes_max: int, sizes: Sizes
) -> Offsets:
    """The end offsets when about `bytes_max` may be read, in proportion to what each partition holds."""
    held = bytes_between(start, end, sizes)
    total = sum(held.values())
    if total <= bytes_max:
        return dict(end)
    usual = _usual(start, sizes)
    limited = dict(end)
    for where, size in held.items():
        share = bytes_max * size / total
        limited[where] = min(_within(start[where], share, sizes.get(where, ()), usual), end[where])
    return limited


def _usual(start: Mapping[TopicPartition, int], sizes: Sizes) -> float:
    """Bytes an offset takes in all that was looked at."""
    offsets = sum(found[-1].next_offset - start[where] for where, found in sizes.items() if found and where in start)
    return sum(each.bytes for found in sizes.values() for each in found) / offsets if offsets > 0 else 1.0


def _bytes(start: int, end: int, sizes: Sequence[BatchSize], usual: float) -> float:
    total = 0
    at = start
    for each in sizes:
        if at >= end:
            return total
        total += each.bytes
        at = each.next_offset
    return total + max(end - at, 0) * (total / (at - start) if at > start else usual)


def _within(start: int, share: float, sizes: Sequence[BatchSize], usual: float) -> int:
    """The offset behind what `share` bytes hold, one batch at least."""
    at, total = start, 0
    for each in sizes:
        if total + each.bytes > share and at > start:
            return at
        total += each.bytes
        at = each.next_offset
    rest = max(share - total, 0)
    return max(at + int(rest / (total / (at - start) if at > start else usual)), start + 1)
