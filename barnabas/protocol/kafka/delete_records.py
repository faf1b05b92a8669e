"""DeleteRecords (API key 21) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT16, INT32, INT64, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)

_DELETE_RECORDS_PARTITION = Struct(
    DeleteRecordsPartition,
    Field("partition_index", INT32, "0+"),
    Field("offset", INT64, "0+"),
)
_DELETE_RECORDS_TOPIC = Struct(
    DeleteRecordsTopic,
    Field("name", STRING, "0+"),
    Field("partitions", Array(_DELETE_RECORDS_PARTITION), "0+"),
)
REQUEST = Struct(
    DeleteRecordsRequest,
    Field("topics", Array(_DELETE_RECORDS_TOPIC), "0+"),
    Field("timeout_ms", INT32, "0+"),
)
_DELETE_RECORDS_PARTITION_RESULT = Struct(
    DeleteRecordsPartitionResult,
    Field("partition_index", INT32, "0+"),
    Field("low_watermark", INT64, "0+"),
    Field("error_code", INT16, "0+"),
)
_DELETE_RECORDS_TOPIC_RESULT = Struct(
    DeleteRecordsTopicResult,
    Field("name", STRING, "0+"),
    Field("partitions", Array(_DELETE_RECORDS_PARTITION_RESULT), "0+"),
)
RESPONSE = Struct(
    DeleteRecordsResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("topics", Array(_DELETE_RECORDS_TOPIC_RESULT), "0+"),
)
API = Api(ApiKey.DELETE_RECORDS, flexible_from=2, request=REQUEST, response=RESPONSE)
