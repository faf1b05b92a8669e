"""Append: the order of checks, offsets, rolling, refusals that leave the log as it was."""

from __future__ import annotations

import struct

import pytest

from barnabas.broker.config import TopicConfig
from barnabas.broker.log import AppendOrigin, InvalidRecord, Isolation, Log
from barnabas.broker.log.look import level_of
from barnabas.broker.log.validate import Demands, demands, validate_client_batch
from barnabas.protocol.batch import (
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchHeader,
    batches,
    crc_ok,
    read_header,
    set_crc,
    write_header,
)
from barnabas.protocol.compression import Codec
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from tests.broker.log.harness import NOW, append, batch, everything, headers_in, records_in
from tests.protocol.placing import placed


def refused(log, data, **options):
    """The refusal, which is the same for a view as it comes from a connection and for other buffers."""
    before = (log.log_end_offset, log.size_bytes, log.high_watermark)
    said = []
    for buffer in (memoryview(bytearray(data)), data):
        with pytest.raises(KafkaError) as caught:
            log.append_as_leader(buffer, 0, now_ms=NOW, **options)
        assert (log.log_end_offset, log.size_bytes, log.high_watermark) == before
        said.append((type(caught.value), caught.value.code, caught.value.detail))
    assert said[0] == said[1]
    return caught.value


def patched(data, **fields):
    """The batch with header fields changed and the sum made right again."""
    write_header(data, 0, read_header(data)._replace(**fields))
    set_crc(data, 0, len(data))
    return data


def test_offsets_go_on_from_batch_to_batch(world):
    log = world.new_log()
    assert (append(log, b"a", b"b", b"c").first_offset, append(log, b"d").first_offset) == (0, 3)
    assert [r.value for r in everything(world, log)] == [b"a", b"b", b"c", b"d"]
    assert [r.offset for r in everything(world, log)] == [0, 1, 2, 3]
    assert log.log_end_offset == 4


def test_epoch_and_offset_are_written_into_the_batch(world):
    log = world.new_log()
    append(log, b"a", b"b")
    append(log, b"c", leader_epoch=7)
    stored = headers_in(world.call(lambda: log.read(0, 1 << 20, Isolation.LOG_END)).records)
    assert [(h.base_offset, h.leader_epoch) for h in stored] == [(0, 0), (2, 7)]


def test_a_readonly_buffer_and_a_list_of_buffers_are_taken(memory):
    log = memory.new_log()
    log.append_as_leader(bytes(batch(b"a")), 0, now_ms=NOW)
    data = batch(b"b")
    log.append_as_leader([data[:30], data[30:]], 0, now_ms=NOW)
    assert [r.value for r in everything(memory, log)] == [b"a", b"b"]


@pytest.mark.parametrize("data", [b"", b"\0" * 16, bytes(batch(b"abc"))[:-1]])
def test_no_complete_batch(memory, data):
    assert refused(memory.new_log(), data).code == ErrorCode.INVALID_RECORD


def test_two_batches(memory):
    assert refused(memory.new_log(), batch(b"a") + batch(b"b")).code == ErrorCode.INVALID_RECORD


def test_trailing_bytes_that_make_no_batch_are_ignored(memory):
    log = memory.new_log()
    log.append_as_leader(batch(b"a") + b"\0" * 40, 0, now_ms=NOW)
    assert log.size_bytes == len(batch(b"a"))


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats(memory, magic):
    data = batch(b"a")
    data[16] = magic
    assert refused(memory.new_log(), data).code == ErrorCode.INVALID_RECORD


def test_senseless_framing_is_corrupt(memory):
    log = memory.new_log()
    data = batch(b"a")
    data[16] = 3
    assert refused(log, data).code == ErrorCode.CORRUPT_MESSAGE
    for length in (-1, 0, 13, 40):
        data = batch(b"a")
        data[8:12] = length.to_bytes(4, "big", signed=True)
        assert refused(log, data).code == ErrorCode.CORRUPT_MESSAGE


def test_base_offset_must_be_zero_for_clients_only(memory):
    log = memory.new_log()
    assert refused(log, patched(batch(b"a"), base_offset=7)).code == ErrorCode.INVALID_RECORD
    log.append_as_leader(patched(batch(b"a"), base_offset=7), 0, now_ms=NOW, origin=AppendOrigin.COORDINATOR)
    assert log.log_end_offset == 1


