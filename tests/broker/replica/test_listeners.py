"""Who hears of leadership and of high watermarks, when, and how often."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from barnabas.broker.config import TopicConfig
from barnabas.broker.config.topics import OFFSETS_TOPIC
from barnabas.broker.replica.partition import Partition
from barnabas.broker.replica.produce import append_one
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.ids import TopicPartition
from tests.broker.replica.world import P, State, World, batch

KEY = P(0)
NOW_MS = 1000


class Heard(list[tuple[Any, ...]]):
    """What a listener was told, as tuples."""

    def __call__(self, *told: Any) -> None:
        self.append(tuple(one.topic_partition if isinstance(one, Partition) else one for one in told))


def listening(world: World, key=KEY) -> Heard:
    """A listener to a partition's high watermark."""
    partition = world.manager.partition(key)
    assert partition is not None
    heard = Heard()
    partition.listeners.append(heard)
    return heard


# Leadership


@pytest.fixture
def elections() -> tuple[World, Heard]:
    """A world, and what a listener hears of leadership in it."""
    world, heard = World(), Heard()
    world.manager.shared.leadership.append(heard)
    world.move(NOW_MS)
    return world, heard


def test_leadership_is_told_when_it_begins_with_each_epoch_and_when_it_ends(elections):
    world, heard = elections
    world.host(KEY, replicas=(1, 2))
    world.host(KEY, isr=(1,))  # neither another leader nor another epoch
    world.host(KEY, leader_epoch=2)
    world.host(KEY, leader=2, leader_epoch=3)
    world.host(KEY, leader=-1, leader_epoch=4)  # was not led here before it either
    world.host(KEY, leader=1, leader_epoch=5)
    assert heard == [
        (KEY, True, 1, NOW_MS),
        (KEY, True, 2, NOW_MS),
        (KEY, False, 3, NOW_MS),
        (KEY, True, 5, NOW_MS),
    ]


def test_partitions_of_other_leaders_are_not_told_of(elections):
    world, heard = elections
    world.host(KEY, replicas=(1, 2), leader=2)
    world.delete(KEY)
    assert heard == []


@pytest.mark.parametrize("topic", ["t", OFFSETS_TOPIC])
def test_a_partition_that_is_deleted_is_told_of_once(elections, topic):
    """`apply` hears of many that are deleted at once later; who keeps state in such a partition has it at once."""
    world, heard = elections
    key = TopicPartition(topic, 0)
    world.host(key)
    del heard[:]
    end = (key, False, 1, NOW_MS)
    world.manager.disown([key])
    world.manager.drain(NOW_MS)
    assert heard == ([end] if topic == OFFSETS_TOPIC else [])
    partition = world.manager.partition(key)
    assert partition is not None
    with pytest.raises(KafkaError, match="does not lead"):
        partition.append(batch(), 0, 1, 0, internal_allowed=True)
    world.delete(key)
    assert heard == [end]


def test_a_topic_made_anew_under_its_name_ends_the_leadership_of_the_one_before(elections):
    world, heard = elections
    world.host(KEY)
    world.manager.apply({KEY: State(topic_id=b"u" * 16, leader_epoch=0)}, [], NOW_MS)
    assert heard[1:] == [], "told at the end of the step"
    world.manager.drain(NOW_MS)
    assert heard[1:] == [(KEY, False, 1, NOW_MS), (KEY, True, 0, NOW_MS)]


def test_leadership_is_told_when_all_of_the_metadata_is_in_force():
    world, led = World(), []

    def listener(partition: Partition, leads: bool, leader_epoch: int, now_ms: int) -> None:
        led.append(sorted(key.partition for key, one in world.manager.hosted.online.items() if one.is_leader))

    world.manager.shared.leadership.append(listener)
    world.manager.apply({P(0): State(), P(1): State()}, [], 0)
    world.manager.drain(0)
    assert led == [[0, 1], [0, 1]]


# The high watermark


def test_without_followers_each_append_is_told_of_at_the_end_of_its_step():
    world = World()
    world.host(KEY)
    heard = listening(world)
    world.move(NOW_MS)
    assert world.produce(KEY).there
    assert heard == [(1, NOW_MS)]
    info = append_one(world.manager.hosted, KEY, batch(), -1, False, None, NOW_MS)
    assert info is not None
    assert heard == [(1, NOW_MS)], "the step goes on"
    world.manager.drain(NOW_MS + 1)
    assert heard == [(1, NOW_MS), (2, NOW_MS + 1)]


def test_with_followers_it_is_told_when_the_last_of_them_has_it():
    world = World()
    world.host(KEY, replicas=(1, 2, 3))
    heard = listening(world)
    world.produce(KEY, acks=1)
    world.caught_up(2, KEY)
    assert heard == []
    world.move(NOW_MS)
    world.caught_up(3, KEY)
    assert heard == [(1, NOW_MS)]


def test_it_is_told_when_who_held_it_back_leaves_the_isr():
    world = World()
    world.host(KEY, replicas=(1, 2), isr=(1, 2))
    world.produce(KEY, acks=1)
    heard = listening(world)
    world.host(KEY, replicas=(1,), isr=(1,))
    assert heard == [(1, 0)]


def test_it_is_told_when_the_controller_has_agreed_to_a_smaller_isr():
    world = World()
    world.host(KEY, replicas=(1, 2), isr=(1, 2))
    world.produce(KEY, acks=1)
    heard = listening(world)
    world.move(world.config.replica_lag_time_max_ms * 2)
    assert heard == []
    world.answer_isr()
    assert heard == [(1, world.now_ms)]


def test_where_records_must_be_synced_first_it_is_told_after_the_sync():
    world = World()
    world.topic_config = TopicConfig(flush_messages=1)
    world.host(KEY)
    world.deliver()
    heard = listening(world)
    world.produce(KEY, acks=1)
    assert heard == []
    world.deliver()
    assert heard == [(1, 0)]


def test_partitions_that_nobody_listens_to_leave_nothing_to_do():
    world = World()
    world.host(KEY)
    world.host(P(1))
    heard = listening(world)
    append_one(world.manager.hosted, P(1), batch(), -1, False, None, 0)
    world.manager.append_records([(P(1), batch())], 1, 0, lambda _: None, 0)
    assert not world.manager.actions
    assert heard == []


def test_a_listener_that_raises_is_logged_and_the_others_and_whoever_waits_hear_it(caplog):
    world = World()
    world.host(KEY)
    partition = world.manager.partition(KEY)
    assert partition is not None

    def broken(high_watermark: int, now_ms: int) -> None:
        raise ValueError("broken")

    partition.listeners.append(broken)
    heard = listening(world)
    waiting = world.fetch({KEY: 0})
    with caplog.at_level(logging.ERROR):
        world.produce(KEY)
    assert "telling the high watermark 1 failed" in caplog.text
    assert heard == [(1, 0)]
    assert waiting.codes == [0]


def test_a_listener_may_take_itself_off_while_it_is_told():
    world = World()
    world.host(KEY)
    partition = world.manager.partition(KEY)
    assert partition is not None
    once = Heard()

    def first(high_watermark: int, now_ms: int) -> None:
        partition.listeners.remove(first)
        once(high_watermark)

    partition.listeners.append(first)
    heard = listening(world)
    world.produce(KEY)
    world.produce(KEY)
    assert (once, heard) == ([(1,)], [(1, 0), (2, 0)])
