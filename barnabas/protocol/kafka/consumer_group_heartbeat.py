"""ConsumerGroupHeartbeat (API key 68) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT16, INT32, STRING, UUID, Api, Array, Field, Struct
from barnabas.protocol.requests.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_TOPIC_PARTITIONS = Struct(
    TopicPartitions,
    Field("topic_id", UUID, "0+"),
    Field("partitions", Array(INT32), "0+"),
)
REQUEST = Struct(
    ConsumerGroupHeartbeatRequest,
    Field("group_id", STRING, "0+"),
    Field("member_id", STRING, "0+"),
    Field("member_epoch", INT32, "0+"),
    Field("instance_id", STRING, "0+", nullable="0+"),
    Field("rack_id", STRING, "0+", nullable="0+"),
    Field("rebalance_timeout_ms", INT32, "0+"),
    Field("subscribed_topic_names", Array(STRING), "0+", nullable="0+"),
    Field("subscribed_topic_regex", STRING, "1+", nullable="1+"),
    Field("server_assignor", STRING, "0+", nullable="0+"),
    Field("topic_partitions", Array(_TOPIC_PARTITIONS), "0+", nullable="0+"),
)
_ASSIGNMENT = Struct(
    Assignment,
    Field("topic_partitions", Array(_TOPIC_PARTITIONS), "0+"),
)
RESPONSE = Struct(
    ConsumerGroupHeartbeatResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
    Field("member_id", STRING, "0+", nullable="0+"),
    Field("member_epoch", INT32, "0+"),
    Field("heartbeat_interval_ms", INT32, "0+"),
    Field("assignment", _ASSIGNMENT, "0+", nullable="0+"),
)
API = Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, flexible_from=0, request=REQUEST, response=RESPONSE)
