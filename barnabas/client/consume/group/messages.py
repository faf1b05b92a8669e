"""What members of a group tell each other through their coordinator, read and written for the assignors."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from struct import Struct, error
from typing import Final, NamedTuple

from barnabas.client.consume.group.assignors import Assignor, Member
from barnabas.net.network import PerVersion
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.kafka import consumer_protocol
from barnabas.protocol.kafka.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from barnabas.protocol.requests.join_group import JoinGroupRequestProtocol, JoinGroupResponseMember
from barnabas.protocol.requests.leave_group import LeaveGroupRequest, MemberIdentity

log = logging.getLogger(__name__)

PROTOCOL_TYPE: Final = consumer_protocol.PROTOCOL_TYPE

_LIST_FROM: Final = 3  # the version of LeaveGroup that names several

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")


class Kept(NamedTuple):
    """The share a member had last, and in which generation: what sticky assignors go by."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = -1


def by_topic(partitions: Iterable[TopicPartition]) -> list[consumer_protocol.TopicPartition]:
    """Partitions as messages list them."""
    found: dict[str, consumer_protocol.TopicPartition] = {}
    for where in partitions:
        found.setdefault(where.topic, consumer_protocol.TopicPartition(where.topic)).partitions.append(where.partition)
    return list(found.values())


def _flat(topics: Iterable[consumer_protocol.TopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each.topic, number) for each in topics for number in each.partitions)


def protocols(
    assignors: Sequence[Assignor],
    topics: Iterable[str],
    owned: Sequence[TopicPartition],
    kept: Kept,
    rack: str | None,
) -> list[JoinGroupRequestProtocol]:
    """What a member says of itself, once for each way it knows to share; `owned` is what it has and would keep.

    Raises:
        ConfigError: a program's own way has no user data to give.
    """
    told = ConsumerProtocolSubscription(sorted(topics), None, by_topic(owned), kept.generation, rack)
    found = []
    for each in assignors:
        told.user_data = _USER_DATA[each.name](kept) if each.name in _USER_DATA else None
        if each.user_data is not None:
            told.user_data = each.user_data(told.topics)
        found.append(JoinGroupRequestProtocol(each.name, consumer_protocol.encode_subscription(told)))
    return found


def member_of(told: JoinGroupResponseMember, way: str) -> Member:
    """A member as it described itself. One that cannot be read gets nothing, and the others go on."""
    try:
        subscription = consumer_protocol.decode_subscription(told.metadata)
        owned, generation = _flat(subscription.owned_partitions), subscription.generation_id
        if way == "sticky" and subscription.user_data is not None:
            owned, generation = _read_kept(bytes(subscription.user_data))
        elif way == "cooperative-sticky" and generation < 0 and subscription.user_data:
            generation = _INT32.unpack_from(subscription.user_data)[0]
    except (ProtocolError, error, UnicodeDecodeError) as fault:
        log.warning("member %s gets no partitions: its subscription cannot be read: %s", told.member_id, fault)
        return Member(told.member_id, frozenset(), told.group_instance_id)
    user_data = bytes(subscription.user_data or b"")
    return Member(told.member_id, frozenset(subscription.topics), told.group_instance_id, owned, generation, user_data)


def assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """A share as SyncGroup carries it."""
    return consumer_protocol.encode_assignment(ConsumerProtocolAssignment(by_topic(partitions)))


def read_assignment(data: bytes) -> list[TopicPartition]:
    """The share that came.

    Raises:
        ProtocolError: it cannot be read.
    """
    return sorted(set(_flat(consumer_protocol.decode_assignment(data).assigned_partitions)))


def leave_request(group_id: str, member_id: str, why: str) -> PerVersion:
    """A LeaveGroup."""

    def make(version: int) -> LeaveGroupRequest:
        if version < _LIST_FROM:
            return LeaveGroupRequest(group_id, member_id)
        return LeaveGroupRequest(group_id, members=[MemberIdentity(member_id, None, why)])

    return PerVersion(ApiKey.LEAVE_GROUP, make)


# ---- what sticky assignors tell beside it: Kafka's StickyAssignorUserData v1 and CooperativeStickyAssignor's --------


def _sticky(kept: Kept) -> bytes:
    topics = by_topic(kept.partitions)
    parts = [_INT32.pack(len(topics))]
    for each in topics:
        name = each.topic.encode()
        parts += [_INT16.pack(len(name)), name, _INT32.pack(len(each.partitions))]
        parts += map(_INT32.pack, each.partitions)
    return b"".join([*parts, _INT32.pack(kept.generation)])


def _cooperative(kept: Kept) -> bytes:
    return _INT32.pack(kept.generation)


_USER_DATA: Final = {"sticky": _sticky, "cooperative-sticky": _cooperative}


def _read_kept(data: bytes) -> Kept:
    """Version 0 has no generation.

    Raises:
        struct.error: it is too short.
        UnicodeDecodeError: a name is no text.
    """
    at, found = 4, []
    for _ in range(_INT32.unpack_from(data)[0]):
        size = _INT16.unpack_from(data, at)[0]
        name = data[at + 2 : at + 2 + size].decode()
        at += 2 + size
        count = _INT32.unpack_from(data, at)[0]
        if size < 0 or count < 0:
            raise error(f"a length of {min(size, count)}")
        found += [TopicPartition(name, _INT32.unpack_from(data, at + 4 + 4 * n)[0]) for n in range(count)]
        at += 4 + 4 * count
    return Kept(tuple(found), _INT32.unpack_from(data, at)[0] if len(data) >= at + 4 else -1)
