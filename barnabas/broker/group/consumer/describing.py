"""Groups of the consumer protocol as they are told. Source: `ConsumerGroup.asDescribedGroup`."""

from __future__ import annotations

from typing import Any, Final

from barnabas.broker.group.consumer.group import NOTHING, ConsumerGroup, ConsumerMember
from barnabas.broker.group.consumer.topics import Topics
from barnabas.broker.group.consumer.values import Assignment as Partitions
from barnabas.broker.group.consumer.values import Given
from barnabas.broker.group.shard import Shard
from barnabas.protocol.requests.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

CONSUMER_TYPE: Final = "consumer"


def describe_consumer(shard: Shard, group_id: str) -> DescribedGroup:
    """One group.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND.
    """
    group = shard.consumer_group(group_id)
    topics = shard.shared.topics
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=preferred_assignor(shard, group),
        members=[_member(group, member, topics) for member in group.members.values()],
    )


def preferred_assignor(shard: Shard, group: ConsumerGroup) -> str:
    """What most members ask for, else the broker's first."""
    counts = group.assignors
    return max(counts, key=counts.__getitem__, default=shard.shared.config.group_consumer_assignors[0])


def _member(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> Member:
    said, current = member.subscription, member.current
    return Member(
        member.member_id,
        said.instance_id,
        said.rack_id,
        current.epoch,
        said.client_id,
        said.client_host,
        list(said.topics),
        said.pattern,
        _assignment(topics, current.assigned, current.revoking),
        _assignment(topics, group.targets.get(member.member_id, NOTHING)),
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
