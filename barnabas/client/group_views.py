"""Groups as brokers describe them to an admin client, of both protocols."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.client.consume.group.messages import read_assignment
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests import consumer_group_describe
from barnabas.protocol.requests.describe_groups import DescribedGroup


class GroupListing(NamedTuple):
    """A group in a list. `state` and `kind` (classic, consumer) are empty where a broker does not tell them."""

    name: str
    protocol_type: str
    state: str = ""
    kind: str = ""


class GroupMember(NamedTuple):
    """One member, and the partitions it has. Of a consumer group also its epoch, and what it is to have."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    epoch: int = -1
    target: tuple[TopicPartition, ...] = ()


class GroupDescription(NamedTuple):
    """A group. `state` is Kafka's (Empty, PreparingRebalance, CompletingRebalance, Stable, Assigning, ...).

    `kind` is the protocol of its members, classic or consumer (KIP-848); only the latter has an `epoch`.
    """

    name: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: int
    members: tuple[GroupMember, ...]
    kind: str = "classic"
    epoch: int = -1


def described(group: DescribedGroup, node: int) -> GroupDescription:
    """One of the classic protocol. What a member that is no consumer has cannot be read, and is nothing."""
    members = []
    for each in group.members:
        try:
            assignment = tuple(read_assignment(bytes(each.member_assignment)))
        except ProtocolError:
            assignment = ()
        members.append(
            GroupMember(each.member_id, each.group_instance_id, each.client_id, each.client_host, assignment)
        )
    return GroupDescription(
        group.group_id, group.group_state, group.protocol_type, group.protocol_data, node, tuple(sorted(members))
    )


def described_by_epochs(group: consumer_group_describe.DescribedGroup, node: int) -> GroupDescription:
    """One of the consumer protocol."""
    members = [
        GroupMember(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            _flat(each.assignment),
            each.member_epoch,
            _flat(each.target_assignment),
        )
        for each in group.members
    ]
    state, assignor = group.group_state, group.assignor_name
    shown = tuple(sorted(members))
    return GroupDescription(group.group_id, state, "consumer", assignor, node, shown, "consumer", group.group_epoch)


def _flat(assignment: consumer_group_describe.Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(each.topic_name, number)
            for each in assignment.topic_partitions
            for number in each.partitions
        )
    )
