"""Records of groups of the consumer protocol: from bytes, and to bytes, which are Apache Kafka's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from barnabas.broker.group.consumer.values import (
    Assignment,
    Classic,
    ConsumerRecord,
    Current,
    CurrentRecord,
    EpochRecord,
    Given,
    MemberRecord,
    MemberState,
    PatternRecord,
    Resolved,
    Subscription,
    TargetEpochRecord,
    TargetRecord,
)
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.kafka.consumer_protocol import decode_subscription
from barnabas.protocol.kafka.coordinator import consumer_groups as kafka
from barnabas.protocol.kafka.coordinator import records
from barnabas.protocol.kafka.coordinator.members import (
    current_value,
    epoch_key,
    epoch_value,
    member_key,
    member_value,
    target_value,
)
from barnabas.protocol.kafka.coordinator.records import RecordType

Written: TypeAlias = tuple[bytes, bytes | None]


_MEMBER: Final = int(RecordType.CONSUMER_GROUP_MEMBER_METADATA)
_TARGET: Final = int(RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER)
_CURRENT: Final = int(RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT)


def keys_of_member(group_id: str, member_id: str) -> list[bytes]:
    """Those of a member's records, in the order of `tombstones.of_member`."""
    first = member_key(_CURRENT, group_id, member_id)
    names = first[2:]
    return [first, _TARGET.to_bytes(2, "big") + names, _MEMBER.to_bytes(2, "big") + names]


def encode(record: ConsumerRecord) -> Written:
    """Key and value; None for what is gone."""
    return _WRITERS[type(record)](record)


def _epoch(record: EpochRecord) -> Written:
    epoch = record.epoch
    return epoch_key(record.group_id), None if epoch is None else epoch_value(epoch, record.metadata_hash)


def _target(record: TargetRecord) -> Written:
    key = member_key(_TARGET, record.group_id, record.member_id)
    return key, None if record.target is None else target_value(record.target)


def _current(record: CurrentRecord) -> Written:
    key = member_key(_CURRENT, record.group_id, record.member_id)
    return key, None if record.current is None else current_value(*record.current)


def _member(record: MemberRecord) -> Written:
    key = member_key(_MEMBER, record.group_id, record.member_id)
    said = record.subscription
    if said is None:
        return key, None
    classic = said.classic
    if classic is None:
        return key, member_value(*said[:-1])
    value = kafka.ConsumerGroupMemberMetadataValue(
        said.instance_id,
        said.rack_id,
        said.client_id,
        said.client_host,
        list(said.topics),
        said.pattern,
        said.rebalance_timeout_ms,
        said.assignor,
        kafka.ClassicMemberMetadata(
            classic.session_timeout_ms, [kafka.ClassicProtocol(name, metadata) for name, metadata in classic.protocols]
        ),
    )
    return key, records.encode_value(value)


def _target_epoch(record: TargetEpochRecord) -> Written:
    key = records.encode_key(kafka.ConsumerGroupTargetAssignmentMetadataKey(record.group_id))
    if record.epoch is None:
        return key, None
    value = kafka.ConsumerGroupTargetAssignmentMetadataValue(record.epoch, record.at_ms)
    return key, records.encode_value(value)


def _pattern(record: PatternRecord) -> Written:
    key = records.encode_key(kafka.ConsumerGroupRegularExpressionKey(record.group_id, record.pattern))
    found = record.resolved
    if found is None:
        return key, None
    value = kafka.ConsumerGroupRegularExpressionValue(sorted(found.topics), found.version, found.at_ms)
    return key, records.encode_value(value)


_WRITERS: Final[dict[type, Callable[[Any], Written]]] = {
    EpochRecord: _epoch,
    MemberRecord: _member,
    TargetEpochRecord: _target_epoch,
    TargetRecord: _target,
    CurrentRecord: _current,
    PatternRecord: _pattern,
}


def from_messages(key: Any, value: Any) -> ConsumerRecord | None:
    """What a record says; None for one of a kind that is not kept."""
    reader = _READERS.get(type(key))
    return None if reader is None else reader(key, value)


