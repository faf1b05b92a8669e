"""Every answer that the table of docs/SECURITY.md promises, met by a request: bytes in, bytes out.

A row promises an error by its name, or that what is named twice is told once; each such promise has a case here, and a
promise without one fails. How many elements a request may have is held by `test_reach`, how long steps take by `steps`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.cluster import topic_rules
from barnabas.broker.group import holdings
from barnabas.broker.group.consumer import advancing
from barnabas.broker.handlers import describe_configs
from barnabas.broker.handlers.get_telemetry_subscriptions import NOTHING_WANTED
from barnabas.protocol.api import BROKER_VERSIONS, VERSIONS, key_of
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests import alter_configs as altering
from barnabas.protocol.requests import alter_partition_reassignments as moving
from barnabas.protocol.requests import consumer_group_describe as describing_groups
from barnabas.protocol.requests import consumer_group_heartbeat as beating
from barnabas.protocol.requests import create_partitions as growing
from barnabas.protocol.requests import create_topics as creating
from barnabas.protocol.requests import delete_groups as deleting_groups
from barnabas.protocol.requests import delete_topics as deleting
from barnabas.protocol.requests import describe_client_quotas as quotas
from barnabas.protocol.requests import describe_configs as configs
from barnabas.protocol.requests import describe_groups as groups
from barnabas.protocol.requests import describe_log_dirs as dirs
from barnabas.protocol.requests import describe_producers as producers
from barnabas.protocol.requests import describe_topic_partitions as paging
from barnabas.protocol.requests import describe_user_scram_credentials as scram
from barnabas.protocol.requests import elect_leaders as electing
from barnabas.protocol.requests import find_coordinator as finding
from barnabas.protocol.requests import incremental_alter_configs as incremental
from barnabas.protocol.requests import join_group as joining
from barnabas.protocol.requests import leave_group as leaving
from barnabas.protocol.requests import list_groups as listing
from barnabas.protocol.requests import list_offsets as offsets
from barnabas.protocol.requests import list_partition_reassignments as moved
from barnabas.protocol.requests import list_transactions as transactions
from barnabas.protocol.requests import metadata
from barnabas.protocol.requests import offset_commit as committing
from barnabas.protocol.requests import offset_delete as forgetting
from barnabas.protocol.requests import offset_fetch as committed
from barnabas.protocol.requests import offset_for_leader_epoch as epochs
from barnabas.protocol.requests import produce as producing
from barnabas.protocol.requests import push_telemetry as telemetry
from barnabas.protocol.requests import sync_group as syncing
from barnabas.protocol.requests import update_features as features
from tests.broker.node.world import World, batch
from tests.hostile.largest import _headers

TABLE = (Path(__file__).parents[2] / "docs" / "SECURITY.md").read_text()
ONCE = re.compile(r"named twice(?: is (?:told|answered) once|: \w+, once)")
EACH_TIME = re.compile(r"named twice is (?:committed and )?answered each time")
ROOT = Path(__file__).parents[2]

Promise = tuple[int, str]


def promises() -> Iterator[Promise]:
    """What the table says that an API answers, by its number."""
    for key, text in re.findall(r"^\| \w+ \((\d+)\) \| \d+ \|(.*)\|$", TABLE, re.MULTILINE):
        for name in dict.fromkeys(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", text)):
            if name in ErrorCode.__members__:
                yield int(key), name
        if ONCE.search(text):
            yield int(key), "once"
        if EACH_TIME.search(text):
            yield int(key), "each time"


def send(world: World, request: Any, version: int | None = None) -> Any:
    """Send a request as its bytes; its answer, as its bytes have it."""
    key = key_of(type(request))
    at = VERSIONS[key][1] if version is None else version
    frame = b"".join(codec.encode_request(key, at, 7, "hostile", request))
    header, asked = codec.decode_request(memoryview(bytearray(frame))[4:])
    answer = world.send(asked, header.api_version)
    world.settle()
    world.advance(100)
    assert answer.response is not None, answer.closed
    back = b"".join(codec.encode_response(key, at, 7, answer.response))
    return codec.decode_response(key, at, memoryview(back)[4:])[1]


def codes(response: Any) -> set[int]:
    """All error codes of an answer."""
    if isinstance(response, list):
        return {code for one in response for code in codes(one)}
    if not hasattr(type(response), "__dataclass_fields__") and not hasattr(response, "__slots__"):
        return set()
    found: set[int] = set()
    for name in getattr(response, "__dataclass_fields__", None) or response.__slots__:
        value = getattr(response, name)
        found |= {value} if name == "error_code" else codes(value)
    return found


# What each API answers


def _produce(world: World, data: bytes | bytearray, topic: str) -> Any:
    part = producing.PartitionProduceData(0, memoryview(bytes(data)))
    return send(
        world, producing.ProduceRequest(None, 1, 100, [producing.TopicProduceData(topic, partition_data=[part])]), 9
    )


def too_many_records(world: World) -> Any:
    return _produce(world, batch(*[b"v"] * 101), "t")


def too_many_headers(world: World) -> Any:
    return _produce(world, _headers(1, 10_001), "compacted")


def offsets_twice(world: World) -> Any:
    parts = [offsets.ListOffsetsPartition(0, -1, -1)] * 2
    return send(world, offsets.ListOffsetsRequest(-1, topics=[offsets.ListOffsetsTopic("t", parts)]), 7)


def _commit(world: World, metadata_: str, partition: int = 0) -> Any:
    part = committing.OffsetCommitRequestPartition(partition, 1, -1, metadata_)
    topic = committing.OffsetCommitRequestTopic("t", partitions=[part])
    return send(world, committing.OffsetCommitRequest("g", topics=[topic]), 8)


def _full(world: World, ask: Callable[[], Any]) -> Any:
    """Ask while there is no room for groups."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(holdings, "BYTES_MAX", 0)
        patched.setattr(holdings, "ADDRESS_BYTES_MAX", 0)
        return ask()


