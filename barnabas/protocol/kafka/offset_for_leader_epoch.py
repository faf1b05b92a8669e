"""OffsetForLeaderEpoch (API key 23) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT16, INT32, INT64, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)

_OFFSET_FOR_LEADER_PARTITION = Struct(
    OffsetForLeaderPartition,
    Field("partition", INT32, "0+"),
    Field("current_leader_epoch", INT32, "2+", ignorable=True),
    Field("leader_epoch", INT32, "0+"),
)
_OFFSET_FOR_LEADER_TOPIC = Struct(
    OffsetForLeaderTopic,
    Field("topic", STRING, "0+"),
    Field("partitions", Array(_OFFSET_FOR_LEADER_PARTITION), "0+"),
)
REQUEST = Struct(
    OffsetForLeaderEpochRequest,
    Field("replica_id", INT32, "3+", ignorable=True),
    Field("topics", Array(_OFFSET_FOR_LEADER_TOPIC), "0+"),
)
_EPOCH_END_OFFSET = Struct(
    EpochEndOffset,
    Field("error_code", INT16, "0+"),
    Field("partition", INT32, "0+"),
    Field("leader_epoch", INT32, "1+", ignorable=True),
    Field("end_offset", INT64, "0+"),
)
_OFFSET_FOR_LEADER_TOPIC_RESULT = Struct(
    OffsetForLeaderTopicResult,
    Field("topic", STRING, "0+"),
    Field("partitions", Array(_EPOCH_END_OFFSET), "0+"),
)
RESPONSE = Struct(
    OffsetForLeaderEpochResponse,
    Field("throttle_time_ms", INT32, "2+", ignorable=True),
    Field("topics", Array(_OFFSET_FOR_LEADER_TOPIC_RESULT), "0+"),
)
API = Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, flexible_from=4, request=REQUEST, response=RESPONSE)
