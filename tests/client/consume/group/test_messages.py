"""What a member sends at every version, and what it makes of what others say."""

from __future__ import annotations

import logging
from struct import pack
from typing import Any

import pytest

from barnabas.client.consume.group import messages
from barnabas.client.consume.group.assignors import ASSIGNORS, assignors_of
from barnabas.client.consume.group.commits import (
    commit_request,
    fetch_request,
    highest_version,
    reader_of_commit,
    reader_of_fetch,
)
from barnabas.client.consume.group.coordinator import find_request, read_found
from barnabas.client.consume.group.values import Identity, OffsetAndMetadata
from barnabas.net.network import PerVersion
from barnabas.net.topology import Cluster, PartitionInfo, TopicInfo
from barnabas.protocol.api import VERSIONS, ApiKey
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.kafka import codec, consumer_protocol
from barnabas.protocol.requests import find_coordinator, offset_commit, offset_fetch
from barnabas.protocol.requests.join_group import JoinGroupResponseMember

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ID = b"t" * 16
KNOWN = Cluster(topics={"t": TopicInfo("t", ID, (PartitionInfo("t", 0),))}, topic_names={ID: "t"})
WHO = Identity("g", 3, "m1", None)


def written(request: PerVersion, version: int) -> Any:
    """As a broker reads it."""
    frame = b"".join(codec.encode_request(request.key, version, 1, "me", request.make(version)))
    return codec.decode_request(memoryview(frame)[4:])[1]


def every(key: ApiKey) -> list[int]:
    first, last = VERSIONS[key]
    return list(range(first, last + 1))


@pytest.mark.parametrize("version", every(ApiKey.OFFSET_COMMIT))
def test_a_commit_at_every_version(version: int) -> None:
    request = commit_request(lambda: WHO, {T0: OffsetAndMetadata(5, "mine"), T1: OffsetAndMetadata(6)}, KNOWN)
    read = written(request, version)
    (topic,) = read.topics
    assert (topic.name, topic.topic_id) == (("", ID) if version >= 10 else ("t", bytes(16)))
    assert [(each.partition_index, each.committed_offset) for each in topic.partitions] == [(0, 5), (1, 6)]
    assert (read.generation_id_or_member_epoch, read.member_id) == (3, "m1")


@pytest.mark.parametrize("version", every(ApiKey.OFFSET_FETCH))
def test_a_question_for_offsets_at_every_version(version: int) -> None:
    read = written(fetch_request("g", [T0, T1], lambda: KNOWN), version)
    topics = read.groups[0].topics if version >= 8 else read.topics
    assert [each.partition_indexes for each in topics] == [[0, 1]]
    assert read.require_stable == (version >= 7)
    if version >= 2:
        everything = written(fetch_request("g", None, lambda: KNOWN), version)
        assert (everything.groups[0].topics if version >= 8 else everything.topics) is None


@pytest.mark.parametrize("version", every(ApiKey.FIND_COORDINATOR))
def test_a_question_for_a_coordinator_at_every_version(version: int) -> None:
    read = written(find_request("g"), version)
    assert (read.coordinator_keys if version >= 4 else [read.key]) == ["g"]


@pytest.mark.parametrize("version", every(ApiKey.LEAVE_GROUP))
def test_a_leave_at_every_version(version: int) -> None:
    read = written(messages.leave_request("g", "m1", "why"), version)
    assert ([each.member_id for each in read.members] if version >= 3 else [read.member_id]) == ["m1"]


def test_both_forms_of_an_answer_are_read() -> None:
    alone = find_coordinator.FindCoordinatorResponse(node_id=3, host="h", port=9)
    listed = find_coordinator.FindCoordinatorResponse(coordinators=[find_coordinator.Coordinator("g", 3, "h", 9)])
    assert [(each.node_id, each.host, each.port) for each in map(read_found, (alone, listed))] == [(3, "h", 9)] * 2
    part = offset_fetch.OffsetFetchResponsePartition(0, 7, 2, "mine", 0)
    parts = offset_fetch.OffsetFetchResponsePartitions(0, 7, 2, "mine", 0)
    old = offset_fetch.OffsetFetchResponse(topics=[offset_fetch.OffsetFetchResponseTopic("t", [part])])
    for name, topic_id in (("t", bytes(16)), ("", ID)):
        topics = [offset_fetch.OffsetFetchResponseTopics(name, topic_id, [parts])]
        new = offset_fetch.OffsetFetchResponse(groups=[offset_fetch.OffsetFetchResponseGroup("g", topics)])
        for answer in (old, new):
            assert reader_of_fetch(KNOWN)(answer) == ({T0: OffsetAndMetadata(7, "mine", 2)}, 0)


