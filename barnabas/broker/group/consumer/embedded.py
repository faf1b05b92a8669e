"""What members of the classic protocol say of topics, in the coordinator's terms: by id, and the other way round.

Source: `ConsumerProtocol` of Apache Kafka; what is no such message is INCONSISTENT_GROUP_PROTOCOL.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from barnabas.broker.group.consumer.topics import Topics
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.kafka.consumer_protocol import (
    VERSION,
    TopicPartition,
    assignment_bytes,
    decode_assignment,
    decode_subscription,
)
from barnabas.protocol.kafka.data import number_of


class Wants(NamedTuple):
    """What a member wants (names, sorted), where it is, and what it owns."""

    topics: tuple[str, ...]
    rack_id: str | None
    owned: dict[bytes, set[int]]


def wants_of(metadata: bytes, topics: Topics) -> Wants:
    """What a member says beside a protocol's name.

    Raises:
        KafkaError: INCONSISTENT_GROUP_PROTOCOL.
    """
    try:
        said = decode_subscription(metadata)
    except ProtocolError as fault:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"a subscription that cannot be read: {fault}"
        ) from None
    return Wants(tuple(sorted(set(said.topics))), said.rack_id or None, _by_id(said.owned_partitions, topics))


def assigned_of(assignment: bytes, topics: Topics) -> dict[bytes, set[int]]:
    """What a leader has assigned to a member.

    Raises:
        KafkaError: INCONSISTENT_GROUP_PROTOCOL.
        ValueError: there are words of an assignor in it that nobody else would keep.
    """
    try:
        said = decode_assignment(assignment)
    except ProtocolError as fault:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"an assignment that cannot be read: {fault}") from None
    if said.user_data:
        raise ValueError("user data of a custom assignor would be lost")
    return _by_id(said.assigned_partitions, topics)


def _by_id(parts: Iterable[TopicPartition], topics: Topics) -> dict[bytes, set[int]]:
    """Those of topics that are there."""
    found: dict[bytes, set[int]] = {}
    for part in parts:
        known = topics.get(part.topic)
        if known is not None:
            numbers = {number for number in part.partitions if 0 <= number < known[1]}
            if numbers:
                found.setdefault(known[0], set()).update(numbers)
    return found


def assignment_for(metadata: bytes, partitions: Mapping[bytes, Collection[int]], topics: Topics) -> bytes:
    """What a member is told to have, in the version that it speaks."""
    named = [(topics.name_of(topic_id), numbers) for topic_id, numbers in partitions.items()]
    told = sorted([(name, sorted(numbers)) for name, numbers in named if name is not None])
    version = min(max(number_of(metadata, "a subscription"), 0), VERSION)
    return assignment_bytes(told, version)
