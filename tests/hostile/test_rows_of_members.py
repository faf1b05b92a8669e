"""What thousands of groups, or of members of one, could do to everybody: as `test_rows`, against a real process."""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.requests.heartbeat import HeartbeatRequest
from barnabas.protocol.requests.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.requests.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.requests.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.host.test_siege import siege
from tests.hostile.meter import exchange
from tests.hostile.test_rows import Peer, frame
from tests.hostile.test_rows_of_groups import ask, coordinated

pytestmark = [
    pytest.mark.slow,
    pytest.mark.measured,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
]

ANY_SIZE = ("--set", "group.max.size=10000", "--set", "group.consumer.max.size=10000")
NO_DELAY = ("--set", "group.initial.rebalance.delay.ms=0", "--set", "offsets.topic.num.partitions=1")
TOGETHER = ("--set", "group.initial.rebalance.delay.ms=1000", "--set", "offsets.topic.num.partitions=1")
"""So long, and again, who comes is in the first generation."""
NOTHING = struct.pack(">hii", 0, 0, -1)
"""A ConsumerProtocolAssignment of nothing."""
WANTS_T = struct.pack(">hih1si", 0, 1, 1, b"t", -1)
"""A ConsumerProtocolSubscription to the topic `t`."""


def many(peer: Peer, key: int, version: int, requests: Sequence[Any], at_once: int = 500) -> list[Any]:
    """The answers to requests that are sent behind each other."""
    answers = []
    for start in range(0, len(requests), at_once):
        some = requests[start : start + at_once]
        told = exchange(peer.sock, b"".join(frame(key, version, one) for one in some), answers=len(some))
        assert told is not None
        answers += [codec.decode_response(key, version, one)[1] for one in told]
    return answers


def codes(answers: Sequence[Any]) -> set[int]:
    """The errors of answers."""
    return {one.error_code for one in answers}


def joining(group: str, member_id: str = "", instance_id: str | None = None, **other: Any) -> JoinGroupRequest:
    """A member of the classic protocol that wants `t`."""
    metadata = other.get("metadata", WANTS_T)
    protocols = [JoinGroupRequestProtocol("range", metadata)]
    wait_ms = other.get("rebalance_timeout_ms", 60_000)
    return JoinGroupRequest(group, 60_000, wait_ms, member_id, instance_id, "consumer", protocols)


def beginning(group: str, member_id: str, **other: Any) -> ConsumerGroupHeartbeatRequest:
    """The first heartbeat of a member of the consumer protocol that wants `t`."""
    wants = {"subscribed_topic_names": ["t"], **other}
    return ConsumerGroupHeartbeatRequest(group, member_id, 0, rebalance_timeout_ms=60_000, topic_partitions=[], **wants)


def members_of_one(stack: ExitStack, port: int, group: str, count: int, **other: Any) -> list[tuple[Peer, Any]]:
    """Connections, and the first generation of a group, that so many join at once over them; the leader comes first."""
    peers = [Peer(stack, port) for _ in range(count)]
    for number, peer in enumerate(peers):
        instance_id = f"{other['static']}-{number}" if "static" in other else None
        peer.say(frame(ApiKey.JOIN_GROUP, 5 if instance_id else 3, joining(group, "", instance_id, **other)))
    version = 5 if "static" in other else 3
    found = []
    for peer in peers:
        told = exchange(peer.sock, b"")
        assert told is not None
        found.append((peer, codec.decode_response(ApiKey.JOIN_GROUP, version, told[0])[1]))
    found.sort(key=lambda one: one[1].member_id != one[1].leader)
    return found


def shared_out(members: Sequence[tuple[Peer, Any]], group: str) -> None:
    """Have all of them sync, the leader last: it gives nobody anything."""
    generation = members[0][1].generation_id
    everybody = [SyncGroupRequestAssignment(one.member_id, NOTHING) for _, one in members]
    for peer, one in reversed(members):
        given = everybody if one.member_id == one.leader else []
        peer.say(frame(ApiKey.SYNC_GROUP, 3, SyncGroupRequest(group, generation, one.member_id, assignments=given)))
    for peer, _ in members:
        told = exchange(peer.sock, b"")
        assert told is not None
        assert codec.decode_response(ApiKey.SYNC_GROUP, 3, told[0])[1].error_code == 0


