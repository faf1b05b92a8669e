"""Who gets which partitions: Kafka's four ways, as pure functions, by Kafka's names; and those of a program's own.

The member that leads a group shares out for all of them, so a name must mean the same in every client. `range` and
`roundrobin` give exactly what Kafka's give. The sticky ones give a share that is as even, and keep as much; where
several shares are equally good, Kafka's client may choose another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas.client.arguments import shown
from barnabas.client.consume.group.assignors.even import range_share, round_robin_share
from barnabas.client.consume.group.assignors.member import Member, PartitionAssignor, Shares
from barnabas.client.consume.group.assignors.own import share_of, user_data_of
from barnabas.client.consume.group.assignors.sticky import cooperative_share, sticky_share
from barnabas.net.errors import ConfigError


class Assignor(NamedTuple):
    """One way. `cooperative`: members keep what they have while a new share is worked out (KIP-429)."""

    name: str
    share: Callable[[Mapping[str, int], Sequence[Member]], Shares]
    cooperative: bool = False
    user_data: Callable[[Sequence[str]], bytes | None] | None = None


ASSIGNORS: Final = {
    each.name: each
    for each in (
        Assignor("range", range_share),
        Assignor("roundrobin", round_robin_share),
        Assignor("sticky", sticky_share),
        Assignor("cooperative-sticky", cooperative_share, cooperative=True),
    )
}

_CLASSES: Final = {
    f"org.apache.kafka.clients.consumer.{name}Assignor": kafkas
    for name, kafkas in (
        ("Range", "range"),
        ("RoundRobin", "roundrobin"),
        ("Sticky", "sticky"),
        ("CooperativeSticky", "cooperative-sticky"),
    )
}


def assignors_of(given: Sequence[Any]) -> list[Assignor]:
    """What `partition.assignment.strategy` names, the wished-for way first; Kafka's class names are taken, too.

    Raises:
        ConfigError: a name that is none of them, an object that is no way to share, none at all, or one twice.
    """
    found = [_named(each) if isinstance(each, str) else _own(each) for each in given]
    names = [each.name for each in found]
    if not found or len(set(names)) < len(names):
        raise ConfigError(f"partition.assignment.strategy: {', '.join(names) or 'nothing'}; name each way once")
    return found


def _named(given: str) -> Assignor:
    name = _CLASSES.get(given, given)
    if name not in ASSIGNORS:
        raise ConfigError(f"partition.assignment.strategy: {name!r} is none of {', '.join(ASSIGNORS)}")
    return ASSIGNORS[name]


def _own(given: Any) -> Assignor:
    name = getattr(given, "name", None)
    if isinstance(given, type) or not isinstance(name, str) or not name or not callable(getattr(given, "share", None)):
        told = "is no way to share; give a name, or an object that has `name` and `share` (PartitionAssignor)"
        raise ConfigError(f"partition.assignment.strategy: {shown(given)} {told}")
    if name in ASSIGNORS:
        raise ConfigError(f"partition.assignment.strategy: {name!r} is one of Kafka's; call yours by a name of its own")
    cooperative = bool(getattr(given, "cooperative", False))
    user_data = user_data_of(given) if callable(getattr(given, "user_data", None)) else None
    return Assignor(name, share_of(given, cooperative), cooperative, user_data)


__all__ = ["ASSIGNORS", "Assignor", "Member", "PartitionAssignor", "Shares", "assignors_of"]
