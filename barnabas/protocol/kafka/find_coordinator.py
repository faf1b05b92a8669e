"""FindCoordinator (API key 10) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT8, INT16, INT32, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

REQUEST = Struct(
    FindCoordinatorRequest,
    Field("key", STRING, "0-3"),
    Field("key_type", INT8, "1+"),
    Field("coordinator_keys", Array(STRING), "4+"),
)
_COORDINATOR = Struct(
    Coordinator,
    Field("key", STRING, "4+"),
    Field("node_id", INT32, "4+"),
    Field("host", STRING, "4+"),
    Field("port", INT32, "4+"),
    Field("error_code", INT16, "4+"),
    Field("error_message", STRING, "4+", nullable="4+", ignorable=True),
)
RESPONSE = Struct(
    FindCoordinatorResponse,
    Field("throttle_time_ms", INT32, "1+", ignorable=True),
    Field("error_code", INT16, "0-3"),
    Field("error_message", STRING, "1-3", nullable="1-3", ignorable=True),
    Field("node_id", INT32, "0-3"),
    Field("host", STRING, "0-3"),
    Field("port", INT32, "0-3"),
    Field("coordinators", Array(_COORDINATOR), "4+"),
)
API = Api(ApiKey.FIND_COORDINATOR, flexible_from=3, request=REQUEST, response=RESPONSE)
