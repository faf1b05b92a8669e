"""Who leads a partition and who is in sync: pure decisions over an image.

A broker that is fenced or unfenced may concern every partition. What changes is written and seen in slices then, and in
this order: partitions before the fence, and after the unfence, so that nobody ever sees a leader that is fenced. Each
partition changes whole. Who looks meanwhile sees some that have moved and others that have not, as one who hears late;
a controller that ends midway finds the broker unfenced, and fences it when its session is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.broker.cluster.elections import Unclean, never, partitions_of, uncleanly
from barnabas.broker.cluster.image import Image, PartitionState
from barnabas.broker.cluster.records import MetadataRecord, PartitionChange
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
    if not set(proposal.isr) <= set(state.replicas) or state.leader not in proposal.isr:
        return ErrorCode.INVALID_REQUEST
    epochs = proposal.epochs or (-1,) * len(proposal.isr)
    if not all(image.isr_eligible(*member) for member in zip(proposal.isr, epochs, strict=True)):
        return ErrorCode.INELIGIBLE_REPLICA
    return 0


def step_down(image: Image, broker_id: int) -> Iterator[list[MetadataRecord]]:
    """Records, in slices, that take from the controller's own broker what it leads; each raises a leader epoch.

    Kafka does this when a broker stops in good order or at its next registration; with `step_up` either way a restart
    raises the epoch by two. Its place in the ISR the broker keeps.
    """
    return _hand_over(image, lambda state: state.leader == broker_id, NO_LEADER)


def step_up(image: Image, broker_id: int) -> Iterator[list[MetadataRecord]]:
    """Records, in slices, that let a broker lead what has no leader and has it in sync."""
    return _hand_over(image, lambda state: state.leader == NO_LEADER and broker_id in state.isr, broker_id)


def _hand_over(image: Image, wanted: Callable[[PartitionState], bool], leader: int) -> Iterator[list[MetadataRecord]]:
    """Records, in slices, that give the partitions wanted another leader; topics may go between slices."""
    changes: list[MetadataRecord] = []
    for topic in list(image.topics.values()):
        for partition, state in topic.partitions.items():
            if topic.topic_id not in image.topics_by_id:
                break  # deleted since the last slice
            if wanted(state):
                changes.append(PartitionChange(topic.topic_id, partition, leader=leader))
            if len(changes) >= SMALL_MAX:
                yield changes
                changes = []
    if changes:
        yield changes


def without(image: Image, state: PartitionState, broker_id: int) -> tuple[tuple[int, ...] | None, int | None]:
    """A partition when a broker is fenced: another ISR, another leader (None: as it is).

    The broker leaves the ISR, unless nobody else is in it: whoever is left there has all that was committed, and leads
    when it is back. The next leader is the first of the replicas, in their order, that is alive and in sync
    (`PartitionChangeBuilder` with a preferred election).
    """
    isr = tuple(member for member in state.isr if member != broker_id) or state.isr
    leader = state.leader
    if leader == broker_id:
        able = (one for one in state.replicas if one in isr and one != broker_id and image.is_alive(one))
        leader = next(able, NO_LEADER)
    return (None if isr == state.isr else isr), (None if leader == state.leader else leader)


def fenced(image: Image, broker_id: int, unclean: Unclean = never) -> Job[list[MetadataRecord]]:
    """What changes in all partitions when a broker is fenced, a bounded number of them in each step."""
    changes: list[MetadataRecord] = []
    for number, (topic, partition, state) in enumerate(partitions_of(image), 1):
        if broker_id in state.isr:
            isr, leader = without(image, state, broker_id)
            change: MetadataRecord | None = None
            if leader == NO_LEADER and unclean(topic):
                change = uncleanly(image, partition, state, apart=broker_id)
            if change is None and (isr is not None or leader is not None):
                change = PartitionChange(state.topic_id, partition, isr=isr, leader=leader)
            if change is not None:
                changes.append(change)
        if number % SMALL_MAX == 0:
            yield None
    return changes


def unfenced(image: Image, broker_id: int, unclean: Unclean = never) -> Job[list[MetadataRecord]]:
    """What changes when a broker is unfenced: it leads what has no leader and has it in sync."""
    changes: list[MetadataRecord] = []
    for number, (topic, partition, state) in enumerate(partitions_of(image), 1):
        if state.leader == NO_LEADER and broker_id in state.isr:
            changes.append(PartitionChange(state.topic_id, partition, leader=broker_id))
        elif state.leader == NO_LEADER and broker_id in state.replicas and unclean(topic):
            changes.append(PartitionChange(state.topic_id, partition, (broker_id,), broker_id, recovering=True))
        if number % SMALL_MAX == 0:
            yield None
    return changes


def unproven(image: Image, broker_id: int) -> Job[list[MetadataRecord]]:
    """What changes when a broker comes back and cannot show that it lost nothing.

    Where others were in sync they go on without it (`fenced`). Where it was the last, nobody else has what was
    committed: it is the last-known leader, and will lead, RECOVERING (KIP-966).
    """
    changes: list[MetadataRecord] = []
    for number, (_, partition, state) in enumerate(partitions_of(image), 1):
        if state.isr == (broker_id,) and not state.recovering:
            changes.append(PartitionChange(state.topic_id, partition, recovering=True))
        if number % SMALL_MAX == 0:
            yield None
    return changes
