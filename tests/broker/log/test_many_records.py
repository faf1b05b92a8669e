"""Batches that say, or hold, far more records than their bytes are worth."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from barnabas.broker.log import look
from barnabas.broker.log.look import ERRORS_MAX, Costly, look_apart
from barnabas.broker.log.types import InvalidRecord
from barnabas.protocol.batch import LOG_APPEND_TIME, RECORD_COUNT_AT, set_crc
from barnabas.protocol.compression import compress
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.records import RECORD_SIZE_MIN, BatchRewriter, Record, decode_slices_of
from tests.broker.log.harness import NOW, World, append_apart, batch, everything
from tests.broker.log.test_compaction import COMPACT, clean, put

MANY = 2**31 - 1


def counting(count: int, attributes: int = 0, area: bytes | None = None) -> memoryview:
    """A batch that says `count`, whatever its bytes are; the sum fits."""
    data = batch(b"v", attributes=attributes)
    if area is not None:
        data[61:] = area
        struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 23, count - 1)
    struct.pack_into(">i", data, RECORD_COUNT_AT, count)
    set_crc(data, 0, len(data))
    return memoryview(data)


@pytest.mark.parametrize("attributes", [0, LOG_APPEND_TIME])
@pytest.mark.parametrize(
    "settings",
    [{"message_timestamp_type": "LogAppendTime"}, {"cleanup_policy": COMPACT}, {"compression_type": "zstd"}],
)
def test_more_records_than_bytes_are_refused_before_anything_is_built(
    memory: World, settings: dict[str, Any], attributes: int
) -> None:
    log = memory.new_log(**settings)
    tracemalloc.start()
    try:
        with pytest.raises(Exception, match="counts 2147483647 records in") as caught:
            log.append_as_leader(counting(MANY, attributes), 0, now_ms=NOW)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()
    error: Any = caught.value
    assert (error.code, log.log_end_offset) == (ErrorCode.INVALID_RECORD, 0)


def test_a_compressed_batch_that_lies_gets_a_bounded_list_of_errors(memory: World) -> None:
    log = memory.new_log(message_timestamp_type="LogAppendTime")
    with pytest.raises(Exception, match="invalid timestamp") as caught:
        log.append_as_leader(counting(MANY, LOG_APPEND_TIME | 4, bytes(compress(4, b"\0" * 9))), 0, now_ms=NOW)
    error: Any = caught.value
    assert (error.code, len(error.record_errors)) == (ErrorCode.INVALID_TIMESTAMP, ERRORS_MAX)


COUNT = 8_000
TINY = b"".join(bytes((12, 0, 0, 0, 0, 1, 0)) for _ in range(COUNT))
"""Records of seven bytes with an empty key and no value, all at offset delta 0."""


@pytest.mark.parametrize("way", ["validate", "by time", "compact"])
def test_a_few_bytes_that_hold_many_records_never_become_a_list(memory: World, way: str) -> None:
    area = bytes(compress(4, TINY))
    assert len(area) < len(TINY) // 100
    assert len(TINY) == COUNT * RECORD_SIZE_MIN
    log = memory.new_log(cleanup_policy=COMPACT) if way == "compact" else memory.new_log()
    data = counting(COUNT, 4, area)
    if way != "validate":
        log.append_as_follower(data)
        log.advance_high_watermark(log.log_end_metadata)
        log.roll(NOW)
        put(log, b"z", b"z")
    tracemalloc.start()
    try:
        if way == "validate":
            with pytest.raises(Costly) as caught:
                log.append_as_leader(data, 0, now_ms=NOW, validate_full=True)
            with pytest.raises(Exception, match="wrong offsets"):
                memory.run(look_apart(caught.value, log.apart))
        elif way == "by time":
            # The header says that a record is young enough and none is: the whole batch is looked at.
            found = memory.call(lambda: log.offset_for_timestamp(NOW))
            assert found is not None
        else:
            assert clean(memory, log).bad == ()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Others' threads may take something, too: clients that tests before had left to themselves.
    assert peak < 6 * len(TINY) + 800_000 < 200 * COUNT, "as a list they take 200 bytes each"


@pytest.mark.parametrize("settings", [{"compression_type": "zstd"}, {"cleanup_policy": COMPACT}])
def test_records_that_are_written_anew_or_at_fault_are_objects_a_few_at_a_time(
    memory: World, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []

    def counted(*args: Any) -> Iterator[list[Record]]:
        for records in decode_slices_of(*args):
            sizes.append(len(records))
            yield records

    monkeypatch.setattr(look, "decode_slices_of", counted)
    log = memory.new_log(**settings)
    with suppress(InvalidRecord):  # a compacted topic wants keys
        append_apart(memory, log, *[b"v"] * COUNT, keys=[None] * COUNT)
    assert sum(sizes) == COUNT
    assert max(sizes) <= 500


@pytest.mark.parametrize(("codec", "most"), [("uncompressed", 2), ("snappy", 23)])
def test_what_is_too_large_however_it_is_packed_is_refused_before_it_is_held_twice(
    memory: World, codec: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it was written anew, and then measured."""
    added = []

    class Counting(BatchRewriter):
        __slots__ = ()

        def add(self, records: Iterable[Record]) -> None:
            added.append(records)
            super().add(records)

    monkeypatch.setattr(look, "BatchRewriter", Counting)
    log = memory.new_log(compression_type=codec)
    with pytest.raises(KafkaError, match=r"of at least 10[0-9]{5} bytes for t-0 exceeds max.message.bytes") as caught:
        append_apart(memory, log, *[bytes(1024 * 1024)] * 40, codec=4)
    assert (caught.value.code, log.log_end_offset) == (ErrorCode.MESSAGE_TOO_LARGE, 0)
    assert len(added) <= most
    fits = [bytes(1024 if codec == "snappy" else 400)] * 2001
    append_apart(memory, log, *fits, codec=4)
    assert [one.value for one in everything(memory, log)] == fits
