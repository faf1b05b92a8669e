"""Vote (API key 52) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID,
    Api,
    Array,
    Field,
    Struct,
)
from barnabas.protocol.requests.vote import (
    AskedPartition,
    AskedTopic,
    NodeEndpoint,
    PartitionData,
    TopicData,
    VoteRequest,
    VoteResponse,
)

_ASKED_PARTITION = Struct(
    AskedPartition,
    Field("partition_index", INT32, "0+"),
    Field("replica_epoch", INT32, "0+"),
    Field("replica_id", INT32, "0+"),
    Field("replica_directory_id", UUID, "1+", ignorable=True),
    Field("voter_directory_id", UUID, "1+", ignorable=True),
    Field("last_offset_epoch", INT32, "0+"),
    Field("last_offset", INT64, "0+"),
    Field("pre_vote", BOOL, "2+"),
)
_ASKED_TOPIC = Struct(
    AskedTopic,
    Field("topic_name", STRING, "0+"),
    Field("partitions", Array(_ASKED_PARTITION), "0+"),
)
REQUEST = Struct(
    VoteRequest,
    Field("cluster_id", STRING, "0+", nullable="0+"),
    Field("voter_id", INT32, "1+", ignorable=True),
    Field("topics", Array(_ASKED_TOPIC), "0+"),
)
_PARTITION_DATA = Struct(
    PartitionData,
    Field("partition_index", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("leader_id", INT32, "0+"),
    Field("leader_epoch", INT32, "0+"),
    Field("vote_granted", BOOL, "0+"),
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
    VoteResponse,
    Field("error_code", INT16, "0+"),
    Field("topics", Array(_TOPIC_DATA), "0+"),
    Field("node_endpoints", Array(_NODE_ENDPOINT), "1+", tag=0, ignorable=True),
)
API = Api(ApiKey.VOTE, flexible_from=0, request=REQUEST, response=RESPONSE)
