"""AlterPartition (API key 56) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT8, INT16, INT32, INT64, UUID, Api, Array, Field, Struct
from barnabas.protocol.requests.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionPartitionResult,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    AlterPartitionTopicResult,
    BrokerState,
)

_BROKER_STATE = Struct(
    BrokerState,
    Field("broker_id", INT32, "3+"),
    Field("broker_epoch", INT64, "3+"),
)
_PARTITION = Struct(
    AlterPartitionPartition,
    Field("partition_index", INT32, "0+"),
    Field("leader_epoch", INT32, "0+"),
    Field("new_isr", Array(INT32), "0-2"),
    Field("new_isr_with_epochs", Array(_BROKER_STATE), "3+"),
    Field("leader_recovery_state", INT8, "1+"),
    Field("partition_epoch", INT32, "0+"),
)
_TOPIC = Struct(
    AlterPartitionTopic,
    Field("topic_id", UUID, "2+", ignorable=True),
    Field("partitions", Array(_PARTITION), "0+"),
)
REQUEST = Struct(
    AlterPartitionRequest,
    Field("broker_id", INT32, "0+"),
    Field("broker_epoch", INT64, "0+"),
    Field("topics", Array(_TOPIC), "0+"),
)
_PARTITION_RESULT = Struct(
    AlterPartitionPartitionResult,
    Field("partition_index", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("leader_id", INT32, "0+"),
    Field("leader_epoch", INT32, "0+"),
    Field("isr", Array(INT32), "0+"),
    Field("leader_recovery_state", INT8, "1+", ignorable=True),
    Field("partition_epoch", INT32, "0+"),
)
_TOPIC_RESULT = Struct(
    AlterPartitionTopicResult,
    Field("topic_id", UUID, "2+", ignorable=True),
    Field("partitions", Array(_PARTITION_RESULT), "0+"),
)
RESPONSE = Struct(
    AlterPartitionResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("topics", Array(_TOPIC_RESULT), "0+"),
)
API = Api(ApiKey.ALTER_PARTITION, flexible_from=0, request=REQUEST, response=RESPONSE)
