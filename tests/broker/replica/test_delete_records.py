"""DeleteRecords and its delayed operation (`DelayedDeleteRecords`, KIP-107)."""

from __future__ import annotations

import pytest

from barnabas.broker.config import TopicConfig
from barnabas.broker.replica.partition import Partition
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from tests.broker.replica.world import P, World, batch


def world_with(replicas=(1,), count=10) -> World:
    world = World()
    world.host(P(0), replicas=replicas)
    for _ in range(count):
        world.produce(P(0), acks=1)
    for follower in replicas[1:]:
        world.fetch({P(0): count}, replica=follower, wait_ms=0)
    return world


def test_with_one_replica_it_is_answered_at_once():
    world = world_with()
    answer = world.delete_records({P(0): 4})
    assert (answer.codes, answer.one.low_watermark) == ([0], 4)
    assert world.fetch({P(0): 3}).codes == [ErrorCode.OFFSET_OUT_OF_RANGE]
    assert world.fetch({P(0): 4}).one.log_start_offset == 4


@pytest.mark.parametrize(("offset", "code", "low"), [(-1, 0, 10), (10, 0, 10), (99, 1, -1), (11, 1, -1), (-2, 1, -1)])
def test_the_offset_is_between_zero_and_the_high_watermark_and_minus_one_means_that(offset, code, low):
    answer = world_with().delete_records({P(0): offset})
    assert (answer.codes, answer.one.low_watermark) == ([code], low)


def test_below_the_log_start_is_success_without_change():
    world = world_with()
    world.delete_records({P(0): 6})
    answer = world.delete_records({P(0): 2})
    assert (answer.codes, answer.one.low_watermark) == ([0], 6)


def test_a_topic_that_only_compacts_refuses():
    world = World()
    world.topic_config = TopicConfig(cleanup_policy=("compact",))
    world.host(P(0))
    assert world.delete_records({P(0): 0}).codes == [ErrorCode.POLICY_VIOLATION]


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__share_group_state"])
def test_internal_topics_and_unknown_partitions_refuse(topic):
    world = world_with()
    internal = TopicPartition(topic, 0)
    world.host(internal)
    answer = world.delete_records({internal: 0, P(9): 0})
    assert answer.codes == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_case_c_waits_until_every_alive_replica_has_moved_its_start():
    world = world_with(replicas=(1, 2, 3))
    answer = world.delete_records({P(0): 4})
    assert world.logs.logs[P(0)].log_start_offset == 4  # the leader's start rose at once
    world.fetch({P(0): 10}, replica=2, wait_ms=0, log_start_offset=4)
    assert not answer.there
    world.fetch({P(0): 10}, replica=3, wait_ms=0, log_start_offset=4)
    assert (answer.codes, answer.one.low_watermark) == ([0], 4)


def test_a_dead_replica_is_not_waited_for():
    world = world_with(replicas=(1, 2, 3))
    world.cluster.dead.add(3)
    answer = world.delete_records({P(0): 4})
    world.fetch({P(0): 10}, replica=2, wait_ms=0, log_start_offset=4)
    assert answer.codes == [0]


def test_case_d_times_out_with_the_low_watermark_that_was_reached():
    world = world_with(replicas=(1, 2))
    answer = world.delete_records({P(0): 4}, timeout_ms=2000)
    world.fetch({P(0): 10}, replica=2, wait_ms=0, log_start_offset=3)
    world.move(2000)
    assert (answer.codes, answer.one.low_watermark) == ([ErrorCode.REQUEST_TIMED_OUT], 3)
    assert world.meter("DelayedDeleteRecordsMetrics", "ExpiresPerSec") == 1


def test_one_failed_partition_does_not_hold_up_the_other():
    world = world_with(replicas=(1, 2))
    answer = world.delete_records({P(9): 1, P(0): 4})
    assert not answer.there
    world.fetch({P(0): 10}, replica=2, wait_ms=0, log_start_offset=4)
    assert answer.codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]


def test_case_b_a_step_down_is_reported_when_next_triggered():
    world = world_with(replicas=(1, 2))
    answer = world.delete_records({P(0): 4})
    world.host(P(0), leader=2, leader_epoch=2)
    assert not answer.there  # a leadership change does not check it
    world.manager.shared.check_all(P(0), world.now_ms)
    assert (answer.codes, answer.one.low_watermark) == ([ErrorCode.NOT_LEADER_OR_FOLLOWER], -1)


def test_case_a_a_deleted_partition_is_reported_when_next_triggered():
    world = world_with(replicas=(1, 2))
    answer = world.delete_records({P(0): 4})
    world.delete(P(0))
    world.manager.shared.check_all(P(0), world.now_ms)
    assert answer.codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_rising_high_watermark_checks_it():
    world = world_with(replicas=(1, 2))
    answer = world.delete_records({P(0): 4})
    world.cluster.dead.add(2)
    world.host(P(0), isr=(1,))
    world.produce(P(0), records=batch())
    assert answer.codes == [0]


def test_the_purgatory_purges_after_more_than_one():
    world = world_with(replicas=(1, 2))
    purgatory = world.manager.shared.delete_records
    for offset in (1, 2):
        world.delete_records({P(0): offset, P(9): 1}, timeout_ms=100)
    assert purgatory.watched == 4
    world.move(100)
    assert purgatory.watched == 0


def of_many(count=100):
    world = World()
    keys = [P(number) for number in range(count)]
    for key in keys:
        world.host(key, replicas=(1, 2))
        world.produce(key, acks=1)
    world.caught_up(2, *keys, wait_ms=0)
    return world, keys


def test_news_of_one_of_many_partitions_makes_it_look_at_that_one(monkeypatch):
    """A fetch of a follower brings news of each: so many looks in all, not half their square."""
    world, keys = of_many()
    answer = world.delete_records(dict.fromkeys(keys, 1))
    looks = []
    low_watermark = Partition.low_watermark

    def look(partition):
        looks.append(partition)
        return low_watermark(partition)

    monkeypatch.setattr(Partition, "low_watermark", look)
    world.caught_up(2, *keys[1:], log_start_offset=1, wait_ms=0)
    assert not answer.there
    world.caught_up(2, keys[0], log_start_offset=1, wait_ms=0)
    assert answer.codes == [0] * len(keys)
    assert len(looks) == 3 * len(keys), "twice for each fetch, to see whether it rises, and once for who waits"


def test_a_step_down_of_one_of_many_partitions_keeps_none_waiting():
    world, keys = of_many(20)
    answer = world.delete_records(dict.fromkeys(keys, 1))
    world.host(keys[0], leader=2, leader_epoch=2)
    world.caught_up(2, *keys[1:], log_start_offset=1, wait_ms=0)
    assert answer.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER] + [0] * 19
