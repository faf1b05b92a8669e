"""ListConfigResources (API key 74) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT8, INT16, INT32, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

REQUEST = Struct(
    ListConfigResourcesRequest,
    Field("resource_types", Array(INT8), "1+"),
)
_CONFIG_RESOURCE = Struct(
    ConfigResource,
    Field("resource_name", STRING, "0+"),
    Field("resource_type", INT8, "1+", ignorable=True),
)
RESPONSE = Struct(
    ListConfigResourcesResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("config_resources", Array(_CONFIG_RESOURCE), "0+"),
)
API = Api(ApiKey.LIST_CONFIG_RESOURCES, flexible_from=0, request=REQUEST, response=RESPONSE)
