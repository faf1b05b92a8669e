"""DelayedProduce, case by case (`DelayedProduce`), and what leads to it."""

from __future__ import annotations

import logging

import pytest

from barnabas.broker.config import TopicConfig
from barnabas.broker.delayed import Purgatory
from barnabas.broker.host.receive import is_leased
from barnabas.broker.log import Log
from barnabas.broker.replica import FetchInfo, FetchParams
from barnabas.broker.replica.partition import Partition
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import BatchBuilder
from tests.broker.replica.stage import Stage, codes
from tests.broker.replica.world import WALL_MS, Answer, P, World, batch


def two(**settings) -> World:
    world = World(**settings)
    for number in (0, 1):
        world.host(P(number), replicas=(1, 2))
    return world


def test_a_rejected_request_parks_nothing():
    world = World()
    answer = world.produce(P(9))
    assert answer.codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert world.manager.shared.produce.watched == 0
    assert (answer.one.base_offset, answer.one.log_start_offset) == (-1, -1)


def test_failed_partitions_keep_their_error_and_are_not_waited_for():
    world = two()
    world.host(P(2), replicas=(1,))
    answer = world.produce(P(0), P(9), P(2))
    assert not answer.there
    world.caught_up(2, P(0))
    assert answer.results is not None
    assert list(answer.results) == [P(0), P(9), P(2)]
    assert answer.codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]


def test_it_watches_every_partition_of_the_request():
    world = two()
    world.produce(P(0), P(9), P(1))
    assert list(world.manager.shared.produce.lists()) == [P(0), P(9), P(1)]


def test_news_of_one_of_many_partitions_makes_it_look_at_that_one(monkeypatch):
    """A fetch of a follower brings news of each: n looks in all, not n * n / 2."""
    world = World()
    keys = [P(number) for number in range(100)]
    for key in keys:
        world.host(key, replicas=(1, 2))
    answer = world.produce(*keys)
    looks: list[Partition] = []
    reached = Partition.reached

    def look(partition: Partition, offset: int) -> tuple[bool, int]:
        looks.append(partition)
        return reached(partition, offset)

    monkeypatch.setattr(Partition, "reached", look)
    world.caught_up(2, *keys[1:])
    assert not answer.there
    world.caught_up(2, keys[0])
    assert answer.codes == [0] * len(keys)
    assert len(looks) == len(keys)


def test_case_a_a_deleted_partition_is_unknown():
    world = two()
    answer = world.produce(P(0))
    world.delete(P(0))
    assert answer.codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_case_a_a_partition_that_moved_away_is_not_led_here():
    world = two()
    answer = world.produce(P(0))
    world.host(P(0), replicas=(2, 3), leader=2, isr=(2,), leader_epoch=2)
    assert answer.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert world.logs.get(P(0)) is None


def test_case_b_a_leader_that_steps_down_answers_before_the_timeout():
    world = two()
    answer = world.produce(P(0))
    world.host(P(0), leader=2, leader_epoch=2)
    assert answer.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_case_c1_completes_on_the_high_watermark():
    world = two()
    world.produce(P(0), acks=1)
    answer = world.produce(P(0))
    world.fetch({P(0): 1}, replica=2)
    assert not answer.there
    world.fetch({P(0): 2}, replica=2)
    assert answer.codes == [0]
    assert (answer.one.base_offset, answer.one.log_start_offset, answer.one.log_append_time_ms) == (1, 0, -1)


def test_case_c2_committed_but_in_fewer_places_than_asked_for():
    """Seen when the ISR falls below the minimum between the rise of the high watermark and the check."""
    world = World()
    world.host(P(0), replicas=(1, 2, 3), isr=(1, 2))
    answer = world.produce(P(0), timeout_ms=1_000_000)
    partition = world.manager.partition(P(0))
    assert partition is not None
    # Nothing is checked between the two: the high watermark rises, then the minimum is raised.
    partition.log.advance_high_watermark(1)
    partition.log.configure(TopicConfig(min_insync_replicas=3))
    world.manager.shared.check_all(P(0), world.now_ms)
    assert answer.codes == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]


