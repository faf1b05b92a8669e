"""How many bytes pass to replicas out of sync, and to whom that applies."""

from __future__ import annotations

import pytest

from barnabas.broker.config.keys import LONG_MAX
from barnabas.broker.replica.throttle import LEADER, Throttle
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.node.cluster import Cluster
from tests.broker.node.test_cluster_reassignment import reassign

PIECE = bytes(100_000)
COUNT = 40
RATE = 1_000_000


def throttle(rate=1000, listed=None):
    overrides = {"t": {} if listed is None else {LEADER: listed}}
    return Throttle(lambda: rate, LEADER, 1, lambda topic: overrides.get(topic, {}))


def test_a_seconds_bytes_pass_at_once_and_what_is_owed_is_paid_first():
    one = throttle(1000)
    assert not one.exceeded(0)
    one.passed(1000, 0)
    assert one.exceeded(0)
    assert one.again_ms(0) == 1
    assert not one.exceeded(1)
    one.passed(3001, 1)
    assert one.exceeded(1)
    assert one.again_ms(1) == 3002
    assert one.exceeded(3000)
    assert not one.exceeded(3002)
    assert not one.exceeded(99_000)
    one.passed(999, 99_000)
    assert not one.exceeded(99_000), "what was not used is not saved up"
    one.passed(2, 99_000)
    assert one.exceeded(99_000)


def test_without_a_rate_everything_passes_and_with_none_at_all_nothing():
    one = throttle(LONG_MAX)
    one.passed(10**12, 0)
    assert not one.exceeded(0)
    none = throttle(0)
    assert none.exceeded(0)
    assert none.again_ms(5) > 5


@pytest.mark.parametrize(
    ("listed", "held"),
    [(None, False), ("", False), ("*", True), ("3:1", True), ("0:1, 3:1", True), ("3:2,1:3", False), ("13:1", False)],
)
def test_it_holds_for_what_a_topic_lists_for_this_broker(listed, held):
    assert throttle(1, listed).holds_for(TopicPartition("t", 3)) is held


def moved_in_ms(rate=None, **settings):
    """How long 4 MB take from 2 to 4, while 1 and 2 take records of another topic in sync."""
    four = Cluster(1, 2, 3, 4, **({} if rate is None else rate))
    four.create(replicas={0: [2, 3]}, **settings)
    four.create("u", replicas={0: [2, 1]}, min_insync_replicas=2, leader_replication_throttled_replicas="*")
    for _ in range(COUNT):
        assert four.put(PIECE).error_code == 0
    began_ms = four.now_ms
    assert reassign(four, {0: [4, 3]}) == {0: 0}
    sent = four.produce(b"in sync", topic="u")
    assert four.until(lambda: sent.done) < 100, "who is in sync is not held back"
    four.until(lambda: not four.state().moves)
    assert four.leader() in (3, 4)
    return four.now_ms - began_ms


def test_without_a_throttle_it_takes_no_time():
    assert moved_in_ms() < 500
    assert moved_in_ms({"leader_replication_throttled_rate": RATE}) < 500, "it is not listed"


@pytest.mark.parametrize(
    ("side", "listed"), [("leader", "0:2"), ("leader", "*"), ("follower", "0:4"), ("follower", "0:3,0:4")]
)
def test_a_partition_that_moves_takes_its_time(side, listed):
    took_ms = moved_in_ms(
        {f"{side}_replication_throttled_rate": RATE}, **{f"{side}_replication_throttled_replicas": listed}
    )
    assert 2000 < took_ms < 8000


def test_a_rate_is_set_and_taken_away_while_it_moves():
    """As kafka-reassign-partitions.sh does with --throttle, and with --verify at the end."""
    four = Cluster(1, 2, 3, 4)
    four.create(replicas={0: [2, 3]}, leader_replication_throttled_replicas="0:2,0:3")
    for _ in range(COUNT):
        assert four.put(PIECE).error_code == 0
    rate(four, 2, "1")
    assert reassign(four, {0: [4, 3]}) == {0: 0}
    four.advance(60_000)
    assert four.state().moves, "a byte a second"
    rate(four, 2, None)
    assert four.until(lambda: not four.state().moves) < 2000


def rate(cluster, node_id, value):
    config = AlterableConfig("leader.replication.throttled.rate", 1 if value is None else 0, value)
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(4, str(node_id), [config])])
    (answer,) = cluster.ask(node_id, request, 1).responses
    assert answer.error_code == 0, answer.error_message
    expected = 2**63 - 1 if value is None else int(value)
    cluster.until(lambda: cluster[node_id].core.config.leader_replication_throttled_rate == expected)