def test_size_equal_to_the_limit_passes_and_one_more_does_not(memory):
    log = memory.new_log(max_message_bytes=1000)
    at_limit = batch(b"x" * (1000 - len(batch(b""))))
    while len(at_limit) > 1000:
        at_limit = batch(b"x" * (1000 - len(batch(b"")) - (len(at_limit) - 1000)))
    assert len(at_limit) == 1000
    assert refused(log, batch(b"x" * 1000)).code == ErrorCode.MESSAGE_TOO_LARGE
    log.append_as_leader(at_limit, 0, now_ms=NOW)


def test_size_is_judged_before_the_sum(memory):
    data = batch(b"x" * 1000)
    data[-1] ^= 1
    assert refused(memory.new_log(max_message_bytes=100), data).code == ErrorCode.MESSAGE_TOO_LARGE
    assert refused(memory.new_log(), data).code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    "fields",
    [
        {"record_count": 3},
        {"record_count": 0, "last_offset_delta": -1},
        {"attributes": CONTROL},
        {"producer_id": 5, "producer_epoch": 0, "base_sequence": -1},
    ],
)
def test_headers_no_client_may_send(memory, fields):
    assert refused(memory.new_log(), patched(batch(b"a", b"b"), **fields)).code == ErrorCode.INVALID_RECORD


def test_unknown_codecs_are_a_server_error(memory):
    for codec in (5, 6, 7):
        assert refused(memory.new_log(), patched(batch(b"a"), attributes=codec)).code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_null_keys_on_a_compacted_topic_name_the_records(memory):
    log = memory.new_log(cleanup_policy=("compact",))
    error = refused(log, batch(b"a", b"b", b"c", keys=[b"k", None, b"k"]))
    assert isinstance(error, InvalidRecord)
    assert error.code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.record_errors] == [1]


def test_timestamps_out_of_range_name_the_records(memory):
    log = memory.new_log()
    hours = 3_600_000
    error = refused(log, batch(b"a", b"b", timestamps=[NOW, NOW + 2 * hours]))
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [1]
    append(log, b"a", timestamps=[NOW + hours // 2])
    old = memory.new_log(message_timestamp_before_max_ms=1000)
    error = refused(old, batch(b"a", b"b", timestamps=[NOW - 1001, NOW]))
    assert [index for index, _ in error.record_errors] == [0]
    append(old, b"a", timestamps=[NOW - 1000])
    append(old, b"a", timestamps=[-1])


@pytest.mark.parametrize(
    "config", [TopicConfig(), TopicConfig(max_message_bytes=70), TopicConfig(message_timestamp_after_max_ms=0)]
)
def test_where_nothing_is_asked_the_header_tells_what_a_close_look_tells(config):
    """Every field of a header, one at a time, at its edges: taken or refused alike, and unchanged."""
    assert demands(config) is None
    partition = TopicPartition("t", 0)
    taken = 0

    def outcome(data, asked):
        try:
            view, header, stamp = validate_client_batch(
                memoryview(data), asked, config, partition, NOW, AppendOrigin.CLIENT, False
            )
            return bytes(view), tuple(header), stamp
        except KafkaError as error:
            return error.code, error.detail

    values = [-(2**31), -1, 0, 1, 2, 3, 4, 5, 8, 16, 32, 49, 2**15]
    for field in BatchHeader._fields:
        for value in [*values, NOW, NOW + 1, 2**62]:
            for others in ({}, {"producer_id": 7, "base_sequence": 0}, {"last_offset_delta": value - 1}):
                data = batch(b"a")
                try:
                    write_header(data, 0, read_header(data)._replace(**{**others, field: value}))
                except struct.error:
                    continue
                if field != "crc":
                    set_crc(data, 0, len(data))
                seen = outcome(bytearray(data), None)
                assert seen == outcome(bytearray(data), Demands())
                taken += seen[0] == data
    assert taken


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ({"message_timestamp_before_max_ms": 5}, Demands(walked=True)),
        ({"message_timestamp_type": "LogAppendTime"}, Demands(append_time=True)),
        ({"message_timestamp_type": "LogAppendTime", "message_timestamp_before_max_ms": 5}, Demands(append_time=True)),
        ({"compression_type": "lz4"}, Demands(codec=Codec.LZ4)),
        ({"compression_type": "uncompressed"}, Demands(codec=Codec.NONE)),
        ({"cleanup_policy": ("compact", "delete")}, Demands(walked=True)),
    ],
)
def test_what_settings_ask_beyond_the_header(settings, asked):
    assert demands(TopicConfig(**settings)) == asked


