"""BrokerRegistration (API key 62) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, INT16, INT32, INT64, STRING, UINT16, UUID, Api, Array, Field, Struct
from barnabas.protocol.requests.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)

_LISTENER = Struct(
    Listener,
    Field("name", STRING, "0+"),
    Field("host", STRING, "0+"),
    Field("port", UINT16, "0+"),
    Field("security_protocol", INT16, "0+"),
)
_FEATURE = Struct(
    Feature,
    Field("name", STRING, "0+"),
    Field("min_supported_version", INT16, "0+"),
    Field("max_supported_version", INT16, "0+"),
)
REQUEST = Struct(
    BrokerRegistrationRequest,
    Field("broker_id", INT32, "0+"),
    Field("cluster_id", STRING, "0+"),
    Field("incarnation_id", UUID, "0+"),
    Field("listeners", Array(_LISTENER), "0+"),
    Field("features", Array(_FEATURE), "0+"),
    Field("rack", STRING, "0+", nullable="0+"),
    Field("is_migrating_zk_broker", BOOL, "1+"),
    Field("log_dirs", Array(UUID), "2+", ignorable=True),
    Field("previous_broker_epoch", INT64, "3+", ignorable=True),
)
RESPONSE = Struct(
    BrokerRegistrationResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("broker_epoch", INT64, "0+"),
)
API = Api(ApiKey.BROKER_REGISTRATION, flexible_from=0, request=REQUEST, response=RESPONSE)
