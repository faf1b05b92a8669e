"""ListOffsets (API key 2) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT8, INT16, INT32, INT64, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

_LIST_OFFSETS_PARTITION = Struct(
    ListOffsetsPartition,
    Field("partition_index", INT32, "0+"),
    Field("current_leader_epoch", INT32, "4+", ignorable=True),
    Field("timestamp", INT64, "0+"),
)
_LIST_OFFSETS_TOPIC = Struct(
    ListOffsetsTopic,
    Field("name", STRING, "0+"),
    Field("partitions", Array(_LIST_OFFSETS_PARTITION), "0+"),
)
REQUEST = Struct(
    ListOffsetsRequest,
    Field("replica_id", INT32, "0+"),
    Field("isolation_level", INT8, "2+"),
    Field("topics", Array(_LIST_OFFSETS_TOPIC), "0+"),
    Field("timeout_ms", INT32, "10+", ignorable=True),
)
_LIST_OFFSETS_PARTITION_RESPONSE = Struct(
    ListOffsetsPartitionResponse,
    Field("partition_index", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("timestamp", INT64, "1+"),
    Field("offset", INT64, "1+"),
    Field("leader_epoch", INT32, "4+"),
)
_LIST_OFFSETS_TOPIC_RESPONSE = Struct(
    ListOffsetsTopicResponse,
    Field("name", STRING, "0+"),
    Field("partitions", Array(_LIST_OFFSETS_PARTITION_RESPONSE), "0+"),
)
RESPONSE = Struct(
    ListOffsetsResponse,
    Field("throttle_time_ms", INT32, "2+", ignorable=True),
    Field("topics", Array(_LIST_OFFSETS_TOPIC_RESPONSE), "0+"),
)
API = Api(ApiKey.LIST_OFFSETS, flexible_from=6, request=REQUEST, response=RESPONSE)
