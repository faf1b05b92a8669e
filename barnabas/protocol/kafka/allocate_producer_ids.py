"""AllocateProducerIds (API key 67) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT16, INT32, INT64, Api, Field, Struct
from barnabas.protocol.requests.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

REQUEST = Struct(
    AllocateProducerIdsRequest,
    Field("broker_id", INT32, "0+"),
    Field("broker_epoch", INT64, "0+"),
)
RESPONSE = Struct(
    AllocateProducerIdsResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("producer_id_start", INT64, "0+"),
    Field("producer_id_len", INT32, "0+"),
)
API = Api(ApiKey.ALLOCATE_PRODUCER_IDS, flexible_from=0, request=REQUEST, response=RESPONSE)