def test_case_c2_the_isr_falls_while_another_batch_of_the_request_is_looked_through():
    """The one way to it: whoever waits is asked as the high watermark rises, but this request does not wait yet."""
    world = World()
    world.topic_config = TopicConfig(min_insync_replicas=2, compression_type="zstd")
    for number in (0, 1):
        world.host(P(number), replicas=(1, 2))
    jobs = []
    world.manager.shared.run = lambda job, ended: jobs.append((job, ended))
    answer = Answer()
    entries = [(P(0), batch()), (P(1), batch(value=bytes(200_000)))]  # more than is packed anew at once
    world.manager.append_records(entries, -1, 30_000, answer, world.now_ms)
    world.manager.drain(world.now_ms)
    world.fetch({P(0): 1}, replica=2, wait_ms=0)
    world.host(P(0), isr=(1,))
    ((job, ended),) = jobs
    for _ in job:
        world.disk.deliver()
        world.manager.drain(world.now_ms)
    ended(None)
    world.manager.drain(world.now_ms)
    world.fetch({P(1): 1}, replica=2, wait_ms=0)
    assert answer.codes == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 0]


@pytest.mark.parametrize("acks", [-1, 1])
@pytest.mark.parametrize("anew", [False, True])
def test_case_b_another_has_led_while_another_batch_of_the_request_was_looked_through(acks: int, anew: bool) -> None:
    """What was written is gone, and others' records stand at its offsets: they answer for themselves alone."""
    world = World()
    world.topic_config = TopicConfig(min_insync_replicas=2, compression_type="zstd", flush_messages=1)
    for number in (0, 1):
        world.host(P(number), replicas=(1, 2))
    jobs = []
    world.manager.shared.run = lambda job, ended: jobs.append((job, ended))
    answer = Answer()
    entries = [(P(0), batch()), (P(1), batch(value=bytes(200_000)))]  # more than is packed anew at once
    world.manager.append_records(entries, acks, 30_000, answer, world.now_ms)
    world.manager.drain(world.now_ms)
    if anew:
        world.delete(P(0))
        world.host(P(0), topic_id=b"u" * 16, replicas=(1, 2), isr=(1, 2), leader_epoch=0)
    else:
        world.host(P(0), leader=2, leader_epoch=2)
        partition = world.manager.partition(P(0))
        assert partition is not None
        partition.log.truncate_to(0)
        world.host(P(0), leader=1, isr=(1, 2), leader_epoch=3)
    other = Answer()
    world.manager.append_records([(P(0), batch(value=b"other"))], -1, 30_000, other, world.now_ms)
    for job, ended in jobs:
        for _ in job:
            world.disk.deliver()
            world.manager.drain(world.now_ms)
        ended(None)
    world.manager.drain(world.now_ms)
    for _ in range(2):
        world.disk.deliver()
        world.manager.drain(world.now_ms)
        world.fetch({P(0): 1, P(1): 1}, replica=2, wait_ms=0)
    assert other.codes == [0]
    assert answer.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER, 0]


def test_case_c1_a_member_that_is_about_to_join_counts_towards_the_minimum():
    world = World()
    world.host(P(0), replicas=(1, 2, 3), isr=(1, 2))
    answer = world.produce(P(0), timeout_ms=1_000_000)
    world.fetch({P(0): 0}, replica=3, wait_ms=0)  # at the high watermark: its joining is proposed, not answered
    partition = world.manager.partition(P(0))
    assert partition is not None
    assert (partition.isr.committed, partition.isr.maximal) == ((1, 2), (1, 2, 3))
    partition.log.advance_high_watermark(1)
    partition.log.configure(TopicConfig(min_insync_replicas=3))
    world.manager.shared.check_all(P(0), world.now_ms)
    assert answer.codes == [0]


def test_case_d_times_out_though_the_records_stay():
    world = two()
    answer = world.produce(P(0), timeout_ms=2000)
    world.move(1999)
    assert not answer.there
    world.move(1)
    assert answer.codes == [ErrorCode.REQUEST_TIMED_OUT]
    assert answer.one.base_offset == 0  # the offset it was given
    world.caught_up(2, P(0))
    assert world.fetch({P(0): 0}).one.records


def test_an_isr_below_the_minimum_after_the_append_times_out():
    """With the strict gate the high watermark stands still, so 20 is the rare case and 7 the usual one."""
    world = World()
    world.topic_config = TopicConfig(min_insync_replicas=2)
    world.host(P(0), replicas=(1, 2))
    answer = world.produce(P(0), timeout_ms=100_000)
    world.move(60_000)
    world.answer_isr()
    assert not answer.there
    world.move(40_000)
    assert answer.codes == [ErrorCode.REQUEST_TIMED_OUT]


