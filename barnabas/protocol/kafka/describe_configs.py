"""DescribeConfigs (API key 32) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, INT8, INT16, INT32, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_DESCRIBE_CONFIGS_RESOURCE = Struct(
    DescribeConfigsResource,
    Field("resource_type", INT8, "0+"),
    Field("resource_name", STRING, "0+"),
    Field("configuration_keys", Array(STRING), "0+", nullable="0+"),
)
REQUEST = Struct(
    DescribeConfigsRequest,
    Field("resources", Array(_DESCRIBE_CONFIGS_RESOURCE), "0+"),
    Field("include_synonyms", BOOL, "1+"),
    Field("include_documentation", BOOL, "3+"),
)
_DESCRIBE_CONFIGS_SYNONYM = Struct(
    DescribeConfigsSynonym,
    Field("name", STRING, "1+"),
    Field("value", STRING, "1+", nullable="0+"),
    Field("source", INT8, "1+"),
)
_DESCRIBE_CONFIGS_RESOURCE_RESULT = Struct(
    DescribeConfigsResourceResult,
    Field("name", STRING, "0+"),
    Field("value", STRING, "0+", nullable="0+"),
    Field("read_only", BOOL, "0+"),
    Field("config_source", INT8, "1+", ignorable=True),
    Field("is_sensitive", BOOL, "0+"),
    Field("synonyms", Array(_DESCRIBE_CONFIGS_SYNONYM), "1+", ignorable=True),
    Field("config_type", INT8, "3+", ignorable=True),
    Field("documentation", STRING, "3+", nullable="0+", ignorable=True),
)
_DESCRIBE_CONFIGS_RESULT = Struct(
    DescribeConfigsResult,
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
    Field("resource_type", INT8, "0+"),
    Field("resource_name", STRING, "0+"),
    Field("configs", Array(_DESCRIBE_CONFIGS_RESOURCE_RESULT), "0+"),
)
RESPONSE = Struct(
    DescribeConfigsResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("results", Array(_DESCRIBE_CONFIGS_RESULT), "0+"),
)
API = Api(ApiKey.DESCRIBE_CONFIGS, flexible_from=4, request=REQUEST, response=RESPONSE)
