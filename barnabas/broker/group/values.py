"""What the log keeps of groups: one value for a group, one for each partition it has committed an offset of.

`records` says how they lie in the log. A value of None deletes (a tombstone).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from barnabas.broker.group.consumer.values import ConsumerRecord
from barnabas.protocol.ids import ZERO_UUID, TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.group.kinds import AnyGroup
    from barnabas.protocol.records import BatchBuilder

NO_EXPIRY: Final = -1


class StoredMember(NamedTuple):
    """One member of a generation. Times are ms; `client_host` has Kafka's form, `/127.0.0.1`."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class StoredGroup(NamedTuple):
    """A generation and what its leader assigned; without members an empty group. `since_ms` is the time of day."""

    protocol_type: str | None
    generation: int
    protocol: str | None
    leader: str | None
    since_ms: int
    members: tuple[StoredMember, ...] = ()


class CommittedOffset(NamedTuple):
    """How far a group has read a partition. `committed_ms` and `expires_ms` (-1: the broker's) are times of day.

    `topic_id` is that of the topic that was read; all zero where the record does not say (with an expiry of its own,
    and of earlier releases).
    """

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int = NO_EXPIRY
    topic_id: bytes = ZERO_UUID

    def is_of(self, topic_id: bytes) -> bool:
        """Whether it can be of the topic with that id, and not of one of the same name (`isMismatchedTopicId`)."""
        return self.topic_id == topic_id or self.topic_id == ZERO_UUID


class Committer(NamedTuple):
    """Who commits: what the request says of it, from where it came, and the request's version."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    address: str
    version: int


class Commit(NamedTuple):
    """What is to be committed for one partition."""

    key: TopicPartition
    offset: int
    leader_epoch: int
    metadata: str
    topic_id: bytes = ZERO_UUID


class GroupRecord(NamedTuple):
    """A group is as `group` says, or gone."""

    group_id: str
    group: StoredGroup | None


class OffsetRecord(NamedTuple):
    """A group's offset of a partition is this, or gone."""

    group_id: str
    key: TopicPartition
    committed: CommittedOffset | None


class Prepared(NamedTuple):
    """A group that begins, or takes the place of one of the other protocol, and the batch that has its records already.

    It stands for these records, the first of what is to be written: to be taken over whole instead of record by record,
    which for a thousand members takes long. `held` is what its members take, by address.
    """

    builder: BatchBuilder
    group: AnyGroup
    held: dict[str, int]


StoredRecord: TypeAlias = GroupRecord | OffsetRecord | ConsumerRecord
CoordinatorRecord: TypeAlias = StoredRecord | Prepared
