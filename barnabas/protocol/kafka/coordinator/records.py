"""A record of `__consumer_offsets` as key and value, and back.

    key      type i16, then the key's message at version 0
    value    version i16, then the value's message at that version; null is a tombstone

Types and the versions that are written are those of Apache Kafka 4.3 (`CoordinatorRecordType`,
`GroupCoordinatorRecordHelpers`). A type that is not here (share and streams groups, a later release's) is no damage:
Apache Kafka leaves such records out, with a warning. A value of a version above the last one cannot be read, as there.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import Any, Final, NamedTuple

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.ids import Buffer
from barnabas.protocol.kafka.coordinator import classic_groups, offsets
from barnabas.protocol.kafka.data import Data, number_of


class RecordType(IntEnum):
    """What a key begins with."""

    OFFSET_COMMIT = 1
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    CONSUMER_GROUP_MEMBER_METADATA = 5
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
    CONSUMER_GROUP_REGULAR_EXPRESSION = 16


class Kind(NamedTuple):
    """One type of record; `written` is the version of the values that are written."""

    key: Data
    value: Data
    written: int


_CLASSIC: Final[dict[int, Kind]] = {
    RecordType.OFFSET_COMMIT: Kind(offsets.OFFSET_COMMIT_KEY, offsets.OFFSET_COMMIT_VALUE, 4),
    RecordType.GROUP_METADATA: Kind(classic_groups.GROUP_METADATA_KEY, classic_groups.GROUP_METADATA_VALUE, 3),
}


@cache
def kinds() -> dict[int, Kind]:
    """All types. Those of the consumer protocol are loaded with the first that is asked for: 8 ms, and 0.3 MB."""
    from barnabas.protocol.kafka.coordinator import consumer_groups

    return _CLASSIC | {
        RecordType.CONSUMER_GROUP_METADATA: Kind(
            consumer_groups.CONSUMER_GROUP_METADATA_KEY, consumer_groups.CONSUMER_GROUP_METADATA_VALUE, 0
        ),
        RecordType.CONSUMER_GROUP_PARTITION_METADATA: Kind(
            consumer_groups.CONSUMER_GROUP_PARTITION_METADATA_KEY,
            consumer_groups.CONSUMER_GROUP_PARTITION_METADATA_VALUE,
            0,
        ),
        RecordType.CONSUMER_GROUP_MEMBER_METADATA: Kind(
            consumer_groups.CONSUMER_GROUP_MEMBER_METADATA_KEY, consumer_groups.CONSUMER_GROUP_MEMBER_METADATA_VALUE, 0
        ),
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: Kind(
            consumer_groups.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY,
            consumer_groups.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE,
            0,
        ),
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: Kind(
            consumer_groups.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY,
            consumer_groups.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE,
            0,
        ),
        RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: Kind(
            consumer_groups.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY,
            consumer_groups.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE,
            0,
        ),
        RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION: Kind(
            consumer_groups.CONSUMER_GROUP_REGULAR_EXPRESSION_KEY,
            consumer_groups.CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE,
            0,
        ),
    }


def _classes(found: dict[int, Kind]) -> dict[type, tuple[int, Kind]]:
    """Types by the classes of their keys and values."""
    return {data.struct.cls: (number, kind) for number, kind in found.items() for data in (kind.key, kind.value)}


_BY_CLASS: Final = _classes(_CLASSIC)


def _kind_of(message: Any) -> tuple[int, Kind]:
    found = _BY_CLASS.get(type(message))
    if found is None:
        _BY_CLASS.update(_classes(kinds()))
        found = _BY_CLASS[type(message)]
    return found


class UnknownRecordType(ProtocolError):
    """A record of a type that is not kept here."""


def encode_key(key: Any) -> bytes:
    """The bytes of a record's key.

    Raises:
        EncodeError: it holds what cannot be written.
    """
    number, kind = _kind_of(key)
    return kind.key.encode(key, 0, number)


def encode_value(value: Any, version: int | None = None) -> bytes:
    """The bytes of a record's value, at the version that is written or at another.

    OffsetCommitValue has its expiry at version 1 alone: a commit with a retention time of its own is written so.

    Raises:
        EncodeError: an unknown version, or it holds what cannot be written.
    """
    _, kind = _kind_of(value)
    return kind.value.encode(value, kind.written if version is None else version)


def decode(key: Buffer, value: Buffer | None) -> tuple[Any, Any]:
    """Key and value of a record; the value is None where it is a tombstone.

    Raises:
        UnknownRecordType: it is of a type that is not kept here.
        ProtocolError: bytes that are no such record; the text names the message and the field.
    """
    number = number_of(key, "a record's key")
    kind = _CLASSIC.get(number) or kinds().get(number)
    if kind is None:
        raise UnknownRecordType(
            f"a record of type {number}, which is unknown: {', '.join(map(str, map(int, kinds())))}"
        )
    decoded = kind.key.decode(key, 0)
    if value is None:
        return decoded, None
    return decoded, kind.value.decode(value, number_of(value, kind.value.name))
