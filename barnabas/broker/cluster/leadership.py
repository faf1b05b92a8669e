"""What becomes of partitions when a broker comes or goes, and whether an ISR may change: pure decisions over an image.

What a partition comes to is `succession`'s; here stands which of them are concerned.

A broker that is fenced or unfenced may concern every partition. What changes is written and seen in slices then, and in
this order: partitions before the fence, and after the unfence, so that nobody ever sees a leader that is fenced. Each
partition changes whole. Who looks meanwhile sees some that have moved and others that have not, as one who hears late;
a controller that ends midway finds the broker unfenced, and fences it when its session is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.broker.cluster.elections import partitions_of
from barnabas.broker.cluster.image import Image, PartitionState
from barnabas.broker.cluster.records import MetadataRecord, PartitionChange
from barnabas.broker.cluster.succession import Terms, TermsOf, default_terms, settle
from barnabas.broker.cluster.turns import SMALL_MAX
from barnabas.broker.jobs import Job
from barnabas.broker.ports import IsrProposal
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import NO_LEADER


def judge(image: Image, proposal: IsrProposal, state: PartitionState | None) -> int:
    """Whether an ISR may change so: 0, or the error (`ReplicationControlManager.validateAlterPartitionData`)."""
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if proposal.leader_epoch > state.leader_epoch or proposal.partition_epoch > state.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if proposal.leader_epoch < state.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if proposal.partition_epoch < state.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if not set(proposal.isr) <= set(state.replicas):
        return ErrorCode.INVALID_REQUEST
    if state.leader not in proposal.isr and not set(proposal.isr) < set(state.isr):  # else it gives up (`resigned`)
        return ErrorCode.INVALID_REQUEST
    if proposal.recovering and (len(proposal.isr) > 1 or not state.recovering):
        return ErrorCode.INVALID_REQUEST
    epochs = proposal.epochs or (-1,) * len(proposal.isr)
    if not all(image.isr_eligible(*member) for member in zip(proposal.isr, epochs, strict=True)):
        return ErrorCode.INELIGIBLE_REPLICA
    return 0


def resigned(
    image: Image, partition: int, state: PartitionState, isr: tuple[int, ...], terms: Terms
) -> PartitionChange | None:
    """What changes when a leader gives up, whose log is damaged: another leads that has all; None where nobody can.

    A proposal without the leader says so; in Apache Kafka it is an error, and a leader goes with its whole directory.
    """
    leader = state.leader
    change = settle(
        partition,
        state,
        terms._replace(unclean=False),
        lambda one: one != leader and image.is_alive(one),
        isr=isr,
        lost=leader,
    )
    return change if change is not None and change.leader not in (None, NO_LEADER, leader) else None


def step_down(image: Image, broker_id: int) -> Iterator[list[MetadataRecord]]:
    """Records, in slices, that take from a broker that stands alone what it leads; each raises a leader epoch.

    Kafka does this when a broker stops in good order or at its next registration; with `step_up` either way a restart
    raises the epoch by two. Its place in the ISR the broker keeps.
    """

    def changed(partition: int, state: PartitionState) -> PartitionChange | None:
        leads = state.leader == broker_id
        return PartitionChange(state.topic_id, partition, leader=NO_LEADER) if leads else None

    return _of_all(image, changed)


def step_up(image: Image, broker_id: int, terms_of: TermsOf = default_terms) -> Iterator[list[MetadataRecord]]:
    """Records, in slices, that let a broker that stands alone lead what has no leader, if it may."""

    def changed(partition: int, state: PartitionState) -> PartitionChange | None:
        if state.leader != NO_LEADER:
            return None
        topic = image.topics_by_id[state.topic_id].name
        return settle(partition, state, terms_of(topic), lambda one: one == broker_id)

    return _of_all(image, changed)


def _of_all(
    image: Image, changed: Callable[[int, PartitionState], PartitionChange | None]
) -> Iterator[list[MetadataRecord]]:
    """Records, in slices, of what changes; topics may go between slices."""
    changes: list[MetadataRecord] = []
    for topic in list(image.topics.values()):
        for partition, state in topic.partitions.items():
            if topic.topic_id not in image.topics_by_id:
                break  # deleted since the last slice
            change = changed(partition, state)
            if change is not None:
                changes.append(change)
            if len(changes) >= SMALL_MAX:
                yield changes
                changes = []
    if changes:
        yield changes


def fenced(image: Image, broker_id: int, terms_of: TermsOf = default_terms) -> Job[list[MetadataRecord]]:
    """What changes in all partitions when a broker is fenced: it leads nothing, and is in no ISR."""
    return (yield from _without(image, broker_id, terms_of, NO_LEADER))


def unproven(image: Image, broker_id: int, terms_of: TermsOf = default_terms) -> Job[list[MetadataRecord]]:
    """What changes when a broker comes back and cannot show that it lost nothing: no ELR has it either (KIP-966).

    Where nobody else has all that was committed it may still be the last known leader, and will lead, RECOVERING.
    """
    return (yield from _without(image, broker_id, terms_of, broker_id))


def _without(image: Image, broker_id: int, terms_of: TermsOf, lost: int) -> Job[list[MetadataRecord]]:
    changes: list[MetadataRecord] = []
    for number, (topic, partition, state) in enumerate(partitions_of(image), 1):
        if broker_id in state.isr or lost in state.elr:
            isr = tuple(member for member in state.isr if member != broker_id)
            change = settle(
                partition,
                state,
                terms_of(topic),
                lambda one: one != broker_id and image.is_alive(one),
                isr=isr,
                lost=lost,
            )
            if change is not None:
                changes.append(change)
        if number % SMALL_MAX == 0:
            yield None
    return changes


def unfenced(image: Image, broker_id: int, terms_of: TermsOf = default_terms) -> Job[list[MetadataRecord]]:
    """What changes when a broker is unfenced: what has no leader may have one now."""
    changes: list[MetadataRecord] = []
    for number, (topic, partition, state) in enumerate(partitions_of(image), 1):
        if state.leader == NO_LEADER:
            change = settle(partition, state, terms_of(topic), lambda one: one == broker_id or image.is_alive(one))
            if change is not None:
                changes.append(change)
        if number % SMALL_MAX == 0:
            yield None
    return changes


def nobody_has_all(image: Image, changes: list[MetadataRecord]) -> list[PartitionChange]:
    """Of the changes that `unproven` makes, those that leave nobody who is known to have what was committed."""
    found = []
    for one in changes:
        if isinstance(one, PartitionChange):
            state = image.topics_by_id[one.topic_id].partitions[one.partition]
            isr, elr = one.isr if one.isr is not None else state.isr, one.elr if one.elr is not None else state.elr
            if not isr and not elr:
                found.append(one)
    return found
