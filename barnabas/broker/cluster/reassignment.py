"""Moving a partition to other brokers: pure decisions over an image.

    asked for [4, 2, 3] of [1, 2, 3]   replicas [4, 2, 3, 1], adding [4], removing [1]
    4 fetches, and is in sync          replicas [4, 2, 3], and the leader epoch rises; if 1 led, another does now
    or it is given up                  replicas [2, 3, 1], as before but for their order

While it goes on all four are replicas: acks=all waits for whoever is in sync, old or new. It ends with the change of
the ISR that has all of the target in it; what only takes replicas away, or orders them anew, may be through at once.
All of it stands in the partition's own record, so that any controller goes on with it.

Unlike Apache Kafka's, a replica that is to go, and is in a new target, stays. (There a target that takes none away does
not change who is to go.) And where giving up leaves nobody of the ISR, the leader is RECOVERING, as after any other
election of one that was not in sync.

Source: `ReplicationControlManager.changePartitionReassignment`, `cancelPartitionReassignment`,
`PartitionReassignmentReplicas`, `PartitionReassignmentRevert`, `PartitionChangeBuilder` of Apache Kafka; KIP-455,
KIP-860.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from barnabas.broker.cluster.image import Image, PartitionState
from barnabas.broker.cluster.records import MetadataRecord, PartitionChange
from barnabas.broker.cluster.succession import DEFAULT, Terms, TermsOf, settle
from barnabas.broker.cluster.topic_rules import check_replicas
from barnabas.broker.cluster.turns import SMALL_MAX
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition

Replicas: TypeAlias = tuple[int, ...]


class Move(NamedTuple):
    """What is asked of one partition: the replicas that it is to have; None gives up what is under way."""

    key: TopicPartition
    replicas: Replicas | None


def decide(
    image: Image,
    moves: Iterable[Move],
    told: list[KafkaError | None],
    *,
    may_resize: bool = True,
    terms_of: TermsOf,
) -> Job[list[MetadataRecord]]:
    """What changes; `told` gets an error or None for each move, of which each names another partition."""
    changes: list[MetadataRecord] = []
    for number, (key, replicas) in enumerate(moves, 1):
        try:
            state = _find(image, key)
            if replicas is None:
                change = give_up(image, key.partition, state, terms=terms_of(key.topic))
            else:
                change = begin(image, key.partition, state, replicas, may_resize=may_resize, terms=terms_of(key.topic))
            if change is not None:
                changes.append(change)
            told.append(None)
        except KafkaError as fault:
            told.append(fault.kept())
        if number % SMALL_MAX == 0:
            yield None
    return changes


def begin(
    image: Image,
    partition: int,
    state: PartitionState,
    target: Replicas,
    *,
    may_resize: bool = True,
    terms: Terms = DEFAULT,
) -> PartitionChange | None:
    """Let a partition go to these replicas, whatever it was on the way to; None if nothing changes.

    Raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT; INVALID_REPLICATION_FACTOR, where it may not have more or fewer.
    """
    check_replicas(image, target, None)
    count = len(set(state.replicas) - set(state.removing))
    if not may_resize and count != len(target):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {count} to {len(target)}",
        )
    removing = tuple(sorted(set(state.replicas) - set(target)))
    adding = tuple(sorted(set(target) - set(state.replicas))) or state.adding
    terms = terms._replace(unclean=False)
    return changed(
        image, partition, state, state.isr, replicas=target + removing, removing=removing, adding=adding, terms=terms
    )


def give_up(image: Image, partition: int, state: PartitionState, *, terms: Terms = DEFAULT) -> PartitionChange | None:
    """Let a partition have the replicas it had.

    Raises:
        KafkaError: NO_REASSIGNMENT_IN_PROGRESS; INVALID_REPLICA_ASSIGNMENT, where nobody of these has all of it.
    """
    if not state.moves:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "")
    replicas = without(state.replicas, state.adding)
    isr = without(state.isr, state.adding)
    if isr or (not state.isr and without(state.elr, state.adding)):
        certain = terms._replace(unclean=False)
        return changed(image, partition, state, isr, replicas=replicas, removing=(), adding=(), terms=certain)
    if not terms.unclean:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {_name(image, partition, state)} because it would require an "
            "unclean leader election.",
        )
    change = changed(image, partition, state, replicas[:1], replicas=replicas, removing=(), adding=(), terms=terms)
    return None if change is None else change._replace(recovering=True)


def changed(
    image: Image,
    partition: int,
    state: PartitionState,
    isr: Replicas,
    *,
    replicas: Replicas | None = None,
    removing: Replicas | None = None,
    adding: Replicas | None = None,
    terms: Terms = DEFAULT,
) -> PartitionChange | None:
    """A partition with another ISR or assignment (None: as it is); where all of the target is in sync, at its end.

    Who leads then is `succession`'s. The leader epoch rises with every replica that goes, so that none that is gone is
    believed.
    """
    replicas = state.replicas if replicas is None else replicas
    removing = state.removing if removing is None else removing
    adding = state.adding if adding is None else adding
    left, in_sync = without(replicas, removing), without(isr, removing)
    if (removing or adding) and left and set(left) <= set(in_sync):
        replicas, isr, removing, adding = left, in_sync, (), ()
    nothing = PartitionChange(state.topic_id, partition)
    change = settle(partition, state, terms, image.is_alive, isr=isr, replicas=replicas) or nothing
    goes = not set(state.replicas) <= set(replicas)
    change = change._replace(
        leader=state.leader if goes and change.leader is None else change.leader,
        replicas=None if replicas == state.replicas else replicas,
        removing=None if removing == state.removing else removing,
        adding=None if adding == state.adding else adding,
    )
    return None if change == nothing else change


def without(those: Replicas, these: Sequence[int]) -> Replicas:
    """Those that are not among these, in their order."""
    return tuple(one for one in those if one not in these)


def _find(image: Image, key: TopicPartition) -> PartitionState:
    if key.topic not in image.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {key.topic}.")
    state = image.partition(*key)
    if state is None:
        detail = f"Unable to find partition {key.topic}:{key.partition}."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail)
    return state


def _name(image: Image, partition: int, state: PartitionState) -> str:
    return f"{image.topics_by_id[state.topic_id].name}:{partition}"
