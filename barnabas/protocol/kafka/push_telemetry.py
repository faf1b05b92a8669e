"""PushTelemetry (API key 72) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, BYTES, INT8, INT16, INT32, UUID, Api, Field, Struct
from barnabas.protocol.requests.push_telemetry import (
    PushTelemetryRequest,
    PushTelemetryResponse,
)

REQUEST = Struct(
    PushTelemetryRequest,
    Field("client_instance_id", UUID, "0+"),
    Field("subscription_id", INT32, "0+"),
    Field("terminating", BOOL, "0+"),
    Field("compression_type", INT8, "0+"),
    Field("metrics", BYTES, "0+"),
)
RESPONSE = Struct(
    PushTelemetryResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
)
API = Api(ApiKey.PUSH_TELEMETRY, flexible_from=0, request=REQUEST, response=RESPONSE)
