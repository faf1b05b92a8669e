"""Fetch (API key 1) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT8, INT16, INT32, INT64, RECORDS, STRING, UUID, Api, Array, Field, Struct
from barnabas.protocol.requests.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
    SnapshotId,
)

_REPLICA_STATE = Struct(
    ReplicaState,
    Field("replica_id", INT32, "15+"),
    Field("replica_epoch", INT64, "15+"),
)
_FETCH_PARTITION = Struct(
    FetchPartition,
    Field("partition", INT32, "0+"),
    Field("current_leader_epoch", INT32, "9+", ignorable=True),
    Field("fetch_offset", INT64, "0+"),
    Field("last_fetched_epoch", INT32, "12+"),
    Field("log_start_offset", INT64, "5+", ignorable=True),
    Field("partition_max_bytes", INT32, "0+"),
    Field("replica_directory_id", UUID, "17+", tag=0, ignorable=True),
    Field("high_watermark", INT64, "18+", tag=1, ignorable=True),
)
_FETCH_TOPIC = Struct(
    FetchTopic,
    Field("topic", STRING, "0-12", ignorable=True),
    Field("topic_id", UUID, "13+", ignorable=True),
    Field("partitions", Array(_FETCH_PARTITION), "0+"),
)
_FORGOTTEN_TOPIC = Struct(
    ForgottenTopic,
    Field("topic", STRING, "7-12", ignorable=True),
    Field("topic_id", UUID, "13+", ignorable=True),
    Field("partitions", Array(INT32), "7+"),
)
REQUEST = Struct(
    FetchRequest,
    Field("cluster_id", STRING, "12+", nullable="12+", tag=0, ignorable=True),
    Field("replica_id", INT32, "0-14"),
    Field("replica_state", _REPLICA_STATE, "15+", tag=1),
    Field("max_wait_ms", INT32, "0+"),
    Field("min_bytes", INT32, "0+"),
    Field("max_bytes", INT32, "3+", ignorable=True),
    Field("isolation_level", INT8, "4+", ignorable=True),
    Field("session_id", INT32, "7+", ignorable=True),
    Field("session_epoch", INT32, "7+", ignorable=True),
    Field("topics", Array(_FETCH_TOPIC), "0+"),
    Field("forgotten_topics_data", Array(_FORGOTTEN_TOPIC), "7+"),
    Field("rack_id", STRING, "11+", ignorable=True),
)
_EPOCH_END_OFFSET = Struct(
    EpochEndOffset,
    Field("epoch", INT32, "12+"),
    Field("end_offset", INT64, "12+"),
)
_LEADER_ID_AND_EPOCH = Struct(
    LeaderIdAndEpoch,
    Field("leader_id", INT32, "12+"),
    Field("leader_epoch", INT32, "12+"),
)
_SNAPSHOT_ID = Struct(
    SnapshotId,
    Field("end_offset", INT64, "0+"),
    Field("epoch", INT32, "0+"),
)
_ABORTED_TRANSACTION = Struct(
    AbortedTransaction,
    Field("producer_id", INT64, "4+"),
    Field("first_offset", INT64, "4+"),
)
_PARTITION_DATA = Struct(
    PartitionData,
    Field("partition_index", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("high_watermark", INT64, "0+"),
    Field("last_stable_offset", INT64, "4+", ignorable=True),
    Field("log_start_offset", INT64, "5+", ignorable=True),
    Field("diverging_epoch", _EPOCH_END_OFFSET, "12+", tag=0),
    Field("current_leader", _LEADER_ID_AND_EPOCH, "12+", tag=1),
    Field("snapshot_id", _SNAPSHOT_ID, "12+", tag=2),
    Field("aborted_transactions", Array(_ABORTED_TRANSACTION), "4+", nullable="4+", ignorable=True),
    Field("preferred_read_replica", INT32, "11+"),
    Field("records", RECORDS, "0+", nullable="0+", null_as_empty=True),
)
_FETCHABLE_TOPIC_RESPONSE = Struct(
    FetchableTopicResponse,
    Field("topic", STRING, "0-12", ignorable=True),
    Field("topic_id", UUID, "13+", ignorable=True),
    Field("partitions", Array(_PARTITION_DATA), "0+"),
)
_NODE_ENDPOINT = Struct(
    NodeEndpoint,
    Field("node_id", INT32, "16+"),
    Field("host", STRING, "16+"),
    Field("port", INT32, "16+"),
    Field("rack", STRING, "16+", nullable="16+"),
)
RESPONSE = Struct(
    FetchResponse,
    Field("throttle_time_ms", INT32, "1+", ignorable=True),
    Field("error_code", INT16, "7+", ignorable=True),
    Field("session_id", INT32, "7+"),
    Field("responses", Array(_FETCHABLE_TOPIC_RESPONSE), "0+"),
    Field("node_endpoints", Array(_NODE_ENDPOINT), "16+", tag=0),
)
API = Api(ApiKey.FETCH, flexible_from=12, request=REQUEST, response=RESPONSE)