def test_new_settings_hold_from_the_next_batch_on(memory):
    log = memory.new_log()
    append(log, b"a")
    log.configure(TopicConfig(cleanup_policy=("compact",)))
    assert refused(log, batch(b"b", keys=[None])).code == ErrorCode.INVALID_RECORD
    log.configure(TopicConfig())
    append(log, b"c")


def test_log_append_time_stamps_the_batch(world):
    log = world.new_log(message_timestamp_type="LogAppendTime")
    info = append(log, b"a", b"b", timestamps=[1, 2])
    assert info.log_append_time_ms == NOW
    data = world.call(lambda: log.read(0, 1 << 20, Isolation.LOG_END)).records
    header = read_header(data)
    assert header.is_log_append_time
    assert header.max_timestamp == NOW
    assert crc_ok(data, 0, len(data))
    assert [r.timestamp for r in records_in(data)] == [NOW, NOW]


def test_only_a_log_append_time_topic_refuses_that_flag_from_clients(memory):
    log = memory.new_log(message_timestamp_type="LogAppendTime")
    error = refused(log, batch(b"a", b"b", attributes=LOG_APPEND_TIME))
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [0, 1]
    plain = memory.new_log()
    assert append(plain, b"a", attributes=LOG_APPEND_TIME).log_append_time_ms == -1
    stored = plain.read(0, 1 << 20, Isolation.LOG_END).records
    assert not read_header(stored).is_log_append_time
    assert crc_ok(stored, 0, len(stored))


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_with_its_own_codec_stores_by_it(memory, codec):
    log = memory.new_log(compression_type=codec)
    wanted = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[codec]
    for sent in (0, 1, 4):
        append(log, b"a" * 100, b"b" * 100, codec=sent)
    data = log.read(0, 1 << 20, Isolation.LOG_END).records
    assert [h.compression for h in headers_in(data)] == [wanted] * 3
    assert [r.value for r in records_in(data)] == [b"a" * 100, b"b" * 100] * 3


def test_full_validation_finds_what_the_header_hides(memory):
    log = memory.new_log()
    broken = batch(b"a", b"b", codec=1)
    broken[HEADER_SIZE + 12] ^= 0xFF
    set_crc(broken, 0, len(broken))
    assert refused(log, bytes(broken), validate_full=True).code == ErrorCode.UNKNOWN_SERVER_ERROR
    lying = patched(batch(b"a", timestamps=[NOW - 5]), max_timestamp=NOW)
    log.append_as_leader(lying, 0, now_ms=NOW, validate_full=True)
    assert read_header(log.read(0, 1 << 20, Isolation.LOG_END).records).max_timestamp == NOW - 5


def test_a_batch_larger_than_a_segment(memory):
    log = memory.new_log(segment_bytes=200)
    assert refused(log, batch(b"x" * 300)).code == ErrorCode.RECORD_LIST_TOO_LARGE


def test_roll_by_size_names_the_segment_by_the_next_offset(world):
    size = len(batch(b"x" * 100))
    log = world.new_log(segment_bytes=3 * size)
    rolled = [append(log, b"x" * 100).rolled for _ in range(7)]
    assert rolled == [False, False, False, True, False, False, True]
    assert log.bases == [0, 3, 6]
    world.settle()
    assert [n for n in world.disk.list("t-0") if n.endswith(".log")] == [f"{b:020d}.log" for b in (0, 3, 6)]
    assert len(everything(world, log)) == 7


def test_roll_by_time_happens_only_on_an_append(memory):
    log = memory.new_log(segment_ms=1000)
    append(log, timestamps=[NOW])
    assert not append(log, timestamps=[NOW + 1000]).rolled
    assert append(log, timestamps=[NOW + 1001]).rolled
    assert log.bases == [0, 2]


def test_roll_by_wall_clock_without_timestamps(memory):
    log = memory.new_log(segment_ms=1000)
    append(log, timestamps=[-1], now_ms=NOW + 500)
    assert append(log, timestamps=[-1], now_ms=NOW + 1501).rolled