def _join(world: World) -> Any:
    protocols = [joining.JoinGroupRequestProtocol("range", b"")]
    request = joining.JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", protocols)
    return send(world, request, 3)


def second_member(world: World) -> Any:
    _join(world)
    return _join(world)


def _create(count: int, **more: Any) -> creating.CreateTopicsRequest:
    return creating.CreateTopicsRequest([creating.CreatableTopic("new", count, 1)], 100, **more)


def above_the_quota(world: World, request: Any) -> Any:
    """Whatever asks first takes the burst."""
    spent = send(world, creating.CreateTopicsRequest([creating.CreatableTopic("spent", 30, 1)], 100))
    assert codes(spent) == {0}
    told = send(world, request)
    assert (told.throttle_time_ms == 0) is isinstance(request, metadata.MetadataRequest), "as in Kafka it tells of none"
    return told


def told_of_everything(world: World) -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(describe_configs, "SETTINGS_TOLD_MAX", 30)
        asked = [configs.DescribeConfigsResource(2, name, None) for name in ("t", "compacted")]
        return send(world, configs.DescribeConfigsRequest(asked))


def _altered(count: int, names: list[str]) -> altering.AlterConfigsRequest:
    many = [altering.AlterableConfig(f"k{at}", "1") for at in range(count)]
    return altering.AlterConfigsRequest([altering.AlterConfigsResource(2, name, many) for name in names])


def _changed(count: int, names: list[str]) -> incremental.IncrementalAlterConfigsRequest:
    many = [incremental.AlterableConfig(f"k{at}", 0, "1") for at in range(count)]
    return incremental.IncrementalAlterConfigsRequest(
        [incremental.AlterConfigsResource(2, name, many) for name in names]
    )


def _beat(world: World, member: str = "m", epoch: int = 0, **more: Any) -> Any:
    said: dict[str, Any] = {
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
        "rebalance_timeout_ms": 1000,
    } | more
    return send(world, beating.ConsumerGroupHeartbeatRequest("c", member, epoch, **said))


def second_consumer(world: World) -> Any:
    assert _beat(world).error_code == 0
    return _beat(world, "n")


def too_many_names(world: World) -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(advancing, "NAMES_MAX", 5)
        return _beat(world, subscribed_topic_names=[f"t{at}" for at in range(6)])


def _twice(world: World, request: Any, count: Callable[[Any], int], version: int | None = None) -> None:
    assert count(send(world, request, version)) == 1


