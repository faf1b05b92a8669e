"""AlterConfigs (API key 33) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, INT8, INT16, INT32, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

_ALTERABLE_CONFIG = Struct(
    AlterableConfig,
    Field("name", STRING, "0+"),
    Field("value", STRING, "0+", nullable="0+"),
)
_ALTER_CONFIGS_RESOURCE = Struct(
    AlterConfigsResource,
    Field("resource_type", INT8, "0+"),
    Field("resource_name", STRING, "0+"),
    Field("configs", Array(_ALTERABLE_CONFIG), "0+"),
)
REQUEST = Struct(
    AlterConfigsRequest,
    Field("resources", Array(_ALTER_CONFIGS_RESOURCE), "0+"),
    Field("validate_only", BOOL, "0+"),
)
_ALTER_CONFIGS_RESOURCE_RESPONSE = Struct(
    AlterConfigsResourceResponse,
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
    Field("resource_type", INT8, "0+"),
    Field("resource_name", STRING, "0+"),
)
RESPONSE = Struct(
    AlterConfigsResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("responses", Array(_ALTER_CONFIGS_RESOURCE_RESPONSE), "0+"),
)
API = Api(ApiKey.ALTER_CONFIGS, flexible_from=2, request=REQUEST, response=RESPONSE)
