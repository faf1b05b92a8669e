"""BeginQuorumEpoch (API key 53) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT16, INT32, STRING, UINT16, UUID, Api, Array, Field, Struct
from barnabas.protocol.requests.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    BegunPartition,
    BegunTopic,
    LeaderEndpoint,
    NodeEndpoint,
    PartitionData,
    TopicData,
)

_BEGUN_PARTITION = Struct(
    BegunPartition,
    Field("partition_index", INT32, "0+"),
    Field("voter_directory_id", UUID, "1+", ignorable=True),
    Field("leader_id", INT32, "0+"),
    Field("leader_epoch", INT32, "0+"),
)
_BEGUN_TOPIC = Struct(
    BegunTopic,
    Field("topic_name", STRING, "0+"),
    Field("partitions", Array(_BEGUN_PARTITION), "0+"),
)
_LEADER_ENDPOINT = Struct(
    LeaderEndpoint,
    Field("name", STRING, "1+"),
    Field("host", STRING, "1+"),
    Field("port", UINT16, "1+"),
)
REQUEST = Struct(
    BeginQuorumEpochRequest,
    Field("cluster_id", STRING, "0+", nullable="0+"),
    Field("voter_id", INT32, "1+", ignorable=True),
    Field("topics", Array(_BEGUN_TOPIC), "0+"),
    Field("leader_endpoints", Array(_LEADER_ENDPOINT), "1+", ignorable=True),
)
_PARTITION_DATA = Struct(
    PartitionData,
    Field("partition_index", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("leader_id", INT32, "0+"),
    Field("leader_epoch", INT32, "0+"),
)
_TOPIC_DATA = Struct(
    TopicData,
    Field("topic_name", STRING, "0+"),
    Field("partitions", Array(_PARTITION_DATA), "0+"),
)
_NODE_ENDPOINT = Struct(
    NodeEndpoint,
    Field("node_id", INT32, "1+"),
    Field("host", STRING, "1+"),
    Field("port", UINT16, "1+"),
)
RESPONSE = Struct(
    BeginQuorumEpochResponse,
    Field("error_code", INT16, "0+"),
    Field("topics", Array(_TOPIC_DATA), "0+"),
    Field("node_endpoints", Array(_NODE_ENDPOINT), "1+", tag=0, ignorable=True),
)
API = Api(ApiKey.BEGIN_QUORUM_EPOCH, flexible_from=1, request=REQUEST, response=RESPONSE)
