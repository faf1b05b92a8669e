"""Ways to share of a program's own: called with care, for what they give goes to every member of the group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from barnabas.client.arguments import shown
from barnabas.client.consume.group.assignors.member import Member, PartitionAssignor, Shares
from barnabas.client.consume.group.assignors.sticky import owners
from barnabas.net.errors import ConfigError
from barnabas.protocol.ids import TopicPartition


def share_of(given: PartitionAssignor, cooperative: bool) -> Callable[[Mapping[str, int], Sequence[Member]], Shares]:
    """Its `share`, looked over. Members that it gives nothing to are in the answer, too.

    Raises (when called):
        ConfigError: it failed, or gave what cannot be given.
    """

    def share(partitions: Mapping[str, int], members: Sequence[Member]) -> Shares:
        try:
            shares = {
                name: [TopicPartition(*where) for where in parts]
                for name, parts in given.share(dict(partitions), list(members)).items()
            }
        except Exception as fault:
            raise ConfigError(f"partition.assignment.strategy: {given.name} failed: {fault!r}") from fault
        _check(given.name, shares, partitions, members)
        owner = owners(members) if cooperative else {}
        return {
            each.id: sorted(where for where in shares.get(each.id, ()) if owner.get(where, each.id) == each.id)
            for each in members
        }

    return share


def _check(name: str, shares: Shares, partitions: Mapping[str, int], members: Sequence[Member]) -> None:
    wants = {each.id: each.topics for each in members}
    given: dict[Any, str] = {}
    for member, parts in shares.items():
        for where in parts:
            fault = None
            if member not in wants:
                fault = f"to {shown(member)}, who is no member"
            elif where.topic not in partitions or where.partition not in range(partitions[where.topic]):
                fault = f"to {member}, and there is no such partition"
            elif where.topic not in wants[member]:
                fault = f"to {member}, who does not want the topic"
            elif where in given:
                fault = f"to {member}, and to {given[where]}"
            if fault is not None:
                raise ConfigError(f"partition.assignment.strategy: {name} gave {shown(tuple(where))} {fault}")
            given[where] = member


def user_data_of(given: PartitionAssignor) -> Callable[[Sequence[str]], bytes | None]:
    """Its `user_data`, looked over.

    Raises (when called):
        ConfigError: it failed, or gave no bytes.
    """

    def user_data(topics: Sequence[str]) -> bytes | None:
        try:
            told = given.user_data(topics)
        except Exception as fault:
            raise ConfigError(f"partition.assignment.strategy: {given.name} failed: {fault!r}") from fault
        if told is not None and not isinstance(told, bytes):
            raise ConfigError(f"partition.assignment.strategy: {given.name}: user_data gave {shown(told)}; give bytes")
        return told

    return user_data
