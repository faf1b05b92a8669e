"""The walk over a batch sees what decoding sees, and refuses what decoding refuses."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.protocol.batch import BatchHeader, read_header
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.records import BatchBuilder, Walked, decode_area, record_area, walk_area


def area_of(seed: int) -> tuple[bytes, int]:
    chance = random.Random(seed)
    builder = BatchBuilder(1 << 24)
    for _ in range(chance.choice((1, 3, 70, 300, 300, 300, 9000))):
        key = None if chance.random() < 0.3 else bytes(chance.choice((0, 5, 70, 900)))
        value = None if chance.random() < 0.2 else bytes(chance.choice((0, 5, 63, 64, 200)))
        headers = (("name", b"value"),) if chance.random() < 0.1 else ()
        builder.try_append(1000 + chance.choice((0, 1, -5, 100, 10_000, 2**40)), key, value, headers)
    data = bytes(builder.build())
    return record_area(data, 0, read_header(data)), read_header(data).record_count


def header_of(count: int) -> BatchHeader:
    return read_header(bytes(61))._replace(record_count=count)


def expected(area: bytes, count: int) -> Walked:
    fields = decode_area(area, header_of(count), lambda *record: record[:5])
    times = [timestamp for _, timestamp, *_ in fields]
    in_order = [offset for offset, *_ in fields] == list(range(count))
    keys = sum(key is None for _, _, key, *_ in fields)
    return Walked(min(times), max(times), keys, in_order, count, sum(len(headers) for *_, headers in fields))


def said(look: Callable[..., Walked], *arguments: Any) -> Walked | str:
    try:
        return look(*arguments)
    except ProtocolError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(20))
def test_whole_and_damaged_areas(seed: int) -> None:
    area, count = area_of(seed)
    assert walk_area(area, header_of(count)) == expected(area, count)
    chance = random.Random(seed)
    for _ in range(12):
        spoiled = bytearray(area)
        spoiled[chance.randrange(min(len(area), 300))] ^= 1 << chance.randrange(8)
        if chance.random() < 0.2:
            del spoiled[chance.randrange(len(spoiled)) :]
        data = bytes(spoiled)
        assert said(walk_area, data, header_of(count)) == said(expected, data, count)
