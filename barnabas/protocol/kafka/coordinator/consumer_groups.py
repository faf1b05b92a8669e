"""Records of groups of the consumer protocol (KIP-848): Apache Kafka's names, fields and defaults.

Topics of a member's assignment are uuids. A group's partition metadata (4) was replaced by a hash in
`ConsumerGroupMetadataValue` (KIP-1101); Apache Kafka only writes tombstones of it.
"""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.ids import ZERO_UUID, Bytes
from barnabas.protocol.kafka.data import Data
from barnabas.protocol.kafka.schema import BYTES, INT8, INT32, INT64, STRING, UUID, Array, Field, Struct
from barnabas.protocol.limits import RESPONSE_ELEMENTS_MAX
from barnabas.protocol.requests import message


@message
class ConsumerGroupMetadataKey:
    group_id: str = ""


@message
class ConsumerGroupMetadataValue:
    epoch: int = 0
    metadata_hash: int = 0


@message
class ConsumerGroupPartitionMetadataKey:
    group_id: str = ""


@message
class PartitionMetadata:
    partition: int = 0
    racks: list[str] = field(default_factory=list)


@message
class TopicMetadata:
    topic_id: bytes = ZERO_UUID
    topic_name: str = ""
    num_partitions: int = 0
    partition_metadata: list[PartitionMetadata] = field(default_factory=list)


@message
class ConsumerGroupPartitionMetadataValue:
    topics: list[TopicMetadata] = field(default_factory=list)


@message
class ConsumerGroupMemberMetadataKey:
    group_id: str = ""
    member_id: str = ""


@message
class ClassicProtocol:
    name: str = ""
    metadata: Bytes = b""


@message
class ClassicMemberMetadata:
    session_timeout_ms: int = 0
    supported_protocols: list[ClassicProtocol] = field(default_factory=list)


@message
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = ""
    classic_member_metadata: ClassicMemberMetadata | None = None


@message
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str = ""


@message
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = 0
    assignment_timestamp: int = 0


@message
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str = ""
    member_id: str = ""


@message
class TopicPartition:
    topic_id: bytes = ZERO_UUID
    partitions: list[int] = field(default_factory=list)


@message
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TopicPartition] = field(default_factory=list)


@message
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str = ""
    member_id: str = ""


@message
class TopicPartitions:
    topic_id: bytes = ZERO_UUID
    partitions: list[int] = field(default_factory=list)
    assignment_epochs: list[int] | None = None


@message
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: list[TopicPartitions] = field(default_factory=list)
    partitions_pending_revocation: list[TopicPartitions] = field(default_factory=list)


@message
class ConsumerGroupRegularExpressionKey:
    group_id: str = ""
    regular_expression: str = ""


@message
class ConsumerGroupRegularExpressionValue:
    topics: list[str] = field(default_factory=list)
    version: int = 0
    timestamp: int = 0


