"""Damage is never made whole: nothing gets a new sum whose old one was not checked, whoever rewrites it."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

import pytest

from barnabas.broker.config import TopicConfig
from barnabas.broker.log import Isolation
from barnabas.protocol.batch import HEADER_SIZE, read_header, set_crc
from barnabas.protocol.compression import compress
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import BatchBuilder
from tests.broker.log.harness import NOW, World, append, append_apart, batch, headers_in, manager_of
from tests.broker.log.test_compaction import COMPACT, clean, content, new_log, put

HOUR = 3_600_000


def damaged(data: bytearray, at: int) -> memoryview:
    data[at] ^= 1
    return memoryview(data)


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        ({}, {}),
        ({"message_timestamp_type": "LogAppendTime"}, {}),
        ({"compression_type": "zstd"}, {}),
        ({"compression_type": "uncompressed"}, {"codec": 4}),
        ({"message_timestamp_before_max_ms": HOUR}, {"timestamps": [NOW, NOW - 5]}),
        ({"cleanup_policy": COMPACT}, {}),
    ],
)
def test_what_a_client_sends_is_summed_up_before_anything_is_set_in_it(
    memory: World, settings: dict[str, Any], fields: dict[str, Any]
) -> None:
    for at in (-1, HEADER_SIZE + 9, 28, 40):
        log = memory.new_log(**settings)
        data = damaged(batch(b"one", b"two", **fields), at)
        with pytest.raises(KafkaError) as caught:
            log.append_as_leader(data, 0, now_ms=NOW)
        assert (caught.value.code, log.log_end_offset) == (ErrorCode.CORRUPT_MESSAGE, 0)


def test_what_a_leader_sends_is_summed_up_by_who_follows_it(memory: World) -> None:
    log = memory.new_log()
    with pytest.raises(KafkaError) as caught:
        log.append_as_follower(damaged(batch(b"one"), -1))
    assert (caught.value.code, log.log_end_offset) == (ErrorCode.CORRUPT_MESSAGE, 0)


def three_segments(memory: World) -> Any:
    """A log whose middle segment is going to be damaged: a b | a c d | a b | (active) z."""
    log = new_log(memory, delete_retention_ms=0)
    for keys in ((b"a", b"b"), (b"a", b"c", b"d"), (b"a", b"b")):
        for key in keys:
            put(log, key, b"%s%d" % (key, log.log_end_offset))
        log.roll(NOW)
    put(log, b"z", b"z")
    memory.settle()
    return log


MIDDLE = "t-0/00000000000000000002.log"


@pytest.mark.parametrize(
    ("at", "reason", "position"),
    [
        (-1, "its sum does not fit", 0),  # of the first batch: a record
        (60, "its sum does not fit", 0),  # its record count
        (7, "its offsets 2 to 2 are not within", 1),  # its base offset: shows in the batch after it
        (11, "no whole batch begins here", 1),  # its length
        (16, "no whole batch begins here", 0),  # its format
    ],
)
def test_a_segment_with_a_bad_batch_is_left_as_it_is_and_the_others_are_cleaned(
    memory: World, at: int, reason: str, position: int
) -> None:
    log = three_segments(memory)
    size = headers_in(memory.disk.load(MIDDLE))[0].size
    if at == 7:
        memory.disk.flip(MIDDLE, size + 7, 0)  # the second batch says 2, as the first does
    else:
        memory.disk.flip(MIDDLE, at if at >= 0 else size - 2, 0)
    before = memory.disk.load(MIDDLE)
    result = clean(memory, log)
    assert memory.disk.load(MIDDLE) == before, "served as it is, and refused by who reads it"
    (bad,) = result.bad
    assert (bad.file, bad.offset) == (MIDDLE, 3 if at == 11 else 2)
    assert bad.reason.startswith(reason)
    assert (bad.position > 0) == bool(position)
    assert (result.cleaned_to, result.segments_before, result.segments_after) == (7, 3, 3)
    first = memory.disk.load("t-0/00000000000000000000.log")
    assert [header.base_offset for header in headers_in(first)] == [], "a and b are newer in the last segment"
    assert len(headers_in(memory.disk.load("t-0/00000000000000000005.log"))) == 2
    memory.disk.flip(MIDDLE, size + 7 if at == 7 else at if at >= 0 else size - 2, 0)
    log.roll(NOW)
    put(log, b"z", b"z")
    assert clean(memory, log).bad == (), "once it is whole again it is cleaned"
    newest = {key: value for _, key, value in content(memory, log)}
    assert newest == {b"a": b"a5", b"b": b"b6", b"c": b"c3", b"d": b"d4", b"z": b"z"}


def test_what_only_a_bad_batch_replaces_stays(memory: World) -> None:
    log = new_log(memory)
    put(log, b"a", b"old")
    log.roll(NOW)
    put(log, b"a", b"unreadable")
    log.roll(NOW)
    put(log, b"z", b"z")
    memory.settle()
    memory.disk.flip("t-0/00000000000000000001.log", HEADER_SIZE + 9)
    assert len(clean(memory, log).bad) == 1
    first = memory.call(partial(log.read, 0, 1, Isolation.LOG_END)).records
    assert [header.record_count for header in headers_in(first)] == [1]


def test_a_tombstone_above_a_bad_segment_stays_for_what_that_may_hold(memory: World) -> None:
    for spoiled in (True, False):
        memory.disk.remove("t-0")
        log = new_log(memory, delete_retention_ms=0)
        put(log, b"a", b"value")
        put(log, b"b", b"value")
        log.roll(NOW)
        put(log, b"a", None)
        log.roll(NOW)
        put(log, b"z", b"z")
        memory.settle()
        if spoiled:
            memory.disk.flip("t-0/00000000000000000000.log", HEADER_SIZE + 9)
        for _ in range(3):
            clean(memory, log)
            log.roll(NOW)
            put(log, b"z", b"z")
        merged = [base for base in log.bases if base <= 2][-1]
        kept = [header.base_offset for header in headers_in(memory.disk.load(f"t-0/{merged:020}.log"))]
        assert (2 in kept) == spoiled


def malformed() -> bytearray:
    """A batch whose sum fits and whose last record has no end; 600 records, for more than one slice."""
    builder = BatchBuilder(1 << 20)
    for number in range(600):
        builder.try_append(NOW, b"key%d" % (number % 3), b"v")
    data = builder.build()
    data[-1] = 0x7F
    set_crc(data, 0, len(data))
    return data


def test_a_record_that_cannot_be_read_keeps_its_segment_and_what_it_would_replace(memory: World) -> None:
    log = new_log(memory)
    put(log, b"key0", b"old")
    log.roll(NOW)
    data = malformed()
    struct.pack_into(">q", data, 0, 1)
    log.append_as_follower(memoryview(data))
    log.advance_high_watermark(log.log_end_metadata)
    log.roll(NOW)
    put(log, b"z", b"z")
    result = clean(memory, log)
    (bad,) = result.bad
    assert bad.reason.startswith("it cannot be read: ")
    first = headers_in(memory.call(partial(log.read, 0, 1, Isolation.LOG_END)).records)
    assert [(header.base_offset, header.record_count) for header in first] == [(0, 1)]


def test_the_map_may_be_full_in_the_midst_of_a_batch(memory: World) -> None:
    log = new_log(memory)
    keys: list[bytes | None] = [b"%d" % (number % 40) for number in range(80)]
    append(log, *[b"%d" % number for number in range(80)], keys=keys)
    log.roll(NOW)
    put(log, b"z", b"z")
    ends = [clean(memory, log, keys_max=30).cleaned_to for _ in range(3)]
    assert ends == [30, 60, 80]
    log.roll(NOW)
    put(log, b"z", b"z")
    clean(memory, log)
    assert {key: int(value) for _, key, value in content(memory, log) if key != b"z"} == {
        b"%d" % key: 40 + key for key in range(40)
    }


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_large_batch_is_compressed_piece_by_piece(memory: World, codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snappy has no such form; the others never see more than a piece and a slice at a time."""
    whole: list[int] = []

    def counted(number: int, data: Any, level: int | None = None) -> Any:
        whole.append(len(data))
        return compress(number, data, level)

    log = new_log(memory)
    keys: list[bytes | None] = [b"%d" % (number % 3000) for number in range(6000)]
    append_apart(memory, log, *[b"%d" % number * 40 for number in range(6000)], keys=keys, codec=codec)
    log.roll(NOW)
    put(log, b"z", b"z")
    monkeypatch.setattr("barnabas.protocol.compression.compress", counted)
    monkeypatch.setattr("barnabas.protocol.records.build.compress", counted)
    clean(memory, log, keys_max=10_000)
    assert bool(whole) == (codec == 2)
    monkeypatch.undo()
    assert [offset for offset, _, _ in content(memory, log)] == list(range(3000, 6001))
    header = read_header(memory.call(partial(log.read, 0, 1, Isolation.LOG_END)).records)
    assert (header.record_count, header.compression) == (3000, codec)


