"""Who gets which partitions: Kafka's four ways, as pure functions, by Kafka's names.

The member that leads a group shares out for all of them, so a name must mean the same in every client. `range` and
`roundrobin` give exactly what Kafka's give. The sticky ones give a share that is as even, and keep as much; where
several shares are equally good, Kafka's client may choose another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from barnabas.client.consume.group.assignors.even import range_share, round_robin_share
from barnabas.client.consume.group.assignors.member import Member, Shares
from barnabas.client.consume.group.assignors.sticky import cooperative_share, sticky_share
from barnabas.net.errors import ConfigError


class Assignor(NamedTuple):
    """One way. `cooperative`: members keep what they have while a new share is worked out (KIP-429)."""

    name: str
    share: Callable[[Mapping[str, int], Sequence[Member]], Shares]
    cooperative: bool = False


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


def assignors_of(names: Sequence[str]) -> list[Assignor]:
    """What `partition.assignment.strategy` names, the wished-for one first; Kafka's class names are taken, too.

    Raises:
        ConfigError: a name that is none of them, none at all, or one twice.
    """
    found = [_CLASSES.get(name, name) for name in names]
    for name in found:
        if name not in ASSIGNORS:
            raise ConfigError(f"partition.assignment.strategy: {name!r} is none of {', '.join(ASSIGNORS)}")
    if not found or len(set(found)) < len(found):
        raise ConfigError(f"partition.assignment.strategy: {', '.join(found) or 'nothing'}; name each way once")
    return [ASSIGNORS[name] for name in found]


__all__ = ["ASSIGNORS", "Assignor", "Member", "Shares", "assignors_of"]