def commit_of(group: str) -> OffsetCommitRequest:
    """One offset of `t`, by nobody in particular."""
    parts = [OffsetCommitRequestPartition(0, 7, -1, "")]
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("t", partitions=parts)])


def test_ten_thousand_groups_and_a_start_that_reads_them(tmp_path: Path) -> None:
    """Of either protocol, and of offsets alone; then their coordinator is loaded while others are served."""
    count, directory = 10_000, tmp_path
    options = ("--topic", "t:1", *NO_DELAY)
    with siege(*options, kept=directory) as process, ExitStack() as stack:
        peer = Peer(stack, process.port)
        coordinated(peer)
        commits = many(peer, ApiKey.OFFSET_COMMIT, 8, [commit_of(f"offsets-{n}") for n in range(count)])
        assert {one.topics[0].partitions[0].error_code for one in commits} == {0}
        ids = many(peer, ApiKey.JOIN_GROUP, 9, [joining(f"classic-{n}") for n in range(count)])
        assert codes(ids) == {ErrorCode.MEMBER_ID_REQUIRED}
        begun = many(peer, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, [beginning(f"new-{n}", "m") for n in range(count // 5)])
        assert codes(begun) == {0}
    with siege(*options, kept=directory) as process, ExitStack() as stack:
        peer = Peer(stack, process.port)
        coordinated(peer)
        beat = ConsumerGroupHeartbeatRequest("new-1", "m", begun[1].member_epoch)
        until_s = time.monotonic() + 60
        while (code := ask(peer, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, beat).error_code) and time.monotonic() < until_s:
            assert code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert not code


def test_five_thousand_members_of_one_group() -> None:
    """Of the consumer protocol, over one connection; and as many ids given out that nobody uses."""
    count = 5_000
    with siege("--topic", "t:100", *NO_DELAY, *ANY_SIZE) as process, ExitStack() as stack:
        peer = Peer(stack, process.port)
        coordinated(peer)
        ids = many(peer, ApiKey.JOIN_GROUP, 9, [joining("classic") for _ in range(count)])
        assert codes(ids) == {ErrorCode.MEMBER_ID_REQUIRED}
        came = many(peer, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, [beginning("new", f"m{n}") for n in range(count)])
        assert codes(came) == {0}
        beats = [ConsumerGroupHeartbeatRequest("new", f"m{n}", came[n].member_epoch) for n in range(count)]
        assert codes(many(peer, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, beats)) <= {0, ErrorCode.FENCED_MEMBER_EPOCH}


def test_members_that_never_sync() -> None:
    """Their rebalance ends without an assignment, and they come again: all are waited for, each time."""
    with siege("--topic", "t:1", *TOGETHER) as process:
        for number in range(3):
            with ExitStack() as stack:
                if not number:
                    coordinated(Peer(stack, process.port))
                members = members_of_one(stack, process.port, "group", 900, rebalance_timeout_ms=500)
                generations = {one.generation_id for _, one in members}
                assert len(generations) <= 2
                time.sleep(0.7)  # the broker's own time is what is played here


def test_two_that_are_the_same_static_member_of_a_large_group(tmp_path: Path) -> None:
    """Each who comes takes the other's place, which is written with all members of the group."""
    with siege("--topic", "t:1", *TOGETHER, data_dir=tmp_path) as process, ExitStack() as stack:
        peer = Peer(stack, process.port)
        coordinated(peer)
        members = members_of_one(stack, process.port, "group", 900, static="same")
        shared_out(members, "group")
        fights = many(peer, ApiKey.JOIN_GROUP, 5, [joining("group", "", "same-7") for _ in range(300)])
        assert codes(fights) == {0}
        assert len({one.member_id for one in fights}) == 300


def test_large_metadata_that_is_another_each_time() -> None:
    """Members that join again, each time with 900 KB that differ, so that all of their group join again."""
    with siege("--topic", "t:1", *NO_DELAY) as process, ExitStack() as stack:
        peers = [Peer(stack, process.port) for _ in range(8)]
        coordinated(peers[0])
        ids = [""] * len(peers)
        for turn in range(12):
            for at, peer in enumerate(peers):
                large = joining(f"group-{at}", ids[at], metadata=WANTS_T + bytes([turn]) * 900_000)
                peer.say(frame(ApiKey.JOIN_GROUP, 3, large))
            for at, peer in enumerate(peers):
                told = exchange(peer.sock, b"")
                assert told is not None
                answer = codec.decode_response(ApiKey.JOIN_GROUP, 3, told[0])[1]
                assert answer.error_code == 0
                ids[at] = answer.member_id


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_heartbeats_as_fast_as_can_be(protocol: str) -> None:
    """Behind each other over fifty connections, of members and of nobody."""
    with siege("--topic", "t:1", *NO_DELAY) as process, ExitStack() as stack:
        peer = Peer(stack, process.port)
        coordinated(peer)
        told: Any
        if protocol == "classic":
            ((_, told),) = members_of_one(stack, process.port, "group", 1)
            one = frame(ApiKey.HEARTBEAT, 3, HeartbeatRequest("group", told.generation_id, told.member_id))
            other = frame(ApiKey.HEARTBEAT, 3, HeartbeatRequest("nobody", 1, "nobody"))
        else:
            told = ask(peer, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, beginning("group", "m"))
            version = ApiKey.CONSUMER_GROUP_HEARTBEAT, 1
            one = frame(*version, ConsumerGroupHeartbeatRequest("group", "m", told.member_epoch))
            other = frame(*version, ConsumerGroupHeartbeatRequest("nobody", "nobody", 1))
        peers = [Peer(stack, process.port) for _ in range(50)]
        for _ in range(4):
            for each in peers:
                each.say((one + other) * 250)
            for each in peers:
                assert exchange(each.sock, b"", answers=500) is not None


def test_patterns_that_cost(tmp_path: Path) -> None:
    """A hundred members, each of which says another costly pattern with every heartbeat, over 2,000 long names.

    What takes long to be read or compiled held everybody up for 140 ms each time until now.
    """
    count, names = 100, [f"{'a' * 200}{n}" for n in range(2_000)]
    topics = [part for name in names for part in ("--topic", f"{name}:1")]
    costly = "(a|aa|aaa|aaaa)*(b|c){0,%d}[0-9a]*.{0,40}"
    with siege(*topics, *NO_DELAY, data_dir=tmp_path) as process, ExitStack() as stack:
        peer = Peer(stack, process.port)
        coordinated(peer)
        first = [
            beginning("group", f"m{n}", subscribed_topic_names=None, subscribed_topic_regex=costly % n)
            for n in range(count)
        ]
        came = many(peer, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, first)
        assert codes(came) == {0}
        for dear in ("\\PL" * 1300, "x{0,1000}" * 8, "\\PL" * 50):
            asked = [beginning("group", "m", subscribed_topic_regex=f"{n}{dear}") for n in range(20)]
            told = many(peer, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, asked)
            assert codes(told) == {ErrorCode.INVALID_REGULAR_EXPRESSION}
        for turn in range(5):
            beats = [
                ConsumerGroupHeartbeatRequest(
                    "group", f"m{n}", came[n].member_epoch, subscribed_topic_regex=costly % (n + turn + 1)
                )
                for n in range(count)
            ]
            found = many(peer, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, beats)
            assert codes(found) <= {0, ErrorCode.INVALID_REGULAR_EXPRESSION, ErrorCode.FENCED_MEMBER_EPOCH}
            for at, one in enumerate(found):
                came[at] = one if not one.error_code else came[at]


@pytest.mark.parametrize("size", [50, 700])
def test_a_group_that_changes_its_protocol_all_the_time(size: int, tmp_path: Path) -> None:
    """A member of the consumer protocol comes and goes: each time all that is known of the others is written anew."""
    with siege("--topic", "t:1", *TOGETHER, data_dir=tmp_path) as process, ExitStack() as stack:
        peer = Peer(stack, process.port)
        coordinated(peer)
        shared_out(members_of_one(stack, process.port, "group", size), "group")
        key = ApiKey.CONSUMER_GROUP_HEARTBEAT
        for _ in range(60):
            came, went = many(peer, key, 1, [beginning("group", "m"), ConsumerGroupHeartbeatRequest("group", "m", -1)])
            assert came.error_code in (0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            assert went.error_code in (0, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_MEMBER_ID)
