"""JoinGroup (API key 11) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, BYTES, INT16, INT32, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

_JOIN_GROUP_REQUEST_PROTOCOL = Struct(
    JoinGroupRequestProtocol,
    Field("name", STRING, "0+"),
    Field("metadata", BYTES, "0+"),
)
REQUEST = Struct(
    JoinGroupRequest,
    Field("group_id", STRING, "0+"),
    Field("session_timeout_ms", INT32, "0+"),
    Field("rebalance_timeout_ms", INT32, "1+", ignorable=True),
    Field("member_id", STRING, "0+"),
    Field("group_instance_id", STRING, "5+", nullable="5+"),
    Field("protocol_type", STRING, "0+"),
    Field("protocols", Array(_JOIN_GROUP_REQUEST_PROTOCOL), "0+"),
    Field("reason", STRING, "8+", nullable="8+", ignorable=True),
)
_JOIN_GROUP_RESPONSE_MEMBER = Struct(
    JoinGroupResponseMember,
    Field("member_id", STRING, "0+"),
    Field("group_instance_id", STRING, "5+", nullable="5+", ignorable=True),
    Field("metadata", BYTES, "0+"),
)
RESPONSE = Struct(
    JoinGroupResponse,
    Field("throttle_time_ms", INT32, "2+", ignorable=True),
    Field("error_code", INT16, "0+"),
    Field("generation_id", INT32, "0+"),
    Field("protocol_type", STRING, "7+", nullable="7+", ignorable=True),
    Field("protocol_name", STRING, "0+", nullable="7+"),
    Field("leader", STRING, "0+"),
    Field("skip_assignment", BOOL, "9+"),
    Field("member_id", STRING, "0+"),
    Field("members", Array(_JOIN_GROUP_RESPONSE_MEMBER), "0+"),
)
API = Api(ApiKey.JOIN_GROUP, flexible_from=6, request=REQUEST, response=RESPONSE)