def moving_twice(world: World) -> None:
    """A partition is told while it moves; here it stays on its way to a broker that there is not."""
    topic = world.core.image.topics["t"]
    topic.partitions[0] = replace(topic.partitions[0], replicas=(1, 2), adding=(2,))
    asked = moved.ListPartitionReassignmentsTopics("t", [0, 0])
    _twice(
        world,
        moved.ListPartitionReassignmentsRequest(100, [asked, asked]),
        lambda told: sum(len(one.partitions) for one in told.topics),
    )


def _as_it_is(world: World) -> features.FeatureUpdateKey:
    """The level that a feature has: to ask for another is refused, for all features together."""
    name, level = next(iter(world.core.image.features.items()))
    return features.FeatureUpdateKey(name, level)


MET: dict[Promise, Callable[[World], Any]] = {
    (0, "MESSAGE_TOO_LARGE"): too_many_records,
    (0, "INVALID_RECORD"): too_many_headers,
    (2, "INVALID_REQUEST"): offsets_twice,
    (8, "OFFSET_METADATA_TOO_LARGE"): lambda world: _commit(world, "m" * 4097),
    (8, "INVALID_COMMIT_OFFSET_SIZE"): lambda world: _full(world, lambda: _commit(world, "")),
    (11, "GROUP_MAX_SIZE_REACHED"): second_member,
    (19, "POLICY_VIOLATION"): lambda world: send(world, _create(10_001)),
    (19, "THROTTLING_QUOTA_EXCEEDED"): lambda world: above_the_quota(world, _create(1)),
    (20, "THROTTLING_QUOTA_EXCEEDED"): lambda world: above_the_quota(
        world, deleting.DeleteTopicsRequest([deleting.DeleteTopicState("t")], [], 100)
    ),
    (32, "POLICY_VIOLATION"): told_of_everything,
    (33, "INVALID_REQUEST"): lambda world: send(world, _altered(1, ["t", "t"])),
    (33, "INVALID_CONFIG"): lambda world: send(world, _altered(1001, ["t"])),
    (37, "POLICY_VIOLATION"): lambda world: send(
        world, growing.CreatePartitionsRequest([growing.CreatePartitionsTopic("t", 10_004, None)], 100)
    ),
    (37, "THROTTLING_QUOTA_EXCEEDED"): lambda world: above_the_quota(
        world, growing.CreatePartitionsRequest([growing.CreatePartitionsTopic("t", 4, None)], 100)
    ),
    (44, "INVALID_REQUEST"): lambda world: send(world, _changed(1, ["t", "t"])),
    (44, "INVALID_CONFIG"): lambda world: send(world, _changed(1001, ["t"])),
    (45, "INVALID_REQUEST"): lambda world: send(
        world,
        moving.AlterPartitionReassignmentsRequest(
            100, [moving.ReassignableTopic("t", [moving.ReassignablePartition(0, [1])] * 2)]
        ),
    ),
    (48, "INVALID_REQUEST"): lambda world: send(
        world, quotas.DescribeClientQuotasRequest([quotas.ComponentData("user", 2, None)] * 2)
    ),
    (50, "DUPLICATE_RESOURCE"): lambda world: send(
        world, scram.DescribeUserScramCredentialsRequest([scram.UserName("u")] * 2)
    ),
    (68, "GROUP_MAX_SIZE_REACHED"): second_consumer,
    (68, "INVALID_REQUEST"): too_many_names,
    (68, "INVALID_REGULAR_EXPRESSION"): lambda world: _beat(
        world, subscribed_topic_names=None, subscribed_topic_regex="a" * 4097
    ),
    (72, "TELEMETRY_TOO_LARGE"): lambda world: send(
        world, telemetry.PushTelemetryRequest(b"1" * 16, NOTHING_WANTED, False, 0, bytes(2**20 + 1))
    ),
}
"""What is sent; the error is among those of its answer."""
ELSEWHERE: dict[Promise, str] = {
    (64, "INVALID_REQUEST"): "tests/broker/cluster/test_registrations.py",
    (68, "GROUP_ID_NOT_FOUND"): "tests/broker/group/consumer/test_conversion.py",
    (68, "COORDINATOR_LOAD_IN_PROGRESS"): "tests/broker/group/consumer/test_converting.py",
}
"""Where a second broker, or a classic group, is needed first."""
TELLS_ONCE: dict[int, Callable[[World], None]] = {
    9: lambda world: _twice(
        world,
        committed.OffsetFetchRequest(groups=[committed.OffsetFetchRequestGroup("g", topics=None)] * 2),
        lambda told: len(told.groups),
        9,
    ),
    10: lambda world: _twice(
        world, finding.FindCoordinatorRequest("", 0, ["g"] * 2), lambda told: len(told.coordinators)
    ),
    15: lambda world: _twice(world, groups.DescribeGroupsRequest(["g"] * 2), lambda told: len(told.groups)),
    23: lambda world: _twice(
        world,
        epochs.OffsetForLeaderEpochRequest(
            topics=[epochs.OffsetForLeaderTopic("t", [epochs.OffsetForLeaderPartition(0, -1, 0)] * 2)]
        ),
        lambda told: sum(len(one.partitions) for one in told.topics),
    ),
    32: lambda world: _twice(
        world,
        configs.DescribeConfigsRequest([configs.DescribeConfigsResource(2, "t", None)] * 2),
        lambda told: len(told.results),
    ),
    35: lambda world: _twice(
        world,
        dirs.DescribeLogDirsRequest([dirs.DescribableLogDirTopic("t", [0, 0])]),
        lambda told: sum(len(topic.partitions) for one in told.results for topic in one.topics),
    ),
    42: lambda world: _twice(world, deleting_groups.DeleteGroupsRequest(["g"] * 2), lambda told: len(told.results)),
    43: lambda world: _twice(
        world,
        electing.ElectLeadersRequest(0, [electing.TopicPartitions("t", [0, 0])]),
        lambda told: sum(len(one.partition_result) for one in told.replica_election_results),
    ),
    46: lambda world: moving_twice(world),
    50: lambda world: _twice(
        world, scram.DescribeUserScramCredentialsRequest([scram.UserName("u")] * 2), lambda told: len(told.results)
    ),
    57: lambda world: _twice(
        world,
        features.UpdateFeaturesRequest(100, [_as_it_is(world)] * 2),
        lambda told: len(told.results),
        1,  # the last version that tells of each
    ),
    61: lambda world: _twice(
        world,
        producers.DescribeProducersRequest([producers.TopicRequest("t", [0, 0])]),
        lambda told: sum(len(one.partitions) for one in told.topics),
    ),
    3: lambda world: _twice(
        world, metadata.MetadataRequest([metadata.MetadataRequestTopic(name="t")] * 2), lambda told: len(told.topics)
    ),
    66: lambda world: _twice(
        world, transactions.ListTransactionsRequest(["no"] * 2), lambda told: len(told.unknown_state_filters)
    ),
    69: lambda world: _twice(
        world, describing_groups.ConsumerGroupDescribeRequest(["g"] * 2), lambda told: len(told.groups)
    ),
    75: lambda world: _twice(
        world, paging.DescribeTopicPartitionsRequest([paging.TopicRequest("t")] * 2), lambda told: len(told.topics)
    ),
}