def test_one_slow_partition_delays_the_whole_answer_and_only_it_is_counted_as_expired():  # T05
    world = two()
    answer = world.produce(P(0), P(1), timeout_ms=2000)
    world.caught_up(2, P(0))
    assert not answer.there
    world.move(2000)
    assert answer.codes == [0, ErrorCode.REQUEST_TIMED_OUT]
    assert world.meter("DelayedProduceMetrics", "ExpiresPerSec") == 1
    assert world.meter("DelayedProduceMetrics", "ExpiresPerSec", topic="t", partition="1") == 1
    assert world.meter("DelayedProduceMetrics", "ExpiresPerSec", topic="t", partition="0") == 0


def test_a_resolved_partition_is_never_opened_again():
    world = two()
    answer = world.produce(P(0), P(1))
    world.caught_up(2, P(0))
    world.host(P(0), leader=2, leader_epoch=2)
    world.caught_up(2, P(1))
    assert answer.codes == [0, 0]


def test_it_completes_when_the_isr_shrinks():
    world = World()
    world.host(P(0), replicas=(1, 2))
    answer = world.produce(P(0), timeout_ms=1_000_000)
    world.move(60_000)
    assert not answer.there
    world.answer_isr()
    assert answer.codes == [0]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_timeout_of_zero_answers_at_the_next_tick(timeout_ms):
    world = two()
    world.move(7)
    answer = world.produce(P(0), timeout_ms=timeout_ms)
    world.move(0)
    assert answer.codes == [ErrorCode.REQUEST_TIMED_OUT]


# The order of things within one request


def test_waiters_are_checked_at_the_end_of_the_step_not_inside_the_append():
    """The append's own bookkeeping, and its own DelayedProduce, come before any other answer."""
    world = World()
    world.host(P(0))
    order = []
    params, asked = _consumer_of(P(0))
    world.manager.fetch(params, asked, lambda results, now_ms: order.append("fetch"), world.now_ms)
    world.manager.append_records([(P(0), batch())], -1, 1000, lambda results: order.append("produce"), world.now_ms)
    assert order == ["produce"]
    assert len(world.manager.shared.actions) == 1
    assert world.manager.next_deadline_ms() == world.now_ms
    world.manager.drain(world.now_ms)
    assert order == ["produce", "fetch"]


def test_an_append_checks_what_its_offsets_can_have_changed(monkeypatch):
    """Only the log end rose: followers wait for that. The high watermark rose: all three purgatories do, if anybody."""
    world = two()
    world.caught_up(2, P(0), wait_ms=60_000)
    waiting = world.produce(P(0))  # somebody waits, so that checks are left behind at all
    checked = []
    check = Purgatory.check_and_complete

    def note(purgatory, key, now_ms):
        checked.append((purgatory.name, key))
        return check(purgatory, key, now_ms)

    monkeypatch.setattr(Purgatory, "check_and_complete", note)
    world.produce(P(0), acks=1)
    assert checked == [("Fetch", P(0))]
    assert not waiting.there
    world.host(P(2), replicas=(1,))
    checked.clear()
    world.produce(P(2), acks=1)
    assert checked == [("Produce", P(2)), ("Fetch", P(2))]  # nobody waits for a deletion
    world.host(P(3), replicas=(1, 2))
    world.produce(P(3), acks=1)
    world.fetch({P(3): 1}, replica=2, wait_ms=0)
    assert not world.delete_records({P(3): 1}).there  # until the follower has deleted, too
    checked.clear()
    world.produce(P(2), acks=1)
    assert checked == [("Produce", P(2)), ("Fetch", P(2)), ("DeleteRecords", P(2))]


def test_a_failed_append_leaves_no_action():
    world = World()
    world.host(P(0))
    bad = batch()
    bad[-1] ^= 1
    world.manager.append_records([(P(0), bad)], 1, 1000, lambda results: None, 0)
    assert len(world.manager.shared.actions) == 0


def test_answering_may_append_again():
    """A waiting consumer that, answered, produces at once: deferred, not recursive, and nothing is lost."""
    world = World()
    world.host(P(0))
    seen = []

    def produce_more(results, now_ms):
        seen.append("fetch")
        world.manager.append_records([(P(0), batch())], -1, 1000, lambda results: seen.append("produce"), world.now_ms)

    params, asked = _consumer_of(P(0))
    world.manager.fetch(params, asked, produce_more, world.now_ms)
    world.produce(P(0), acks=1)
    assert seen == ["fetch", "produce"]
    world.move(0)  # the action it left behind
    assert len(world.manager.shared.actions) == 0
    assert world.end(P(0)) == 2


