"""The largest requests that are accepted, by API: as many elements as it may have, of things that are there or not.

`make(share)` makes one for a dialect that may have a share-th of the elements.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

from barnabas.broker.log.apart import BYTES_AT_ONCE, RECORDS_AT_ONCE
from barnabas.protocol.api import ApiKey
from barnabas.protocol.batch import LOG_OVERHEAD, set_crc, set_place
from barnabas.protocol.compression import Codec
from barnabas.protocol.limits import MANY
from barnabas.protocol.records import BatchBuilder
from barnabas.protocol.requests.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.protocol.requests.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.requests.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.requests.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.requests.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from barnabas.protocol.requests.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.requests.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.requests.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.requests.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.protocol.requests.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.node.world import START_WALL_MS, batch

TOPICS = 5_000
LONG = "n" * 150
ONE = bytes(batch(b"v"))
NONE, LZ4, ZSTD = int(Codec.NONE), int(Codec.LZ4), int(Codec.ZSTD)

Largest = tuple[int, int, Callable[[int], Any]]


def there(count: int) -> list[str]:
    """Names of topics that were prepared; again from the first where there are more."""
    return [f"topic-{number % TOPICS}" for number in range(count)]


def nobody(count: int) -> list[str]:
    """Long names that nothing has."""
    return [f"{LONG}.{number}" for number in range(count)]


def _create(names: list[str], **options: Any) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, 1, 1, **options) for name in names], 60_000, True)


def _different(count: int) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(f"new-{at}", 1, 1, configs=[CreatableTopicConfig("retention.ms", str(at))])
        for at in range(count)
    ]
    return CreateTopicsRequest(topics, 60_000, True)


def _configs(names: list[str], value: Callable[[int], str] = str) -> IncrementalAlterConfigsRequest:
    resources = [
        AlterConfigsResource(2, name, [AlterableConfig("retention.ms", 0, value(at))]) for at, name in enumerate(names)
    ]
    return IncrementalAlterConfigsRequest(resources, True)


def _fetch(topics: list[FetchTopic], **options: Any) -> FetchRequest:
    return FetchRequest(topics=topics, **{"max_wait_ms": 0, "min_bytes": 0, **options})


def _fetch_each(names: list[str], **options: Any) -> FetchRequest:
    return _fetch([FetchTopic(name, partitions=[FetchPartition(0)]) for name in names], **options)


def _fetch_wide(count: int, **options: Any) -> FetchRequest:
    return _fetch([FetchTopic("wide", partitions=[FetchPartition(at) for at in range(count)])], **options)


def _fetch_all(topic: str, partitions: int) -> FetchRequest:
    """All that is in some partitions, as far as one answer takes it."""
    parts = [FetchPartition(at, partition_max_bytes=2**30) for at in range(partitions)]
    return _fetch([FetchTopic(topic, partitions=parts)], max_bytes=2**31 - 1)


def _produce(names: list[str], partitions: int = 1) -> ProduceRequest:
    data = [
        TopicProduceData(name, partition_data=[PartitionProduceData(at, memoryview(ONE)) for at in range(partitions)])
        for name in names
    ]
    return ProduceRequest(None, 1, 1000, data)


def _offsets(names: list[str], partitions: int, timestamp: int) -> ListOffsetsRequest:
    parts = [ListOffsetsPartition(at, -1, timestamp) for at in range(partitions)]
    return ListOffsetsRequest(-1, topics=[ListOffsetsTopic(name, parts) for name in names])


def _describe(kind: int, names: list[str], keys: list[str] | None = None) -> DescribeConfigsRequest:
    return DescribeConfigsRequest([DescribeConfigsResource(kind, name, keys) for name in names], True)


def _delete_records(names: list[str], partitions: int) -> DeleteRecordsRequest:
    parts = [DeleteRecordsPartition(at, 0) for at in range(partitions)]
    return DeleteRecordsRequest([DeleteRecordsTopic(name, parts) for name in names], 1000)


def _epochs(names: list[str]) -> OffsetForLeaderEpochRequest:
    parts = [OffsetForLeaderPartition(0, -1, 0)]
    return OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(name, parts) for name in names])


def _grow(names: list[str]) -> CreatePartitionsRequest:
    return CreatePartitionsRequest([CreatePartitionsTopic(name, 2, None) for name in names], 1000, True)


def _assigned(count: int) -> CreatePartitionsRequest:
    new = [CreatePartitionsAssignment([1]) for _ in range(count)]
    return CreatePartitionsRequest([CreatePartitionsTopic("t", 3 + count, new)], 1000, True)


def _batches(
    topic: str, partitions: int, records: int, size: int, codec: int, key: bytes | None = b"k", **producer: Any
) -> Any:
    """A batch of `records` records of `size` bytes to each of the partitions."""
    return _to_each(topic, partitions, batch(*[b"v" * size] * records, keys=[key] * records, codec=codec, **producer))


def _to_each(topic: str, partitions: int, data: bytes | bytearray) -> ProduceRequest:
    view = memoryview(bytes(data))
    parts = [PartitionProduceData(at, view) for at in range(partitions)]
    return ProduceRequest(None, 1, 30_000, [TopicProduceData(topic, partition_data=parts)])


def _in_parts(members: int) -> bytes:
    """A batch of one record in so many members of gzip, of which all but one hold nothing."""
    data = batch(b"v", keys=[b"k"], codec=Codec.GZIP) + gzip.compress(b"") * (members - 1)
    set_place(data, 0, 0, len(data) - LOG_OVERHEAD, 0)
    set_crc(data, 0, len(data))
    return bytes(data)


def _headers(records: int, headers: int) -> bytes:
    builder = BatchBuilder(2**31 - 1, NONE)
    for _ in range(records):
        builder.try_append(START_WALL_MS, b"k", None, (("", None),) * headers)
    return bytes(builder.build(-1, -1, -1))


ALL = MANY - 10
"""Elements of one array, those around it aside."""
PAIRS = MANY // 2 - 10
"""Topics with a partition each."""
HALF = PAIRS // 2
"""The same of an API that may have half as much."""
WIDE = 200
"""Partitions of the topics whose batches are looked into."""
LOOKED_AT = RECORDS_AT_ONCE - 100
"""Records of a batch that is looked through on the loop."""

PREPARED: list[tuple[int, int, Any]] = [
    (ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest("", 0, ["group"])),  # groups have a coordinator from now on
    (ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in there(TOPICS)], 60_000)),
    (
        ApiKey.CREATE_TOPICS,
        7,
        CreateTopicsRequest(
            [
                CreatableTopic(name, WIDE, 1, [], [CreatableTopicConfig(key, value)])
                for name, key, value in (
                    ("compacted", "cleanup.policy", "compact"),
                    ("recompressed", "compression.type", "zstd"),
                    ("raised", "max.message.bytes", "100000000"),
                )
            ],
            60_000,
        ),
    ),
]
"""What is asked for before, so that there is something to tell."""

LARGEST: dict[str, Largest] = {
    "CreateTopics": (19, 7, lambda share: _create([f"new-{at}" for at in range(PAIRS // share)])),
    "CreateTopics, all bad": (19, 7, lambda share: _create(nobody(ALL // share))),
    "CreateTopics, all named twice": (19, 7, lambda share: _create(["twice"] * (ALL // share))),
    "CreateTopics, all different": (19, 7, lambda share: _different(PAIRS // share)),
    "CreateTopics, settings of one": (
        19,
        7,
        lambda share: _create(["one"], configs=[CreatableTopicConfig(f"k{at}", "1") for at in range(ALL // share)]),
    ),
    "CreateTopics, assignments of one": (
        19,
        7,
        lambda share: CreateTopicsRequest(
            [CreatableTopic("one", -1, -1, [CreatableReplicaAssignment(at, [1]) for at in range(PAIRS // share)])],
            60_000,
            True,
        ),
    ),
    "Metadata of everything": (3, 12, lambda share: MetadataRequest(None)),
    "Metadata": (3, 9, lambda share: MetadataRequest([MetadataRequestTopic(name=n) for n in there(TOPICS // share)])),
    "Metadata of nobody": (
        3,
        9,
        lambda share: MetadataRequest([MetadataRequestTopic(name=n) for n in nobody(ALL // share // 2)], False),
    ),
    "Metadata, one topic": (3, 9, lambda share: MetadataRequest([MetadataRequestTopic(name="t")] * (ALL // share))),
    "Metadata, ids too early": (
        3,
        11,
        lambda share: MetadataRequest([MetadataRequestTopic(b"1" * 16, n) for n in there(ALL // share)]),
    ),
    "DescribeConfigs": (32, 4, lambda share: _describe(2, there(PAIRS // share))),
    "DescribeConfigs, one topic": (32, 4, lambda share: _describe(2, ["t"] * (ALL // share))),
    "DescribeConfigs, one broker, a setting each": (
        32,
        4,
        lambda share: DescribeConfigsRequest(
            [DescribeConfigsResource(4, "1", [f"k{at}"]) for at in range(PAIRS // share)], True
        ),
    ),
    "DescribeConfigs, settings of one": (32, 4, lambda share: _describe(4, ["1"], nobody(ALL // share // 2))),
    "FindCoordinator": (10, 4, lambda share: FindCoordinatorRequest("", 0, [f"g{at}" for at in range(PAIRS // share)])),
    "ListOffsets": (2, 7, lambda share: _offsets(there(PAIRS // share), 1, -1)),
    "ListOffsets by time": (2, 7, lambda share: _offsets(there(TOPICS // share), 1, 5)),
    "ListOffsets of nobody": (2, 7, lambda share: _offsets(nobody(PAIRS // share), 1, -1)),
    "ListOffsets, one topic": (2, 7, lambda share: _offsets(["wide"], ALL // share, -1)),
    "OffsetForLeaderEpoch": (23, 4, lambda share: _epochs(there(PAIRS // share))),
    "DeleteRecords": (21, 2, lambda share: _delete_records(there(TOPICS // share), 1)),
    "DeleteRecords, one topic": (21, 2, lambda share: _delete_records(["wide"], ALL // share)),
    "DeleteTopics of nobody": (
        20,
        6,
        lambda share: DeleteTopicsRequest([DeleteTopicState(name) for name in nobody(PAIRS // share)], [], 1000),
    ),
    "CreatePartitions": (37, 3, lambda share: _grow(there(TOPICS // share))),
    "CreatePartitions of nobody": (37, 3, lambda share: _grow(nobody(ALL // share))),
    "CreatePartitions, assignments": (37, 3, lambda share: _assigned(PAIRS // share)),
    "IncrementalAlterConfigs": (44, 1, lambda share: _configs(there(TOPICS // share))),
    "IncrementalAlterConfigs of nobody": (44, 1, lambda share: _configs(nobody(HALF // share))),
    "IncrementalAlterConfigs, settings of one": (
        44,
        1,
        lambda share: IncrementalAlterConfigsRequest(
            [AlterConfigsResource(2, "t", [AlterableConfig(f"k{at}", 0, "1") for at in range(PAIRS // share)])], True
        ),
    ),
    "IncrementalAlterConfigs, words": (
        44,
        1,
        lambda share: IncrementalAlterConfigsRequest(
            [
                AlterConfigsResource(
                    2,
                    "t",
                    [AlterableConfig("follower.replication.throttled.replicas", 2, ",".join(map(str, range(5000))))],
                )
            ],
            True,
        ),
    ),
    "Fetch": (1, 11, lambda share: _fetch_each(there(TOPICS // share))),
    "Fetch of nobody": (1, 11, lambda share: _fetch_each(nobody(PAIRS // share))),
    "Fetch, one topic": (1, 11, lambda share: _fetch_wide(ALL // share)),
    "Fetch, that waits": (
        1,
        11,
        lambda share: _fetch_wide(10_000 // share - 10, max_wait_ms=100, min_bytes=10),
    ),
    "Fetch, a session": (1, 11, lambda share: _fetch_wide(ALL // share, session_epoch=0)),
    "Fetch, forgotten": (
        1,
        11,
        lambda share: _fetch(
            [], session_epoch=0, forgotten_topics_data=[ForgottenTopic("t", partitions=list(range(ALL // share)))]
        ),
    ),
    "Fetch by ids": (
        1,
        17,
        lambda share: _fetch(
            [
                FetchTopic("", topic_id=at.to_bytes(16, "big"), partitions=[FetchPartition(0)])
                for at in range(1, PAIRS // share)
            ]
        ),
    ),
    "Produce": (0, 9, lambda share: _produce(there(TOPICS // share))),
    "Produce to nobody": (0, 9, lambda share: _produce([f"x{at}" for at in range(PAIRS // share)])),
    "Produce, one topic": (0, 9, lambda share: _produce(["wide"], ALL // share)),
    "Produce, records to look through": (0, 9, lambda share: _batches("compacted", WIDE, LOOKED_AT, 10, NONE)),
    "Produce, records at fault": (0, 9, lambda share: _batches("compacted", WIDE, LOOKED_AT, 1, ZSTD, None)),
    "Produce, batches to unpack": (0, 9, lambda share: _batches("compacted", WIDE, LOOKED_AT, 500, ZSTD)),
    "Produce, batches that hold too much": (0, 9, lambda share: _batches("compacted", WIDE, 2, BYTES_AT_ONCE, ZSTD)),
    "Produce, batches in parts": (0, 9, lambda share: _to_each("compacted", WIDE, _in_parts(33))),
    "Produce, batches to compress": (0, 9, lambda share: _batches("recompressed", WIDE, LOOKED_AT, 40, NONE)),
    "Produce, batches of another codec": (0, 9, lambda share: _batches("recompressed", WIDE, LOOKED_AT, 40, LZ4)),
    "Produce, headers to write anew": (0, 9, lambda share: _to_each("recompressed", 50, _headers(10, 450))),
    "Produce, one topic, by ids": (
        0,
        9,
        lambda share: _batches("wide", ALL // share // 2, 1, 1, NONE, pid=7, epoch=0, sequence=0),
    ),
    "Produce, one large batch": (0, 9, lambda share: _batches("raised", 1, 1, 99_000_000, NONE)),
    "Produce, large batches": (0, 9, lambda share: _batches("wide", WIDE // 8, 1, 1_000_000, NONE)),
    "Fetch, one large batch": (1, 11, lambda share: _fetch_all("raised", 1)),  # what the last two left there
    "Fetch, large batches": (1, 11, lambda share: _fetch_all("wide", WIDE // 8)),
}
"""API key, version and what makes the request."""