def _leave_twice(world: World) -> int:
    member = leaving.MemberIdentity(_join(world).member_id, None)
    return len(send(world, leaving.LeaveGroupRequest("g", "", [member] * 2)).members)


def _commit_twice(world: World) -> int:
    parts = [committing.OffsetCommitRequestPartition(0, 1, -1, "")] * 2
    topic = committing.OffsetCommitRequestTopic("t", partitions=parts)
    return len(send(world, committing.OffsetCommitRequest("g", topics=[topic]), 8).topics[0].partitions)


def _forget_twice(world: World) -> int:
    _commit_twice(world)
    parts = [forgetting.OffsetDeleteRequestPartition(0)] * 2
    topics = [forgetting.OffsetDeleteRequestTopic("t", parts)]
    return len(send(world, forgetting.OffsetDeleteRequest("g", topics)).topics[0].partitions)


TELLS_EACH_TIME: dict[int, Callable[[World], int]] = {8: _commit_twice, 13: _leave_twice, 47: _forget_twice}
"""How often each is answered that is named twice."""


@pytest.fixture
def world() -> World:
    world = World(
        barnabas_batch_records_max=100,
        barnabas_controller_mutation_burst=20,
        group_max_size=1,
        group_consumer_max_size=1,
        group_initial_rebalance_delay_ms=0,
        offsets_topic_num_partitions=1,
    )
    send(world, creating.CreateTopicsRequest([creating.CreatableTopic("t", 3, 1)], 100))
    world.create("compacted", 1, cleanup_policy="compact")
    send(world, finding.FindCoordinatorRequest("", 0, ["g"]))
    world.advance(60_000)
    return world