def _consumer_of(key):
    return FetchParams(max_wait_ms=5000, min_bytes=1), [(key, FetchInfo(max_bytes=1 << 20))]


# Refusals


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
def test_internal_topics_are_the_admin_clients(topic):
    world = World()
    key = TopicPartition(topic, 0)
    assert world.produce(key).codes == [ErrorCode.INVALID_TOPIC_EXCEPTION]  # not hosted here
    world.host(key)
    assert world.produce(key).codes == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    answer = Answer()
    world.manager.append_records([(key, batch())], 1, 1000, answer, 0, internal_allowed=True)
    assert answer.codes == [0]


def test_what_the_log_refuses_is_told_and_counted():
    world = World()
    world.topic_config = TopicConfig(max_message_bytes=200, message_timestamp_after_max_ms=1000)
    world.host(P(0))
    assert world.produce(P(0), records=batch(value=b"v" * 500)).codes == [ErrorCode.MESSAGE_TOO_LARGE]
    assert world.meter("BrokerTopicMetrics", "BytesRejectedPerSec") > 500
    assert world.meter("BrokerTopicMetrics", "FailedProduceRequestsPerSec") == 0
    far = world.produce(P(0), records=batch(timestamp_ms=2_000_000_000_000)).one
    assert far.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in far.record_errors] == [0]
    assert world.meter("BrokerTopicMetrics", "FailedProduceRequestsPerSec", topic="t") == 1


def test_an_unforeseen_failure_is_one_partitions_alone(caplog, monkeypatch):
    world = two()

    first, real = world.logs.logs[P(0)], Log.append_as_leader

    def broken(log, *batch):
        if log is first:
            raise RuntimeError("a defect")
        return real(log, *batch)

    monkeypatch.setattr(Log, "append_as_leader", broken)
    with caplog.at_level(logging.CRITICAL + 1):
        answer = world.produce(P(0), P(1), acks=1)
    assert answer.codes == [ErrorCode.UNKNOWN_SERVER_ERROR, 0]


def test_a_full_disk_refuses_and_serves_on():
    world = World()
    world.host(P(0))
    world.produce(P(0))
    world.disk.capacity = world.disk.used
    assert world.produce(P(0)).codes == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert world.fetch({P(0): 0}).one.records
    world.disk.capacity = None
    assert world.produce(P(0)).one.base_offset == 1


def test_the_log_says_once_in_a_while_that_a_disk_refuses_writes(monkeypatch, caplog):
    world = World()
    world.host(P(0))
    wall_ms = [0]
    monkeypatch.setattr(world.manager.shared.wall_clock, "now_ms", lambda: wall_ms[0])
    world.disk.capacity = world.disk.used
    said = []
    for wall_ms[0] in (WALL_MS, WALL_MS + 1, WALL_MS + 9_999, WALL_MS + 10_000):
        assert world.produce(P(0)).codes == [ErrorCode.KAFKA_STORAGE_ERROR]
        said.append(len(caplog.records))
    assert said == [1, 1, 1, 2]
    assert (
        caplog.records[0].getMessage()
        == f"{P(0)} refuses writes: [Errno 28] no space left on device: 't-0/{0:020}.log'"
    )


def test_the_log_says_when_writes_are_taken_again(caplog):
    caplog.set_level("INFO")
    world = World()
    world.host(P(0))
    world.host(P(1))
    for _ in range(2):
        caplog.clear()
        world.disk.capacity = world.disk.used
        assert world.produce(P(0), P(1)).codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        world.move(5_000)
        world.disk.capacity = None
        world.move(5_000)
        assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"], "nobody has asked yet"
        world.produce(P(0))
        world.move(1_000)
        assert [record.getMessage() for record in caplog.records[2:]] == [f"{P(0)} takes writes again"]
        world.produce(P(0), P(1))
        world.move(1_000)
        assert [record.getMessage() for record in caplog.records[3:]] == [f"{P(1)} takes writes again"]
        world.produce(P(0))
        world.move(60_000)
        assert len(caplog.records) == 4


def test_nothing_is_looked_at_when_no_partition_refuses_writes():
    world = World()
    world.host(P(0))
    size = world.manager.shared.timer.size
    world.disk.capacity = world.disk.used
    world.produce(P(0))
    assert world.manager.shared.timer.size == size + 1
    world.disk.capacity = None
    world.produce(P(0))
    world.move(1_000)
    assert world.manager.shared.timer.size == size
    world.disk.capacity = world.disk.used
    world.produce(P(0))
    world.delete(P(0))
    world.move(1_000)
    assert world.manager.shared.timer.size == size


