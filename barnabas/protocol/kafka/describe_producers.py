"""DescribeProducers (API key 61) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT16, INT32, INT64, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)

_TOPIC_REQUEST = Struct(
    TopicRequest,
    Field("name", STRING, "0+"),
    Field("partition_indexes", Array(INT32), "0+"),
)
REQUEST = Struct(
    DescribeProducersRequest,
    Field("topics", Array(_TOPIC_REQUEST), "0+"),
)
_PRODUCER_STATE = Struct(
    ProducerState,
    Field("producer_id", INT64, "0+"),
    Field("producer_epoch", INT32, "0+"),
    Field("last_sequence", INT32, "0+"),
    Field("last_timestamp", INT64, "0+"),
    Field("coordinator_epoch", INT32, "0+"),
    Field("current_txn_start_offset", INT64, "0+"),
)
_PARTITION_RESPONSE = Struct(
    PartitionResponse,
    Field("partition_index", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
    Field("active_producers", Array(_PRODUCER_STATE), "0+"),
)
_TOPIC_RESPONSE = Struct(
    TopicResponse,
    Field("name", STRING, "0+"),
    Field("partitions", Array(_PARTITION_RESPONSE), "0+"),
)
RESPONSE = Struct(
    DescribeProducersResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("topics", Array(_TOPIC_RESPONSE), "0+"),
)
API = Api(ApiKey.DESCRIBE_PRODUCERS, flexible_from=0, request=REQUEST, response=RESPONSE)
