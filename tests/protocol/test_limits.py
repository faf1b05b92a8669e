"""What one request may hold: read at the bound, refused above it before anything is built, in both dialects."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from barnabas.protocol import limits
from barnabas.protocol.api import SPOKEN, VERSIONS, ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.kafka import codec as kafka
from barnabas.protocol.limits import MANY, REQUEST_BYTES_MAX, REQUEST_ELEMENTS_MAX
from barnabas.protocol.native import codec as native
from barnabas.protocol.requests import alter_configs, describe_producers
from barnabas.protocol.requests.alter_partition import AlterPartitionRequest, AlterPartitionTopic
from barnabas.protocol.requests.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignableTopic,
)
from barnabas.protocol.requests.begin_quorum_epoch import BeginQuorumEpochRequest, BegunTopic
from barnabas.protocol.requests.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.requests.broker_registration import BrokerRegistrationRequest, Listener
from barnabas.protocol.requests.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.requests.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.requests.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.requests.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.requests.delete_groups import DeleteGroupsRequest
from barnabas.protocol.requests.delete_records import DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.protocol.requests.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.requests.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from barnabas.protocol.requests.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.requests.describe_groups import DescribeGroupsRequest
from barnabas.protocol.requests.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from barnabas.protocol.requests.describe_producers import DescribeProducersRequest
from barnabas.protocol.requests.describe_quorum import DescribeQuorumRequest, RequestedTopicData
from barnabas.protocol.requests.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from barnabas.protocol.requests.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from barnabas.protocol.requests.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.requests.end_quorum_epoch import EndedTopic, EndQuorumEpochRequest
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.requests.fetch_snapshot import FetchSnapshotRequest, TopicSnapshot
from barnabas.protocol.requests.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.requests.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.requests.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.requests.list_config_resources import ListConfigResourcesRequest
from barnabas.protocol.requests.list_groups import ListGroupsRequest
from barnabas.protocol.requests.list_offsets import ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.requests.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from barnabas.protocol.requests.list_transactions import ListTransactionsRequest
from barnabas.protocol.requests.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.requests.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from barnabas.protocol.requests.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestTopic
from barnabas.protocol.requests.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from barnabas.protocol.requests.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderTopic
from barnabas.protocol.requests.produce import ProduceRequest, TopicProduceData
from barnabas.protocol.requests.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.protocol.requests.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.protocol.requests.vote import AskedTopic, VoteRequest

WITH_ELEMENTS: dict[int, Callable[[int], Any]] = {
    ApiKey.PRODUCE: lambda n: ProduceRequest(None, 1, 1, [TopicProduceData() for _ in range(n)]),
    ApiKey.FETCH: lambda n: FetchRequest(topics=[FetchTopic() for _ in range(n)]),
    ApiKey.LIST_OFFSETS: lambda n: ListOffsetsRequest(topics=[ListOffsetsTopic() for _ in range(n)]),
    ApiKey.METADATA: lambda n: MetadataRequest([MetadataRequestTopic(name="") for _ in range(n)]),
    ApiKey.OFFSET_COMMIT: lambda n: OffsetCommitRequest(topics=[OffsetCommitRequestTopic() for _ in range(n)]),
    ApiKey.OFFSET_FETCH: lambda n: OffsetFetchRequest(groups=[OffsetFetchRequestGroup() for _ in range(n)]),
    ApiKey.JOIN_GROUP: lambda n: JoinGroupRequest(protocols=[JoinGroupRequestProtocol() for _ in range(n)]),
    ApiKey.LEAVE_GROUP: lambda n: LeaveGroupRequest(members=[MemberIdentity() for _ in range(n)]),
    ApiKey.SYNC_GROUP: lambda n: SyncGroupRequest(assignments=[SyncGroupRequestAssignment() for _ in range(n)]),
    ApiKey.DESCRIBE_GROUPS: lambda n: DescribeGroupsRequest([""] * n),
    ApiKey.LIST_GROUPS: lambda n: ListGroupsRequest([""] * n),
    ApiKey.DELETE_GROUPS: lambda n: DeleteGroupsRequest([""] * n),
    ApiKey.OFFSET_DELETE: lambda n: OffsetDeleteRequest(topics=[OffsetDeleteRequestTopic() for _ in range(n)]),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda n: ConsumerGroupHeartbeatRequest(subscribed_topic_names=[""] * n),
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda n: ConsumerGroupDescribeRequest([""] * n),
    ApiKey.ALTER_CONFIGS: lambda n: alter_configs.AlterConfigsRequest(
        [alter_configs.AlterConfigsResource() for _ in range(n)]
    ),
    ApiKey.DESCRIBE_LOG_DIRS: lambda n: DescribeLogDirsRequest([DescribableLogDirTopic() for _ in range(n)]),
    ApiKey.ELECT_LEADERS: lambda n: ElectLeadersRequest(0, [TopicPartitions() for _ in range(n)]),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda n: AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic() for _ in range(n)]
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda n: ListPartitionReassignmentsRequest(
        topics=[ListPartitionReassignmentsTopics() for _ in range(n)]
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: lambda n: DescribeClientQuotasRequest([ComponentData() for _ in range(n)]),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda n: DescribeUserScramCredentialsRequest(
        [UserName() for _ in range(n)]
    ),
    ApiKey.DESCRIBE_QUORUM: lambda n: DescribeQuorumRequest([RequestedTopicData() for _ in range(n)]),
    ApiKey.UPDATE_FEATURES: lambda n: UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey() for _ in range(n)]),
    ApiKey.DESCRIBE_PRODUCERS: lambda n: DescribeProducersRequest(
        [describe_producers.TopicRequest() for _ in range(n)]
    ),
    ApiKey.LIST_TRANSACTIONS: lambda n: ListTransactionsRequest([""] * n),
    ApiKey.LIST_CONFIG_RESOURCES: lambda n: ListConfigResourcesRequest([2] * n),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda n: DescribeTopicPartitionsRequest([TopicRequest() for _ in range(n)]),
    ApiKey.FIND_COORDINATOR: lambda n: FindCoordinatorRequest(coordinator_keys=[""] * n),
    ApiKey.CREATE_TOPICS: lambda n: CreateTopicsRequest([CreatableTopic() for _ in range(n)]),
    ApiKey.DELETE_TOPICS: lambda n: DeleteTopicsRequest([DeleteTopicState(None) for _ in range(n)]),
    ApiKey.DELETE_RECORDS: lambda n: DeleteRecordsRequest([DeleteRecordsTopic() for _ in range(n)]),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda n: OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic() for _ in range(n)]
    ),
    ApiKey.DESCRIBE_CONFIGS: lambda n: DescribeConfigsRequest([DescribeConfigsResource() for _ in range(n)]),
    ApiKey.CREATE_PARTITIONS: lambda n: CreatePartitionsRequest([CreatePartitionsTopic() for _ in range(n)]),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda n: IncrementalAlterConfigsRequest(
        [AlterConfigsResource() for _ in range(n)]
    ),
}
WITHOUT = {
    ApiKey.HEARTBEAT,
    ApiKey.API_VERSIONS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.ALLOCATE_PRODUCER_IDS,
}
OF_BROKERS: dict[int, Callable[[int], Any]] = {  # a tagged field is an element, too
    ApiKey.VOTE: lambda n: VoteRequest(topics=[AskedTopic() for _ in range(n)]),
    ApiKey.BEGIN_QUORUM_EPOCH: lambda n: BeginQuorumEpochRequest(topics=[BegunTopic() for _ in range(n)]),
    ApiKey.END_QUORUM_EPOCH: lambda n: EndQuorumEpochRequest(topics=[EndedTopic() for _ in range(n)]),
    ApiKey.ALTER_PARTITION: lambda n: AlterPartitionRequest(topics=[AlterPartitionTopic() for _ in range(n)]),
    ApiKey.FETCH_SNAPSHOT: lambda n: FetchSnapshotRequest(topics=[TopicSnapshot() for _ in range(n)]),
    ApiKey.BROKER_REGISTRATION: lambda n: BrokerRegistrationRequest(listeners=[Listener() for _ in range(n)]),
    ApiKey.BROKER_HEARTBEAT: lambda n: BrokerHeartbeatRequest(offline_log_dirs=[ZERO_UUID] * (n - 1)),
}


def frame(dialect: Any, key: int, request: Any) -> memoryview:
    buffers = dialect.encode_request(key, SPOKEN[key][1], 1, "me", request)
    return memoryview(bytearray(b"".join(bytes(one) for one in buffers)))[4:]


def test_every_api_has_its_bound() -> None:
    assert set(REQUEST_ELEMENTS_MAX) == set(SPOKEN) == {*WITH_ELEMENTS, *OF_BROKERS, *WITHOUT}


@pytest.mark.parametrize(
    ("dialect", "key"),
    [(kafka, key) for key in (*WITH_ELEMENTS, *OF_BROKERS)] + [(native, key) for key in WITH_ELEMENTS],
    ids=lambda value: ApiKey(value).name.lower() if isinstance(value, int) else value.__name__.split(".")[-2],
)
def test_the_elements_of_a_request_are_bounded_by_its_api(dialect: Any, key: int) -> None:
    made = (WITH_ELEMENTS | OF_BROKERS)[key]
    allowed = REQUEST_ELEMENTS_MAX[key] // (1 if dialect is kafka else limits.NATIVE_SHARE)
    request = made(allowed)
    assert dialect.decode_request(frame(dialect, key, request))[1] == request
    with pytest.raises(ProtocolError, match=f"more than {allowed} array elements.*ask for fewer"):
        dialect.decode_request(frame(dialect, key, made(allowed + 1)))


@pytest.mark.parametrize("dialect", [kafka, native], ids=["kafka", "native"])
def test_elements_are_counted_at_every_depth(dialect: Any) -> None:
    def request(topics: int, partitions: int) -> memoryview:
        asked = [FetchTopic(partitions=[FetchPartition(7) for _ in range(partitions)]) for _ in range(topics)]
        return frame(dialect, ApiKey.FETCH, FetchRequest(topics=asked))

    half = MANY // 2 // (1 if dialect is kafka else limits.NATIVE_SHARE)
    dialect.decode_request(request(2, half - 1))
    with pytest.raises(ProtocolError, match="array elements"):
        dialect.decode_request(request(2, half))


def test_tagged_fields_count_as_elements() -> None:
    """A struct's empty tagged fields take two bytes each, and a turn of a loop."""
    version = VERSIONS[ApiKey.METADATA][1]
    head = struct.pack(">hhih", ApiKey.METADATA, version, 1, -1) + b"\0"
    body = b"\0\0\0"  # null topics, two booleans

    def tags(count: int) -> memoryview:
        return memoryview(bytearray(head + body + uvarint(count) + b"\x63\0" * count))

    kafka.decode_request(tags(MANY))
    with pytest.raises(ProtocolError, match=f"more than {MANY} array elements and tagged fields"):
        kafka.decode_request(tags(MANY + 1))


