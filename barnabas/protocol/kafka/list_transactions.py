"""ListTransactions (API key 66) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT16, INT32, INT64, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

REQUEST = Struct(
    ListTransactionsRequest,
    Field("state_filters", Array(STRING), "0+"),
    Field("producer_id_filters", Array(INT64), "0+"),
    Field("duration_filter", INT64, "1+"),
    Field("transactional_id_pattern", STRING, "2+", nullable="2+"),
)
_TRANSACTION_STATE = Struct(
    TransactionState,
    Field("transactional_id", STRING, "0+"),
    Field("producer_id", INT64, "0+"),
    Field("transaction_state", STRING, "0+"),
)
RESPONSE = Struct(
    ListTransactionsResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("unknown_state_filters", Array(STRING), "0+"),
    Field("transaction_states", Array(_TRANSACTION_STATE), "0+"),
)
API = Api(ApiKey.LIST_TRANSACTIONS, flexible_from=0, request=REQUEST, response=RESPONSE)
