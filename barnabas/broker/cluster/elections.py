"""Elections that somebody asks for, and those that the controller begins by itself: pure decisions over an image.

    preferred    the first replica leads, if it is alive and has all that was committed; it makes nobody else leader
    unclean      where nobody leads: one that is alive and has all that was committed, else one that is alive
                 (`succession`). What it has not is lost, acknowledged or not

Where `unclean.leader.election.enable` holds for a topic the controller does the second by itself, when a leader is
fenced, when a replica comes back (`leadership`), and every `unclean.leader.election.interval.ms`.

Source: `ReplicationControlManager.electLeader`, `PartitionChangeBuilder` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from barnabas.broker.cluster.image import Image, PartitionState
from barnabas.broker.cluster.records import MetadataRecord, PartitionChange
from barnabas.broker.cluster.succession import Terms, TermsOf, default_terms, has_all, settle
from barnabas.broker.cluster.turns import SMALL_MAX
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import NO_LEADER, TopicPartition

PREFERRED: Final = 0
UNCLEAN: Final = 1


def refusal(image: Image, key: TopicPartition, election: int, terms_of: TermsOf = default_terms) -> tuple[int, str]:
    """Why a partition has no such election: error and text; 0 where it has one."""
    if election not in (PREFERRED, UNCLEAN):
        return ErrorCode.INVALID_REQUEST, f"Unknown election type {election}"
    if key.topic not in image.topics:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {key.topic}"
    state = image.partition(*key)
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {key}"
    if not _needed(state, election):
        return ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
    if elect(image, key.partition, state, election, terms_of(key.topic)) is not None:
        return 0, ""
    if election == UNCLEAN:
        return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica of the partition is alive."
    return (
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        f"Broker {state.replicas[0]} is to lead, and is not alive or in sync.",
    )


def elect(image: Image, partition: int, state: PartitionState, election: int, terms: Terms) -> PartitionChange | None:
    """What an election changes; None where there is nobody, or no need."""
    if not _needed(state, election):
        return None
    if election == UNCLEAN:
        change = settle(partition, state, terms._replace(unclean=True), image.is_alive)
        return None if change is None or change.leader is None else change
    first = state.replicas[0]
    if not has_all(state, first) or not image.is_alive(first):
        return None
    return settle(partition, state, terms, lambda one: one == first)


def all_of(image: Image, election: int, terms_of: TermsOf = default_terms) -> Job[list[MetadataRecord]]:
    """What the controller changes by itself, some partitions in each step; unclean elections where a topic lets it."""
    changes: list[MetadataRecord] = []
    for number, (topic, partition, state) in enumerate(partitions_of(image), 1):
        terms = terms_of(topic) if _needed(state, election) else None
        if terms is not None and (election == PREFERRED or terms.unclean):
            change = elect(image, partition, state, election, terms)
            if change is not None:
                changes.append(change)
        if number % SMALL_MAX == 0:
            yield None
    return changes


def asked(
    image: Image,
    keys: Iterable[TopicPartition],
    election: int,
    told: dict[TopicPartition, tuple[int, str]],
    terms_of: TermsOf = default_terms,
) -> Job[list[MetadataRecord]]:
    """What changes for those that were asked for, each named once; `told` says of each what came of it."""
    changes: list[MetadataRecord] = []
    for number, key in enumerate(keys, 1):
        told[key] = refusal(image, key, election, terms_of)
        state = image.partition(*key)
        if not told[key][0] and state is not None:
            change = elect(image, key.partition, state, election, terms_of(key.topic))
            assert change is not None, "else it was refused"
            changes.append(change)
        if number % SMALL_MAX == 0:
            yield None
    return changes


def needing(image: Image, election: int) -> Iterator[TopicPartition]:
    """Those that an election of all is about."""
    for topic, partition, state in partitions_of(image):
        if _needed(state, election):
            yield TopicPartition(topic, partition)


def partitions_of(image: Image) -> Iterator[tuple[str, int, PartitionState]]:
    """Every partition: its topic, its number, and how it stands."""
    for topic in image.topics.values():
        for partition, state in topic.partitions.items():
            yield topic.name, partition, state


def _needed(state: PartitionState, election: int) -> bool:
    if election == UNCLEAN:
        return state.leader == NO_LEADER
    return state.leader != state.replicas[0]
