"""EndQuorumEpoch (API key 54) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT16, INT32, STRING, UINT16, UUID, Api, Array, Field, Struct
from barnabas.protocol.requests.end_quorum_epoch import (
    EndedPartition,
    EndedTopic,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    LeaderEndpoint,
    NodeEndpoint,
    PartitionData,
    ReplicaInfo,
    TopicData,
)

_REPLICA_INFO = Struct(
    ReplicaInfo,
    Field("candidate_id", INT32, "1+"),
    Field("candidate_directory_id", UUID, "1+"),
)
_ENDED_PARTITION = Struct(
    EndedPartition,
    Field("partition_index", INT32, "0+"),
    Field("leader_id", INT32, "0+"),
    Field("leader_epoch", INT32, "0+"),
    Field("preferred_successors", Array(INT32), "0", ignorable=True),
    Field("preferred_candidates", Array(_REPLICA_INFO), "1+", ignorable=True),
)
_ENDED_TOPIC = Struct(
    EndedTopic,
    Field("topic_name", STRING, "0+"),
    Field("partitions", Array(_ENDED_PARTITION), "0+"),
)
_LEADER_ENDPOINT = Struct(
    LeaderEndpoint,
    Field("name", STRING, "1+"),
    Field("host", STRING, "1+"),
    Field("port", UINT16, "1+"),
)
REQUEST = Struct(
    EndQuorumEpochRequest,
    Field("cluster_id", STRING, "0+", nullable="0+"),
    Field("topics", Array(_ENDED_TOPIC), "0+"),
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
    EndQuorumEpochResponse,
    Field("error_code", INT16, "0+"),
    Field("topics", Array(_TOPIC_DATA), "0+"),
    Field("node_endpoints", Array(_NODE_ENDPOINT), "1+", tag=0, ignorable=True),
)
API = Api(ApiKey.END_QUORUM_EPOCH, flexible_from=1, request=REQUEST, response=RESPONSE)
