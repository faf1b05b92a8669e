"""What `barnabas groups` finds out: who is in a group, and how far behind it is, partition by partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.cli.near import did_you_mean
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.admin import Admin, GroupDescription, GroupMember


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


def unknown(admin: Admin | None, name: str) -> BarnabasError:
    """There is no such group. Without `admin` none is looked for that may have been meant."""
    meant = ""
    if admin:
        with suppress(BarnabasError):  # a broker that cannot be asked just now is another matter
            meant = did_you_mean(name, [each.name for each in admin.list_groups()])
    return BarnabasError(f"there is no group {name}; {meant or 'barnabas groups list shows those there are'}")


def occupied(name: str, state: str = "has members") -> BarnabasError:
    """A group that cannot be changed, for its members would go on regardless."""
    return BarnabasError(f"group {name} {state}: stop its consumers first (barnabas groups describe {name} shows them)")


def find(admin: Admin, name: str) -> Group | None:
    """A group as it is now, None where there is none."""
    try:
        return _group(admin.describe_groups(name)[name])
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
    for each in admin.list_groups():  # Kafka lists share and streams groups, too
        if each.name == name:
            return Group(name, each.state, each.protocol_type, "", None, each.kind)
    return None


def _group(told: GroupDescription) -> Group:
    return Group(told.name, told.state, told.protocol_type, told.assignor, told.members, told.kind, told.epoch)


def found(admin: Admin, name: str) -> Group:
    """A group as it is now.

    Raises:
        BarnabasError: there is none.
    """
    group = find(admin, name)
    if group is None:
        raise unknown(admin, name)
    return group


def find_all(admin: Admin, names: Sequence[str]) -> dict[str, Group | None]:
    """The same of many, which are asked about together; None for those that are not there."""
    try:
        found = admin.describe_groups(*names)
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return {name: find(admin, name) for name in names}
    return {name: _group(found[name]) for name in names}


def existing(admin: Admin, topics: Iterable[str]) -> set[TopicPartition]:
    """The partitions of these topics, of those that are there."""
    names = sorted(set(topics))
    try:
        infos = admin.describe_topics(*names)
    except KafkaError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        if len(names) == 1:
            return set()
        return {where for name in names for where in existing(admin, [name])}
    return {TopicPartition(name, part.partition) for name, info in infos.items() for part in info.partitions}


def standings(admin: Admin, *groups: Group) -> list[list[Standing]]:
    """Where groups stand in every partition that each has committed, or that a member of it has."""
    offsets = admin.offsets_of_groups(*(group.name for group in groups))
    committed = [offsets[group.name] for group in groups]
    owners = [{where: one for one in group.members or () for where in one.assignment} for group in groups]
    wanted = [sorted(ours.keys() | held.keys()) for ours, held in zip(committed, owners, strict=True)]
    everywhere = {where for some in wanted for where in some}
    there = existing(admin, (where.topic for where in everywhere))
    ends = admin.lag(dict.fromkeys(sorted(everywhere & there), 0))  # the distance from 0 is the end
    return [
        [
            Standing(where, ours[where].offset if where in ours else None, ends.get(where), held.get(where))
            for where in some
        ]
        for some, ours, held in zip(wanted, committed, owners, strict=True)
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
