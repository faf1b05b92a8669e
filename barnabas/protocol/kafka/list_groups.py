"""ListGroups (API key 16) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT16, INT32, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

REQUEST = Struct(
    ListGroupsRequest,
    Field("states_filter", Array(STRING), "4+"),
    Field("types_filter", Array(STRING), "5+"),
)
_LISTED_GROUP = Struct(
    ListedGroup,
    Field("group_id", STRING, "0+"),
    Field("protocol_type", STRING, "0+"),
    Field("group_state", STRING, "4+", ignorable=True),
    Field("group_type", STRING, "5+", ignorable=True),
)
RESPONSE = Struct(
    ListGroupsResponse,
    Field("throttle_time_ms", INT32, "1+", ignorable=True),
    Field("error_code", INT16, "0+"),
    Field("groups", Array(_LISTED_GROUP), "0+"),
)
API = Api(ApiKey.LIST_GROUPS, flexible_from=3, request=REQUEST, response=RESPONSE)
