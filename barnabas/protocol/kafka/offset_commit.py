"""OffsetCommit (API key 8) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT16, INT32, INT64, STRING, UUID, Api, Array, Field, Struct
from barnabas.protocol.requests.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_OFFSET_COMMIT_REQUEST_PARTITION = Struct(
    OffsetCommitRequestPartition,
    Field("partition_index", INT32, "0+"),
    Field("committed_offset", INT64, "0+"),
    Field("committed_leader_epoch", INT32, "6+", ignorable=True),
    Field("committed_metadata", STRING, "0+", nullable="0+"),
)
_OFFSET_COMMIT_REQUEST_TOPIC = Struct(
    OffsetCommitRequestTopic,
    Field("name", STRING, "0-9", ignorable=True),
    Field("topic_id", UUID, "10+", ignorable=True),
    Field("partitions", Array(_OFFSET_COMMIT_REQUEST_PARTITION), "0+"),
)
REQUEST = Struct(
    OffsetCommitRequest,
    Field("group_id", STRING, "0+"),
    Field("generation_id_or_member_epoch", INT32, "1+", ignorable=True),
    Field("member_id", STRING, "1+", ignorable=True),
    Field("group_instance_id", STRING, "7+", nullable="7+"),
    Field("retention_time_ms", INT64, "2-4", ignorable=True),
    Field("topics", Array(_OFFSET_COMMIT_REQUEST_TOPIC), "0+"),
)
_OFFSET_COMMIT_RESPONSE_PARTITION = Struct(
    OffsetCommitResponsePartition,
    Field("partition_index", INT32, "0+"),
    Field("error_code", INT16, "0+"),
)
_OFFSET_COMMIT_RESPONSE_TOPIC = Struct(
    OffsetCommitResponseTopic,
    Field("name", STRING, "0-9", ignorable=True),
    Field("topic_id", UUID, "10+", ignorable=True),
    Field("partitions", Array(_OFFSET_COMMIT_RESPONSE_PARTITION), "0+"),
)
RESPONSE = Struct(
    OffsetCommitResponse,
    Field("throttle_time_ms", INT32, "3+", ignorable=True),
    Field("topics", Array(_OFFSET_COMMIT_RESPONSE_TOPIC), "0+"),
)
API = Api(ApiKey.OFFSET_COMMIT, flexible_from=8, request=REQUEST, response=RESPONSE)