def test_the_first_error_of_an_answer_counts_and_nothing_committed_is_nothing() -> None:
    parts = [offset_fetch.OffsetFetchResponsePartitions(0, -1), offset_fetch.OffsetFetchResponsePartitions(1, -1)]
    topics = [offset_fetch.OffsetFetchResponseTopics("t", partitions=parts)]
    answer = offset_fetch.OffsetFetchResponse(groups=[offset_fetch.OffsetFetchResponseGroup("g", topics)])
    assert reader_of_fetch(KNOWN)(answer) == ({}, 0)
    parts[1].error_code = 88
    assert reader_of_fetch(KNOWN)(answer) == ({}, 88)
    committed = [offset_commit.OffsetCommitResponsePartition(n, code) for n, code in enumerate((0, 12, 25))]
    for name, topic_id in (("t", bytes(16)), ("", ID)):
        topic = offset_commit.OffsetCommitResponseTopic(name, topic_id, committed)
        assert reader_of_commit(KNOWN)(offset_commit.OffsetCommitResponse(topics=[topic])) == (T1, 12)
        topic.partitions = committed[:1]
        assert reader_of_commit(KNOWN)(offset_commit.OffsetCommitResponse(topics=[topic])) == (None, 0)


def test_topics_without_an_id_are_named() -> None:
    assert highest_version(KNOWN, ["t"]) is None
    assert highest_version(KNOWN, ["t", "u"]) == 9


# ---- what members tell each other -----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", list(ASSIGNORS))
def test_a_member_is_understood(way: str) -> None:
    kept = messages.Kept((T0, U0), 4)
    (told,) = messages.protocols(assignors_of([way]), ["u", "t"], [T0, U0], kept, "rack")
    member = messages.member_of(JoinGroupResponseMember("m1", "i", told.metadata), way)
    assert (member.id, member.instance_id, member.topics) == ("m1", "i", frozenset({"t", "u"}))
    assert (member.owned, member.generation) == ((T0, U0), 4)


def test_an_eager_sticky_member_tells_what_it_had() -> None:
    (told,) = messages.protocols(assignors_of(["sticky"]), ["t"], [], messages.Kept((T0, T1), 4), None)
    member = messages.member_of(JoinGroupResponseMember("m1", None, told.metadata), "sticky")
    assert (member.owned, member.generation) == ((T0, T1), 4)


def subscription(user_data: bytes) -> bytes:
    return consumer_protocol.encode_subscription(consumer_protocol.ConsumerProtocolSubscription(["t"], user_data))


@pytest.mark.parametrize(
    "told",
    [
        b"",
        b"\x00",
        b"\xff\xff" + bytes(8),
        bytes(7),
        subscription(b"\x00\x00"),
        subscription(pack(">ih", 1, -5) + bytes(20)),
        subscription(pack(">ih1si", 1, 1, b"t", -1)),
        subscription(pack(">ih1si", 1, 1, b"t", 2**31 - 1)),
        subscription(pack(">ih1s", 2**31 - 1, 1, b"\xff") + bytes(8)),
    ],
)
def test_a_member_that_cannot_be_read_gets_nothing(told: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        member = messages.member_of(JoinGroupResponseMember("m1", None, told), "sticky")
    assert member.topics == frozenset()
    assert "member m1 gets no partitions: its subscription cannot be read" in caplog.text


def test_shares_are_written_and_read() -> None:
    assert messages.read_assignment(messages.assignment([U0, T1, T0])) == [T0, T1, U0]
    assert messages.read_assignment(b"") == []
