"""ElectLeaders (API key 43) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT8, INT16, INT32, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)

_TOPIC_PARTITIONS = Struct(
    TopicPartitions,
    Field("topic", STRING, "0+"),
    Field("partitions", Array(INT32), "0+"),
)
REQUEST = Struct(
    ElectLeadersRequest,
    Field("election_type", INT8, "1+"),
    Field("topic_partitions", Array(_TOPIC_PARTITIONS), "0+", nullable="0+"),
    Field("timeout_ms", INT32, "0+"),
)
_PARTITION_RESULT = Struct(
    PartitionResult,
    Field("partition_id", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
)
_REPLICA_ELECTION_RESULT = Struct(
    ReplicaElectionResult,
    Field("topic", STRING, "0+"),
    Field("partition_result", Array(_PARTITION_RESULT), "0+"),
)
RESPONSE = Struct(
    ElectLeadersResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "1+", ignorable=True),  # not in Kafka's table: its broker looks at the version first
    Field("replica_election_results", Array(_REPLICA_ELECTION_RESULT), "0+"),
)
API = Api(ApiKey.ELECT_LEADERS, flexible_from=2, request=REQUEST, response=RESPONSE)
