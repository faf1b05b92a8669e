"""LeaveGroup (API key 13) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT16, INT32, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

_MEMBER_IDENTITY = Struct(
    MemberIdentity,
    Field("member_id", STRING, "3+"),
    Field("group_instance_id", STRING, "3+", nullable="3+"),
    Field("reason", STRING, "5+", nullable="5+", ignorable=True),
)
REQUEST = Struct(
    LeaveGroupRequest,
    Field("group_id", STRING, "0+"),
    Field("member_id", STRING, "0-2"),
    Field("members", Array(_MEMBER_IDENTITY), "3+"),
)
_MEMBER_RESPONSE = Struct(
    MemberResponse,
    Field("member_id", STRING, "3+"),
    Field("group_instance_id", STRING, "3+", nullable="3+"),
    Field("error_code", INT16, "3+"),
)
RESPONSE = Struct(
    LeaveGroupResponse,
    Field("throttle_time_ms", INT32, "1+", ignorable=True),
    Field("error_code", INT16, "0+"),
    Field("members", Array(_MEMBER_RESPONSE), "3+"),
)
API = Api(ApiKey.LEAVE_GROUP, flexible_from=4, request=REQUEST, response=RESPONSE)
