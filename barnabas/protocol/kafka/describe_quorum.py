"""DescribeQuorum (API key 55) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT16, INT32, INT64, STRING, UINT16, UUID, Api, Array, Field, Struct
from barnabas.protocol.requests.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    RequestedPartitionData,
    RequestedTopicData,
    TopicData,
)

_REQUESTED_PARTITION_DATA = Struct(
    RequestedPartitionData,
    Field("partition_index", INT32, "0+"),
)
_REQUESTED_TOPIC_DATA = Struct(
    RequestedTopicData,
    Field("topic_name", STRING, "0+"),
    Field("partitions", Array(_REQUESTED_PARTITION_DATA), "0+"),
)
REQUEST = Struct(
    DescribeQuorumRequest,
    Field("topics", Array(_REQUESTED_TOPIC_DATA), "0+"),
)
_REPLICA_STATE = Struct(
    ReplicaState,
    Field("replica_id", INT32, "0+"),
    Field("replica_directory_id", UUID, "2+"),
    Field("log_end_offset", INT64, "0+"),
    Field("last_fetch_timestamp", INT64, "1+", ignorable=True),
    Field("last_caught_up_timestamp", INT64, "1+", ignorable=True),
)
_PARTITION_DATA = Struct(
    PartitionData,
    Field("partition_index", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "2+", nullable="2+", ignorable=True),
    Field("leader_id", INT32, "0+"),
    Field("leader_epoch", INT32, "0+"),
    Field("high_watermark", INT64, "0+"),
    Field("current_voters", Array(_REPLICA_STATE), "0+"),
    Field("observers", Array(_REPLICA_STATE), "0+"),
)
_TOPIC_DATA = Struct(
    TopicData,
    Field("topic_name", STRING, "0+"),
    Field("partitions", Array(_PARTITION_DATA), "0+"),
)
_LISTENER = Struct(
    Listener,
    Field("name", STRING, "2+"),
    Field("host", STRING, "2+"),
    Field("port", UINT16, "2+"),
)
_NODE = Struct(
    Node,
    Field("node_id", INT32, "2+"),
    Field("listeners", Array(_LISTENER), "2+"),
)
RESPONSE = Struct(
    DescribeQuorumResponse,
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "2+", nullable="2+", ignorable=True),
    Field("topics", Array(_TOPIC_DATA), "0+"),
    Field("nodes", Array(_NODE), "2+"),
)
API = Api(ApiKey.DESCRIBE_QUORUM, flexible_from=0, request=REQUEST, response=RESPONSE)