def test_bytes_and_messages_are_counted_in_total_and_by_topic():
    world = World()
    world.host(P(0))
    records = batch(3)
    world.produce(P(0), records=records)
    for tags in ({}, {"topic": "t"}):
        assert world.meter("BrokerTopicMetrics", "MessagesInPerSec", **tags) == 3
        assert world.meter("BrokerTopicMetrics", "BytesInPerSec", **tags) == len(records)
        assert world.meter("BrokerTopicMetrics", "TotalProduceRequestsPerSec", **tags) == 1
    world.fetch({P(0): 0})
    assert world.meter("BrokerTopicMetrics", "BytesOutPerSec", topic="t") == len(records)
    world.delete(P(0))
    assert world.registry.read("BrokerTopicMetrics", "MessagesInPerSec", {"topic": "t"}) is None


# flush.messages


@pytest.mark.parametrize("acks", [1, -1])
def test_with_flush_messages_no_answer_leaves_before_its_sync(acks):
    world = World()
    world.topic_config = TopicConfig(flush_messages=1)
    world.host(P(0))
    world.deliver()
    waiting = world.fetch({P(0): 0})
    answer = world.produce(P(0), acks=acks)
    assert (answer.there, waiting.there, world.high_watermark(P(0))) == (False, False, 0)
    world.deliver()
    assert (answer.codes, waiting.there, world.high_watermark(P(0))) == ([0], True, 1)


def test_acks_0_does_not_wait_for_the_sync():
    world = World()
    world.topic_config = TopicConfig(flush_messages=1)
    world.host(P(0))
    assert world.produce(P(0), acks=0).codes == [0]
    assert world.high_watermark(P(0)) == 0
    world.deliver()
    assert world.high_watermark(P(0)) == 1


def test_appends_during_a_sync_wait_for_the_next_one():
    world = World()
    world.topic_config = TopicConfig(flush_messages=1)
    world.host(P(0))
    world.deliver()
    first = world.produce(P(0), acks=1)
    second = world.produce(P(0), acks=-1)
    world.deliver()
    assert first.codes == second.codes == [0]
    assert world.high_watermark(P(0)) == 2


@pytest.mark.parametrize("acks", [1, -1])
def test_a_failed_sync_answers_storage_error(acks):
    world = World()
    world.topic_config = TopicConfig(flush_messages=1)
    world.host(P(0))
    world.deliver()
    world.disk.fail_syncs = 1
    answer = world.produce(P(0), acks=acks)
    world.deliver()
    assert answer.codes == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert world.high_watermark(P(0)) == 0
    assert world.produce(P(0), acks=1).codes == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_a_duplicate_waits_for_the_sync_of_its_original():
    world = World()
    world.topic_config = TopicConfig(flush_messages=1)
    world.host(P(0))
    world.deliver()
    builder = BatchBuilder(1000)
    builder.try_append(1_700_000_000_000, None, b"v")
    records = bytes(builder.build(7, 0, 0))
    first = world.produce(P(0), records=records, acks=1)
    again = world.produce(P(0), records=records, acks=1)
    assert not first.there
    assert not again.there
    world.deliver()
    assert first.one.base_offset == again.one.base_offset == 0
    assert world.end(P(0)) == 1


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("partitions", [(1,), (1, 2)])
def test_a_parked_request_keeps_neither_its_records_nor_the_buffer_they_lie_in(flat, partitions):
    stage = Stage(list(partitions), (1, 2))
    stage.world.flat = flat
    buffers = [bytearray(batch()) for _ in partitions]
    asked = {("t", number): memoryview(buffer) for number, buffer in zip(partitions, buffers, strict=True)}
    answer = stage.world.produce(asked, acks=-1)
    asked.clear()
    assert not answer.done
    for buffer in buffers:
        buffer.append(0)  # refused while anything looks into it
    stage.caught_up(2, *map(P, partitions))
    stage.caught_up(2, *map(P, partitions))
    assert codes(answer) == [0] * len(partitions)


def test_a_produce_that_waits_keeps_nothing_of_its_frame():
    """Whoever holds a view of it holds the whole buffer, 256 KiB as a rule."""
    world = World()
    world.host(P(0), replicas=(1, 2))
    frame = bytearray(batch())
    answer = Answer()
    world.manager.append_records([(P(0), memoryview(frame))], -1, 1000, answer, 0)
    assert not answer.there
    assert world.manager.shared.produce.num_delayed == 1
    assert not is_leased(frame)
