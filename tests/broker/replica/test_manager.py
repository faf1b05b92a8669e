"""Hosting, time, and the deferred actions."""

from __future__ import annotations

import logging
from typing import Any

from barnabas.broker.jobs import at_once
from barnabas.broker.replica import manager
from barnabas.broker.replica.action_queue import ActionQueue
from barnabas.broker.replica.partition import Partition
from barnabas.protocol.errors import ErrorCode
from tests.broker.replica.world import P, State, World


def test_actions_run_in_order_and_those_they_add_wait_for_the_next_drain():
    queue = ActionQueue()
    seen = []

    def first(now_ms):
        seen.append(("first", now_ms))
        queue.add(lambda now_ms: seen.append(("later", now_ms)))

    queue.add(first)
    queue.add(lambda now_ms: seen.append(("second", now_ms)))
    assert queue.drain(5) == 2
    assert seen == [("first", 5), ("second", 5)]
    assert queue.drain(6) == 1
    assert seen[-1] == ("later", 6)


def test_one_failing_action_does_not_hold_up_the_rest(caplog):
    queue = ActionQueue()
    seen: list[int] = []

    def fail(_):
        raise ValueError("broken")

    queue.add(fail)
    queue.add(seen.append)
    with caplog.at_level(logging.CRITICAL + 1):
        assert queue.drain(1) == 2
    assert seen == [1]


def test_partitions_of_other_brokers_are_not_hosted():
    world = World()
    world.host(P(0), replicas=(2, 3), leader=2)
    assert world.manager.partition(P(0)) is None
    assert P(0) not in world.logs.logs
    assert world.produce(P(0), acks=1).codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_partition_without_leader_is_hosted_and_refuses():
    world = World()
    world.host(P(0), leader=-1)
    assert world.produce(P(0), acks=1).codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_log_that_cannot_be_made_is_offline_until_it_can(monkeypatch, caplog):
    world = World()

    def refuse(path):
        raise OSError("no space left on device")

    with monkeypatch.context() as broken, caplog.at_level(logging.CRITICAL + 1):
        broken.setattr(world.disk, "make_dir", refuse)
        world.host(P(0))
    assert world.produce(P(0), acks=1).codes == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert world.gauge("ReplicaManager", "OfflineReplicaCount") == 1
    world.host(P(0))
    assert world.produce(P(0), acks=1).codes == [0]
    assert world.gauge("ReplicaManager", "OfflineReplicaCount") == 0


def test_a_log_that_found_no_room_is_made_within_a_second_of_it(monkeypatch):
    world = World()

    def refuse(path):
        raise OSError("no space left on device")

    with monkeypatch.context() as full:
        full.setattr(world.disk, "make_dir", refuse)
        world.host(P(0))
        world.host(P(1))
        world.move(1000)
        world.delete(P(1))
    assert world.produce(P(0), acks=1).codes == [ErrorCode.KAFKA_STORAGE_ERROR]
    world.move(600)
    assert world.produce(P(0), acks=1).codes == [0]
    assert world.manager.partition(P(1)) is None, "deleted meanwhile"
    assert world.gauge("ReplicaManager", "OfflineReplicaCount") == 0


def test_a_topic_made_anew_under_the_same_name_begins_empty():
    world = World()
    world.host(P(0))
    world.produce(P(0))
    waiting = world.fetch({P(0): 1})
    world.manager.apply({P(0): State(topic_id=b"u" * 16)}, [], 0)
    assert waiting.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert world.end(P(0)) == 0
    assert world.fetch({P(0): 0}, topic_id=b"t" * 16).codes == [ErrorCode.INCONSISTENT_TOPIC_ID]


def test_a_log_left_behind_by_a_deleted_topic_makes_way():
    world = World()
    world.host(P(0))
    world.produce(P(0))
    again = World()
    again.logs.logs.update(world.logs.logs)
    again.logs.disk = again.disk = world.disk
    again.manager.apply({P(0): State(topic_id=b"u" * 16)}, [], 0)
    assert again.end(P(0)) == 0


def test_removing_what_is_not_here_has_no_effect():
    world = World()
    world.manager.apply({}, [P(0)], 0)
    assert world.manager.hosted.online == {}


class _Unwalked(dict[Any, Any]):
    def __iter__(self):
        raise AssertionError("each deletion of one topic walked over all partitions")

    keys = values = items = __iter__


def test_a_topic_of_which_nothing_is_left_here_is_forgotten_without_a_look_at_all_others():
    world = World()
    for number in range(3):
        world.host(P(number))
    world.produce(P(0))
    hosted = world.manager.hosted
    hosted.online = _Unwalked(hosted.online)
    assert "t" in world.manager.shared.stats._topics
    for number, left in ((0, {"t": 2}), (2, {"t": 1})):
        world.manager.apply({}, [P(number), P(number)], 0)
        assert hosted.topics == left
        assert "t" in world.manager.shared.stats._topics
    world.manager.apply({P(1): State(replicas=(2,))}, [], 0)
    assert hosted.topics == {}
    assert "t" not in world.manager.shared.stats._topics


def test_an_idle_broker_wakes_only_for_the_isr_task():
    world = World()
    world.host(P(0))
    world.produce(P(0))
    assert world.manager.next_deadline_ms() == 8000  # the wheel's coarse bucket that holds 15,000
    world.move(14_999)
    assert world.manager.next_deadline_ms() == 15_000


def test_the_snapshot_shows_parked_operations_with_kind_keys_and_deadline():
    world = World()
    world.host(P(0), replicas=(1, 2))
    world.produce(P(0), timeout_ms=700)
    world.fetch({P(0): 0}, wait_ms=900, min_bytes=7)
    parked = {purgatory["name"]: purgatory["operations"] for purgatory in world.manager.snapshot(0)["purgatories"]}
    assert parked == {
        "Fetch": [
            {
                "kind": "DelayedFetch",
                "timeout_ms": 900,
                "deadline_ms": 900,
                "replica_id": -1,
                "min_bytes": 7,
                "offsets": {"t-0": 0},
                "keys": ["t-0"],
                "keys_count": 1,
            }
        ],
        "Produce": [
            {
                "kind": "DelayedProduce",
                "timeout_ms": 700,
                "deadline_ms": 700,
                "pending": {"t-0": 1},
                "keys": ["t-0"],
                "keys_count": 1,
            }
        ],
        "DeleteRecords": [],
    }


def test_the_isrs_of_very_many_partitions_are_looked_at_in_slices(monkeypatch):
    """Every fifteen seconds the loop stood still for 40 ms, where 13,000 are led."""
    monkeypatch.setattr(manager, "SHRUNK_AT_ONCE", 10)
    world = World()
    for number in range(25):
        world.host(P(number), replicas=(1, 2))
    jobs, seen = [], []
    world.manager.shared.run = lambda job, ended: jobs.append((job, ended))
    monkeypatch.setattr(Partition, "shrink_isr", lambda partition, _: seen.append(partition.topic_partition))
    period_ms = world.config.replica_lag_time_max_ms // 2
    world.move(period_ms)
    assert (len(jobs), seen) == (1, [])
    job, ended = jobs[0]
    next(job)
    assert len(seen) == 10
    world.move(2 * period_ms)
    assert len(jobs) == 1, "none begins before that"
    at_once(job)
    ended(None)
    assert seen == [P(number) for number in range(25)]
    world.move(period_ms)
    assert len(jobs) == 2
