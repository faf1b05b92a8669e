"""Produce (API key 0) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT16, INT32, INT64, RECORDS, STRING, UUID, Api, Array, Field, Struct
from barnabas.protocol.requests.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_PARTITION_PRODUCE_DATA = Struct(
    PartitionProduceData,
    Field("index", INT32, "0+"),
    Field("records", RECORDS, "0+", nullable="0+"),
)
_TOPIC_PRODUCE_DATA = Struct(
    TopicProduceData,
    Field("name", STRING, "0-12", ignorable=True),
    Field("topic_id", UUID, "13+", ignorable=True),
    Field("partition_data", Array(_PARTITION_PRODUCE_DATA), "0+"),
)
REQUEST = Struct(
    ProduceRequest,
    Field("transactional_id", STRING, "3+", nullable="3+"),
    Field("acks", INT16, "0+"),
    Field("timeout_ms", INT32, "0+"),
    Field("topic_data", Array(_TOPIC_PRODUCE_DATA), "0+"),
)
_BATCH_INDEX_AND_ERROR_MESSAGE = Struct(
    BatchIndexAndErrorMessage,
    Field("batch_index", INT32, "8+"),
    Field("batch_index_error_message", STRING, "8+", nullable="8+"),
)
_LEADER_ID_AND_EPOCH = Struct(
    LeaderIdAndEpoch,
    Field("leader_id", INT32, "10+"),
    Field("leader_epoch", INT32, "10+"),
)
_PARTITION_PRODUCE_RESPONSE = Struct(
    PartitionProduceResponse,
    Field("index", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("base_offset", INT64, "0+"),
    Field("log_append_time_ms", INT64, "2+", ignorable=True),
    Field("log_start_offset", INT64, "5+", ignorable=True),
    Field("record_errors", Array(_BATCH_INDEX_AND_ERROR_MESSAGE), "8+", ignorable=True),
    Field("error_message", STRING, "8+", nullable="8+", ignorable=True),
    Field("current_leader", _LEADER_ID_AND_EPOCH, "10+", tag=0),
)
_TOPIC_PRODUCE_RESPONSE = Struct(
    TopicProduceResponse,
    Field("name", STRING, "0-12", ignorable=True),
    Field("topic_id", UUID, "13+", ignorable=True),
    Field("partition_responses", Array(_PARTITION_PRODUCE_RESPONSE), "0+"),
)
_NODE_ENDPOINT = Struct(
    NodeEndpoint,
    Field("node_id", INT32, "10+"),
    Field("host", STRING, "10+"),
    Field("port", INT32, "10+"),
    Field("rack", STRING, "10+", nullable="10+"),
)
RESPONSE = Struct(
    ProduceResponse,
    Field("responses", Array(_TOPIC_PRODUCE_RESPONSE), "0+"),
    Field("throttle_time_ms", INT32, "1+", ignorable=True),
    Field("node_endpoints", Array(_NODE_ENDPOINT), "10+", tag=0),
)
API = Api(ApiKey.PRODUCE, flexible_from=9, request=REQUEST, response=RESPONSE)
