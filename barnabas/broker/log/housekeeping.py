"""What the logs of a data directory need from time to time, as jobs that are given out when they are due.

    task        every                                            first after
    retention   log.retention.check.interval.ms                  log.initial.task.delay.ms
    flush       the shortest flush.ms (at least every second)    one interval, and only where a flush.ms is set
    recovery    log.flush.offset.checkpoint.interval.ms          log.initial.task.delay.ms
    log start   log.flush.start.offset.checkpoint.interval.ms    log.initial.task.delay.ms
    watermark   replica.high.watermark.checkpoint.interval.ms    one interval
    cleaner     log.cleaner.backoff.ms, at once after a round    log.initial.task.delay.ms
    producers   producer.id.expiration.check.interval.ms         one interval
    indexes     a minute, while those that must stay are large   when all together are (see `index_room`)
    removal     when the first renamed file is due               then
    closing     when a log of many segments was set aside        at once

A task's next turn is counted from the end of the last one, so a slow disk is never asked twice at a time. Where a small
file found no room, the task that writes it again comes after a second: `recovery` for those of a log (indexes of sealed
segments, epochs, producer snapshots). It comes after a tenth of one where a log was cut: whoever is killed before it is
noted down seems to have lost what was cut. It writes how far logs are clean, too, where that is less than before. So do
`log start` and `watermark` after a cut that reached below either: what comes there would be hidden, or seen too early.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Final

from barnabas.broker.config import BrokerConfig, TopicConfig
from barnabas.broker.jobs import Job, wait
from barnabas.broker.log import checkpoint
from barnabas.broker.log.cleaner import Cleaner
from barnabas.broker.log.index_room import IndexRoom
from barnabas.broker.log.index_walk import walk
from barnabas.broker.log.log import Log
from barnabas.broker.log.losses import Losses
from barnabas.broker.log.removal import Removal
from barnabas.broker.log.segment import Segment
from barnabas.broker.log.steady import SteadyTime
from barnabas.broker.planned import PLANNED
from barnabas.broker.ports import Disk, WallClock
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import TopicPartition

_NEVER: Final = 2**63 - 1
_FLUSH_LOOK_MS_MIN: Final = 100
"""Whoever may alter a topic may set `flush.ms=0`, and all logs are looked at: 20,000 are 20 ms."""
_FLUSH_LOOK_MS_MAX: Final = 1000
_AGAIN_MS: Final = 1000
_CUT_MS: Final = 100
"""Many logs are cut when a broker goes; they are noted down together."""
_CROWDED_MS: Final = 60_000
_LOGS_PER_STEP: Final = 500
_TASKS: Final = {
    checkpoint.RECOVERY_POINT_FILE: "recovery",
    checkpoint.LOG_START_FILE: "log start",
    checkpoint.HIGH_WATERMARK_FILE: "watermark",
    checkpoint.CLEANER_FILE: "recovery",
}


class _Task:
    """One line of the table."""

    __slots__ = ("again_ms", "due_ms", "interval_ms", "run", "running")

    def __init__(self, interval_ms: int, run: Callable[[], Job[int]]) -> None:
        self.interval_ms = interval_ms
        self.run = run
        self.due_ms = _NEVER
        self.running = False
        self.again_ms = _NEVER


class Housekeeping:
    """The tasks of the logs of one data directory.

    Args:
        disk: the data directory.
        config: the broker's settings.
        logs: every open log; whoever owns the logs keeps it up to date.
        wall_clock: time of day.
        cleaner: compacts.
        losses: is told of checkpoints that cannot be written.
        indexes: what the indexes of all logs take in memory.
    """

    def __init__(
        self,
        disk: Disk,
        config: BrokerConfig,
        logs: Mapping[TopicPartition, Log],
        wall_clock: WallClock,
        cleaner: Cleaner,
        losses: Losses,
        indexes: IndexRoom,
    ) -> None:
        self._disk = disk
        self._config = config
        self._logs = logs
        self._wall_clock = wall_clock
        self._losses = losses
        self._indexes = indexes
        self._now_ms = 0
        self._deadline_ms: int | None = None
        self._removal = Removal(disk, config.log_segment_delete_delay_ms, self._plan)
        self._steady = SteadyTime()
        self._started = False
        self._early: list[tuple[int, list[str]]] = []
        self.cleaner = cleaner
        self._kept: dict[str, checkpoint.Points] = {}
        self._flushed_ms: dict[TopicPartition, int] = {}
        self._written: dict[str, bytes] = {}
        self._flush = _Task(_NEVER, self._flush_logs)
        self._tasks = {
            "retention": _Task(config.log_retention_check_interval_ms, self._retain),
            "flush": self._flush,
            "recovery": _Task(
                config.log_flush_offset_checkpoint_interval_ms, lambda: self._save(checkpoint.RECOVERY_POINT_FILE)
            ),
            "log start": _Task(
                config.log_flush_start_offset_checkpoint_interval_ms, lambda: self._save(checkpoint.LOG_START_FILE)
            ),
            "watermark": _Task(
                config.replica_high_watermark_checkpoint_interval_ms, lambda: self._save(checkpoint.HIGH_WATERMARK_FILE)
            ),
            "cleaner": _Task(config.log_cleaner_backoff_ms, self._clean),
            "producers": _Task(config.producer_id_expiration_check_interval_ms, self._expire_producers),
            "indexes": _Task(_NEVER, self._let_indexes_go),
        }
        indexes.on_full = lambda: self._again(self._tasks["indexes"], 0)

    def start(self, now_ms: int) -> None:
        """Count the first turns from `now_ms` (monotonic)."""
        self._now_ms = self._removal.now_ms = now_ms
        self._started = True
        self._steady.look(self._wall_clock.now_ms(), now_ms)
        early, self._early = self._early, []
        for delay_ms, paths in early:
            self.discard(paths, delay_ms)
        config = self._config
        for name, task in self._tasks.items():
            first = (
                task.interval_ms
                if name in ("watermark", "producers", "flush", "indexes")
                else config.log_initial_task_delay_ms
            )
            task.due_ms = min(now_ms + min(first, task.again_ms), _NEVER)
        if not config.log_cleaner_enable:
            self._tasks["cleaner"].due_ms = _NEVER
        self._plan()

    def heed(self, config: TopicConfig) -> None:
        """Look often enough for a topic's `flush.ms`."""
        wanted = max(_FLUSH_LOOK_MS_MIN, min(config.flush_ms, _FLUSH_LOOK_MS_MAX))
        if config.flush_ms < _NEVER and wanted < self._flush.interval_ms:
            self._flush.interval_ms = wanted
            self._flush.due_ms = min(self._flush.due_ms, self._now_ms + wanted)
            self._plan()

    def discard(self, paths: list[str], delay_ms: int) -> None:
        """Remove files or directories later, see `removal`; before the start the delay is counted from the start."""
        if self._started:
            self._removal.discard(paths, delay_ms)
        else:
            self._early.append((delay_ms, paths))

    def close(self, segments: list[Segment]) -> None:
        """Close the segments of a log that is gone, and let go of them: some at once, of many the rest in steps."""
        self._removal.close(segments)

    def loaded(self, name: str, points: checkpoint.Points) -> Job[None]:
        """What a checkpoint file says at the start: it is written anew when it is to say something else."""
        self._written[name] = yield from checkpoint.format_offsets(points)

    def keep_noted(self, partition: TopicPartition, points: Mapping[str, checkpoint.Points]) -> None:
        """A log could not be opened: what the checkpoint files say of it stays as it is."""
        for file, noted in points.items():
            if partition in noted:
                self._kept.setdefault(file, {})[partition] = noted[partition]

    def next_deadline_ms(self) -> int | None:
        """The earliest turn (monotonic ms). Asked after every event, so it is worked out when it changes."""
        return self._deadline_ms

    def _plan(self) -> None:
        due = min((task.due_ms for task in self._tasks.values() if not task.running), default=_NEVER)
        due = min(due, self._removal.deadline_ms)
        self._deadline_ms = None if due == _NEVER else due
        PLANNED.count += 1

    def due_jobs(self, now_ms: int) -> list[Job[None]]:
        """The jobs whose turn has come."""
        self._now_ms = max(self._now_ms, now_ms)
        jobs = []
        for task in self._tasks.values():
            if task.due_ms <= now_ms and not task.running:
                task.running = True
                jobs.append(self._turn(task))
        jobs += self._removal.due_jobs(now_ms)
        self._plan()
        return jobs

    def _turn(self, task: _Task) -> Job[None]:
        wait_ms = task.interval_ms
        task.again_ms = _NEVER
        try:
            wait_ms = yield from task.run()
        finally:
            task.running = False
            task.due_ms = min(self._now_ms + min(wait_ms, task.again_ms), _NEVER)
            self._plan()

    def again(self, *, cut: bool = False, committed: bool = False) -> None:
        """A small file of a log found no room, or a log was cut below what is saved of it: that must not wait.

        `committed`: cut so far down that its log start or its high watermark is another.
        """
        self._again(self._tasks["recovery"], _CUT_MS if cut else _AGAIN_MS)
        if committed:
            for task in ("log start", "watermark"):
                self._again(self._tasks[task], _CUT_MS)

    def _again(self, task: _Task, ms: int = _AGAIN_MS) -> None:
        task.again_ms = min(task.again_ms, ms)
        if self._started:
            task.due_ms = min(task.due_ms, self._now_ms + ms)
            self._plan()

    def _each_log(self) -> list[Log]:
        return [log for log in self._logs.values() if not log.closed]

    def believed_ms(self, now_ms: int) -> int:
        """The time of day by which things grow old (ms), at a monotonic time."""
        return self._steady.look(self._wall_clock.now_ms(), now_ms)

    def _retain(self) -> Job[int]:
        for log in self._each_log():
            if log.closed:
                continue
            try:
                yield from log.retain(self.believed_ms(self._now_ms))
            except (OSError, BarnabasError):
                yield None  # a full or failing disk: tried again at the next turn
        return self._config.log_retention_check_interval_ms

    def forget(self, partition: TopicPartition) -> None:
        """A partition's log is no longer here: what is saved of it is not to be said of one that takes its place."""
        self._flushed_ms.pop(partition, None)
        self.cleaner.forget(partition)
        for noted in self._kept.values():
            noted.pop(partition, None)
        for task in _TASKS.values():
            self._again(self._tasks[task])

    def _flush_logs(self) -> Job[int]:
        for count, log in enumerate(self._each_log()):
            if log.config.flush_ms < _NEVER and log.recovery_point < log.log_end_offset:
                last_ms = self._flushed_ms.setdefault(log.topic_partition, 0)
                if self._now_ms - last_ms >= log.config.flush_ms:
                    self._flushed_ms[log.topic_partition] = self._now_ms
                    log.start_flush()
            if count % _LOGS_PER_STEP == _LOGS_PER_STEP - 1:
                yield None
        return self._flush.interval_ms

    def _save(self, name: str) -> Job[int]:
        """Write one checkpoint if it says something new."""
        if name == checkpoint.RECOVERY_POINT_FILE:
            yield from self._save_files()
        self._write(name, (yield from self._formatted(name, self._each_log())))
        if name == checkpoint.RECOVERY_POINT_FILE:
            cleaned = yield from self._formatted(checkpoint.CLEANER_FILE, self._each_log())
            self._write(checkpoint.CLEANER_FILE, cleaned)
        return self._tasks[_TASKS[name]].interval_ms

    def _formatted(self, name: str, logs: list[Log]) -> Job[bytes]:
        """A checkpoint as it shall be. Of 20,000 logs it is 40 ms of work."""
        points = dict(self._kept.get(name, {}))
        for count, log in enumerate(logs, 1):
            offset = _checkpointed(log, name)
            if offset is not None:
                points[log.topic_partition] = checkpoint.Point(offset, log.topic_id)
            if count % _LOGS_PER_STEP == 0:
                yield None
        return (yield from checkpoint.format_offsets(points))

    def _save_files(self) -> Job[None]:
        """Bring the files of logs up to date: recovery points do not pass what they say."""
        for count, log in enumerate(self._each_log()):
            with contextlib.suppress(OSError, BarnabasError):  # it is found wrong again
                yield from log.mend_indexes()
            if log.closed:
                continue  # it went meanwhile, and its directory may be that of the next of its name
            log.write_again()
            gate = log.files.save_epochs()
            if gate is not None:
                with contextlib.suppress(OSError):  # tried again after a second
                    yield from wait(gate)
            elif count % _LOGS_PER_STEP == _LOGS_PER_STEP - 1:
                yield None

    def _write(self, name: str, data: bytes) -> None:
        if self._written.get(name) == data:
            return
        self._written[name] = data

        def done(error: OSError | None) -> None:
            if error is not None:
                self._losses.unwritten(name, error)
                self._written.pop(name, None)
                if name in _TASKS:
                    self._again(self._tasks[_TASKS[name]])

        self._disk.write_atomic(name, data, done)

    def checkpoints(self) -> Job[list[tuple[str, bytes]]]:
        """All checkpoint files as they shall be at a shutdown."""
        files = []
        for name in checkpoint.OFFSET_FILES:
            files.append((name, (yield from self._formatted(name, list(self._logs.values())))))
            yield None
        return files

    def _clean(self) -> Job[int]:
        """Compact a log, if one is dirty enough."""
        if not (yield from self.cleaner.turn(self._each_log(), self._now_ms, self.believed_ms(self._now_ms))):
            return self._config.log_cleaner_backoff_ms
        self._write(checkpoint.CLEANER_FILE, (yield from self._formatted(checkpoint.CLEANER_FILE, self._each_log())))
        return 0

    def _let_indexes_go(self) -> Job[int]:
        yield from walk(self._indexes, self._each_log())
        return _CROWDED_MS if self._indexes.crowded else _NEVER

    def _expire_producers(self) -> Job[int]:
        config = self._config
        for count, log in enumerate(self._each_log()):
            log.expire_producers(self.believed_ms(self._now_ms), config.producer_id_expiration_ms)
            if count % _LOGS_PER_STEP == _LOGS_PER_STEP - 1:
                yield None
        return config.producer_id_expiration_check_interval_ms


def _checkpointed(log: Log, name: str) -> int | None:
    """What a checkpoint file says of a log; None if it is not named in it."""
    if name == checkpoint.RECOVERY_POINT_FILE:
        return log.files.recovery_point_to_save()
    if name == checkpoint.HIGH_WATERMARK_FILE:
        return log.high_watermark
    if name == checkpoint.LOG_START_FILE:
        return log.log_start_offset if log.log_start_offset > log.bases[0] else None
    return log.cleaned_to if log.cleaned_to >= 0 else None
