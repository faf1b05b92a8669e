"""A member of the consumer protocol comes to a group that is none yet: a new one, or a classic one to be converted.

The members of a classic group stay in it, with what their leader has assigned, in an epoch that is the generation; the
new member's subscription raises that by one. Those who wait in JoinGroup or SyncGroup are told REBALANCE_IN_PROGRESS.
Source: `getOrMaybeCreateConsumerGroup`, `validateOnlineUpgrade`, `ConsumerGroup.fromClassicGroup`.

All of it is one batch. Where it is large, its records are made and encoded as a job, and those who come wait for that;
JoinGroup and SyncGroup are told REBALANCE_IN_PROGRESS from its beginning on. If members go meanwhile, it begins anew.
Apache Kafka 4.3 converts every group within the heartbeat.
"""

from __future__ import annotations

import logging
import struct
from typing import Final, NamedTuple

from barnabas.broker.context import RequestContext
from barnabas.broker.group.answering import answer_all
from barnabas.broker.group.consumer.advancing import check_place
from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.consumer.members import keep_alive
from barnabas.broker.group.consumer.preparing import metadata_of, prepare, refusal
from barnabas.broker.group.consumer.replaying import claim_member
from barnabas.broker.group.group import CONSUMER, Group, Newcomer
from barnabas.broker.group.rebalance import close
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.state import Status
from barnabas.broker.group.subscriptions import NAMES_MAX as SAID_MAX
from barnabas.broker.group.subscriptions import names_in
from barnabas.broker.group.values import CoordinatorRecord, GroupRecord, Prepared
from barnabas.broker.jobs import Job, at_once
from barnabas.protocol.errors import ErrorCode, KafkaError

_ALLOWING: Final = frozenset({"bidirectional", "upgrade"})

MEMBERS_AT_ONCE: Final = 100
"""A group of more, or whose members say more than `BYTES_AT_ONCE`, is converted as a job: 8 ms."""
BYTES_AT_ONCE: Final = 65_536
ROUNDS_MAX: Final = 3
"""Where members have changed so often while the group was prepared, the newcomer is to come again."""

logger = logging.getLogger(__name__)


class Converted(NamedTuple):
    """A classic group whose place another takes."""

    before: Group

    def finish(self, shard: Shard, group: ConsumerGroup, now_ms: int) -> None:
        """It is written: whoever waits in the classic group is told, and its members' sessions go on in the other."""
        addresses = {member_id: member.address for member_id, member in self.before.members.items()}
        code = ErrorCode.REBALANCE_IN_PROGRESS
        answer_all(shard, [(reply, reply.refusal(code)) for reply in self.before.unpark_all()], now_ms)
        close(shard, self.before, code)
        for member_id, address in addresses.items():
            member = group.members.get(member_id)
            if member is not None:
                claim_member(shard, member, address)
                keep_alive(shard, group, member, now_ms)
        if addresses:
            logger.info("group %s is of the consumer protocol now, with %d classic", group.group_id, len(addresses))


def group_for(
    shard: Shard,
    group_id: str,
    member_id: str,
    context: RequestContext,
    joins: bool,
    prepared: Prepared | None,
    records: list[CoordinatorRecord],
) -> tuple[ConsumerGroup, Converted | None]:
    """The group that a member names; one that is not there yet is made by the records.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND: there is none and the member does not join, or it stays a classic one;
            GROUP_MAX_SIZE_REACHED: it has no place, which is said before anything is converted for it.
    """
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group, None
    if group is None:
        if not joins:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        return ConsumerGroup(group_id), None
    if not joins:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    if group.is_empty:
        records.append(GroupRecord(group_id, None))
        return ConsumerGroup(group_id), Converted(group)
    if prepared is None:
        _check_upgrade(shard, group, member_id, context)
        prepared = at_once(prepare(shard, group))
    assert isinstance(prepared.group, ConsumerGroup), "`prepare` makes such"
    records.append(prepared)
    return prepared.group, Converted(group)


def waits_for_conversion(
    shard: Shard, group_id: str, member_id: str, context: RequestContext, newcomer: Newcomer
) -> bool:
    """Whether a member that joins has to wait until a classic group is converted; the newcomer goes on after that.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED: it is not converted for this member.
    """
    group = shard.groups.get(group_id)
    if not isinstance(group, Group) or group.is_empty:
        return False
    size = _check_upgrade(shard, group, member_id, context)
    if group.newcomers is not None:
        group.newcomers.append(newcomer)
        return True
    if len(group.members) <= MEMBERS_AT_ONCE and size <= BYTES_AT_ONCE:
        return False
    group.newcomers = [newcomer]
    shard.shared.run(_convert(shard, group), lambda fault: _ended(group, fault))
    return True


def _convert(shard: Shard, group: Group) -> Job[None]:
    """Prepare the group of the consumer protocol, and have those go on who wait; the first of them writes it."""
    found: Prepared | KafkaError | None = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "Its members change.")
    for _ in range(ROUNDS_MAX):
        as_it_is = group.changes, shard.shared.topics.version
        try:
            prepared = yield from prepare(shard, group)
        except KafkaError as fault:
            found = fault
        else:
            if (group.changes, shard.shared.topics.version) != as_it_is:
                continue
            found = prepared
        break
    if group.is_empty or shard.groups.get(group.group_id) is not group:
        found = None
    newcomers, group.newcomers = group.newcomers or [], None
    for newcomer in newcomers:
        if shard.status is not Status.ACTIVE:  # led elsewhere, perhaps since the last step: its groups are gone
            found = KafkaError(ErrorCode.NOT_COORDINATOR)
        newcomer(found)
        yield None
        if type(found) is Prepared:
            found = None


def _ended(group: Group, fault: Exception | None) -> None:
    if fault is None:
        return
    logger.error("group %s cannot be converted", group.group_id, exc_info=fault)
    newcomers, group.newcomers = group.newcomers or [], None
    for newcomer in newcomers:
        newcomer(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))


def _check_upgrade(shard: Shard, group: Group, member_id: str, context: RequestContext) -> int:
    """Refuse a classic group that is not to be converted, or not for this member; returns the bytes of its members.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED.
    """
    config, bytes_max = shard.shared.config, shard.journal.batch_bytes_max
    if config.group_consumer_migration_policy.lower() not in _ALLOWING:
        raise refusal(group, "online upgrade is disabled")
    if group.protocol_type != CONSUMER:
        raise refusal(group, "the group does not use the consumer embedded protocol")
    if len(group.members) > config.group_consumer_max_size:
        raise refusal(group, "the group size exceeds the consumer group maximum size")
    check_place(shard, group, member_id, context)
    members = group.members.values()
    size = sum(len(member.assignment) + sum(len(one) for _, one in member.protocols) for member in members)
    if size > bytes_max:
        raise refusal(group, f"its members take {size} bytes, and a batch {bytes_max}")
    try:
        count = names_in({metadata_of(group, member) for member in members})
    except struct.error:
        return size  # it is read, and refused, member by member
    if count > SAID_MAX:
        raise refusal(group, f"its members name {count} topics, {SAID_MAX} are looked at")
    return size