def test_the_tagged_fields_of_a_header_are_bounded() -> None:
    version = VERSIONS[ApiKey.METADATA][1]
    head = struct.pack(">hhih", ApiKey.METADATA, version, 1, -1)

    def tags(count: int) -> memoryview:
        return memoryview(bytearray(head + uvarint(count) + b"\x63\0" * count + b"\0\0\0\0"))

    kafka.decode_request(tags(limits.HEADER_TAGS_MAX))
    with pytest.raises(ProtocolError, match="header: 65 tagged fields, 64 are allowed"):
        kafka.decode_request(tags(limits.HEADER_TAGS_MAX + 1))


def test_a_request_without_records_is_bounded_in_bytes() -> None:
    data = bytearray(frame(kafka, ApiKey.METADATA, MetadataRequest(None)))
    data += bytes(REQUEST_BYTES_MAX - len(data))
    kafka.decode_request(memoryview(data))
    with pytest.raises(ProtocolError, match=f"{REQUEST_BYTES_MAX + 1} bytes, {REQUEST_BYTES_MAX} are allowed"):
        kafka.decode_request(memoryview(data + b"\0"))


def test_the_names_beside_records_are_bounded_in_bytes() -> None:
    def request(names: int) -> memoryview:
        topics = [TopicProduceData("n" * 32_767) for _ in range(names)]
        return memoryview(
            b"".join(kafka.encode_request(ApiKey.PRODUCE, 9, 1, None, ProduceRequest(None, 1, 1, topics)))
        )

    each = 1 + 32_767 // limits.TEXT_BYTES_PER_ELEMENT
    kafka.decode_request(request(MANY // each)[4:])
    with pytest.raises(ProtocolError, match="array elements"):
        kafka.decode_request(request(MANY // each + 1)[4:])


@pytest.mark.parametrize("filling", [b"\x80", b"\x90", b"\xdc\x00\x00"], ids=["maps", "arrays", "long arrays"])
def test_empty_maps_of_a_native_head_are_refused_before_they_are_made(filling: bytes) -> None:
    parts = [b"\xdd" + struct.pack(">I", 100_000) + filling * 100_000] * 3
    head = (
        b"\x95" + msgpack.packb(1) + msgpack.packb(18) + msgpack.packb(1) + b"\xc0\x81\xa6topics\x93" + b"".join(parts)
    )
    data = memoryview(struct.pack(">I", len(head)) + head)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match=r"head may hold 300[0-9]{3} maps and arrays"):
            native.decode_request(data)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(head)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("number", [0x7FFFFFFF, -0x7FFFFFFF])
def test_the_correlation_id_of_the_native_dialect_has_32_bits(number: int) -> None:
    good = msgpack.packb([18, 4, number, None, {}])
    assert native.decode_request(memoryview(struct.pack(">I", len(good)) + good))[0].correlation_id == number
    wrong = msgpack.packb([18, 4, number + (1 if number > 0 else -1), None, {}])
    with pytest.raises(ProtocolError, match="32 bits"):
        native.decode_request(memoryview(struct.pack(">I", len(wrong)) + wrong))


def test_falsy_values_of_optional_fields_are_not_null_in_the_native_dialect() -> None:
    for request in (MetadataRequest(None), MetadataRequest([])):
        assert native.decode_request(frame(native, ApiKey.METADATA, request))[1].topics == request.topics
    named = MetadataRequest([MetadataRequestTopic(name=""), MetadataRequestTopic(name=None)])
    decoded = native.decode_request(frame(native, ApiKey.METADATA, named))[1]
    assert [topic.name for topic in decoded.topics] == ["", None]


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def test_an_answer_has_ten_million_elements_at_most_which_are_not_built() -> None:
    frame = struct.pack(">ibih", 7, 0, 0, 0) + uvarint(limits.RESPONSE_ELEMENTS_MAX + 2)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="10000001 of unknown_state_filters"):
            kafka.decode_response(ApiKey.LIST_TRANSACTIONS, 0, memoryview(frame + b"\1" * 10_000_003))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40_000_000, "the frame itself, and what makes it"
    assert limits.RESPONSE_ELEMENTS_MAX == 10_000_000
