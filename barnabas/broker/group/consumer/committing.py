"""Whose commit counts in a group of the consumer protocol, and who may ask what it committed.

Source: `ConsumerGroup.validateOffsetCommit`, `validateOffsetFetch`. A commit, first rule that fits:

    no epoch, no members    anybody's
    not a member            UNKNOWN_MEMBER_ID
    OffsetCommit below v9   UNSUPPORTED_VERSION, unless the member speaks the classic protocol
    the member's epoch      taken
    a later one             STALE_MEMBER_EPOCH
    an earlier one          taken for partitions that the member has had since that epoch or longer (KIP-1251), even if
                            it is to give them up; with another partition among them all are STALE_MEMBER_EPOCH

A member that speaks the classic protocol is told ILLEGAL_GENERATION in place of STALE_MEMBER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas.broker.group.consumer.group import ConsumerGroup, ConsumerMember
from barnabas.broker.group.consumer.topics import Topics
from barnabas.broker.group.values import Commit, Committer
from barnabas.protocol.errors import ErrorCode, KafkaError

_EPOCHS_FROM: Final = 9


def check_commit(group: ConsumerGroup, by: Committer, commits: Iterable[Commit], topics: Topics) -> None:
    """Refuse a commit that does not count.

    Raises:
        KafkaError: as above.
    """
    epoch = by.generation
    if epoch < 0 and group.is_empty:
        return
    member = group.member(by.member_id)
    if member.classic is None and by.version < _EPOCHS_FROM:
        detail = "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail)
    current = member.current
    if epoch == current.epoch:
        return
    if epoch > current.epoch:
        raise _stale(member, f"Received member epoch {epoch} is newer than current member epoch {current.epoch}.")
    for (name, partition), *_ in commits:
        topic = topics.get(name)
        topic_id = b"" if topic is None else topic[0]
        since = current.assigned.get(topic_id, {}).get(partition)
        if since is None:
            since = current.revoking.get(topic_id, {}).get(partition)
        if since is None:
            raise _stale(member, f"Partition {name}-{partition} is not assigned or pending revocation for member.")
        if epoch < since:
            detail = f"Received member epoch {epoch} is older than assignment epoch {since} for {name}-{partition}."
            raise _stale(member, detail)


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
    """Refuse to tell a member what was committed that has another epoch; who says nothing of itself is told.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH (ILLEGAL_GENERATION).
    """
    if member_id is None and epoch < 0:
        return
    member = group.member(member_id or "")
    expected = member.current.epoch
    if epoch != expected:
        detail = f"The received member epoch {epoch} does not match the expected member epoch {expected}."
        raise _stale(member, detail)


def _stale(member: ConsumerMember, detail: str) -> KafkaError:
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION, detail)
