"""Consumers of a rack among three brokers (KIP-392), in virtual time: where they are sent, and what they get there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from barnabas.broker.config.broker_config import RACK_AWARE
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import ZERO_UUID, TopicPartition
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.broker.node.cluster import Cluster

RACKS = {1: "a", 2: "b", 3: "c"}
SENT_FROM = 11
"""The version of Fetch from which a consumer can be sent elsewhere."""


def cluster(replicas: Sequence[int] = (1, 2, 3), **settings: Any) -> Cluster:
    """Three brokers in a rack each, and `t`, which the first of its replicas leads."""
    three = Cluster(1, broker_rack="a", replica_selector_class=RACK_AWARE, **settings)
    for node_id in (2, 3):
        three.start(node_id, broker_rack=RACKS[node_id])
    three.until(lambda: all(one.core.ready for one in three.nodes.values()))
    three.create(replicas={0: list(replicas)})
    assert three.put(b"first").error_code == 0
    three.advance(1000)
    return three


@pytest.fixture(scope="module")
def three() -> Cluster:
    """One that is only asked."""
    return cluster()


def fetch(three: Cluster, node_id: int, rack: str, offset: int = 0, wait_ms: int = 0) -> Any:
    part = FetchPartition(0, -1, offset, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=[FetchTopic("t", ZERO_UUID, [part])])
    request.rack_id = rack
    (topic,) = three.ask(node_id, request, SENT_FROM).responses
    (data,) = topic.partitions
    return data


def test_each_broker_tells_its_rack_the_controller_too(three: Cluster) -> None:
    assert {one: broker.rack for one, broker in three[2].core.image.brokers.items()} == {1: "a", 2: "b", 3: "c"}


@pytest.mark.parametrize(("rack", "other"), [("b", 2), ("c", 3)])
def test_a_consumer_is_sent_to_the_replica_of_its_rack_and_reads_there(three: Cluster, rack: str, other: int) -> None:
    told = fetch(three, 1, rack)
    assert (told.error_code, told.preferred_read_replica, len(told.records), told.high_watermark) == (0, other, 0, 1)
    read = fetch(three, other, rack)
    assert (read.error_code, read.preferred_read_replica, read.high_watermark) == (0, -1, 1)
    assert b"first" in bytes(read.records)


@pytest.mark.parametrize("rack", ["a", "nowhere", ""])
def test_who_is_sent_nowhere_reads_from_the_leader(three: Cluster, rack: str) -> None:
    told = fetch(three, 1, rack)
    assert (told.error_code, told.preferred_read_replica) == (0, -1)
    assert b"first" in bytes(told.records)


def test_an_offset_that_nobody_has_is_answered_by_the_leader(three: Cluster) -> None:
    assert fetch(three, 1, "b", offset=99).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_who_has_deleted_that_offset_already_is_nobody_to_read_it_from() -> None:
    """Each broker keeps to retention by itself: the leader and he would send a consumer to and fro."""
    three = cluster()
    assert three.put(b"second").error_code == 0
    three.advance(1000)
    three[2].core.replicas.hosted.online[TopicPartition("t", 0)].log.raise_log_start_offset(1)
    three.advance(1000)
    assert fetch(three, 2, "b").error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    told = fetch(three, 1, "b")
    assert (told.preferred_read_replica, b"first" in bytes(told.records)) == (-1, True)
    assert fetch(three, 1, "b", offset=1).preferred_read_replica == 2


def test_a_fetch_that_waits_for_more_is_sent_away_at_once(three: Cluster) -> None:
    before_ms = three.now_ms
    assert fetch(three, 1, "b", offset=1, wait_ms=5000).preferred_read_replica == 2
    assert three.now_ms - before_ms < 500


def test_without_the_setting_all_read_from_the_leader() -> None:
    three = cluster()
    three[1].core.config.replica_selector_class = None
    assert b"first" in bytes(fetch(three, 1, "b").records)


def test_who_left_the_isr_is_nobody_to_read_from_though_it_is_there_and_has_what_is_asked_for() -> None:
    three = cluster([2, 1, 3], replica_lag_time_max_ms=2000)
    assert fetch(three, 2, "c").preferred_read_replica == 3
    three.cut.add(frozenset((2, 3)))
    assert three.put(b"second", acks=1).error_code == 0
    three.until(lambda: three.state().isr == (2, 1))
    assert three[2].core.image.is_alive(3)
    told = fetch(three, 2, "c")
    assert (told.preferred_read_replica, b"first" in bytes(told.records)) == (-1, True)


def test_one_that_is_fenced_is_nobody_to_read_from() -> None:
    three = cluster(replica_lag_time_max_ms=2000)
    three.cut.add(frozenset((1, 3)))
    three.until(lambda: three.state().isr == (1, 2))
    assert not three[1].core.image.is_alive(3)
    assert fetch(three, 1, "c").preferred_read_replica == -1
    three.kill(2)
    three.until(lambda: three.state().isr == (1,))
    assert b"first" in bytes(fetch(three, 1, "b").records)


def test_of_several_the_one_that_has_most() -> None:
    three = Cluster(1, broker_rack="a", replica_selector_class=RACK_AWARE)
    for node_id in (2, 3):
        three.start(node_id, broker_rack="b")
    three.until(lambda: all(one.core.ready for one in three.nodes.values()))
    three.create(replicas={0: [1, 2, 3]})
    assert three.put(b"first").error_code == 0
    three.advance(1000)
    assert fetch(three, 1, "b").preferred_read_replica == 3, "of equals the highest id"
    three.cut.add(frozenset((1, 3)))
    assert three.put(b"second", acks=1).error_code == 0
    three.advance(600)
    assert sorted(three.state().isr) == [1, 2, 3]
    assert fetch(three, 1, "b").preferred_read_replica == 2


def test_a_consumer_that_waits_at_a_follower_is_woken_when_it_hears_of_the_commit() -> None:
    three = cluster()
    part = FetchPartition(0, -1, 1, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=20_000, min_bytes=1, topics=[FetchTopic("t", ZERO_UUID, [part])])
    request.rack_id = "b"
    waits = three.send(2, request, SENT_FROM)
    three.advance(1000)
    assert not waits.done
    assert three.put(b"second").error_code == 0
    assert three.until(lambda: waits.done) < 1000
    assert b"second" in bytes(waits.response.responses[0].partitions[0].records)
