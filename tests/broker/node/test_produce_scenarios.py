"""The scenarios P of one broker, through the whole core."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.protocol.batch import read_header, set_crc
from barnabas.protocol.compression import Codec
from barnabas.protocol.requests.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.node.world import World, batch, part_of, records_of, sized
from tests.protocol.placing import placed


@pytest.fixture(params=["flat", "nested"])
def world(request: pytest.FixtureRequest) -> World:
    """Requests of one batch have a shorter way through decoder, handler and replica: whatever comes, both agree."""
    return World(flat=request.param == "flat")


def test_p01_offsets_follow_each_other(world: World) -> None:
    world.create()
    assert [world.put(batch(b"a", b"b", b"c")).base_offset for _ in range(2)] == [0, 3]


def test_p02_other_acks_are_refused(world: World) -> None:
    world.create()
    part = world.put(batch(b"a"), acks=2)
    assert (part.error_code, part.base_offset) == (21, -1)


def test_p03_acks_0_has_no_answer_and_closes_on_failure(world: World) -> None:
    world.create()
    good = world.produce({("t", 0): batch(b"a")}, acks=0)
    assert (good.done, good.response, good.closed) == (True, None, None)
    assert world.offsets(-1).offset == 1
    bad = world.produce({("nope", 0): batch(b"a")}, acks=0)
    assert (bad.done, bad.response) == (True, None)
    assert bad.closed is not None
    assert "UNKNOWN_TOPIC_OR_PARTITION" in bad.closed


def test_p04_a_corrupt_payload_is_refused(world: World) -> None:
    world.create()
    data = batch(b"payload")
    data[-3] ^= 1
    assert world.put(data).error_code == 2
    assert world.offsets(-1).offset == 0


def test_p05_records_that_are_not_one_batch(world: World) -> None:
    world.create()
    old = batch(b"a")
    old[16] = 1
    for records in (b"", None, batch(b"a") + batch(b"b"), old):
        assert world.put(records).error_code == 87
    assert world.offsets(-1).offset == 0


def _control(data: bytearray) -> bytearray:
    data[22] |= 0x20
    set_crc(data, 0, len(data))
    return data


def _count(data: bytearray) -> bytearray:
    data[57:61] = (5).to_bytes(4, "big")
    set_crc(data, 0, len(data))
    return data


def test_p06_headers_no_client_may_send(world: World) -> None:
    world.create()
    moved = batch(b"a")
    placed(moved, 0, 7, -1)
    for data in (moved, _count(batch(b"a")), _control(batch(b"a"))):
        assert world.put(data).error_code == 87


def test_p07_the_largest_message_fits(world: World) -> None:
    world.create(max_message_bytes=1000)
    assert world.put(sized(1000)).error_code == 0
    assert world.put(sized(1001)).error_code == 10


def test_p08_a_timestamp_from_the_future_is_refused_by_record(world: World) -> None:
    world.create()
    late = world.put(batch(b"a", b"b", timestamps=[world.wall_ms, world.wall_ms + 7_200_000]))
    assert late.error_code == 32
    assert [one.batch_index for one in late.record_errors] == [1]
    assert late.error_message
    assert world.put(batch(b"a", at_ms=world.wall_ms + 1_800_000)).error_code == 0


def test_p09_log_append_time_is_the_brokers(world: World) -> None:
    world.create(message_timestamp_type="LogAppendTime")
    part = world.put(batch(b"a", at_ms=1))
    assert part.log_append_time_ms == world.wall_ms
    header = read_header(part_of(world.fetch({("t", 0): 0})).records)
    assert (header.is_log_append_time, header.max_timestamp) == (True, world.wall_ms)
    assert records_of(part_of(world.fetch({("t", 0): 0})).records)[0].timestamp == world.wall_ms


def test_p10_a_compacted_topic_needs_keys(world: World) -> None:
    world.create(cleanup_policy="compact")
    part = world.put(batch(b"1", b"2", b"3", keys=[b"a", None, b"c"]))
    assert part.error_code == 87
    assert [one.batch_index for one in part.record_errors] == [1]
    assert world.offsets(-1).offset == 0


def test_p11_partitions_fail_on_their_own(world: World) -> None:
    world.create()
    answer = world.produce({("t", 0): batch(b"a"), ("t", 9): batch(b"a")}, acks=-1)
    parts = answer.response.responses[0].partition_responses
    assert [(part.index, part.error_code, part.base_offset) for part in parts] == [(0, 0, 0), (9, 3, -1)]


def test_of_a_partition_named_twice_the_last_batch_counts(world: World) -> None:
    world.create()
    topic = TopicProduceData("t")
    topic.partition_data = [
        PartitionProduceData(0, memoryview(batch(b"a"))),
        PartitionProduceData(0, batch(b"b", b"c")),
    ]
    answer = world.send(ProduceRequest(None, -1, 30_000, [topic]), 9)
    parts = answer.response.responses[0].partition_responses
    assert [(part.index, part.error_code, part.base_offset) for part in parts] == [(0, 0, 0)]
    assert world.offsets(-1).offset == 2


def test_p12_internal_topics_are_the_administrators(world: World) -> None:
    """Apache Kafka takes the name alone, with which anybody had the next start keep groups that counted for nobody."""
    assert world.put(batch(b"a"), "__consumer_offsets").error_code == 3
    world.create("__consumer_offsets")
    assert world.put(batch(b"a"), "__consumer_offsets").error_code == 17
    assert world.put(batch(b"a"), "__consumer_offsets", client_id="__admin_client").error_code == 17
    assert world.put(batch(b"a"), "__consumer_offsets", connection=world.administrator()).error_code == 17
    assert world.put_internal(batch(b"a", keys=[b"k"]), "__consumer_offsets").error_code == 0


def test_p13_min_isr_never_asks_for_more_than_there_are_replicas(world: World) -> None:
    world.create(min_insync_replicas=2)
    assert world.put(batch(b"a"), acks=-1).error_code == 0
    assert world.offsets(-1).offset == 1


def put(world: World, pid: int, sequence: int, epoch: int = 0, count: int = 1) -> tuple[int, int]:
    part = world.put(batch(*[b"x"] * count, pid=pid, epoch=epoch, sequence=sequence), acks=-1)
    return part.error_code, part.base_offset


def test_p20_the_last_five_batches_are_known_again(world: World) -> None:
    world.create()
    pid = world.producer_id()
    assert [put(world, pid, sequence) for sequence in range(6)] == [(0, offset) for offset in range(6)]
    assert put(world, pid, 5) == (0, 5)
    assert put(world, pid, 1) == (0, 1)
    assert put(world, pid, 0)[0] == 45
    assert world.offsets(-1).offset == 6


def test_p21_a_gap_is_out_of_order(world: World) -> None:
    world.create()
    pid = world.producer_id()
    put(world, pid, 0)
    assert put(world, pid, 9)[0] == 45


def test_p22_older_epochs_are_fenced_and_newer_begin_at_0(world: World) -> None:
    world.create()
    pid = world.producer_id()
    assert put(world, pid, 0, epoch=1)[0] == 0
    assert put(world, pid, 1, epoch=0)[0] == 47
    assert put(world, pid, 3, epoch=2)[0] == 45
    assert put(world, pid, 0, epoch=2)[0] == 0


def test_p23_an_unknown_producer_may_begin_anywhere(world: World) -> None:
    world.create()
    assert put(world, 4711, 42) == (0, 0)


def test_p24_a_clean_restart_remembers_the_last_batch(world: World) -> None:
    world.create()
    pid = world.producer_id()
    for sequence in range(5):
        put(world, pid, sequence)
    world.restart()
    assert put(world, pid, 4) == (0, 4)
    assert put(world, pid, 3)[0] == 45


def test_p25_sequences_wrap(world: World) -> None:
    world.create()
    assert put(world, 4711, 2**31 - 1) == (0, 0)
    assert put(world, 4711, 0) == (0, 1)


def test_zstd_needs_version_7(world: World) -> None:
    world.create()
    data = batch(b"aaaaaaaaaaaaaaaa" * 10, codec=Codec.ZSTD)
    assert world.put(bytearray(data), version=6).error_code == 76
    assert world.put(bytearray(data), version=7).error_code == 0


def test_version_13_has_topic_ids_alone(world: World) -> None:
    topic_id = world.create()
    answer = world.produce({("t", 0): batch(b"a"), ("nope", 3): batch(b"a")}, version=13)
    known, unknown = answer.response.responses
    assert (known.topic_id, known.partition_responses[0].error_code) == (topic_id, 0)
    assert (unknown.partition_responses[0].index, unknown.partition_responses[0].error_code) == (3, 100)


def test_transactional_batches_are_refused_for_good(world: World) -> None:
    world.create(partitions=2)
    data: Any = batch(b"a", pid=1, epoch=0, sequence=0)
    data[22] |= 0x10
    set_crc(data, 0, len(data))
    answer = world.produce({("t", 0): data, ("t", 1): batch(b"a")})
    codes = [part.error_code for part in answer.response.responses[0].partition_responses]
    assert codes == [53, 53]
    assert world.offsets(-1, partition=1).offset == 0


def test_flush_messages_1_answers_only_after_the_sync() -> None:
    world = World()
    world.create(flush_messages=1)
    for acks in (1, -1):
        answer = world.produce({("t", 0): batch(b"a")}, acks=acks)
        assert not answer.done
        world.settle()
        assert answer.response.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("acks", [1, -1])
def test_the_host_asks_anew_when_something_is_due_earlier_and_only_then(acks: int) -> None:
    world = World()
    world.create()
    world.settle()
    assert not world.core.rescheduled
    assert world.produce({("t", 0): batch(b"a")}, acks=acks).done
    assert not world.core.rescheduled
    consumer = world.fetch({("t", 0): 1}, wait_ms=500)
    assert world.core.rescheduled
    due_ms = world.core.next_deadline_ms()
    patient = world.fetch({("t", 0): 1}, wait_ms=5000)
    assert not world.core.rescheduled
    hasty = world.fetch({("t", 0): 1}, wait_ms=100)
    assert world.core.rescheduled
    assert due_ms is not None
    assert (world.core.next_deadline_ms() or due_ms) < due_ms
    assert world.produce({("t", 0): batch(b"b")}, acks=acks).done
    assert consumer.done
    assert patient.done
    assert hasty.done
    assert not world.core.rescheduled  # what is over is due no more


def test_the_host_asks_anew_when_enough_is_over_to_be_purged() -> None:
    world = World(fetch_purgatory_purge_interval_requests=2)
    world.create()
    world.create("u")
    asked = {("t", 0): 0, ("u", 0): 0}
    rounds = []
    for number in range(4):
        world.settle()
        assert not world.fetch(asked, wait_ms=60_000).done
        world.core.next_deadline_ms()
        assert world.produce({("t", 0): batch(b"a")}).done
        asked["t", 0] = number + 1
        rounds.append(world.core.rescheduled)
    assert rounds == [False, False, True, False]
    assert world.core.replicas.shared.fetch.watched <= 2
