"""DescribeCluster (API key 60) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, INT8, INT16, INT32, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

REQUEST = Struct(
    DescribeClusterRequest,
    Field("include_cluster_authorized_operations", BOOL, "0+"),
    Field("endpoint_type", INT8, "1+"),
    Field("include_fenced_brokers", BOOL, "2+"),
)
_DESCRIBE_CLUSTER_BROKER = Struct(
    DescribeClusterBroker,
    Field("broker_id", INT32, "0+"),
    Field("host", STRING, "0+"),
    Field("port", INT32, "0+"),
    Field("rack", STRING, "0+", nullable="0+"),
    Field("is_fenced", BOOL, "2+"),
)
RESPONSE = Struct(
    DescribeClusterResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
    Field("endpoint_type", INT8, "1+"),
    Field("cluster_id", STRING, "0+"),
    Field("controller_id", INT32, "0+"),
    Field("brokers", Array(_DESCRIBE_CLUSTER_BROKER), "0+"),
    Field("cluster_authorized_operations", INT32, "0+"),
)
API = Api(ApiKey.DESCRIBE_CLUSTER, flexible_from=0, request=REQUEST, response=RESPONSE)
