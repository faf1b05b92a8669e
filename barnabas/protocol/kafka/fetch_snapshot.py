"""FetchSnapshot (API key 59) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import (
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UINT16,
    UUID,
    Api,
    Array,
    Field,
    Struct,
)
from barnabas.protocol.requests.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionSnapshot,
    PartitionSnapshotResult,
    SnapshotId,
    TopicSnapshot,
    TopicSnapshotResult,
)

_SNAPSHOT_ID = Struct(
    SnapshotId,
    Field("end_offset", INT64, "0+"),
    Field("epoch", INT32, "0+"),
)
_PARTITION_SNAPSHOT = Struct(
    PartitionSnapshot,
    Field("partition", INT32, "0+"),
    Field("current_leader_epoch", INT32, "0+"),
    Field("snapshot_id", _SNAPSHOT_ID, "0+"),
    Field("position", INT64, "0+"),
    Field("replica_directory_id", UUID, "1+", tag=0, ignorable=True),
)
_TOPIC_SNAPSHOT = Struct(
    TopicSnapshot,
    Field("name", STRING, "0+"),
    Field("partitions", Array(_PARTITION_SNAPSHOT), "0+"),
)
REQUEST = Struct(
    FetchSnapshotRequest,
    Field("cluster_id", STRING, "0+", nullable="0+", tag=0),
    Field("replica_id", INT32, "0+"),
    Field("max_bytes", INT32, "0+"),
    Field("topics", Array(_TOPIC_SNAPSHOT), "0+"),
)
_LEADER_ID_AND_EPOCH = Struct(
    LeaderIdAndEpoch,
    Field("leader_id", INT32, "0+"),
    Field("leader_epoch", INT32, "0+"),
)
_PARTITION_RESULT = Struct(
    PartitionSnapshotResult,
    Field("index", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("snapshot_id", _SNAPSHOT_ID, "0+"),
    Field("current_leader", _LEADER_ID_AND_EPOCH, "0+", tag=0),
    Field("size", INT64, "0+"),
    Field("position", INT64, "0+"),
    Field("unaligned_records", RECORDS, "0+"),
)
_TOPIC_RESULT = Struct(
    TopicSnapshotResult,
    Field("name", STRING, "0+"),
    Field("partitions", Array(_PARTITION_RESULT), "0+"),
)
_NODE_ENDPOINT = Struct(
    NodeEndpoint,
    Field("node_id", INT32, "1+"),
    Field("host", STRING, "1+"),
    Field("port", UINT16, "1+"),
)
RESPONSE = Struct(
    FetchSnapshotResponse,
    Field("throttle_time_ms", INT32, "0+", ignorable=True),
    Field("error_code", INT16, "0+"),
    Field("topics", Array(_TOPIC_RESULT), "0+"),
    Field("node_endpoints", Array(_NODE_ENDPOINT), "1+", tag=0),
)
API = Api(ApiKey.FETCH_SNAPSHOT, flexible_from=0, request=REQUEST, response=RESPONSE)