def test_every_promise_has_its_case_and_every_case_its_promise() -> None:
    told = set(promises())
    assert {key for key, _ in told} <= set(VERSIONS) | set(BROKER_VERSIONS)
    named_twice = {(key, how) for how, those in (("once", TELLS_ONCE), ("each time", TELLS_EACH_TIME)) for key in those}
    assert told == {*MET, *ELSEWHERE, *named_twice}
    for (_, name), path in ELSEWHERE.items():
        assert f"ErrorCode.{name}" in (ROOT / path).read_text()


@pytest.mark.parametrize("promise", MET, ids=lambda promise: f"{promise[0]}-{promise[1]}")
def test_the_error_that_is_promised_is_answered(world: World, promise: Promise) -> None:
    assert ErrorCode[promise[1]] in codes(MET[promise](world))


@pytest.mark.parametrize("key", TELLS_ONCE)
def test_what_is_named_twice_is_told_once(world: World, key: int) -> None:
    TELLS_ONCE[key](world)


@pytest.mark.parametrize("key", TELLS_EACH_TIME)
def test_what_kafka_answers_each_time_is_answered_each_time(world: World, key: int) -> None:
    assert TELLS_EACH_TIME[key](world) == 2


def test_above_the_quota_metadata_makes_nothing(world: World) -> None:
    told = above_the_quota(world, metadata.MetadataRequest([metadata.MetadataRequestTopic(name="made")], True))
    assert codes(told.topics) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert "made" not in world.core.image.topics


@pytest.mark.parametrize("version", [0, 7, 13])
def test_metadata_takes_what_the_table_says(version: int) -> None:
    parts = [metadata.MetadataResponsePartition(0, at, 1, 7, [1, 2, 3], [1], [2, 3]) for at in range(1_000)]
    for count, most in ((0, 300), (1_000, 300 + 70 * 1_000)):
        topics = [metadata.MetadataResponseTopic(0, f"{at:0249}", bytes(16), False, parts[:count]) for at in range(9)]
        told = b"".join(codec.encode_response(3, version, 7, metadata.MetadataResponse(topics=topics)))
        none = b"".join(codec.encode_response(3, version, 7, metadata.MetadataResponse()))
        assert len(told) - len(none) <= 9 * most


def test_groups_are_told_in_no_more_bytes_than_they_count(world: World) -> None:
    """A type of 32 KB was not counted, and kept when all members had left."""
    names = [f"{at}{letter * 8_000}" for at, letter in enumerate("ä漢g")]
    protocols = [joining.JoinGroupRequestProtocol("range", bytes(20_000))]
    for name in names:
        request = joining.JoinGroupRequest(name, 10_000, 10_000, "", None, "\U0001f600" * 8_000, protocols)
        member_id = send(world, request, 3).member_id
        assigned = [syncing.SyncGroupRequestAssignment(member_id, bytes(20_000))]
        assert send(world, syncing.SyncGroupRequest(name, 1, member_id, assignments=assigned), 3).error_code == 0
    counted = world.core.groups.shared.holdings.total
    for asked in (listing.ListGroupsRequest(), groups.DescribeGroupsRequest(names)):
        key = key_of(type(asked))
        told = send(world, asked)
        assert len(told.groups) == 3
        assert 3 * 40_000 < len(b"".join(codec.encode_response(key, VERSIONS[key][1], 7, told))) <= counted


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"{describe_configs.SETTINGS_TOLD_MAX} settings told" in TABLE
    assert f"or {describe_configs.SETTINGS_MADE_MAX} that no two resources share" in TABLE
    assert f"{advancing.NAMES_MAX} topics in all lists" in TABLE
    assert f"{advancing.PATTERNS_MAX} patterns of a group" in TABLE
    assert f"{topic_rules.PARTITIONS_PER_STEP} partitions a step" in TABLE
