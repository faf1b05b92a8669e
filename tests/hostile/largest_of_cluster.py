"""The largest requests of the APIs that consoles and admin clients ask, as `largest` has those of the others."""

from __future__ import annotations

from barnabas.protocol.requests.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from barnabas.protocol.requests.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.requests.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from barnabas.protocol.requests.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from barnabas.protocol.requests.describe_producers import DescribeProducersRequest
from barnabas.protocol.requests.describe_producers import TopicRequest as ProducersOf
from barnabas.protocol.requests.describe_quorum import (
    DescribeQuorumRequest,
    RequestedPartitionData,
    RequestedTopicData,
)
from barnabas.protocol.requests.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from barnabas.protocol.requests.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from barnabas.protocol.requests.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.requests.list_config_resources import ListConfigResourcesRequest
from barnabas.protocol.requests.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from barnabas.protocol.requests.list_transactions import ListTransactionsRequest
from barnabas.protocol.requests.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.hostile.largest import ALL, HALF, PAIRS, TOPICS, Largest, nobody, there

FEW_TIMES = 10_000 - 10
"""Elements of the APIs that may have 10,000."""
FEW = 1_000 - 10
THIRD = ALL // 3 - 10
"""Topics with a partition that has a replica."""


def _alter(names: list[str]) -> AlterConfigsRequest:
    configs = [AlterableConfig("retention.ms", "1000000")]
    return AlterConfigsRequest([AlterConfigsResource(2, name, configs) for name in names], True)


def _alter_one(count: int) -> AlterConfigsRequest:
    configs = [AlterableConfig(f"k{at}", "1") for at in range(count)]
    return AlterConfigsRequest([AlterConfigsResource(2, "t", configs)], True)


def _dirs(names: list[str], partitions: int) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest([DescribableLogDirTopic(name, list(range(partitions))) for name in names])


def _elect(names: list[str], partitions: int) -> ElectLeadersRequest:
    return ElectLeadersRequest(0, [TopicPartitions(name, list(range(partitions))) for name in names])


def _producers(names: list[str], partitions: int) -> DescribeProducersRequest:
    return DescribeProducersRequest([ProducersOf(name, list(range(partitions))) for name in names])


def _quorum(count: int) -> DescribeQuorumRequest:
    parts = [RequestedPartitionData(at) for at in range(count)]
    return DescribeQuorumRequest([RequestedTopicData("__cluster_metadata", parts)])


def _pages(names: list[str], cursor: Cursor | None = None) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], 2**31 - 1, cursor)


def _moving(names: list[str]) -> ListPartitionReassignmentsRequest:
    return ListPartitionReassignmentsRequest(1000, [ListPartitionReassignmentsTopics(name, [0]) for name in names])


def _move(names: list[str], partitions: int) -> AlterPartitionReassignmentsRequest:
    parts = [ReassignablePartition(number, [0]) for number in range(partitions)]
    return AlterPartitionReassignmentsRequest(1000, [ReassignableTopic(name, parts) for name in names])


LARGEST: dict[str, Largest] = {
    "AlterConfigs": (33, 2, lambda share: _alter(there(TOPICS // share))),
    "AlterConfigs of nobody": (33, 2, lambda share: _alter(nobody(HALF // share))),
    "AlterConfigs, settings of one": (33, 2, lambda share: _alter_one(PAIRS // share)),
    "DescribeLogDirs of everything": (35, 5, lambda share: DescribeLogDirsRequest(None)),
    "DescribeLogDirs": (35, 5, lambda share: _dirs(there(PAIRS // share), 1)),
    "DescribeLogDirs, one topic": (35, 5, lambda share: _dirs(["wide"], ALL // share)),
    "ElectLeaders of everything": (43, 2, lambda share: ElectLeadersRequest(0, None)),
    "ElectLeaders": (43, 2, lambda share: _elect(there(PAIRS // share), 1)),
    "ElectLeaders, one topic": (43, 2, lambda share: _elect(["wide"], ALL // share)),
    "ElectLeaders of nobody": (43, 2, lambda share: _elect(nobody(PAIRS // share), 1)),
    "AlterPartitionReassignments": (45, 1, lambda share: _move(there(THIRD // share), 1)),
    "AlterPartitionReassignments, one topic": (45, 1, lambda share: _move(["wide"], PAIRS // share)),
    "AlterPartitionReassignments of nobody": (45, 1, lambda share: _move(nobody(THIRD // share), 1)),
    "ListPartitionReassignments of everything": (46, 0, lambda share: ListPartitionReassignmentsRequest(1000, None)),
    "ListPartitionReassignments": (46, 0, lambda share: _moving(there(PAIRS // share))),
    "DescribeClientQuotas": (
        48,
        1,
        lambda share: DescribeClientQuotasRequest([ComponentData(f"k{at}", 2, None) for at in range(FEW // share)]),
    ),
    "DescribeUserScramCredentials": (
        50,
        0,
        lambda share: DescribeUserScramCredentialsRequest([UserName(name) for name in nobody(FEW_TIMES // share)]),
    ),
    "DescribeQuorum": (55, 2, lambda share: _quorum(FEW // share)),
    "UpdateFeatures": (
        57,
        1,
        lambda share: UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(f"feature-{at}") for at in range(FEW // share)]
        ),
    ),
    "DescribeProducers": (61, 0, lambda share: _producers(there(PAIRS // share), 1)),
    "DescribeProducers, one topic": (61, 0, lambda share: _producers(["wide"], ALL // share)),
    "DescribeProducers of nobody": (61, 0, lambda share: _producers(nobody(PAIRS // share), 1)),
    "ListTransactions": (66, 2, lambda share: ListTransactionsRequest(nobody(FEW_TIMES // share))),
    "ListConfigResources of everything": (74, 1, lambda share: ListConfigResourcesRequest()),
    "ListConfigResources": (74, 1, lambda share: ListConfigResourcesRequest([2] * (FEW // share))),
    "DescribeTopicPartitions of everything": (75, 0, lambda share: _pages([])),
    "DescribeTopicPartitions": (75, 0, lambda share: _pages(there(FEW_TIMES // share))),
    "DescribeTopicPartitions, one topic": (75, 0, lambda share: _pages(["wide"])),
    "DescribeTopicPartitions of nobody": (75, 0, lambda share: _pages(nobody(FEW_TIMES // share))),
    "DescribeTopicPartitions, all refused": (
        75,
        0,
        lambda share: _pages(nobody(FEW_TIMES // share), Cursor("t", -1)),
    ),
}
