"""SyncGroup (API key 14) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BYTES, INT16, INT32, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

_SYNC_GROUP_REQUEST_ASSIGNMENT = Struct(
    SyncGroupRequestAssignment,
    Field("member_id", STRING, "0+"),
    Field("assignment", BYTES, "0+"),
)
REQUEST = Struct(
    SyncGroupRequest,
    Field("group_id", STRING, "0+"),
    Field("generation_id", INT32, "0+"),
    Field("member_id", STRING, "0+"),
    Field("group_instance_id", STRING, "3+", nullable="3+"),
    Field("protocol_type", STRING, "5+", nullable="5+", ignorable=True),
    Field("protocol_name", STRING, "5+", nullable="5+", ignorable=True),
    Field("assignments", Array(_SYNC_GROUP_REQUEST_ASSIGNMENT), "0+"),
)
RESPONSE = Struct(
    SyncGroupResponse,
    Field("throttle_time_ms", INT32, "1+", ignorable=True),
    Field("error_code", INT16, "0+"),
    Field("protocol_type", STRING, "5+", nullable="5+", ignorable=True),
    Field("protocol_name", STRING, "5+", nullable="5+", ignorable=True),
    Field("assignment", BYTES, "0+"),
)
API = Api(ApiKey.SYNC_GROUP, flexible_from=4, request=REQUEST, response=RESPONSE)
