"""Answers on which clients have come to grief with other brokers: one test for each, over the wire.

What a throttled connection gets first stands in `tests/broker/host/test_channel.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.batches import Record, batch
from tests.conformance.raw import Connection, fitting, plain
from tests.conformance.world import fetch_body, now_ms, produce_body, topic_body
from tests.wire.conftest import make_topic

NONE, REBALANCE_IN_PROGRESS, INVALID_REPLICATION_FACTOR = 0, 27, 38
PRODUCE, FETCH = 9, 12
FOREVER_MS = 300_000


@pytest.fixture
def connect(address: str) -> Iterator[Callable[[], Connection]]:
    """Connections that fail after 30 s without an answer."""
    made: list[Connection] = []

    def connection() -> Connection:
        made.append(Connection(int(address.rsplit(":", 1)[1])))
        return made[-1]

    yield connection
    for each in made:
        each.close()


def coordinated(peer: Connection, group: str) -> str:
    """The group, once its coordinator is there: the first of all groups has its topic made on the way."""
    deadline, answered = time.monotonic() + 30, False
    while not answered:
        assert time.monotonic() < deadline
        found = int(peer.call("find_coordinator", 3, {"key": group, "key_type": 0}).body.error_code)
        (described,) = peer.call("describe_groups", 0, {"groups": [group]}).body.groups
        answered = found == NONE and int(described.error_code) == NONE
    return group


@pytest.mark.parametrize("version", range(1, 11))
def test_offsets_of_an_unknown_group_are_minus_one_and_no_error(
    connect: Callable[[], Connection], address: str, fresh: Callable[[], str], version: int
) -> None:
    topic = fresh()
    make_topic(address, topic, 1)
    peer = connect()
    asked: dict[str, Any] = {"name": topic, "partition_indexes": [0]}
    if version >= 10:
        (described,) = peer.call("metadata", 12, {"topics": [{"name": topic}]}).body.topics
        asked["topic_id"] = described.topic_id
    group = {"group_id": coordinated(peer, f"{topic}-nobody"), "member_id": None, "member_epoch": -1, "topics": [asked]}
    body = fitting("offset_fetch", version, {**group, "groups": [group], "require_stable": False})
    told = plain(peer.call("offset_fetch", version, body).body)
    (answered,) = told.get("groups", [told])
    assert answered.get("error_code", NONE) == NONE
    (partition,) = answered["topics"][0]["partitions"]
    assert (partition["committed_offset"], partition["error_code"]) == (-1, NONE)


@pytest.mark.parametrize("version", range(4, 19))
def test_a_fetch_of_nothing_carries_records_of_no_length(
    connect: Callable[[], Connection], address: str, fresh: Callable[[], str], version: int
) -> None:
    """kafka-python ends on null; at the end, and with an error, too."""
    topic = fresh()
    make_topic(address, topic, 1)
    peer = connect()
    name: Any = topic
    if version >= 13:
        (described,) = peer.call("metadata", 12, {"topics": [{"name": topic}]}).body.topics
        name = described.topic_id
    places = [(name, 0, 0), (name, 0, 99), (name, 7, 0)]
    for place in places:
        body = fetch_body([place], key="topic_id" if version >= 13 else "topic")
        told = peer.call("fetch", version, fitting("fetch", version, body)).body
        (partition,) = told.responses[0].partitions
        assert partition.records is not None, place
        assert bytes(partition.records) == b""


@pytest.mark.parametrize("version", [5, 6, 7])
def test_no_list_is_null_in_what_is_told_of_made_topics(
    connect: Callable[[], Connection], fresh: Callable[[], str], version: int
) -> None:
    """Java ends on null settings, and on null replicas in DescribeTopicPartitions."""
    topic, peer = fresh(), connect()
    wanted = [topic_body(topic, 1, 1, {}), topic_body("not a name", 1, 1, {})]
    made = peer.call("create_topics", version, {"topics": wanted, "timeout": 10_000}).body.topics
    assert [int(one.error_code) for one in made] == [NONE, 17]
    assert [one.configs is None for one in made] == [False, False]
    named = {"topics": [{"name": topic}, {"name": f"{topic}-unknown"}], "response_partition_limit": 100}
    told = plain(peer.call("describe_topic_partitions", 0, named).body)
    (partition,) = told["topics"][0]["partitions"]
    lists = ("replica_nodes", "isr_nodes", "offline_replicas", "eligible_leader_replicas", "last_known_elr")
    assert {name: partition[name] for name in lists if partition[name] is None} == {}
    assert told["topics"][1]["partitions"] == []


@pytest.mark.parametrize("version", range(1, 14))
def test_the_controller_is_one_of_the_brokers_that_are_told(connect: Callable[[], Connection], version: int) -> None:
    """Admin clients send what changes something to it; with -1 they wait for one."""
    told = connect().call("metadata", version, fitting("metadata", version, {"topics": []})).body
    assert int(told.controller_id) in [int(broker.node_id) for broker in told.brokers]


@pytest.mark.parametrize("version", range(2, 8))
def test_more_replicas_than_brokers_are_refused_and_minus_one_is_the_default(
    connect: Callable[[], Connection], fresh: Callable[[], str], version: int
) -> None:
    wanted = [topic_body(fresh(), 1, replicas, {}) for replicas in (2, 3, -1)]
    if version < 4:  # where the default cannot be asked for
        wanted[2]["replication_factor"] = 1
    made = connect().call("create_topics", version, {"topics": wanted, "timeout": 10_000}).body.topics
    codes = {str(one.name): int(one.error_code) for one in made}
    assert [codes[one["name"]] for one in wanted] == [INVALID_REPLICATION_FACTOR, INVALID_REPLICATION_FACTOR, NONE]


def test_a_fetch_misses_nothing_that_comes_while_it_begins_to_wait(
    connect: Callable[[], Connection], address: str, fresh: Callable[[], str]
) -> None:
    """Both are on their way at once; one that missed it would wait for longer than the connection does."""
    topic = fresh()
    make_topic(address, topic, 1)
    reader, writer = connect(), connect()
    for offset in range(50):
        body = produce_body({topic: {0: batch([Record()], timestamp=now_ms())}})
        first, second = (reader, writer) if offset % 2 else (writer, reader)
        for peer in (first, second):
            if peer is reader:
                reader.send("fetch", FETCH, fetch_body([(topic, 0, offset)], wait=FOREVER_MS))
            else:
                writer.send("produce", PRODUCE, body)
        (partition,) = reader.receive()[1].body.responses[0].partitions
        assert partition.high_watermark == offset + 1
        writer.receive()


def test_a_join_that_waits_holds_no_heartbeat_of_another_back(
    connect: Callable[[], Connection], fresh: Callable[[], str]
) -> None:
    sitting, joining = connect(), connect()
    group = coordinated(sitting, fresh())
    body = {
        "group_id": group,
        "session_timeout": 30_000,
        "rebalance_timeout": FOREVER_MS,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    told = sitting.call("join_group", 3, body).body
    who = {"group_id": group, "generation_id": told.generation_id, "member_id": told.member_id}
    given = [{"member_id": told.member_id, "assignment": b""}]
    assert int(sitting.call("sync_group", 2, {**who, "assignments": given}).body.error_code) == NONE
    joining.send("join_group", 3, body)  # it waits for the first to join again
    while (code := int(sitting.call("heartbeat", 3, who).body.error_code)) == NONE:
        """The join has not come yet."""
    assert code == REBALANCE_IN_PROGRESS
    assert joining.silent(0.001)
    again = sitting.call("join_group", 3, {**body, "member_id": told.member_id}).body
    assert again.generation_id == joining.receive()[1].body.generation_id == told.generation_id + 1
