"""GetTelemetrySubscriptions (API key 71) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, INT8, INT16, INT32, STRING, UUID, Api, Array, Field, Struct
from barnabas.protocol.requests.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

REQUEST = Struct(
    GetTelemetrySubscriptionsRequest,
    Field("client_instance_id", UUID, "0+"),
)
RESPONSE = Struct(
    GetTelemetrySubscriptionsResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("client_instance_id", UUID, "0+"),
    Field("subscription_id", INT32, "0+"),
    Field("accepted_compression_types", Array(INT8), "0+"),
    Field("push_interval_ms", INT32, "0+"),
    Field("telemetry_max_bytes", INT32, "0+"),
    Field("delta_temporality", BOOL, "0+"),
    Field("requested_metrics", Array(STRING), "0+"),
)
API = Api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, flexible_from=0, request=REQUEST, response=RESPONSE)
