"""The group that some members make together: their records, their shares, and what each has from the beginning.

It is made aside and written as one batch, which is all of it or nothing. Each record is encoded and adopted when it is
made, a few members at a time: a thousand take 40 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from barnabas.broker.context import source_of
from barnabas.broker.group.consumer.advancing import check_names, check_place
from barnabas.broker.group.consumer.assigning import is_large
from barnabas.broker.group.consumer.group import NOTHING, SAID_NOTHING, ConsumerGroup
from barnabas.broker.group.consumer.hashing import group_hash, hash_topics
from barnabas.broker.group.consumer.reconciling import Aim, reconcile
from barnabas.broker.group.consumer.replaying import size_of_given, size_of_said
from barnabas.broker.group.consumer.targets import share_out
from barnabas.broker.group.consumer.topics import ids_of
from barnabas.broker.group.consumer.values import (
    ConsumerRecord,
    Current,
    CurrentRecord,
    EpochRecord,
    MemberRecord,
    Subscription,
    TargetEpochRecord,
    TargetRecord,
)
from barnabas.broker.group.records import encode
from barnabas.broker.group.reply import Reply
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.values import Prepared
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

WORK_PER_STEP: Final = 20_000
"""Bytes of records made in one step, and `RECORD_WORK` for each: 100 members that say little, 2 ms."""
RECORD_WORK: Final = 100


class Newcomer(NamedTuple):
    """One that waits. `go_on` serves it by the common way, `let_in` answers what it has been given."""

    request: ConsumerGroupHeartbeatRequest
    reply: Reply
    said: Subscription
    go_on: Callable[[int], None]
    let_in: Callable[[Current, int], None]

    @property
    def address(self) -> str:
        """Whom it counts for."""
        return source_of(self.reply.context.connection.client_host)


class Begun(NamedTuple):
    """A group that is made, and what each of its members has."""

    record: Prepared
    given: list[Current]


def begin(shard: Shard, group_id: str, newcomers: Sequence[Newcomer], in_steps: bool) -> Job[Begun]:
    """Make the group that these members are to begin; nothing is written.

    Args:
        shard: the group's, which has none of that id, or one without members.
        group_id: its id.
        newcomers: its members.
        in_steps: whether it may take long. If not, a target that does is left out.

    Raises:
        KafkaError: they cannot begin it together.
    """
    made = _Making(shard, group_id)
    for one in newcomers:
        check_place(shard, made.group, one.request.member_id, one.reply.context)
        check_names(made.group, (), one.said.topics)
        made.add(MemberRecord(group_id, one.request.member_id, one.said))
        made.work += len(made.group.lists) // 10
        if made.rests():
            yield None
    yield from made.share(made.group.epoch + len(newcomers), in_steps)
    given = []
    for one in newcomers:
        given.append(made.give(one))
        if made.rests():
            yield None
    return Begun(Prepared(made.builder, made.group, made.held), given)


class _Making:
    """A group that is made aside: each record is written down and adopted."""

    def __init__(self, shard: Shard, group_id: str) -> None:
        self._shard = shard
        self._wall_ms = shard.shared.wall_clock.now_ms()
        self._wanted: dict[int, frozenset[bytes]] = {}
        self.builder = shard.new_batch()
        self.group = ConsumerGroup(group_id)
        self.held: dict[str, int] = {}
        self.work = 0
        before = shard.groups.get(group_id)
        if isinstance(before, ConsumerGroup):
            self.group.epoch, self.group.target_epoch = before.epoch, before.target_epoch
            self.group.target_at_ms, self.group.tried_at_ms = before.target_at_ms, before.tried_at_ms

    def rests(self) -> bool:
        """Whether a step's work is done."""
        if self.work < WORK_PER_STEP:
            return False
        self.work = 0
        return True

    def add(self, record: ConsumerRecord) -> None:
        """One record more.

        Raises:
            KafkaError: RECORD_LIST_TOO_LARGE: it has no room.
        """
        key, value = encode(record)
        if not self.builder.try_append(self._wall_ms, key, value):
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, "its records do not fit into a batch")
        self.work += RECORD_WORK + len(value or b"")
        self.group.adopt(record)

    def share(self, epoch: int, in_steps: bool) -> Job[None]:
        """Raise the epoch, and share out what all want."""
        group, topics = self.group, self._shard.shared.topics
        group_id = group.group_id
        if in_steps:
            yield from hash_topics(topics, list(group.names))
        self.add(EpochRecord(group_id, epoch, group_hash(topics, group.names)))
        group.checked = topics.version
        if not in_steps and is_large(topics, group, ()):
            return
        group.tried_at_ms = self._wall_ms
        known = self._shard.shared.config.group_consumer_assignors
        assignor = group.preferred_assignor(SAID_NOTHING, SAID_NOTHING, known)
        said = {member_id: (member.subscription, member_id) for member_id, member in group.members.items()}
        targets = yield from share_out(group, assignor, said, topics)
        for member_id, target in targets.items():
            self.add(TargetRecord(group_id, member_id, target))
            if self.rests():
                yield None
        self.add(TargetEpochRecord(group_id, epoch, self._wall_ms))

    def give(self, newcomer: Newcomer) -> Current:
        """What a member has from the beginning."""
        group, member_id = self.group, newcomer.request.member_id
        member, target = group.members[member_id], group.targets.get(member_id, NOTHING)
        topics = member.subscription.topics  # one object for all that name them
        wanted = self._wanted.get(id(topics))
        if wanted is None:
            wanted = self._wanted[id(topics)] = ids_of(self._shard.shared.topics, topics)
            self.work += 10 * len(topics)
        aim = Aim(group.target_epoch, target, wanted, True, group.owners, (member_id,), {})
        current = reconcile(Current(), aim)
        self.add(CurrentRecord(group.group_id, member_id, current))
        member.address = newcomer.address
        member.said_size = size_of_said(member_id, newcomer.said)
        member.size = member.said_size + size_of_given(current, target)
        self.held[member.address] = self.held.get(member.address, 0) + member.size
        return current
