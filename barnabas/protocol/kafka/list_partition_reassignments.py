"""ListPartitionReassignments (API key 46) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT16, INT32, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

_LIST_PARTITION_REASSIGNMENTS_TOPICS = Struct(
    ListPartitionReassignmentsTopics,
    Field("name", STRING, "0+"),
    Field("partition_indexes", Array(INT32), "0+"),
)
REQUEST = Struct(
    ListPartitionReassignmentsRequest,
    Field("timeout_ms", INT32, "0+"),
    Field("topics", Array(_LIST_PARTITION_REASSIGNMENTS_TOPICS), "0+", nullable="0+"),
)
_ONGOING_PARTITION_REASSIGNMENT = Struct(
    OngoingPartitionReassignment,
    Field("partition_index", INT32, "0+"),
    Field("replicas", Array(INT32), "0+"),
    Field("adding_replicas", Array(INT32), "0+"),
    Field("removing_replicas", Array(INT32), "0+"),
)
_ONGOING_TOPIC_REASSIGNMENT = Struct(
    OngoingTopicReassignment,
    Field("name", STRING, "0+"),
    Field("partitions", Array(_ONGOING_PARTITION_REASSIGNMENT), "0+"),
)
RESPONSE = Struct(
    ListPartitionReassignmentsResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
    Field("topics", Array(_ONGOING_TOPIC_REASSIGNMENT), "0+"),
)
API = Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, flexible_from=0, request=REQUEST, response=RESPONSE)
