"""Groups of the consumer protocol as they are told, in steps. Source: `ConsumerGroup.asDescribedGroup`.

All of a group is as it was when it was asked for, but for the names of topics that are gone meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from barnabas.broker.group.consumer.group import NOTHING, SAID_NOTHING, ConsumerGroup, partitions_of
from barnabas.broker.group.consumer.topics import Topics
from barnabas.broker.group.consumer.values import Assignment as Partitions
from barnabas.broker.group.consumer.values import Current, Given, Subscription
from barnabas.broker.group.shard import Shard
from barnabas.broker.jobs import Job
from barnabas.protocol.requests.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

CONSUMER_TYPE: Final = "consumer"
ELEMENTS_PER_STEP: Final = 500
"""As of any answer that is told in steps: one to three ms."""
ELEMENTS_OF_MEMBER: Final = 3
TOLD_WEIGHT: Final = 2
"""What a member takes as it is told, decoded and written, as a multiple of what it counts in its group."""
NAMES_OF_ELEMENT: Final = 8
"""Topics that a member names, and partitions that it has or is to have, which cost as much as an element (2 µs)."""


class Told(NamedTuple):
    """One group, and how many elements it has (`handlers/steps.py`)."""

    group: DescribedGroup
    elements: int


def describe_consumer(shard: Shard, group_id: str, charge: Callable[[int], None] = lambda _: None) -> Job[Told]:
    """One group; `charge` hears before it is told what that takes until it is out (bytes).

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND.
    """
    group = shard.consumer_group(group_id)
    targets = group.targets
    found = [(id_, one.subscription, one.current, targets.get(id_, NOTHING)) for id_, one in group.members.items()]
    told = DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor(
            SAID_NOTHING, SAID_NOTHING, shard.shared.config.group_consumer_assignors
        ),
    )
    charge(TOLD_WEIGHT * sum([one.size for one in group.members.values()]))
    elements, step_ends = 1, ELEMENTS_PER_STEP
    for member_id, said, current, target in found:
        told.members.append(_member(shard.shared.topics, member_id, said, current, target))
        given = partitions_of(current.assigned) + partitions_of(current.revoking)
        names = len(said.topics) + given + partitions_of(target)
        elements += ELEMENTS_OF_MEMBER + names // NAMES_OF_ELEMENT
        if elements >= step_ends:
            step_ends = elements + ELEMENTS_PER_STEP
            yield None
    return Told(told, elements)


def _member(topics: Topics, member_id: str, said: Subscription, current: Current, target: Partitions) -> Member:
    return Member(
        member_id,
        said.instance_id,
        said.rack_id,
        current.epoch,
        said.client_id,
        said.client_host,
        list(said.topics),
        said.pattern,
        _assignment(topics, current.assigned, current.revoking),
        _assignment(topics, target),
        0 if said.classic is not None else 1,
    )


def _assignment(topics: Topics, *parts: Given | Partitions) -> Assignment:
    """By topics that are there still; what is to be given up is with the rest."""
    numbers: dict[bytes, set[int]] = {}
    for part in parts:
        for topic_id, some in part.items():
            numbers.setdefault(topic_id, set()).update(some)
    told = []
    for topic_id in sorted(numbers):
        name = topics.name_of(topic_id)
        if name is not None:
            told.append(TopicPartitions(topic_id, name, sorted(numbers[topic_id])))
    return Assignment(told)


def snapshot_consumer(group: ConsumerGroup) -> dict[str, Any]:
    """One group as plain values, for `/state`."""
    return {
        "group": group.group_id,
        "type": CONSUMER_TYPE,
        "state": group.state.value,
        "protocol_type": CONSUMER_TYPE,
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
        "members": len(group.members),
        "classic_members": group.classics,
        "patterns": len(group.patterns),
        "offsets": len(group.offsets),
    }
