"""UnregisterBroker (API key 64) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT16, INT32, STRING, Api, Field, Struct
from barnabas.protocol.requests.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

REQUEST = Struct(
    UnregisterBrokerRequest,
    Field("broker_id", INT32, "0+"),
)
RESPONSE = Struct(
    UnregisterBrokerResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
)
API = Api(ApiKey.UNREGISTER_BROKER, flexible_from=0, request=REQUEST, response=RESPONSE)
