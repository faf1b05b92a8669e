"""ApiVersions (API key 18) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, INT16, INT32, INT64, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

REQUEST = Struct(
    ApiVersionsRequest,
    Field("client_software_name", STRING, "3+", ignorable=True),
    Field("client_software_version", STRING, "3+", ignorable=True),
)
_API_VERSION = Struct(
    ApiVersion,
    Field("api_key", INT16, "0+"),
    Field("min_version", INT16, "0+"),
    Field("max_version", INT16, "0+"),
)
_SUPPORTED_FEATURE_KEY = Struct(
    SupportedFeatureKey,
    Field("name", STRING, "3+"),
    Field("min_version", INT16, "3+"),
    Field("max_version", INT16, "3+"),
)
_FINALIZED_FEATURE_KEY = Struct(
    FinalizedFeatureKey,
    Field("name", STRING, "3+"),
    Field("max_version_level", INT16, "3+"),
    Field("min_version_level", INT16, "3+"),
)
RESPONSE = Struct(
    ApiVersionsResponse,
    Field("error_code", INT16, "0+"),
    Field("api_keys", Array(_API_VERSION), "0+"),
    Field("throttle_time_ms", INT32, "1+", ignorable=True),
    Field("supported_features", Array(_SUPPORTED_FEATURE_KEY), "3+", tag=0, ignorable=True),
    Field("finalized_features_epoch", INT64, "3+", tag=1, ignorable=True),
    Field("finalized_features", Array(_FINALIZED_FEATURE_KEY), "3+", tag=2, ignorable=True),
    Field("zk_migration_ready", BOOL, "3+", tag=3, ignorable=True),
)
API = Api(ApiKey.API_VERSIONS, flexible_from=3, request=REQUEST, response=RESPONSE)
