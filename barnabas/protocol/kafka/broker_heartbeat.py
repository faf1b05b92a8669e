"""BrokerHeartbeat (API key 63) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, INT16, INT32, INT64, UUID, Api, Array, Field, Struct
from barnabas.protocol.requests.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

REQUEST = Struct(
    BrokerHeartbeatRequest,
    Field("broker_id", INT32, "0+"),
    Field("broker_epoch", INT64, "0+"),
    Field("current_metadata_offset", INT64, "0+"),
    Field("want_fence", BOOL, "0+"),
    Field("want_shut_down", BOOL, "0+"),
    Field("offline_log_dirs", Array(UUID), "1+", tag=0, ignorable=True),
)
RESPONSE = Struct(
    BrokerHeartbeatResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("is_caught_up", BOOL, "0+"),
    Field("is_fenced", BOOL, "0+"),
    Field("should_shut_down", BOOL, "0+"),
)
API = Api(ApiKey.BROKER_HEARTBEAT, flexible_from=0, request=REQUEST, response=RESPONSE)
