"""Records of classic groups: Apache Kafka's names, fields and defaults."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.ids import Bytes
from barnabas.protocol.kafka.data import Data
from barnabas.protocol.kafka.schema import BYTES, INT32, INT64, STRING, Array, Field, Struct
from barnabas.protocol.limits import RESPONSE_ELEMENTS_MAX
from barnabas.protocol.requests import message


@message
class GroupMetadataKey:
    group: str = ""


@message
class MemberMetadata:
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int = -1
    session_timeout: int = 0
    subscription: Bytes = b""
    assignment: Bytes = b""


@message
class GroupMetadataValue:
    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = ""
    leader: str | None = ""
    current_state_timestamp: int = -1
    members: list[MemberMetadata] = field(default_factory=list)


GROUP_METADATA_KEY = Data(
    Struct(
        GroupMetadataKey,
        Field("group", STRING, "0"),
    ),
    (0, 0),
    elements_max=RESPONSE_ELEMENTS_MAX,
)
_MEMBER_METADATA = Struct(
    MemberMetadata,
    Field("member_id", STRING, "0+"),
    Field("group_instance_id", STRING, "3+", nullable="3+", ignorable=True),
    Field("client_id", STRING, "0+"),
    Field("client_host", STRING, "0+"),
    Field("rebalance_timeout", INT32, "1+", ignorable=True),
    Field("session_timeout", INT32, "0+"),
    Field("subscription", BYTES, "0+"),
    Field("assignment", BYTES, "0+"),
)
GROUP_METADATA_VALUE = Data(
    Struct(
        GroupMetadataValue,
        Field("protocol_type", STRING, "0+"),
        Field("generation", INT32, "0+"),
        Field("protocol", STRING, "0+", nullable="0+"),
        Field("leader", STRING, "0+", nullable="0+"),
        Field("current_state_timestamp", INT64, "2+", ignorable=True),
        Field("members", Array(_MEMBER_METADATA), "0+"),
    ),
    (0, 4),
    flexible_from=4,
    elements_max=RESPONSE_ELEMENTS_MAX,
)
