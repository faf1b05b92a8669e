"""CreatePartitions (API key 37) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, INT16, INT32, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

_CREATE_PARTITIONS_ASSIGNMENT = Struct(
    CreatePartitionsAssignment,
    Field("broker_ids", Array(INT32), "0+"),
)
_CREATE_PARTITIONS_TOPIC = Struct(
    CreatePartitionsTopic,
    Field("name", STRING, "0+"),
    Field("count", INT32, "0+"),
    Field("assignments", Array(_CREATE_PARTITIONS_ASSIGNMENT), "0+", nullable="0+"),
)
REQUEST = Struct(
    CreatePartitionsRequest,
    Field("topics", Array(_CREATE_PARTITIONS_TOPIC), "0+"),
    Field("timeout_ms", INT32, "0+"),
    Field("validate_only", BOOL, "0+"),
)
_CREATE_PARTITIONS_TOPIC_RESULT = Struct(
    CreatePartitionsTopicResult,
    Field("name", STRING, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
)
RESPONSE = Struct(
    CreatePartitionsResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("results", Array(_CREATE_PARTITIONS_TOPIC_RESULT), "0+"),
)
API = Api(ApiKey.CREATE_PARTITIONS, flexible_from=2, request=REQUEST, response=RESPONSE)
