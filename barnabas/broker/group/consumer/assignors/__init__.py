"""Who gets which partitions: the coordinator's two ways, by Kafka's names, as pure functions.

    shares = assign("uniform", {"m1": MemberSubscription(frozenset({topic_id}))}, {topic_id: 3})

Each partition of a topic that somebody wants is given once, to one who wants it. Topics that do not exist are passed
over: they stand in no count of partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from barnabas.broker.group.consumer.assignors.member import Assignment, Assignments, MemberSubscription, Sharing
from barnabas.broker.group.consumer.assignors.ranges import share_by_ranges
from barnabas.broker.group.consumer.assignors.uniform import share_uniformly
from barnabas.broker.jobs import at_once

ASSIGNORS: Final[dict[str, Callable[[Mapping[str, MemberSubscription], Mapping[bytes, int]], Sharing]]] = {
    "uniform": share_uniformly,
    "range": share_by_ranges,
}
"""By name, the one first that Kafka takes when nobody asks (`group.consumer.assignors`)."""


def assigning(name: str, members: Mapping[str, MemberSubscription], partitions: Mapping[bytes, int]) -> Sharing:
    """Share out in steps of a few ms. `partitions` has how many each topic has, by id.

    What is handed over must stay as it is until the last step.

    Raises:
        KeyError: no assignor has this name.
    """
    return ASSIGNORS[name](members, partitions)


def assign(name: str, members: Mapping[str, MemberSubscription], partitions: Mapping[bytes, int]) -> Assignments:
    """The same at once: 1,000 members that want the same 1,000 partitions take 5 ms."""
    return at_once(assigning(name, members, partitions))


__all__ = ["ASSIGNORS", "Assignment", "Assignments", "MemberSubscription", "Sharing", "assign", "assigning"]
