"""SaslAuthenticate (API key 36) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BYTES, INT16, INT64, STRING, Api, Field, Struct
from barnabas.protocol.requests.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

REQUEST = Struct(
    SaslAuthenticateRequest,
    Field("auth_bytes", BYTES, "0+"),
)
RESPONSE = Struct(
    SaslAuthenticateResponse,
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
    Field("auth_bytes", BYTES, "0+"),
    Field("session_lifetime_ms", INT64, "1+", ignorable=True),
)
API = Api(ApiKey.SASL_AUTHENTICATE, flexible_from=2, request=REQUEST, response=RESPONSE)
