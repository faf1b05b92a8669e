"""DescribeTopicPartitions (API key 75) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, INT16, INT32, STRING, UUID, Api, Array, Field, Struct
from barnabas.protocol.requests.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)

_TOPIC_REQUEST = Struct(
    TopicRequest,
    Field("name", STRING, "0+"),
)
_CURSOR = Struct(
    Cursor,
    Field("topic_name", STRING, "0+"),
    Field("partition_index", INT32, "0+"),
)
REQUEST = Struct(
    DescribeTopicPartitionsRequest,
    Field("topics", Array(_TOPIC_REQUEST), "0+"),
    Field("response_partition_limit", INT32, "0+"),
    Field("cursor", _CURSOR, "0+", nullable="0+"),
)
_DESCRIBE_TOPIC_PARTITIONS_RESPONSE_PARTITION = Struct(
    DescribeTopicPartitionsResponsePartition,
    Field("error_code", INT16, "0+"),
    Field("partition_index", INT32, "0+"),
    Field("leader_id", INT32, "0+"),
    Field("leader_epoch", INT32, "0+", ignorable=True),
    Field("replica_nodes", Array(INT32), "0+"),
    Field("isr_nodes", Array(INT32), "0+"),
    Field("eligible_leader_replicas", Array(INT32), "0+", nullable="0+"),
    Field("last_known_elr", Array(INT32), "0+", nullable="0+"),
    Field("offline_replicas", Array(INT32), "0+", ignorable=True),
)
_DESCRIBE_TOPIC_PARTITIONS_RESPONSE_TOPIC = Struct(
    DescribeTopicPartitionsResponseTopic,
    Field("error_code", INT16, "0+"),
    Field("name", STRING, "0+", nullable="0+"),
    Field("topic_id", UUID, "0+", ignorable=True),
    Field("is_internal", BOOL, "0+", ignorable=True),
    Field("partitions", Array(_DESCRIBE_TOPIC_PARTITIONS_RESPONSE_PARTITION), "0+"),
    Field("topic_authorized_operations", INT32, "0+"),
)
RESPONSE = Struct(
    DescribeTopicPartitionsResponse,
    Field("throttle_time_ms", INT32, "0+", ignorable=True),
    Field("topics", Array(_DESCRIBE_TOPIC_PARTITIONS_RESPONSE_TOPIC), "0+"),
    Field("next_cursor", _CURSOR, "0+", nullable="0+"),
)
API = Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, flexible_from=0, request=REQUEST, response=RESPONSE)
