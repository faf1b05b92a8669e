"""DeleteGroups (API key 42) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT16, INT32, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

REQUEST = Struct(
    DeleteGroupsRequest,
    Field("groups_names", Array(STRING), "0+"),
)
_DELETABLE_GROUP_RESULT = Struct(
    DeletableGroupResult,
    Field("group_id", STRING, "0+"),
    Field("error_code", INT16, "0+"),
)
RESPONSE = Struct(
    DeleteGroupsResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("results", Array(_DELETABLE_GROUP_RESULT), "0+"),
)
API = Api(ApiKey.DELETE_GROUPS, flexible_from=2, request=REQUEST, response=RESPONSE)
