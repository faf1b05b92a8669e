"""DescribeAcls (API key 29) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT8, INT16, INT32, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

REQUEST = Struct(
    DescribeAclsRequest,
    Field("resource_type_filter", INT8, "0+"),
    Field("resource_name_filter", STRING, "0+", nullable="0+"),
    Field("pattern_type_filter", INT8, "1+"),
    Field("principal_filter", STRING, "0+", nullable="0+"),
    Field("host_filter", STRING, "0+", nullable="0+"),
    Field("operation", INT8, "0+"),
    Field("permission_type", INT8, "0+"),
)
_ACL_DESCRIPTION = Struct(
    AclDescription,
    Field("principal", STRING, "0+"),
    Field("host", STRING, "0+"),
    Field("operation", INT8, "0+"),
    Field("permission_type", INT8, "0+"),
)
_DESCRIBE_ACLS_RESOURCE = Struct(
    DescribeAclsResource,
    Field("resource_type", INT8, "0+"),
    Field("resource_name", STRING, "0+"),
    Field("pattern_type", INT8, "1+"),
    Field("acls", Array(_ACL_DESCRIPTION), "0+"),
)
RESPONSE = Struct(
    DescribeAclsResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
    Field("resources", Array(_DESCRIBE_ACLS_RESOURCE), "0+"),
)
API = Api(ApiKey.DESCRIBE_ACLS, flexible_from=2, request=REQUEST, response=RESPONSE)