def test_roll_by_time_comes_up_to_the_jitter_earlier_and_not_for_all_at_once(memory):
    log = memory.new_log(segment_ms=1000, segment_jitter_ms=500)
    waited: list[int] = []
    first_ms = NOW
    append(log, b"a", timestamps=[first_ms], now_ms=first_ms)
    while len(waited) < 8:
        for ms in range(500, 1001, 10):
            if append(log, b"a", timestamps=[first_ms + ms], now_ms=first_ms + ms).rolled:
                waited.append(ms)
                first_ms += ms
                break
        else:
            raise AssertionError("a segment outlived segment.ms")
    assert min(waited) >= 510
    assert len(set(waited)) > 4


def test_roll_before_an_offset_that_no_index_entry_can_hold(memory):
    log = memory.new_log()
    append(log, b"a")
    far = batch(b"b")
    placed(far, 0, 2**31 - 1, 0)
    assert not log.append_as_follower(bytes(far), now_ms=NOW).rolled
    placed(far, 0, 2**31, 0)
    assert log.append_as_follower(bytes(far), now_ms=NOW).rolled
    assert log.bases == [0, 2**31]


def test_an_index_entry_comes_after_more_than_the_interval(memory):
    log = memory.new_log(index_interval_bytes=len(batch(b"a")))
    entries = []
    for _ in range(4):
        append(log, b"a")
        entries.append(len(log.active.offsets))
    assert entries == [0, 0, 1, 1]


def test_roll_by_a_full_index(memory):
    log = memory.new_log(index_interval_bytes=0, segment_index_bytes=36)
    rolled = [append(log, timestamps=[NOW + i]).rolled for i in range(5)]
    assert True in rolled


def test_a_full_disk_refuses_and_the_log_serves_on(memory):
    log = memory.new_log()
    append(log, b"a")
    memory.disk.capacity = memory.disk.used + 10
    assert refused(log, batch(b"x" * 100)).code == ErrorCode.KAFKA_STORAGE_ERROR
    assert [r.value for r in everything(memory, log)] == [b"a"]
    memory.disk.capacity = None
    assert append(log, b"b").first_offset == 1


def shifted(data, offset):
    """The batches, moved to later offsets (the sum does not cover them)."""
    moved = bytearray(data)
    for position, _ in list(batches(moved)):
        old = read_header(moved, position)
        placed(moved, position, old.base_offset + offset, old.leader_epoch)
    return moved


def test_follower_takes_batches_as_they_are(world):
    leader = world.new_log()
    for epoch in (3, 3, 5):
        append(leader, b"a", b"b", leader_epoch=epoch)
    data = bytes(world.call(lambda: leader.read(0, 1 << 20, Isolation.LOG_END)).records)
    follower = Log(world.disk, "other-0", TopicPartition("other", 0), bytes(16), TopicConfig())
    follower.open_new(NOW)
    info = follower.append_as_follower(data + data[:20])
    assert info is not None
    assert (info.first_offset, info.last_offset) == (0, 5)
    assert follower.epochs.entries == [(3, 0), (5, 4)]
    assert bytes(world.call(lambda: follower.read(0, 1 << 20, Isolation.LOG_END)).records) == data
    with pytest.raises(KafkaError, match="came after"):
        follower.append_as_follower(data)
    bad = shifted(data, 6)
    bad[-1] ^= 1
    with pytest.raises(KafkaError, match="corrupt"):
        follower.append_as_follower(bad)
    assert follower.log_end_offset == 10, "the batches before the corrupt one are in"
    assert follower.append_as_follower(data[:30]) is None
    later = shifted(data, 10)
    with pytest.raises(KafkaError, match="offset 14 is of epoch 5, its leader of epoch 4"):
        follower.append_as_follower(later, leader_epoch=4)
    assert follower.log_end_offset == 14, "the batches of the leader's own time are in"


@pytest.mark.parametrize(
    ("codec", "asked", "used"), [("zstd", 22, 6), ("zstd", 3, 3), ("gzip", 9, 6), ("gzip", -1, None), ("lz4", 17, 9)]
)
def test_no_level_of_compression_holds_up_the_others(codec, asked, used):
    config = TopicConfig(**{f"compression_{codec}_level": asked})
    assert level_of(config, {"gzip": 1, "lz4": 3, "zstd": 4}[codec]) == used


def test_a_log_has_no_dictionary_of_its_own(memory):
    """That is 1.4 KB of an empty partition: Python shares the keys of thirty attributes, and a log has more."""
    assert not hasattr(memory.new_log(), "__dict__")
