"""CreateTopics (API key 19) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, INT8, INT16, INT32, STRING, UUID, Api, Array, Field, Struct
from barnabas.protocol.requests.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_CREATABLE_REPLICA_ASSIGNMENT = Struct(
    CreatableReplicaAssignment,
    Field("partition_index", INT32, "0+"),
    Field("broker_ids", Array(INT32), "0+"),
)
_CREATABLE_TOPIC_CONFIG = Struct(
    CreatableTopicConfig,
    Field("name", STRING, "0+"),
    Field("value", STRING, "0+", nullable="0+"),
)
_CREATABLE_TOPIC = Struct(
    CreatableTopic,
    Field("name", STRING, "0+"),
    Field("num_partitions", INT32, "0+"),
    Field("replication_factor", INT16, "0+"),
    Field("assignments", Array(_CREATABLE_REPLICA_ASSIGNMENT), "0+"),
    Field("configs", Array(_CREATABLE_TOPIC_CONFIG), "0+"),
)
REQUEST = Struct(
    CreateTopicsRequest,
    Field("topics", Array(_CREATABLE_TOPIC), "0+"),
    Field("timeout_ms", INT32, "0+"),
    Field("validate_only", BOOL, "1+"),
)
_CREATABLE_TOPIC_CONFIGS = Struct(
    CreatableTopicConfigs,
    Field("name", STRING, "5+"),
    Field("value", STRING, "5+", nullable="5+"),
    Field("read_only", BOOL, "5+"),
    Field("config_source", INT8, "5+", ignorable=True),
    Field("is_sensitive", BOOL, "5+"),
)
_CREATABLE_TOPIC_RESULT = Struct(
    CreatableTopicResult,
    Field("name", STRING, "0+"),
    Field("topic_id", UUID, "7+", ignorable=True),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "1+", nullable="0+", ignorable=True),
    Field("topic_config_error_code", INT16, "5+", tag=0, ignorable=True),
    Field("num_partitions", INT32, "5+", ignorable=True),
    Field("replication_factor", INT16, "5+", ignorable=True),
    Field("configs", Array(_CREATABLE_TOPIC_CONFIGS), "5+", nullable="5+", ignorable=True),
)
RESPONSE = Struct(
    CreateTopicsResponse,
    Field("throttle_time_ms", INT32, "2+", ignorable=True),
    Field("topics", Array(_CREATABLE_TOPIC_RESULT), "0+"),
)
API = Api(ApiKey.CREATE_TOPICS, flexible_from=5, request=REQUEST, response=RESPONSE)
