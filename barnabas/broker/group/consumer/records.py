"""Records of groups of the consumer protocol: from Apache Kafka's messages, and to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

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


def to_messages(record: ConsumerRecord) -> tuple[Any, Any]:
    """Key and value as messages; None for a value that deletes."""
    return _WRITERS[type(record)](record)


def _epoch(record: EpochRecord) -> tuple[Any, Any]:
    key = kafka.ConsumerGroupMetadataKey(record.group_id)
    return key, None if record.epoch is None else kafka.ConsumerGroupMetadataValue(record.epoch, record.metadata_hash)


def _member(record: MemberRecord) -> tuple[Any, Any]:
    key = kafka.ConsumerGroupMemberMetadataKey(record.group_id, record.member_id)
    said = record.subscription
    if said is None:
        return key, None
    classic = said.classic
    return key, kafka.ConsumerGroupMemberMetadataValue(
        said.instance_id,
        said.rack_id,
        said.client_id,
        said.client_host,
        list(said.topics),
        said.pattern,
        said.rebalance_timeout_ms,
        said.assignor,
        None
        if classic is None
        else kafka.ClassicMemberMetadata(
            classic.session_timeout_ms, [kafka.ClassicProtocol(name, metadata) for name, metadata in classic.protocols]
        ),
    )


def _target_epoch(record: TargetEpochRecord) -> tuple[Any, Any]:
    key = kafka.ConsumerGroupTargetAssignmentMetadataKey(record.group_id)
    if record.epoch is None:
        return key, None
    return key, kafka.ConsumerGroupTargetAssignmentMetadataValue(record.epoch, record.at_ms)


def _target(record: TargetRecord) -> tuple[Any, Any]:
    key = kafka.ConsumerGroupTargetAssignmentMemberKey(record.group_id, record.member_id)
    if record.target is None:
        return key, None
    partitions = [kafka.TopicPartition(topic_id, sorted(some)) for topic_id, some in sorted(record.target.items())]
    return key, kafka.ConsumerGroupTargetAssignmentMemberValue(partitions)


def _current(record: CurrentRecord) -> tuple[Any, Any]:
    key = kafka.ConsumerGroupCurrentMemberAssignmentKey(record.group_id, record.member_id)
    has = record.current
    if has is None:
        return key, None
    return key, kafka.ConsumerGroupCurrentMemberAssignmentValue(
        has.epoch, has.previous_epoch, has.state, _written(has.assigned), _written(has.revoking)
    )


def _written(given: Given) -> list[kafka.TopicPartitions]:
    return [
        kafka.TopicPartitions(topic_id, sorted(some), [some[number] for number in sorted(some)])
        for topic_id, some in sorted(given.items())
    ]


def _pattern(record: PatternRecord) -> tuple[Any, Any]:
    key = kafka.ConsumerGroupRegularExpressionKey(record.group_id, record.pattern)
    found = record.resolved
    if found is None:
        return key, None
    return key, kafka.ConsumerGroupRegularExpressionValue(sorted(found.topics), found.version, found.at_ms)


_WRITERS: Final[dict[type, Callable[[Any], tuple[Any, Any]]]] = {
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
