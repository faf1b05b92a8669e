"""UpdateFeatures (API key 57) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, INT8, INT16, INT32, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

# Kafka's are not ignorable: its client sets the one that the version has. Ours says both, and each version has one.
_FEATURE_UPDATE_KEY = Struct(
    FeatureUpdateKey,
    Field("feature", STRING, "0+"),
    Field("max_version_level", INT16, "0+"),
    Field("allow_downgrade", BOOL, "0", ignorable=True),
    Field("upgrade_type", INT8, "1+", ignorable=True),
)
REQUEST = Struct(
    UpdateFeaturesRequest,
    Field("timeout_ms", INT32, "0+"),
    Field("feature_updates", Array(_FEATURE_UPDATE_KEY), "0+"),
    Field("validate_only", BOOL, "1+"),
)
_UPDATABLE_FEATURE_RESULT = Struct(
    UpdatableFeatureResult,
    Field("feature", STRING, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
)
RESPONSE = Struct(
    UpdateFeaturesResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
    Field("results", Array(_UPDATABLE_FEATURE_RESULT), "0-1", ignorable=True),
)
API = Api(ApiKey.UPDATE_FEATURES, flexible_from=0, request=REQUEST, response=RESPONSE)
