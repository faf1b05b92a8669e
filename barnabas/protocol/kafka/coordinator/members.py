"""The records that members of the consumer protocol write most, by hand: in a third of the time of the tables.

    key      number i16 = 5, 7 or 8, group string, member string; of an epoch 3, group string
    target   version i16 = 0, topics, no tags u8 = 0
             topic: id, partitions compact array of i32, no tags u8 = 0
    epoch    version i16 = 0, epoch i32, one tag u8 = 1, number u8 = 0, size u8 = 8, hash i64; no tags if it is 0
    member   version i16 = 0, instance, rack (nullable), client id, host, topics compact array, pattern (nullable),
             rebalance timeout i32, assignor (nullable), no tags u8 = 0: of a member that is no classic one
    current  version i16 = 0, epoch i32, epoch before i32, state i8, topics assigned, topics to be revoked, no tags
             topic: id, partitions, one tag u8 = 1, its number u8 = 0, its size uvarint, epochs compact array of i32

Topics are a compact array. Both stand in the order of their numbers, as Apache Kafka's tools show them best.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from struct import Struct as Format
from struct import pack
from typing import Final

from barnabas.protocol.primitives import uvarint

_KEY: Final = Format(">hh")
_TEXT: Final = Format(">h")
_INT32: Final = Format(">i")
_EPOCH_NUMBER: Final = 3
_EPOCH: Final = Format(">hiBBBq")
_EPOCH_ALONE: Final = Format(">hib")
_CURRENT: Final = Format(">hiib")
_FEW: Final = 31
_FEW_OF_ONE: Final = [Format(f">hiibB16sB{count}i4B{count}i2B").pack for count in range(_FEW + 1)]
"""A `current` value of one topic with so few partitions that the size of its tag takes one byte, by their number."""
_VERSION: Final = b"\x00\x00"
_NO_TAGS: Final = b"\x00"
_TAG_OF_EPOCHS: Final = b"\x01\x00"
_NULL: Final = b"\x00"
_EMPTY: Final = b"\x01"
_SMALL: Final = [bytes((value,)) for value in range(0x80)]


def _length(count: int) -> bytes:
    """Of a compact array."""
    return _SMALL[count + 1] if count < 0x7F else uvarint(count + 1)


def member_key(number: int, group: str, member: str) -> bytes:
    """The key of what a member says (5), is to have (7) or has (8).

    Raises:
        struct.error: a name of more than 32767 bytes, which no request can hold.
    """
    group_name, member_name = group.encode(), member.encode()
    between = _TEXT.pack(len(member_name))
    return b"".join((_KEY.pack(number, len(group_name)), group_name, between, member_name))


def epoch_key(group: str) -> bytes:
    """The key of a group's epoch (3)."""
    name = group.encode()
    return _KEY.pack(_EPOCH_NUMBER, len(name)) + name


def epoch_value(epoch: int, metadata_hash: int) -> bytes:
    """A `ConsumerGroupMetadataValue`."""
    return _EPOCH.pack(0, epoch, 1, 0, 8, metadata_hash) if metadata_hash else _EPOCH_ALONE.pack(0, epoch, 0)


def target_value(target: Mapping[bytes, Collection[int]]) -> bytes:
    """A `ConsumerGroupTargetAssignmentMemberValue`: partitions by topic id."""
    parts = [_VERSION, _length(len(target))]
    for topic_id, some in sorted(target.items()):
        parts += (topic_id, _length(len(some)), pack(f">{len(some)}i", *sorted(some)), _NO_TAGS)
    parts.append(_NO_TAGS)
    return b"".join(parts)


def _text(text: str | None) -> bytes:
    """A compact string, or null."""
    if text is None:
        return _NULL
    data = text.encode()
    return _length(len(data)) + data if data else _EMPTY


def member_value(
    instance_id: str | None,
    rack_id: str | None,
    client_id: str,
    client_host: str,
    topics: Sequence[str],
    pattern: str | None,
    rebalance_timeout_ms: int,
    assignor: str | None,
) -> bytes:
    """A `ConsumerGroupMemberMetadataValue` of a member that does not speak the classic protocol."""
    parts = [_VERSION, _text(instance_id), _text(rack_id), _text(client_id), _text(client_host), _length(len(topics))]
    parts += map(_text, topics)
    parts += (_text(pattern), _INT32.pack(rebalance_timeout_ms), _text(assignor), _NO_TAGS)
    return b"".join(parts)


def current_value(
    epoch: int,
    previous_epoch: int,
    state: int,
    assigned: Mapping[bytes, Mapping[int, int]],
    revoking: Mapping[bytes, Mapping[int, int]],
) -> bytes:
    """A `ConsumerGroupCurrentMemberAssignmentValue`: by topic id and partition the epoch in which each was given."""
    if len(assigned) == 1 and not revoking:  # as of nearly all, in a third of the time
        ((topic_id, some),) = assigned.items()
        count = len(some)
        if count <= _FEW:
            numbers = sorted(some)
            epochs_of = map(some.__getitem__, numbers)
            one = 0, epoch, previous_epoch, state, 2, topic_id, count + 1
            return _FEW_OF_ONE[count](*one, *numbers, 1, 0, 1 + 4 * count, count + 1, *epochs_of, 1, 0)
    parts = [_CURRENT.pack(0, epoch, previous_epoch, state)]
    for given in (assigned, revoking):
        parts.append(_length(len(given)))
        for topic_id, some in sorted(given.items()) if len(given) > 1 else given.items():
            count = len(some)
            form, length = f">{count}i", _length(count)
            numbers = sorted(some)
            epochs = pack(form, *map(some.__getitem__, numbers))
            size = uvarint(len(length) + len(epochs))
            parts += (topic_id, length, pack(form, *numbers), _TAG_OF_EPOCHS, size, length, epochs)
    parts.append(_NO_TAGS)
    return b"".join(parts)
