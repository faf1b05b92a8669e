"""What `barnabas groups` finds out: who is in a group, and how far behind it is, partition by partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.admin import Admin, GroupMember


class Group(NamedTuple):
    """A group. `members` is None where it is of a protocol that this release does not know (share, streams).

    `kind` is classic or consumer (KIP-848), and only the latter has an `epoch` (else -1).
    """

    name: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...] | None
    kind: str = ""
    epoch: int = -1


class Standing(NamedTuple):
    """Where a group stands in one partition. None: nothing committed, no such partition any more, nobody has it."""

    where: TopicPartition
    committed: int | None
    end: int | None
    member: GroupMember | None

    @property
    def lag(self) -> int | None:
        """How many offsets lie between what is committed and the end."""
        return None if self.committed is None or self.end is None else self.end - self.committed


def unknown(name: str) -> BarnabasError:
    """There is no such group."""
    return BarnabasError(f"there is no group {name}; barnabas groups list shows those there are")


def occupied(name: str, state: str = "has members") -> BarnabasError:
    """A group that cannot be changed, for its members would go on regardless."""
    return BarnabasError(f"group {name} {state}: stop its consumers first (barnabas groups describe {name} shows them)")


def find(admin: Admin, name: str) -> Group | None:
    """A group as it is now, None where there is none."""
    try:
        told = admin.describe_groups(name)[name]
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
    else:
        return Group(name, told.state, told.protocol_type, told.assignor, told.members, told.kind, told.epoch)
    for each in admin.list_groups():  # Kafka lists share and streams groups, too
        if each.name == name:
            return Group(name, each.state, each.protocol_type, "", None, each.kind)
    return None


def found(admin: Admin, name: str) -> Group:
    """A group as it is now.

    Raises:
        BarnabasError: there is none.
    """
    group = find(admin, name)
    if group is None:
        raise unknown(name)
    return group


def existing(admin: Admin, topics: Iterable[str]) -> set[TopicPartition]:
    """The partitions of these topics, of those that are there."""
    there = set()
    for topic in set(topics):
        try:
            (info,) = admin.describe_topics(topic).values()
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            continue
        there |= {TopicPartition(topic, part.partition) for part in info.partitions}
    return there


def standings(admin: Admin, group: Group) -> list[Standing]:
    """Where a group stands in every partition that it has committed, or that a member has."""
    committed = admin.group_offsets(group.name)
    owners = {where: member for member in group.members or () for where in member.assignment}
    wanted = sorted(committed.keys() | owners.keys())
    there = existing(admin, (where.topic for where in wanted))
    ends = admin.lag({where: 0 for where in wanted if where in there})  # the distance from 0 is the end
    return [
        Standing(where, committed[where].offset if where in committed else None, ends.get(where), owners.get(where))
        for where in wanted
    ]


def total_lag(rows: Iterable[Standing]) -> int:
    """The sum over the partitions whose lag is known."""
    return sum(row.lag for row in rows if row.lag is not None)


def as_json(rows: Iterable[Standing]) -> list[dict[str, Any]]:
    """Standings for programs."""
    return [
        {
            "topic": row.where.topic,
            "partition": row.where.partition,
            "committed": row.committed,
            "end": row.end,
            "lag": row.lag,
            "member_id": row.member.member_id if row.member else None,
        }
        for row in rows
    ]
