"""DescribeClientQuotas (API key 48) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, FLOAT64, INT8, INT16, INT32, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

_COMPONENT_DATA = Struct(
    ComponentData,
    Field("entity_type", STRING, "0+"),
    Field("match_type", INT8, "0+"),
    Field("match", STRING, "0+", nullable="0+"),
)
REQUEST = Struct(
    DescribeClientQuotasRequest,
    Field("components", Array(_COMPONENT_DATA), "0+"),
    Field("strict", BOOL, "0+"),
)
_ENTITY_DATA = Struct(
    EntityData,
    Field("entity_type", STRING, "0+"),
    Field("entity_name", STRING, "0+", nullable="0+"),
)
_VALUE_DATA = Struct(
    ValueData,
    Field("key", STRING, "0+"),
    Field("value", FLOAT64, "0+"),
)
_ENTRY_DATA = Struct(
    EntryData,
    Field("entity", Array(_ENTITY_DATA), "0+"),
    Field("values", Array(_VALUE_DATA), "0+"),
)
RESPONSE = Struct(
    DescribeClientQuotasResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
    Field("entries", Array(_ENTRY_DATA), "0+", nullable="0+"),
)
API = Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, flexible_from=1, request=REQUEST, response=RESPONSE)