def test_a_log_that_cannot_be_cleaned_keeps_no_other_from_its_turn(memory: World, caplog: Any) -> None:
    config = TopicConfig(cleanup_policy=COMPACT)
    manager = manager_of(memory, topic=config, log_cleaner_backoff_ms=1000)
    names = [TopicPartition(name, 0) for name in ("broken", "bad", "good")]
    for number, name in enumerate(names):
        log = manager.create(name, bytes([number + 1] * 16), config)
        for value in range(10 - number):
            put(log, b"a", b"%d" % value)
        log.roll(NOW)
        put(log, b"b", b"x")
    memory.settle()
    memory.disk.faults.bad_reads = {"broken-0/00000000000000000000.log"}
    memory.disk.flip("bad-0/00000000000000000000.log", HEADER_SIZE + 7)
    turns = [
        memory.run(manager.cleaner.turn(list(manager.logs.values()), now_ms, NOW))
        for now_ms in (0, 10, 20, 30, 2000, 2010)
    ]
    assert turns == [True, True, True, False, True, False]
    assert [manager.logs[name].cleaned_to for name in names] == [-1, 9, 8]
    assert manager.cleaner.uncleanable == 1
    (shown,) = manager.cleaner.snapshot()
    assert (shown["partition"], shown["position"], shown["offset"]) == ("bad-0", 0, 0)
    assert manager.losses.count == 1
    lines = [record.getMessage() for record in caplog.records]
    assert sum("broken-0 could not be compacted" in line for line in lines) == 1
    assert sum("bad-0: the batch at byte 0 is bad: its sum does not fit" in line for line in lines) == 1
    memory.disk.faults.bad_reads.clear()
    assert memory.run(manager.cleaner.turn(list(manager.logs.values()), 5000, NOW))
    assert manager.logs[names[0]].cleaned_to == 10
    bad = manager.logs[names[1]]
    for value in range(30):
        put(bad, b"a", b"%d" % value)
    bad.roll(NOW)
    put(bad, b"b", b"y")
    memory.settle()
    assert memory.run(manager.cleaner.turn(list(manager.logs.values()), 6000, NOW))
    assert bad.cleaned_to == 40, "it was looked at once more"
    lines = [record.getMessage() for record in caplog.records]
    assert sum("bad-0: the batch at byte 0 is bad" in line for line in lines) == 1, "and named once"
    assert (manager.cleaner.uncleanable, manager.losses.count) == (1, 1)
    manager.delete(names[1])
    assert manager.cleaner.uncleanable == 0