def _read_epoch(key: Any, value: Any) -> EpochRecord:
    if value is None:
        return EpochRecord(key.group_id, None)
    return EpochRecord(key.group_id, value.epoch, value.metadata_hash)


def _read_member(key: Any, value: Any) -> MemberRecord:
    if value is None:
        return MemberRecord(key.group_id, key.member_id, None)
    classic = value.classic_member_metadata
    subscription = Subscription(
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        tuple(sorted(set(value.subscribed_topic_names))),
        value.subscribed_topic_regex or "",
        value.rebalance_timeout_ms,
        value.server_assignor,
        None if classic is None else _read_classic(classic),
    )
    return MemberRecord(key.group_id, key.member_id, subscription)


def _read_classic(value: Any) -> Classic:
    """What the group is made a classic one of again, so it must be known before.

    Raises:
        ProtocolError: it says nothing, or no subscription.
    """
    protocols = tuple((one.name, bytes(one.metadata)) for one in value.supported_protocols)
    if not protocols:
        raise ProtocolError("a classic member without an assignor")
    for name, metadata in protocols:
        try:
            decode_subscription(metadata)
        except ProtocolError as fault:
            raise ProtocolError(f"a classic member whose subscription for {name!r} cannot be read: {fault}") from None
    return Classic(value.session_timeout_ms, protocols)


def _read_target_epoch(key: Any, value: Any) -> TargetEpochRecord:
    if value is None:
        return TargetEpochRecord(key.group_id, None)
    return TargetEpochRecord(key.group_id, value.assignment_epoch, value.assignment_timestamp)


def _read_target(key: Any, value: Any) -> TargetRecord:
    return TargetRecord(key.group_id, key.member_id, None if value is None else assignment_of(value.topic_partitions))


def assignment_of(some: Iterable[Any]) -> Assignment:
    """Partitions by topic, from messages that have a topic id and partitions each."""
    found: dict[bytes, frozenset[int]] = {}
    for one in some:
        if one.partitions:
            topic_id = bytes(one.topic_id)
            found[topic_id] = found.get(topic_id, frozenset()).union(one.partitions)
    return found


def _read_current(key: Any, value: Any) -> CurrentRecord:
    if value is None:
        return CurrentRecord(key.group_id, key.member_id, None)
    state = MemberState(value.state) if value.state in _STATES else MemberState.UNKNOWN
    current = Current(
        value.member_epoch,
        value.previous_member_epoch,
        state,
        _given(value.assigned_partitions, value.member_epoch),
        _given(value.partitions_pending_revocation, value.member_epoch),
    )
    return CurrentRecord(key.group_id, key.member_id, current)


def _given(some: Iterable[kafka.TopicPartitions], epoch: int) -> Given:
    """Records of earlier releases have no epochs: the member's own is the safe one."""
    found: dict[bytes, dict[int, int]] = {}
    for one in some:
        epochs = one.assignment_epochs
        if epochs is None or len(epochs) != len(one.partitions):
            epochs = [epoch] * len(one.partitions)
        if one.partitions:
            found.setdefault(bytes(one.topic_id), {}).update(zip(one.partitions, epochs, strict=True))
    return found


def _read_pattern(key: Any, value: Any) -> PatternRecord:
    if value is None:
        return PatternRecord(key.group_id, key.regular_expression, None)
    resolved = Resolved(frozenset(value.topics), value.version, value.timestamp)
    return PatternRecord(key.group_id, key.regular_expression, resolved)


_STATES: Final = frozenset(MemberState)
_READERS: Final[dict[type, Callable[[Any, Any], ConsumerRecord]]] = {
    kafka.ConsumerGroupMetadataKey: _read_epoch,
    kafka.ConsumerGroupMemberMetadataKey: _read_member,
    kafka.ConsumerGroupTargetAssignmentMetadataKey: _read_target_epoch,
    kafka.ConsumerGroupTargetAssignmentMemberKey: _read_target,
    kafka.ConsumerGroupCurrentMemberAssignmentKey: _read_current,
    kafka.ConsumerGroupRegularExpressionKey: _read_pattern,
}
