"""DeleteTopics (API key 20) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT16, INT32, STRING, UUID, Api, Array, Field, Struct
from barnabas.protocol.requests.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_DELETE_TOPIC_STATE = Struct(
    DeleteTopicState,
    Field("name", STRING, "6+", nullable="6+"),
    Field("topic_id", UUID, "6+"),
)
REQUEST = Struct(
    DeleteTopicsRequest,
    Field("topics", Array(_DELETE_TOPIC_STATE), "6+"),
    Field("topic_names", Array(STRING), "0-5", ignorable=True),
    Field("timeout_ms", INT32, "0+"),
)
_DELETABLE_TOPIC_RESULT = Struct(
    DeletableTopicResult,
    Field("name", STRING, "0+", nullable="6+"),
    Field("topic_id", UUID, "6+", ignorable=True),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "5+", nullable="5+", ignorable=True),
)
RESPONSE = Struct(
    DeleteTopicsResponse,
    Field("throttle_time_ms", INT32, "1+", ignorable=True),
    Field("responses", Array(_DELETABLE_TOPIC_RESULT), "0+"),
)
API = Api(ApiKey.DELETE_TOPICS, flexible_from=4, request=REQUEST, response=RESPONSE)
