"""Records of committed offsets: Apache Kafka's names, fields and defaults."""

from __future__ import annotations

from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.kafka.data import Data
from barnabas.protocol.kafka.schema import INT32, INT64, STRING, UUID, Field, Struct
from barnabas.protocol.limits import RESPONSE_ELEMENTS_MAX
from barnabas.protocol.requests import message


@message
class OffsetCommitKey:
    group: str = ""
    topic: str = ""
    partition: int = 0


@message
class OffsetCommitValue:
    offset: int = 0
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = 0
    expire_timestamp: int = -1
    topic_id: bytes = ZERO_UUID


OFFSET_COMMIT_KEY = Data(
    Struct(
        OffsetCommitKey,
        Field("group", STRING, "0"),
        Field("topic", STRING, "0"),
        Field("partition", INT32, "0"),
    ),
    (0, 0),
    elements_max=RESPONSE_ELEMENTS_MAX,
)
OFFSET_COMMIT_VALUE = Data(
    Struct(
        OffsetCommitValue,
        Field("offset", INT64, "0+"),
        Field("leader_epoch", INT32, "3+", ignorable=True),
        Field("metadata", STRING, "0+"),
        Field("commit_timestamp", INT64, "0+"),
        Field("expire_timestamp", INT64, "1", ignorable=True),
        Field("topic_id", UUID, "4+", tag=0, ignorable=True),
    ),
    (0, 4),
    flexible_from=4,
    elements_max=RESPONSE_ELEMENTS_MAX,
)
