"""DescribeGroups (API key 15) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, BYTES, INT16, INT32, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

REQUEST = Struct(
    DescribeGroupsRequest,
    Field("groups", Array(STRING), "0+"),
    Field("include_authorized_operations", BOOL, "3+"),
)
_DESCRIBED_GROUP_MEMBER = Struct(
    DescribedGroupMember,
    Field("member_id", STRING, "0+"),
    Field("group_instance_id", STRING, "4+", nullable="4+", ignorable=True),
    Field("client_id", STRING, "0+"),
    Field("client_host", STRING, "0+"),
    Field("member_metadata", BYTES, "0+"),
    Field("member_assignment", BYTES, "0+"),
)
_DESCRIBED_GROUP = Struct(
    DescribedGroup,
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "6+", nullable="6+"),
    Field("group_id", STRING, "0+"),
    Field("group_state", STRING, "0+"),
    Field("protocol_type", STRING, "0+"),
    Field("protocol_data", STRING, "0+"),
    Field("members", Array(_DESCRIBED_GROUP_MEMBER), "0+"),
    Field("authorized_operations", INT32, "3+"),
)
RESPONSE = Struct(
    DescribeGroupsResponse,
    Field("throttle_time_ms", INT32, "1+", ignorable=True),
    Field("groups", Array(_DESCRIBED_GROUP), "0+"),
)
API = Api(ApiKey.DESCRIBE_GROUPS, flexible_from=5, request=REQUEST, response=RESPONSE)
