"""OffsetFetch (API key 9) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, INT16, INT32, INT64, STRING, UUID, Api, Array, Field, Struct
from barnabas.protocol.requests.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_OFFSET_FETCH_REQUEST_TOPIC = Struct(
    OffsetFetchRequestTopic,
    Field("name", STRING, "0-7"),
    Field("partition_indexes", Array(INT32), "0-7"),
)
_OFFSET_FETCH_REQUEST_TOPICS = Struct(
    OffsetFetchRequestTopics,
    Field("name", STRING, "8-9", ignorable=True),
    Field("topic_id", UUID, "10+", ignorable=True),
    Field("partition_indexes", Array(INT32), "8+"),
)
_OFFSET_FETCH_REQUEST_GROUP = Struct(
    OffsetFetchRequestGroup,
    Field("group_id", STRING, "8+"),
    Field("member_id", STRING, "9+", nullable="9+", ignorable=True),
    Field("member_epoch", INT32, "9+", ignorable=True),
    Field("topics", Array(_OFFSET_FETCH_REQUEST_TOPICS), "8+", nullable="8+"),
)
REQUEST = Struct(
    OffsetFetchRequest,
    Field("group_id", STRING, "0-7"),
    Field("topics", Array(_OFFSET_FETCH_REQUEST_TOPIC), "0-7", nullable="2-7"),
    Field("groups", Array(_OFFSET_FETCH_REQUEST_GROUP), "8+"),
    Field("require_stable", BOOL, "7+"),
)
_OFFSET_FETCH_RESPONSE_PARTITION = Struct(
    OffsetFetchResponsePartition,
    Field("partition_index", INT32, "0-7"),
    Field("committed_offset", INT64, "0-7"),
    Field("committed_leader_epoch", INT32, "5-7", ignorable=True),
    Field("metadata", STRING, "0-7", nullable="0-7"),
    Field("error_code", INT16, "0-7"),
)
_OFFSET_FETCH_RESPONSE_TOPIC = Struct(
    OffsetFetchResponseTopic,
    Field("name", STRING, "0-7"),
    Field("partitions", Array(_OFFSET_FETCH_RESPONSE_PARTITION), "0-7"),
)
_OFFSET_FETCH_RESPONSE_PARTITIONS = Struct(
    OffsetFetchResponsePartitions,
    Field("partition_index", INT32, "8+"),
    Field("committed_offset", INT64, "8+"),
    Field("committed_leader_epoch", INT32, "8+", ignorable=True),
    Field("metadata", STRING, "8+", nullable="8+"),
    Field("error_code", INT16, "8+"),
)
_OFFSET_FETCH_RESPONSE_TOPICS = Struct(
    OffsetFetchResponseTopics,
    Field("name", STRING, "8-9", ignorable=True),
    Field("topic_id", UUID, "10+", ignorable=True),
    Field("partitions", Array(_OFFSET_FETCH_RESPONSE_PARTITIONS), "8+"),
)
_OFFSET_FETCH_RESPONSE_GROUP = Struct(
    OffsetFetchResponseGroup,
    Field("group_id", STRING, "8+"),
    Field("topics", Array(_OFFSET_FETCH_RESPONSE_TOPICS), "8+"),
    Field("error_code", INT16, "8+"),
)
RESPONSE = Struct(
    OffsetFetchResponse,
    Field("throttle_time_ms", INT32, "3+", ignorable=True),
    Field("topics", Array(_OFFSET_FETCH_RESPONSE_TOPIC), "0-7"),
    Field("error_code", INT16, "2-7", ignorable=True),
    Field("groups", Array(_OFFSET_FETCH_RESPONSE_GROUP), "8+"),
)
API = Api(ApiKey.OFFSET_FETCH, flexible_from=6, request=REQUEST, response=RESPONSE)
