"""OffsetDelete (API key 47) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT16, INT32, NEVER, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

_OFFSET_DELETE_REQUEST_PARTITION = Struct(
    OffsetDeleteRequestPartition,
    Field("partition_index", INT32, "0+"),
)
_OFFSET_DELETE_REQUEST_TOPIC = Struct(
    OffsetDeleteRequestTopic,
    Field("name", STRING, "0+"),
    Field("partitions", Array(_OFFSET_DELETE_REQUEST_PARTITION), "0+"),
)
REQUEST = Struct(
    OffsetDeleteRequest,
    Field("group_id", STRING, "0+"),
    Field("topics", Array(_OFFSET_DELETE_REQUEST_TOPIC), "0+"),
)
_OFFSET_DELETE_RESPONSE_PARTITION = Struct(
    OffsetDeleteResponsePartition,
    Field("partition_index", INT32, "0+"),
    Field("error_code", INT16, "0+"),
)
_OFFSET_DELETE_RESPONSE_TOPIC = Struct(
    OffsetDeleteResponseTopic,
    Field("name", STRING, "0+"),
    Field("partitions", Array(_OFFSET_DELETE_RESPONSE_PARTITION), "0+"),
)
RESPONSE = Struct(
    OffsetDeleteResponse,
    Field("error_code", INT16, "0+"),
    Field("throttle_time_ms", INT32, "0+", ignorable=True),
    Field("topics", Array(_OFFSET_DELETE_RESPONSE_TOPIC), "0+"),
)
API = Api(ApiKey.OFFSET_DELETE, flexible_from=NEVER, request=REQUEST, response=RESPONSE)
