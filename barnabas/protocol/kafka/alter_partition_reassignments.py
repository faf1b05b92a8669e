"""AlterPartitionReassignments (API key 45) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, INT16, INT32, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)

_REASSIGNABLE_PARTITION = Struct(
    ReassignablePartition,
    Field("partition_index", INT32, "0+"),
    Field("replicas", Array(INT32), "0+", nullable="0+"),
)
_REASSIGNABLE_TOPIC = Struct(
    ReassignableTopic,
    Field("name", STRING, "0+"),
    Field("partitions", Array(_REASSIGNABLE_PARTITION), "0+"),
)
REQUEST = Struct(
    AlterPartitionReassignmentsRequest,
    Field("timeout_ms", INT32, "0+"),
    Field("allow_replication_factor_change", BOOL, "1+"),
    Field("topics", Array(_REASSIGNABLE_TOPIC), "0+"),
)
_REASSIGNABLE_PARTITION_RESPONSE = Struct(
    ReassignablePartitionResponse,
    Field("partition_index", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
)
_REASSIGNABLE_TOPIC_RESPONSE = Struct(
    ReassignableTopicResponse,
    Field("name", STRING, "0+"),
    Field("partitions", Array(_REASSIGNABLE_PARTITION_RESPONSE), "0+"),
)
RESPONSE = Struct(
    AlterPartitionReassignmentsResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("allow_replication_factor_change", BOOL, "1+", ignorable=True),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
    Field("responses", Array(_REASSIGNABLE_TOPIC_RESPONSE), "0+"),
)
API = Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, flexible_from=0, request=REQUEST, response=RESPONSE)