CONSUMER_GROUP_METADATA_KEY = Data(
    Struct(
        ConsumerGroupMetadataKey,
        Field("group_id", STRING, "0"),
    ),
    (0, 0),
    elements_max=RESPONSE_ELEMENTS_MAX,
)
CONSUMER_GROUP_METADATA_VALUE = Data(
    Struct(
        ConsumerGroupMetadataValue,
        Field("epoch", INT32, "0+"),
        Field("metadata_hash", INT64, "0+", tag=0),
    ),
    (0, 0),
    flexible_from=0,
    elements_max=RESPONSE_ELEMENTS_MAX,
)
CONSUMER_GROUP_PARTITION_METADATA_KEY = Data(
    Struct(
        ConsumerGroupPartitionMetadataKey,
        Field("group_id", STRING, "0"),
    ),
    (0, 0),
    elements_max=RESPONSE_ELEMENTS_MAX,
)
_PARTITION_METADATA = Struct(
    PartitionMetadata,
    Field("partition", INT32, "0+"),
    Field("racks", Array(STRING), "0+"),
)
_TOPIC_METADATA = Struct(
    TopicMetadata,
    Field("topic_id", UUID, "0+"),
    Field("topic_name", STRING, "0+"),
    Field("num_partitions", INT32, "0+"),
    Field("partition_metadata", Array(_PARTITION_METADATA), "0+"),
)
CONSUMER_GROUP_PARTITION_METADATA_VALUE = Data(
    Struct(
        ConsumerGroupPartitionMetadataValue,
        Field("topics", Array(_TOPIC_METADATA), "0+"),
    ),
    (0, 0),
    flexible_from=0,
    elements_max=RESPONSE_ELEMENTS_MAX,
)
CONSUMER_GROUP_MEMBER_METADATA_KEY = Data(
    Struct(
        ConsumerGroupMemberMetadataKey,
        Field("group_id", STRING, "0"),
        Field("member_id", STRING, "0"),
    ),
    (0, 0),
    elements_max=RESPONSE_ELEMENTS_MAX,
)
_CLASSIC_PROTOCOL = Struct(
    ClassicProtocol,
    Field("name", STRING, "0+"),
    Field("metadata", BYTES, "0+"),
)
_CLASSIC_MEMBER_METADATA = Struct(
    ClassicMemberMetadata,
    Field("session_timeout_ms", INT32, "0+"),
    Field("supported_protocols", Array(_CLASSIC_PROTOCOL), "0+"),
)
CONSUMER_GROUP_MEMBER_METADATA_VALUE = Data(
    Struct(
        ConsumerGroupMemberMetadataValue,
        Field("instance_id", STRING, "0+", nullable="0+"),
        Field("rack_id", STRING, "0+", nullable="0+"),
        Field("client_id", STRING, "0+"),
        Field("client_host", STRING, "0+"),
        Field("subscribed_topic_names", Array(STRING), "0+"),
        Field("subscribed_topic_regex", STRING, "0+", nullable="0+"),
        Field("rebalance_timeout_ms", INT32, "0+"),
        Field("server_assignor", STRING, "0+", nullable="0+"),
        Field("classic_member_metadata", _CLASSIC_MEMBER_METADATA, "0+", nullable="0+", tag=0),
    ),
    (0, 0),
    flexible_from=0,
    elements_max=RESPONSE_ELEMENTS_MAX,
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = Data(
    Struct(
        ConsumerGroupTargetAssignmentMetadataKey,
        Field("group_id", STRING, "0"),
    ),
    (0, 0),
    elements_max=RESPONSE_ELEMENTS_MAX,
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = Data(
    Struct(
        ConsumerGroupTargetAssignmentMetadataValue,
        Field("assignment_epoch", INT32, "0+"),
        Field("assignment_timestamp", INT64, "0+", tag=0, ignorable=True),
    ),
    (0, 0),
    flexible_from=0,
    elements_max=RESPONSE_ELEMENTS_MAX,
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = Data(
    Struct(
        ConsumerGroupTargetAssignmentMemberKey,
        Field("group_id", STRING, "0"),
        Field("member_id", STRING, "0"),
    ),
    (0, 0),
    elements_max=RESPONSE_ELEMENTS_MAX,
)
_TOPIC_PARTITION = Struct(
    TopicPartition,
    Field("topic_id", UUID, "0+"),
    Field("partitions", Array(INT32), "0+"),
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Data(
    Struct(
        ConsumerGroupTargetAssignmentMemberValue,
        Field("topic_partitions", Array(_TOPIC_PARTITION), "0+"),
    ),
    (0, 0),
    flexible_from=0,
    elements_max=RESPONSE_ELEMENTS_MAX,
)
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = Data(
    Struct(
        ConsumerGroupCurrentMemberAssignmentKey,
        Field("group_id", STRING, "0"),
        Field("member_id", STRING, "0"),
    ),
    (0, 0),
    elements_max=RESPONSE_ELEMENTS_MAX,
)
_TOPIC_PARTITIONS = Struct(
    TopicPartitions,
    Field("topic_id", UUID, "0+"),
    Field("partitions", Array(INT32), "0+"),
    Field("assignment_epochs", Array(INT32), "0+", nullable="0+", tag=0),
)
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Data(
    Struct(
        ConsumerGroupCurrentMemberAssignmentValue,
        Field("member_epoch", INT32, "0+"),
        Field("previous_member_epoch", INT32, "0+"),
        Field("state", INT8, "0+"),
        Field("assigned_partitions", Array(_TOPIC_PARTITIONS), "0+"),
        Field("partitions_pending_revocation", Array(_TOPIC_PARTITIONS), "0+"),
    ),
    (0, 0),
    flexible_from=0,
    elements_max=RESPONSE_ELEMENTS_MAX,
)
CONSUMER_GROUP_REGULAR_EXPRESSION_KEY = Data(
    Struct(
        ConsumerGroupRegularExpressionKey,
        Field("group_id", STRING, "0"),
        Field("regular_expression", STRING, "0"),
    ),
    (0, 0),
    elements_max=RESPONSE_ELEMENTS_MAX,
)
CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE = Data(
    Struct(
        ConsumerGroupRegularExpressionValue,
        Field("topics", Array(STRING), "0+"),
        Field("version", INT64, "0+"),
        Field("timestamp", INT64, "0+"),
    ),
    (0, 0),
    flexible_from=0,
    elements_max=RESPONSE_ELEMENTS_MAX,
)
