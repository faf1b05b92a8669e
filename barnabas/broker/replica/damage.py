"""A replica whose disk cannot be relied on: this broker gives up leading it, and fetches what it lost from the next.

    a follower asks again for what it was given    the batch is summed up; if the sum is wrong the follower was right
    a consumer is about to be given it             it is summed up (`given`)
    a read finds no batch, or EIO                  nothing can be given to anybody from there on
    a sync has failed                              no append is taken any more
    the log cannot be opened                       nothing is served from it

An ISR without this broker is proposed. The controller has another lead that has all that was committed (`leadership`,
`resigned`); where there is none, nothing changes: what can be read is served, and what is wrong is said. Once another
leads, the log is cut where the damage begins, and fetched anew. So a flipped bit costs one replica, and no record as
long as another in sync has it. Apache Kafka's leader sends a bad batch for ever, and its followers leave the ISR.

No word of the protocol says "this batch is bad": a follower that asks twice for the same records does.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from typing import TYPE_CHECKING, Final

from barnabas.broker.log import lacking
from barnabas.broker.log.types import CorruptLogError
from barnabas.broker.ports import IsrProposal
from barnabas.broker.replica import isr_changes
from barnabas.protocol.batch import LOG_OVERHEAD, crc_ok
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import NO_LEADER, Buffer, TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.log import LogManager
    from barnabas.broker.replica.partition import Partition
    from barnabas.broker.replica.shared import Shared
    from barnabas.broker.replica.types import PartitionState

NOT_HERE: Final = "what its disk had of it was damaged, and comes from its leader, broker {}"
_UNNAMED: Final = "does not say any more which topic of that name it is of, and is fetched anew from others"

logger = logging.getLogger(__name__)


def check_given(partition: Partition, broker_id: int, offset: int, records: Buffer) -> None:
    """A follower is about to be given these records; if it asks for them again they are looked at first.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR, they are damaged.
    """
    remote = partition.remotes.get(broker_id)
    if remote is None:
        return
    again = remote.given == offset
    remote.given = offset if records else -1
    if again and records:
        size = LOG_OVERHEAD + int.from_bytes(records[8:12], "big", signed=True)
        if not crc_ok(records, 0, size):
            reason = f"the batch at offset {offset} has a wrong sum, as broker {broker_id} has found"
            resign(partition, reason, offset)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition.topic_partition}: {reason}")


def unreadable(partition: Partition, broker_id: int, offset: int, error: Exception) -> None:
    """What is at `offset` can be given to nobody; a follower has asked for it, or a consumer (`broker_id` < 0)."""
    cause = error.__cause__
    if isinstance(error, CorruptLogError) or (isinstance(cause, OSError) and cause.errno == errno.EIO):
        who = f"broker {broker_id}" if broker_id >= 0 else "a consumer"
        resign(partition, f"{who} cannot be given what is at offset {offset}: {error}", offset)


def resign(partition: Partition, reason: str, offset: int = -1) -> None:
    """Have another lead, if one can; the log is believed no further than up to `offset` (-1: all of it)."""
    if not partition.is_leader or not partition.remotes:
        return
    if offset >= 0 and not 0 <= partition.damaged <= offset:
        partition.damaged = offset
        lacking.note_later(partition.log.disk, partition.log.directory, offset)
        logger.error("%s: %s; another is to lead", partition.topic_partition, reason)
    me, isr = partition.shared.broker_id, partition.isr
    if isr.pending is None:  # else the next complaint finds it decided
        isr_changes.propose(partition, tuple(one for one in isr.committed if one != me))


def refused(partition: Partition) -> None:
    """The log takes no append: where that is for good, another is to lead."""
    if partition.log.failed is not None:
        resign(partition, "it takes no append")


def never_opened(shared: Shared, key: TopicPartition, state: PartitionState) -> None:
    """The log cannot be opened: if this broker is to lead it, another is to."""
    if state.leader != shared.broker_id or len(state.replicas) == 1:
        return
    others = tuple(one for one in state.isr if one != shared.broker_id)
    proposal = IsrProposal(key, state.topic_id, state.leader_epoch, state.partition_epoch, others, (-1,) * len(others))
    shared.controller.alter_partition(proposal, lambda answer: None)


def others_have_all(state: PartitionState, me: int) -> bool:
    """Whether a broker may begin anew: another leads, and nobody takes this one for having all that was committed."""
    return state.leader not in (NO_LEADER, me) and me not in state.isr and me not in state.elr


def decide(logs: LogManager, key: TopicPartition, state: PartitionState, me: int) -> None:
    """Whose is a log that does not say it any more (`LogManager.unnamed`)? It may be that of an earlier topic.

    Nobody could tell its records from those that belong there. Where others have all of it, it is fetched anew. While
    nobody leads, and this broker is not one that may, that waits: who has all may be away.
    """
    if key not in logs.unnamed:
        return
    if others_have_all(state, me):
        with contextlib.suppress(KafkaError):  # said already
            logs.stray(key, _UNNAMED)
    elif state.leader != NO_LEADER or me in state.isr or me in state.elr or len(state.replicas) == 1:
        logs.believe(key)


def cut(partition: Partition, offset: int) -> None:
    """Cut a log at `offset`; where that cannot be found in a damaged one, begin it anew.

    Raises:
        NotYet: bytes must be read first.
        KafkaError, OSError: it cannot be cut.
    """
    log = partition.log
    if partition.damaged < 0:
        log.truncate_to(offset)
        return
    try:
        log.truncate_to(min(offset, log.log_end_offset))
    except (CorruptLogError, OSError) as fault:
        logger.warning("%s: is emptied, for it cannot be cut at %d: %s", partition.topic_partition, offset, fault)
        now_ms = partition.shared.wall_clock.now_ms()
        log.truncate_fully_and_start_at(log.log_start_offset, now_ms=now_ms)
    partition.damaged = -1
    lacking.forget(log.disk, log.directory)
