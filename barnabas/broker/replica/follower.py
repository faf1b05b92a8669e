"""One partition on its way behind its leader, in one leader epoch. Source: `AbstractFetcherThread` of Apache Kafka.

A follower asks with the Fetch that consumers use, from its own end, and names the epoch of its last record. So the
leader sees whether both logs are the same up to there, and says otherwise where they part (the diverging epoch).

    fetching      records                      fetching      appended; the high watermark follows the leader's
                  a batch above 4 MiB          writing       beside the log, in steps; nothing is asked for meanwhile
                  a batch that holds our end   cutting       the leader's log begins within it; ours is another's
                  a diverging epoch            cutting       and then fetching, from where both logs agree
                  OFFSET_OUT_OF_RANGE          asking_end    the leader's log ends before ours, or begins behind it
    writing       it is written, or cannot be  fetching      appended, with one change of name
    cutting       our disk refuses             fetching      its leader says again where to cut; but of damage, and of
                                                             what has no epoch, no leader can tell: the same, later
    asking_end    it ends before ours          cutting
                  it does not                  asking_start
    asking_start  it begins behind our end     fetching      all is dropped: it begins there
                  it does not                  fetching
    any of these  FENCED_LEADER_EPOCH          parked        until the metadata tells of another epoch
                  our disk, or our own end     halted
                  any other error              the same      after `BACKOFF_MS`
    all           other metadata               over

Long because every move between these stages is here.

- Where `flush.messages` asks for a sync, nothing is asked for before what is here is on stable storage: the offset
  that a follower asks for counts at its leader as kept.
- What was asked for in one epoch is dropped in another: a new epoch has a new `Follower`.
- Records are cut by epochs alone, never to the high watermark (KIP-101); only a log without epochs, which has no
  record that could be compared, begins there.
- The high watermark is the smaller of the leader's and of our end. It never goes back but with a cut: a new leader may
  know less of it than its followers. Apache Kafka lowers it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from barnabas.broker.delayed import CallbackTask
from barnabas.broker.jobs import Job
from barnabas.broker.log.look import ClientBatch, large, sum_apart
from barnabas.broker.log.losses import Loss
from barnabas.broker.log.staging import StagedBatch, abandon, stage
from barnabas.broker.log.types import EpochEnd
from barnabas.broker.replica import damage
from barnabas.broker.replica.divergence import begin_before, cut_at
from barnabas.broker.replica.partition import Partition
from barnabas.protocol.batch import read_header
from barnabas.protocol.errors import ErrorCode, KafkaError, error_name
from barnabas.protocol.ids import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from barnabas.protocol.requests.fetch import FetchPartition, PartitionData
from barnabas.protocol.requests.list_offsets import ListOffsetsPartition, ListOffsetsPartitionResponse

BACKOFF_MS: Final = 1000
"""After an error. Kafka's default of `replica.fetch.backoff.ms`."""
PARTITION_BYTES_MAX: Final = 1024 * 1024
"""Of one partition in an answer; a first batch comes whole. Kafka's default of `replica.fetch.max.bytes`."""

_SETTLES: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
)
"""What metadata that is still under way will settle."""

logger = logging.getLogger(__name__)


class Stage(Enum):
    """Where a follower is on its way."""

    FETCHING = "fetching"
    WRITING = "writing"
    CUTTING = "cutting"
    ASKING_END = "asking_end"
    ASKING_START = "asking_start"
    PARKED = "parked"
    HALTED = "halted"
    OVER = "over"


_FETCHING, _WRITING, _CUTTING, _OVER = Stage.FETCHING, Stage.WRITING, Stage.CUTTING, Stage.OVER
_ENDS: Final = (Stage.PARKED, Stage.HALTED, _OVER)
MOVES: Final = {
    _FETCHING: (_WRITING, _CUTTING, Stage.ASKING_END, *_ENDS),
    _WRITING: (_FETCHING, *_ENDS),
    _CUTTING: (_FETCHING, *_ENDS),
    Stage.ASKING_END: (_CUTTING, Stage.ASKING_START, *_ENDS),
    Stage.ASKING_START: (_FETCHING, *_ENDS),
    Stage.PARKED: (_OVER,),
    Stage.HALTED: (_OVER,),
    _OVER: (),
}
"""What may come after each stage."""
_TIMESTAMPS: Final = {Stage.ASKING_END: LATEST_TIMESTAMP, Stage.ASKING_START: EARLIEST_TIMESTAMP}


