"""ListOffsets and OffsetForLeaderEpoch (KIP-101, KIP-79)."""

from __future__ import annotations

import logging

import pytest

from barnabas.broker.log import Isolation, Log
from barnabas.broker.replica import EpochQuery, ListOffsetsQuery
from barnabas.protocol.errors import ErrorCode
from tests.broker.replica.world import Answer, P, World, batch

KEY = P(0)


def look(world: World, timestamp: int, isolation=Isolation.HIGH_WATERMARK, epoch=-1, *, leader_only=True, key=KEY):
    answer = Answer()
    queries = {key: ListOffsetsQuery(timestamp, epoch)}
    world.manager.list_offsets(queries, isolation, answer, world.now_ms, leader_only=leader_only)
    world.manager.drain(world.now_ms)
    return answer


def triple(answer: Answer) -> tuple[int, int, int]:
    return answer.one.error_code, answer.one.timestamp, answer.one.offset


@pytest.fixture
def world() -> World:
    world = World()
    world.host(P(0))
    for timestamp_ms in (100, 300, 200):
        world.produce(P(0), records=batch(timestamp_ms=timestamp_ms))
    return world


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, (0, -1, 3)),
        (-2, (0, -1, 0)),
        (-3, (0, 300, 1)),
        (-4, (0, -1, 0)),
        (-5, (0, -1, -1)),
        (0, (0, 100, 0)),
        (150, (0, 300, 1)),
        (300, (0, 300, 1)),
        (301, (0, -1, -1)),
    ],
)
def test_offsets_by_time_and_by_special_timestamps(world, timestamp, expected):
    assert triple(look(world, timestamp)) == expected


def test_the_earliest_is_the_log_start(world):
    world.delete_records({P(0): 2})
    assert triple(look(world, -2)) == triple(look(world, -4)) == (0, -1, 2)


def test_an_empty_log_has_no_largest_timestamp():
    world = World()
    world.host(P(0))
    assert triple(look(world, -3)) == (0, -1, -1)
    assert triple(look(world, -1)) == (0, -1, 0)


def test_leader_epochs_are_told(world):
    world.host(P(0), leader_epoch=4)
    world.produce(P(0), records=batch(timestamp_ms=400))
    assert look(world, -1).one.leader_epoch == 4
    assert look(world, -2).one.leader_epoch == 1
    assert look(world, 100).one.leader_epoch == 1
    assert look(world, 400).one.leader_epoch == 4


def test_each_reader_sees_as_far_as_its_isolation():
    world = World()
    world.host(P(0), replicas=(1, 2))
    world.produce(P(0), acks=1, records=batch(timestamp_ms=100))
    assert triple(look(world, -1)) == (0, -1, 0)
    assert triple(look(world, -1, Isolation.TXN_COMMITTED)) == (0, -1, 0)
    assert triple(look(world, -1, Isolation.LOG_END)) == (0, -1, 1)
    assert triple(look(world, 100)) == (0, -1, -1)  # at or after the visible end
    assert triple(look(world, 100, Isolation.LOG_END)) == (0, 100, 0)


def test_a_new_leader_behind_its_epochs_start_does_not_know_the_latest_yet():
    world = World()
    world.host(P(0), replicas=(1, 2))
    world.produce(P(0), acks=1, records=batch(timestamp_ms=100))
    world.host(P(0), leader_epoch=2)  # starts at 1, the high watermark is 0
    not_yet = (ErrorCode.OFFSET_NOT_AVAILABLE, -1, -1)
    assert triple(look(world, -1)) == not_yet
    assert triple(look(world, 100)) == not_yet
    assert triple(look(world, 101)) == (0, -1, -1)
    assert triple(look(world, -2)) == (0, -1, 0)
    assert triple(look(world, -1, Isolation.LOG_END)) == (0, -1, 1)
    world.caught_up(2, P(0))
    assert triple(look(world, -1)) == (0, -1, 1)


def test_refusals_of_a_lookup(world):
    assert look(world, -1, key=P(9)).codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert look(world, -1, epoch=0).codes == [ErrorCode.FENCED_LEADER_EPOCH]
    assert look(world, -1, epoch=2).codes == [ErrorCode.UNKNOWN_LEADER_EPOCH]
    world.host(P(0), replicas=(1, 2), isr=(1, 2), leader=2, leader_epoch=2)
    assert look(world, -1).codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert look(world, -1, Isolation.LOG_END, leader_only=False).codes == [0]


@pytest.mark.parametrize(
    ("failure", "code"),
    [(OSError("device"), ErrorCode.KAFKA_STORAGE_ERROR), (RuntimeError("a defect"), ErrorCode.UNKNOWN_SERVER_ERROR)],
)
def test_a_lookup_that_fails_is_one_partitions_alone(world, monkeypatch, caplog, failure, code):
    def fail(*_):
        raise failure

    monkeypatch.setattr(Log, "offset_for_timestamp", fail)
    with caplog.at_level(logging.CRITICAL + 1):
        assert look(world, 150).codes == [code]


def test_a_cold_lookup_waits_for_the_disk(world):
    world.deliver()
    world.disk.late = True
    answer = look(world, 150)
    assert not answer.there
    world.deliver()
    assert triple(answer) == (0, 300, 1)


@pytest.mark.parametrize(
    ("epoch", "expected"), [(-1, (-1, -1)), (0, (0, 0)), (1, (1, 3)), (3, (1, 3)), (5, (5, 4)), (6, (-1, -1))]
)
def test_where_an_epoch_ended(world, epoch, expected):
    """Epoch 1 from 0, epoch 5 from 3, log end 4."""
    world.host(P(0), leader_epoch=5)
    world.produce(P(0))
    result = world.manager.offsets_for_leader_epoch({P(0): EpochQuery(epoch)})[P(0)]
    assert (result.error_code, (result.leader_epoch, result.end_offset)) == (0, expected)


def test_refusals_of_an_epoch_lookup(world):
    def code(key, current=-1):
        return world.manager.offsets_for_leader_epoch({key: EpochQuery(1, current)})[key].error_code

    assert code(P(9)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    world.cluster.partitions.add(P(9))
    assert code(P(9)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.manager.hosted.offline[P(9)] = None
    assert code(P(9)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert code(P(0), 0) == ErrorCode.FENCED_LEADER_EPOCH
    assert code(P(0), 2) == ErrorCode.UNKNOWN_LEADER_EPOCH
    world.host(P(0), replicas=(1, 2), isr=(1, 2), leader=2, leader_epoch=2)
    assert code(P(0)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
