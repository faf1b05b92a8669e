"""DescribeLogDirs (API key 35) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, INT16, INT32, INT64, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

_DESCRIBABLE_LOG_DIR_TOPIC = Struct(
    DescribableLogDirTopic,
    Field("topic", STRING, "0+"),
    Field("partitions", Array(INT32), "0+"),
)
REQUEST = Struct(
    DescribeLogDirsRequest,
    Field("topics", Array(_DESCRIBABLE_LOG_DIR_TOPIC), "0+", nullable="0+"),
)
_DESCRIBE_LOG_DIRS_PARTITION = Struct(
    DescribeLogDirsPartition,
    Field("partition_index", INT32, "0+"),
    Field("partition_size", INT64, "0+"),
    Field("offset_lag", INT64, "0+"),
    Field("is_future_key", BOOL, "0+"),
)
_DESCRIBE_LOG_DIRS_TOPIC = Struct(
    DescribeLogDirsTopic,
    Field("name", STRING, "0+"),
    Field("partitions", Array(_DESCRIBE_LOG_DIRS_PARTITION), "0+"),
)
_DESCRIBE_LOG_DIRS_RESULT = Struct(
    DescribeLogDirsResult,
    Field("error_code", INT16, "0+"),
    Field("log_dir", STRING, "0+"),
    Field("topics", Array(_DESCRIBE_LOG_DIRS_TOPIC), "0+"),
    Field("total_bytes", INT64, "4+", ignorable=True),
    Field("usable_bytes", INT64, "4+", ignorable=True),
    Field("is_cordoned", BOOL, "5+", ignorable=True),
)
RESPONSE = Struct(
    DescribeLogDirsResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "3+", ignorable=True),
    Field("results", Array(_DESCRIBE_LOG_DIRS_RESULT), "0+"),
)
API = Api(ApiKey.DESCRIBE_LOG_DIRS, flexible_from=2, request=REQUEST, response=RESPONSE)
