"""Records of `__consumer_offsets` as this coordinator means them: from bytes, and to bytes.

The bytes are Apache Kafka's (`protocol/kafka/coordinator`). A commit with a retention of its own is written at version
1, the only one with a field for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from sys import intern
from types import ModuleType
from typing import Final, TypeAlias

from barnabas.broker.group.values import (
    NO_EXPIRY,
    CommittedOffset,
    CoordinatorRecord,
    GroupRecord,
    OffsetRecord,
    StoredGroup,
    StoredMember,
    StoredRecord,
)
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.ids import Buffer, TopicPartition
from barnabas.protocol.kafka.coordinator import records
from barnabas.protocol.kafka.coordinator.classic_groups import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from barnabas.protocol.kafka.coordinator.offsets import (
    OffsetCommitKey,
    OffsetCommitValue,
    commit_batch,
    commit_key,
    commit_value,
    commits_batch,
)
from barnabas.protocol.records import single

_WITH_EXPIRY: Final = 1


class OtherRecord(ProtocolError):
    """A record of a kind that this coordinator does not keep: of another protocol, or of a later release."""


def encode(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Key and value; None for what is gone."""
    if type(record) is OffsetRecord:
        group_id, (topic, partition), committed = record
        key = commit_key(group_id, topic, partition)
        return key, None if committed is None else _encode_offset(committed)
    if type(record) is GroupRecord:
        key = records.encode_key(GroupMetadataKey(record.group_id))
        return key, None if record.group is None else _encode_group(record.group)
    found: tuple[bytes, bytes | None] = _consumer().encode(record)
    return found


def encode_alone(record: CoordinatorRecord, wall_ms: int) -> bytearray:
    """The batch of one record, uncompressed."""
    if type(record) is OffsetRecord:
        group_id, (topic, partition), committed = record
        if committed is not None:
            offset, leader_epoch, metadata, committed_ms, expires_ms, topic_id = committed
            if not metadata and expires_ms == NO_EXPIRY:
                return commit_batch(group_id, topic, partition, offset, leader_epoch, committed_ms, topic_id, wall_ms)
    return single(wall_ms, *encode(record))


CommitRun: TypeAlias = tuple[OffsetRecord, Sequence[tuple[int, int, int]]]
"""Commits that differ in offset and leader epoch alone: the record of one, and of each a number, and these two."""


def encode_commits(runs: Sequence[CommitRun], wall_ms: int) -> bytearray:
    """The batch of some commits without metadata and expiry, uncompressed."""
    return commits_batch(
        [
            (group_id, *key, committed.committed_ms, committed.topic_id, said)
            for (group_id, key, committed), said in runs
            if committed is not None
        ],
        wall_ms,
    )


@cache
def _consumer() -> ModuleType:
    """Records of the other protocol, loaded with the first. An import at each costs more than the half of a record."""
    from barnabas.broker.group.consumer import records as consumer

    return consumer


def _encode_offset(committed: CommittedOffset) -> bytes:
    offset, leader_epoch, metadata, committed_ms, expires_ms, topic_id = committed
    if expires_ms == NO_EXPIRY:
        return commit_value(offset, leader_epoch, metadata, committed_ms, topic_id)
    value = OffsetCommitValue(offset, leader_epoch, metadata, committed_ms, expires_ms)
    return records.encode_value(value, _WITH_EXPIRY)


def _encode_group(group: StoredGroup) -> bytes:
    members = [MemberMetadata(*one) for one in group.members]  # fields of both are in the same order
    return records.encode_value(
        GroupMetadataValue(
            group.protocol_type or "", group.generation, group.protocol, group.leader, group.since_ms, members
        )
    )


def decode(key: Buffer | None, value: Buffer | None) -> StoredRecord:
    """What a record says.

    Raises:
        OtherRecord: it is none of this coordinator's.
        ProtocolError: bytes that are no such record.
    """
    if key is None:
        raise ProtocolError("a record without a key")
    try:
        named, said = records.decode(key, value)
    except records.UnknownRecordType as fault:
        raise OtherRecord(str(fault)) from None
    if isinstance(named, OffsetCommitKey):
        topic = intern(named.topic)  # one for all offsets of a topic, which are counted so
        return OffsetRecord(named.group, TopicPartition(topic, named.partition), _offset_of(said))
    if isinstance(named, GroupMetadataKey):
        return GroupRecord(named.group, _group_of(said))
    found: StoredRecord | None = _consumer().from_messages(named, said)
    if found is None:
        raise OtherRecord(f"a record that nothing needs: {type(named).__name__}")
    return found


def _offset_of(value: OffsetCommitValue | None) -> CommittedOffset | None:
    if value is None:
        return None
    return CommittedOffset(
        value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, value.expire_timestamp, value.topic_id
    )


def _group_of(value: GroupMetadataValue | None) -> StoredGroup | None:
    if value is None:
        return None
    members = tuple(
        StoredMember(
            one.member_id,
            one.group_instance_id,
            one.client_id,
            one.client_host,
            one.rebalance_timeout,
            one.session_timeout,
            bytes(one.subscription),
            bytes(one.assignment),
        )
        for one in value.members
    )
    instances = [one.instance_id for one in members if one.instance_id is not None]
    if len({one.member_id for one in members}) < len(members) or len(set(instances)) < len(instances):
        raise ProtocolError("a generation in which a member or an instance stands twice")
    since_ms, leader = value.current_state_timestamp, value.leader
    return StoredGroup(value.protocol_type or None, value.generation, value.protocol, leader, since_ms, members)