class Follower:
    """A partition that follows `leader_id` in `leader_epoch`. `wake` is called when it may ask again.

    `stage` is one of `MOVES`; until `not_before_ms` (monotonic) it asks for nothing. `lag` is how many committed
    records the leader had beyond the last answer's; -1 before the first.
    """

    __slots__ = (
        "_said",
        "_syncing",
        "_wake",
        "lag",
        "leader_epoch",
        "leader_id",
        "not_before_ms",
        "partition",
        "stage",
    )

    def __init__(self, partition: Partition, wake: Callable[[], None]) -> None:
        self.partition = partition
        self.leader_id = partition.leader_id
        self.leader_epoch = partition.leader_epoch
        self.stage = _FETCHING
        self.not_before_ms = 0
        self.lag = -1
        self._wake = wake
        self._syncing = False
        self._said = ""

    def begin(self, now_ms: int) -> None:
        """A log that knows no epoch begins at its high watermark, a damaged one there; any other at its end."""
        log = self.partition.log
        if self.partition.damaged >= 0:
            self._cut(self.partition.damaged, damage.NOT_HERE.format(self.leader_id), now_ms)
        elif log.latest_epoch < 0 and log.high_watermark < log.log_end_offset:
            self._cut(log.high_watermark, "no record here has an epoch", now_ms)

    def end(self) -> None:
        """Other metadata is in force: what is still under way changes nothing."""
        if self.stage is not _OVER:
            self._go(_OVER)

    # What it asks for

    def is_busy(self) -> bool:
        """Whether what came is being written or waits for its sync, so that nothing may be asked for.

        `wake` is called after it.
        """
        if self.stage is _WRITING:
            return True
        log = self.partition.log
        if self.stage is not _FETCHING or log.log_end_offset - log.recovery_point < log.config.flush_messages:
            return False
        if not self._syncing:
            try:
                self._syncing = not log.when_durable(log.log_end_offset, self._synced)
            except KafkaError as error:
                self._halt(error)
        return self._syncing

    def asks(self) -> FetchPartition:
        """What to fetch."""
        log = self.partition.log
        return FetchPartition(
            self.partition.topic_partition.partition,
            self.leader_epoch,
            log.log_end_offset,
            log.latest_epoch,
            log.log_start_offset,
            PARTITION_BYTES_MAX,
        )

    def asks_offset(self) -> ListOffsetsPartition:
        """Which of the leader's ends to look up."""
        partition = self.partition.topic_partition.partition
        return ListOffsetsPartition(partition, self.leader_epoch, _TIMESTAMPS[self.stage])

    # What it is answered

    def take(self, data: PartitionData, now_ms: int) -> bool:
        """The leader's answer to what `asks` said; True when records came."""
        told = data.diverging_epoch
        if data.error_code:
            self._refused(data.error_code, now_ms)
        elif told is not None and told.epoch >= 0:
            self._diverged(EpochEnd(told.epoch, told.end_offset), now_ms)
        else:
            return self._follow(data, now_ms)
        return False

    def take_offset(self, data: ListOffsetsPartitionResponse, now_ms: int) -> None:
        """The leader's answer to what `asks_offset` said: this log is cut, or dropped, or goes on from its end."""
        if data.error_code:
            self._refused(data.error_code, now_ms)
            return
        end = self.partition.log.log_end_offset
        if self.stage is Stage.ASKING_END:
            if data.offset < end:
                self._cut(data.offset, f"its leader's ends at {data.offset}", now_ms)
            else:
                self._go(Stage.ASKING_START)
            return
        if data.offset <= end:
            self.back_off("its leader says that this log is out of range, and begins and ends around it", now_ms)
        else:
            logger.info("%s: begins anew at %d, where its leader's log does", self._name, data.offset)
            try:
                self._drop_all(data.offset)
            except KafkaError as error:
                self._failed(error, now_ms)
                return
        self._go(_FETCHING)

    def back_off(self, reason: str, now_ms: int, *, passing: bool = False) -> None:
        """Ask again after `BACKOFF_MS`; each reason is said once, until records come. `passing`: it is no fault."""
        self.not_before_ms = now_ms + BACKOFF_MS
        if reason != self._said:
            self._said = reason
            level = logging.INFO if passing else logging.WARNING
            logger.log(level, "%s: %s; asks again every %d ms", self._name, reason, BACKOFF_MS)

    def snapshot(self) -> dict[str, Any]:
        """Where it is, as plain values."""
        key = self.partition.topic_partition
        return {
            "topic": key.topic,
            "partition": key.partition,
            "leader": self.leader_id,
            "leader_epoch": self.leader_epoch,
            "stage": self.stage.value,
            "fetch_offset": self.partition.log.log_end_offset,
        }

    # Records

    def _follow(self, data: PartitionData, now_ms: int) -> bool:
        log = self.partition.log
        end = log.log_end_offset
        if log.high_watermark < end == data.log_start_offset:  # no epoch tells whether what is here was ever committed
            try:
                self._drop_all(end)
            except KafkaError as error:
                self._failed(error, now_ms)
                return False
        if data.records:
            records = memoryview(b"".join(data.records) if isinstance(data.records, list) else data.records)
            begin = begin_before(records, end)
            if begin is not None and log.log_start_offset < end:
                if begin < log.high_watermark:  # no leader has that; the place of a batch stands outside its sum
                    self.back_off(f"its leader's batch at {begin} begins below what is committed here", now_ms)
                    return False
                self._cut(begin, f"a batch of its leader's begins at {begin}", now_ms)
                return False
            try:
                if begin is not None:
                    self._drop_all(begin)
                size = large(records)
                if size:
                    self._write(records[:size], data)
                    return True
                self._append(records)
            except KafkaError as error:
                self._failed(error, now_ms)
                return False
        self._advance(data, now_ms)
        return log.log_end_offset > end

    def _append(self, records: memoryview | StagedBatch) -> None:
        wall_ms = self.partition.shared.wall_clock.now_ms()
        self.partition.log.append_as_follower(records, leader_epoch=self.leader_epoch, now_ms=wall_ms)

    def _advance(self, data: PartitionData, now_ms: int) -> None:
        """Take over what an answer says of the leader's log, when its records are here."""
        log = self.partition.log
        self._said = ""
        self.lag = max(data.high_watermark - log.log_end_offset, 0)
        committed = min(max(data.high_watermark, log.log_start_offset), log.log_end_offset)
        rose = log.advance_high_watermark(log.log_end_metadata if committed == log.log_end_offset else committed)
        if data.log_start_offset > log.log_start_offset:
            log.raise_log_start_offset(min(data.log_start_offset, log.high_watermark))
        if rose:
            self._tell(now_ms)

    # A large batch

    def _write(self, batch: memoryview, data: PartitionData) -> None:
        """Write a batch beside the log in steps, then append it: 100 MB at once hold up everybody else for 230 ms."""
        self._go(_WRITING)
        shared = self.partition.shared
        staged: list[StagedBatch] = []

        def ended(fault: Exception | None) -> None:
            shared.actions.add(lambda now_ms: self._written(staged, fault, data, now_ms))

        shared.run(self._stage(batch, staged), ended)

    def _stage(self, batch: memoryview, staged: list[StagedBatch]) -> Job[None]:
        log = self.partition.log
        yield from sum_apart(batch, self.partition.topic_partition, log.apart)
        if self.stage is _WRITING:
            wall_ms = self.partition.shared.wall_clock.now_ms()
            found = ClientBatch(batch, read_header(batch), -1)
            staged.append((yield from stage(log, found, self.leader_epoch, wall_ms)))

    def _written(self, staged: list[StagedBatch], fault: Exception | None, data: PartitionData, now_ms: int) -> None:
        if self.stage is _WRITING:
            self._go(_FETCHING)
            try:
                if fault is not None:
                    raise fault
                self._append(staged[0])
                self._advance(data, now_ms)
            except KafkaError as error:
                self._failed(error, now_ms)
            except Exception as error:
                logger.exception("%s: a batch cannot be taken", self._name)
                self.back_off(repr(error), now_ms)
        if staged and not staged[0].segment.size:
            abandon(self.partition.log, staged[0].segment)
        self._wake()

    # Cutting

    def _diverged(self, told: EpochEnd, now_ms: int) -> None:
        log = self.partition.log
        offset = cut_at(log.end_offset_for_epoch(told.leader_epoch), log.log_end_offset, told)
        if offset == log.log_end_offset and len(log.epochs.up_to(offset)) == len(log.epochs):
            self.back_off(f"its leader's log diverges at {told}, which leaves nothing to cut", now_ms)
            return
        self._cut(offset, f"its leader's epoch {told.leader_epoch} ended at {told.end_offset}", now_ms)

    def _cut(self, offset: int, reason: str, now_ms: int) -> None:
        """Cut the log at `offset`, as soon as what tells where is read."""
        self._go(_CUTTING)
        self._cut_when_read(offset, reason, now_ms)

    def _cut_when_read(self, offset: int, reason: str, now_ms: int) -> None:
        self.partition.shared.when_read(lambda step_ms: self._cut_now(offset, reason, step_ms), now_ms)

    def _cut_now(self, offset: int, reason: str, now_ms: int) -> None:
        if self.stage is not _CUTTING:
            return  # the metadata went on while bytes were read
        log = self.partition.log
        end, committed, size = log.log_end_offset, log.high_watermark, log.size_bytes
        repaired = self.partition.damaged >= 0
        try:
            damage.cut(self.partition, offset)
        except (KafkaError, OSError) as error:
            untold = repaired or log.latest_epoch < 0  # of damage, and of what has no epoch, no leader can tell
            if not untold:
                self._go(_FETCHING)
            self._failed(error, now_ms)
            if self.stage is _CUTTING:
                again = CallbackTask(lambda later_ms: self._cut_when_read(offset, reason, later_ms))
                self.partition.shared.timer.add(again, self.not_before_ms)
            self._wake()
            return
        if log.log_end_offset < end:
            logger.info("%s: cut from %d to %d: %s", self._name, end, log.log_end_offset, reason)
        if log.log_end_offset < committed:
            lost = f"cut to its leader's log, broker {self.leader_id}'s, which does not have them: {reason}"
            if repaired:
                lost = reason
            name = str(self.partition.topic_partition)
            gone = size - log.size_bytes
            log.losses.report(Loss(name, log.log_end_offset, committed, gone, log.directory, lost))
        self._go(_FETCHING)
        self._tell(now_ms)
        self._wake()

    def _drop_all(self, offset: int) -> None:
        log = self.partition.log
        log.truncate_fully_and_start_at(offset, now_ms=self.partition.shared.wall_clock.now_ms())

    def _tell(self, now_ms: int) -> None:
        """What can be read here has changed: consumers may wait for it."""
        self.partition.shared.fetch.check_and_complete(self.partition.topic_partition, now_ms)

    # What goes wrong

    def _refused(self, code: int, now_ms: int) -> None:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE and self.stage is _FETCHING:
            self._go(Stage.ASKING_END)
        elif code == ErrorCode.FENCED_LEADER_EPOCH:
            logger.info("%s: its leader is in a later epoch; waits for the metadata", self._name)
            self._go(Stage.PARKED)
        else:
            self.back_off(f"its leader answers {error_name(code)}", now_ms, passing=code in _SETTLES)

    def _failed(self, error: Exception, now_ms: int) -> None:
        """Our own log refused. A full disk has room again; a failed sync, or our own end, is final."""
        log = self.partition.log
        if log.failed is not None or log.ending or log.closed:
            self._halt(error)
        else:
            self.back_off(str(error), now_ms)

    def _halt(self, error: Exception) -> None:
        if not self.partition.log.ending:
            logger.error("%s: stopped for good: %s", self._name, error)
        self._go(Stage.HALTED)

    def _synced(self, error: KafkaError | None) -> None:
        self._syncing = False
        if error is not None and self.stage is _FETCHING and self.partition.log.failed is not None:
            self._halt(error)
        self._wake()

    @property
    def _name(self) -> str:
        return f"{self.partition.topic_partition}, behind broker {self.leader_id} in epoch {self.leader_epoch}"

    def _go(self, stage: Stage) -> None:
        assert stage in MOVES[self.stage], f"{self.stage} does not lead to {stage}"
        self.stage = stage
