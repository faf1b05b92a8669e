"""Metadata (API key 3) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import BOOL, INT16, INT32, STRING, UUID, Api, Array, Field, Struct
from barnabas.protocol.requests.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_METADATA_REQUEST_TOPIC = Struct(
    MetadataRequestTopic,
    Field("topic_id", UUID, "10+", ignorable=True),
    Field("name", STRING, "0+", nullable="10+"),
)
REQUEST = Struct(
    MetadataRequest,
    Field("topics", Array(_METADATA_REQUEST_TOPIC), "0+", nullable="1+"),
    Field("allow_auto_topic_creation", BOOL, "4+"),
    Field("include_cluster_authorized_operations", BOOL, "8-10"),
    Field("include_topic_authorized_operations", BOOL, "8+"),
)
_METADATA_RESPONSE_BROKER = Struct(
    MetadataResponseBroker,
    Field("node_id", INT32, "0+"),
    Field("host", STRING, "0+"),
    Field("port", INT32, "0+"),
    Field("rack", STRING, "1+", nullable="1+", ignorable=True),
)
_METADATA_RESPONSE_PARTITION = Struct(
    MetadataResponsePartition,
    Field("error_code", INT16, "0+"),
    Field("partition_index", INT32, "0+"),
    Field("leader_id", INT32, "0+"),
    Field("leader_epoch", INT32, "7+", ignorable=True),
    Field("replica_nodes", Array(INT32), "0+"),
    Field("isr_nodes", Array(INT32), "0+"),
    Field("offline_replicas", Array(INT32), "5+", ignorable=True),
)
_METADATA_RESPONSE_TOPIC = Struct(
    MetadataResponseTopic,
    Field("error_code", INT16, "0+"),
    Field("name", STRING, "0+", nullable="12+"),
    Field("topic_id", UUID, "10+", ignorable=True),
    Field("is_internal", BOOL, "1+", ignorable=True),
    Field("partitions", Array(_METADATA_RESPONSE_PARTITION), "0+"),
    Field("topic_authorized_operations", INT32, "8+"),
)
RESPONSE = Struct(
    MetadataResponse,
    Field("throttle_time_ms", INT32, "3+", ignorable=True),
    Field("brokers", Array(_METADATA_RESPONSE_BROKER), "0+"),
    Field("cluster_id", STRING, "2+", nullable="2+", ignorable=True),
    Field("controller_id", INT32, "1+", ignorable=True),
    Field("topics", Array(_METADATA_RESPONSE_TOPIC), "0+"),
    Field("cluster_authorized_operations", INT32, "8-10"),
    Field("error_code", INT16, "13+", ignorable=True),
)
API = Api(ApiKey.METADATA, flexible_from=9, request=REQUEST, response=RESPONSE)
