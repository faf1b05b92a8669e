"""Heartbeat (API key 12) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT16, INT32, STRING, Api, Field, Struct
from barnabas.protocol.requests.heartbeat import (
    HeartbeatRequest,
    HeartbeatResponse,
)

REQUEST = Struct(
    HeartbeatRequest,
    Field("group_id", STRING, "0+"),
    Field("generation_id", INT32, "0+"),
    Field("member_id", STRING, "0+"),
    Field("group_instance_id", STRING, "3+", nullable="3+"),
)
RESPONSE = Struct(
    HeartbeatResponse,
    Field("throttle_time_ms", INT32, "1+", ignorable=True),
    Field("error_code", INT16, "0+"),
)
API = Api(ApiKey.HEARTBEAT, flexible_from=4, request=REQUEST, response=RESPONSE)
