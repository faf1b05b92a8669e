"""ConsumerGroupDescribe (API key 69) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, INT8, INT16, INT32, STRING, UUID, Api, Array, Field, Struct
from barnabas.protocol.requests.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

REQUEST = Struct(
    ConsumerGroupDescribeRequest,
    Field("group_ids", Array(STRING), "0+"),
    Field("include_authorized_operations", BOOL, "0+"),
)
_TOPIC_PARTITIONS = Struct(
    TopicPartitions,
    Field("topic_id", UUID, "0+"),
    Field("topic_name", STRING, "0+"),
    Field("partitions", Array(INT32), "0+"),
)
_ASSIGNMENT = Struct(
    Assignment,
    Field("topic_partitions", Array(_TOPIC_PARTITIONS), "0+"),
)
_MEMBER = Struct(
    Member,
    Field("member_id", STRING, "0+"),
    Field("instance_id", STRING, "0+", nullable="0+"),
    Field("rack_id", STRING, "0+", nullable="0+"),
    Field("member_epoch", INT32, "0+"),
    Field("client_id", STRING, "0+"),
    Field("client_host", STRING, "0+"),
    Field("subscribed_topic_names", Array(STRING), "0+"),
    Field("subscribed_topic_regex", STRING, "0+", nullable="0+"),
    Field("assignment", _ASSIGNMENT, "0+"),
    Field("target_assignment", _ASSIGNMENT, "0+"),
    Field("member_type", INT8, "1+", ignorable=True),
)
_DESCRIBED_GROUP = Struct(
    DescribedGroup,
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
    Field("group_id", STRING, "0+"),
    Field("group_state", STRING, "0+"),
    Field("group_epoch", INT32, "0+"),
    Field("assignment_epoch", INT32, "0+"),
    Field("assignor_name", STRING, "0+"),
    Field("members", Array(_MEMBER), "0+"),
    Field("authorized_operations", INT32, "0+"),
)
RESPONSE = Struct(
    ConsumerGroupDescribeResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("groups", Array(_DESCRIBED_GROUP), "0+"),
)
API = Api(ApiKey.CONSUMER_GROUP_DESCRIBE, flexible_from=0, request=REQUEST, response=RESPONSE)
