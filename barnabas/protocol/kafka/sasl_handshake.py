"""SaslHandshake (API key 17) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT16, NEVER, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

REQUEST = Struct(
    SaslHandshakeRequest,
    Field("mechanism", STRING, "0+"),
)
RESPONSE = Struct(
    SaslHandshakeResponse,
    Field("error_code", INT16, "0+"),
    Field("mechanisms", Array(STRING), "0+"),
)
API = Api(ApiKey.SASL_HANDSHAKE, flexible_from=NEVER, request=REQUEST, response=RESPONSE)
