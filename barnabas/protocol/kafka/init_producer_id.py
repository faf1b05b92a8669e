"""InitProducerId (API key 22) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, INT16, INT32, INT64, STRING, Api, Field, Struct
from barnabas.protocol.requests.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

REQUEST = Struct(
    InitProducerIdRequest,
    Field("transactional_id", STRING, "0+", nullable="0+"),
    Field("transaction_timeout_ms", INT32, "0+"),
    Field("producer_id", INT64, "3+"),
    Field("producer_epoch", INT16, "3+"),
    Field("enable2_pc", BOOL, "6+"),
    Field("keep_prepared_txn", BOOL, "6+"),
)
RESPONSE = Struct(
    InitProducerIdResponse,
    Field("throttle_time_ms", INT32, "0+", ignorable=True),
    Field("error_code", INT16, "0+"),
    Field("producer_id", INT64, "0+"),
    Field("producer_epoch", INT16, "0+"),
    Field("ongoing_txn_producer_id", INT64, "6+"),
    Field("ongoing_txn_producer_epoch", INT16, "6+"),
)
API = Api(ApiKey.INIT_PRODUCER_ID, flexible_from=2, request=REQUEST, response=RESPONSE)
