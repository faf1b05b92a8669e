"""Batches that cannot be appended at once: those looked through apart or staged (`Costly`), and those after them.

Each partition has a line while there is one, so batches get their offsets in the order in which they came. Whoever has
its turn is appended as if it came only now: hosting, leadership, topic id, settings and the producer's sequence are
asked again. A request that is not its turn yet is charged with its bytes (`host/channel.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from barnabas.broker.jobs import Job
from barnabas.broker.log.look import (
    LARGE,
    ClientBatch,
    Costly,
    Large,
    Summed,
    Unsummed,
    kept,
    look_apart,
    stamped,
    sum_apart,
)
from barnabas.broker.log.staging import abandon, stage
from barnabas.broker.replica.hosted import HostedPartitions
from barnabas.broker.replica.partition import Partition
from barnabas.protocol.batch import set_place
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.ids import Buffer, TopicPartition

Append: TypeAlias = Callable[["Buffer | Summed | ClientBatch", int], None]
"""Append these bytes at a time (monotonic ms), and raise what is wrong."""


@dataclass(slots=True)
class Late:
    """A batch in line: for which partition, what it was found to be so far, how to append it, and who hears of that."""

    partition: Partition
    records: Buffer
    costly: Costly | None
    append: Append
    done: Callable[[Exception | None], None]


def line_up(hosted: HostedPartitions, late: Late) -> None:
    """Append a batch after those that are in line for its partition; `done` hears how it went, later."""
    lines = hosted.shared.late
    key = late.partition.topic_partition
    line = lines.get(key)
    if late.costly is None:
        late.records = kept(memoryview(late.records))
    if line is not None:
        line.append(late)
        return
    lines[key] = line = deque((late,))
    hosted.shared.run(_serve(hosted, key, line), lambda _: None)


def _serve(hosted: HostedPartitions, key: TopicPartition, line: deque[Late]) -> Job[None]:
    try:
        while line:
            late = line[0]
            fault: Exception | None = None
            try:
                yield from _append(hosted, key, late)
            except Exception as error:
                fault = error
            late.done(fault)
            fault = None  # it holds this frame, and those that hold what the batch unpacks to: all go with it
            line.popleft()
    finally:
        del hosted.shared.late[key]


def _append(hosted: HostedPartitions, key: TopicPartition, late: Late) -> Job[None]:
    """Append one batch, as soon as it is found good by the settings that hold then.

    Those of a large one are the ones that held when its writing began.

    Raises:
        Exception: it was not appended.
    """
    log = late.partition.log
    while True:
        if late.costly is None:
            late.costly = yield from _attempt(hosted, key, late, None)
            if late.costly is None:
                return
        if isinstance(late.costly, Unsummed):
            summed = yield from sum_apart(late.costly.view, key, log.apart)
            late.costly = yield from _attempt(hosted, key, late, summed)
            if late.costly is None:
                return
        if isinstance(late.costly, Large):
            late.costly = yield from _append_large(hosted, key, late, late.costly.batch)
            if late.costly is None:
                return
            continue
        config = late.costly.asked.config
        found = yield from look_apart(late.costly, log.apart)
        late.costly = None
        if log.config is config:
            wall_ms = hosted.shared.wall_clock.now_ms()
            batch = stamped(*found, config, wall_ms)
            late.costly = yield from (_append_large if len(batch.data) > LARGE else _attempt)(hosted, key, late, batch)
            if late.costly is None:
                return


def _append_large(hosted: HostedPartitions, key: TopicPartition, late: Late, batch: ClientBatch) -> Job[Costly | None]:
    """Append a batch that is written before, in steps; what it must be asked first, if anything: to be written again.

    Raises:
        Exception: it was not appended.
    """
    partition = late.partition
    try:
        if hosted.online.get(key) is not partition:
            raise KafkaError(hosted.error_of(key))
        wall_ms = hosted.shared.wall_clock.now_ms()
        set_place(batch.data, 0, partition.log.log_end_offset, batch.header.length, partition.leader_epoch)
        staged = yield from stage(partition.log, batch, partition.leader_epoch, wall_ms)
    except KafkaError:
        if hosted.online.get(key) is partition:
            raise
        return (yield from _attempt(hosted, key, late, batch))  # it is removed, which says more than its disk
    again: Costly | None = None
    fault: Exception | None = None
    try:
        again = yield from _attempt(hosted, key, late, staged)
    except Exception as error:
        fault = error
    if not staged.segment.size:
        abandon(partition.log, staged.segment)
    if fault is not None:
        try:
            raise fault
        finally:
            del fault  # it holds this frame
    return again


def _attempt(
    hosted: HostedPartitions, key: TopicPartition, late: Late, batch: ClientBatch | Summed | None
) -> Job[Costly | None]:
    """Append at the end of this step, where time is known; what it must be asked first, if anything.

    Raises:
        Exception: it was not appended.
    """
    faults: list[Exception] = []
    tried: list[bool] = []

    def attempt(now_ms: int) -> None:
        try:
            if hosted.online.get(key) is not late.partition:
                raise KafkaError(hosted.error_of(key), f"{key} was removed while a batch for it was looked through")
            late.append(late.records if batch is None else batch, now_ms)
        except Exception as error:
            faults.append(error)
        tried.append(True)

    hosted.shared.actions.add(attempt)
    yield None
    assert tried, "actions run at the end of a step"
    if not faults:
        return None
    fault = faults.pop()
    if isinstance(fault, Costly):
        return fault.bare()
    try:
        raise fault
    finally:
        del fault  # it holds this frame
