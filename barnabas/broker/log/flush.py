"""Bringing a log to stable storage, off the loop's thread, and telling those who wait for it.

One sync runs at a time; everybody who asks meanwhile is served by the next one (group commit). Sealed segments go
first, each with its indexes. A sync that failed is never repeated: the kernel may have dropped the bytes it could not
write and would report success the second time. The log refuses writes from then on. An index that could not be written
(a full disk) is another matter: it is written with the next sync, and until then the recovery point that is saved does
not pass its segment (`SmallFiles.recovery_point_to_save`).

With its first bytes a log has on the device whose it is (Kafka: `UnifiedLog.maybeFlushMetadataFile`, at the first
append). Records that a power failure cannot take would else be taken for those of a later topic of that name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from barnabas.broker.jobs import Gate
from barnabas.broker.log import checkpoint
from barnabas.broker.log.segment import Segment
from barnabas.broker.log.state import Change, LogView, forget_orphan, holds
from barnabas.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

Durable = Callable[[KafkaError | None], None]


class Flusher:
    """The syncs of one log."""

    __slots__ = ("_again", "_cuts", "_done", "_log", "_running", "_waiters", "is_named")

    def __init__(self, log: LogView) -> None:
        self._log = log
        self._running = False
        self._again = False
        self._cuts = 0
        self._done = 0
        """So many of the log's first segments are sealed and on the device: a roll does not look at them again."""
        self._waiters: list[tuple[int, Durable]] = []
        self.is_named = False
        """Whether the device knows which topic's log it is; the next sync brings it there, if not."""

    def when_durable(self, offset: int, callback: Durable) -> bool:
        """See `Log.when_durable`."""
        if offset <= self._log.recovery_point:
            return True
        self._waiters.append((offset, callback))
        self.start()
        return False

    def start(self) -> None:
        """Sync what is there now; if a sync runs, another follows it."""
        if self._running:
            self._again = True
            return
        log = self._log
        behind = self._behind()
        if not self._waiters and not behind and log.recovery_point >= log.log_end_offset:
            return
        self._running = True
        self._cuts = log.cuts
        self._step(behind, log.log_end_offset)

    def look_again(self) -> None:
        """The log has other segments, or some that were sealed long ago have indexes to be written."""
        self._done = 0

    def cut(self, end: int) -> None:
        """The log was cut back to `end`: who waits for more than that waits for what is gone, and is told so."""
        gone = [callback for offset, callback in self._waiters if offset > end]
        self._waiters = [waiter for waiter in self._waiters if waiter[0] <= end]
        error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self._log.topic_partition} was cut back to {end}")
        for callback in gone:
            callback(error)

    def gate(self) -> Gate | None:
        """A token that opens when all that is there now is durable; None if it is already."""
        if self._all_done():
            return None
        gate = Gate()
        end = self._log.log_end_offset
        self._waiters.append((end, lambda error: gate.open(None if error is None else OSError(error.detail))))
        self.start()
        return gate

    def _all_done(self) -> bool:
        return self._log.recovery_point >= self._log.log_end_offset and not self._behind()

    def _behind(self) -> list[Segment]:
        """The segments that are not on the device as they are now, rising."""
        segments, done = self._log.segments, self._done
        while done < len(segments) - 1 and self._is_done(segments[done]):
            done += 1
        self._done = done
        return [segment for segment in segments[done:] if not self._is_done(segment)]

    def _is_done(self, segment: Segment) -> bool:
        return segment.synced_size >= segment.size and (segment.indexes_saved or segment is self._log.active)

    def _step(self, work: list[Segment], target: int) -> None:
        """Sync the first of `work`, then the rest; `target` is durable when none is left."""
        log = self._log
        if log.closed:
            self._running = False
            return
        if work and not holds(log, work[0]):  # deleted or replaced meanwhile, and maybe thousands with it
            there = set(log.segments)
            work = [one for one in work if one in there]
        if not work or log.cuts != self._cuts:
            self._finish(target)
            return
        segment = work.pop(0)
        files = [] if segment is log.active else segment.index_files()
        size, topic_id, is_named = segment.size, log.topic_id, self.is_named
        missing = 1 + len(files) + (not is_named)
        sync_error: OSError | None = None
        indexes_saved = bool(files)

        def synced(error: OSError | None) -> None:
            nonlocal sync_error
            sync_error = error
            arrived()

        def written(path: str, error: OSError | None) -> None:
            nonlocal indexes_saved
            indexes_saved = indexes_saved and error is None
            if error is not None:
                log.unwritten(path, error)
            else:
                forget_orphan(log, segment, path)
            arrived()

        def named(error: OSError | None) -> None:
            if error is not None:
                log.unwritten(metadata, error)
            self.is_named = error is None and log.topic_id == topic_id
            arrived()

        def arrived() -> None:
            nonlocal missing
            missing -= 1
            if missing:
                return
            if sync_error is not None and holds(log, segment) and not log.closed:
                self._fail(sync_error)
                return
            if log.cuts != self._cuts:
                self._finish(target)
                return
            segment.synced_size = max(segment.synced_size, min(size, segment.size))
            segment.indexes_saved = segment.indexes_saved or indexes_saved
            self._step(work, target)

        try:
            segment.file.sync(synced)
        except OSError as error:
            self._fail(error)
            return
        for path, data in files:
            log.disk.write_atomic(path, data, partial(written, path))
        if not is_named:
            metadata = f"{log.directory}/{checkpoint.PARTITION_METADATA_FILE}"
            log.disk.write_atomic(metadata, checkpoint.format_partition_metadata(topic_id), named)

    def _finish(self, target: int) -> None:
        """Tell those who waited for what is durable now, and go on if there is more.

        If the log was cut meanwhile, what was synced is not what is there now: nothing is proven.
        """
        log = self._log
        if log.cuts == self._cuts:
            log.adopt(Change(recovery_point=max(log.recovery_point, min(target, log.log_end_offset))))
        self._running = False
        again, self._again = self._again, False
        durable = log.recovery_point
        ready = [callback for offset, callback in self._waiters if offset <= durable]
        self._waiters = [waiter for waiter in self._waiters if waiter[0] > durable]
        if (again or self._waiters) and not log.closed:
            self.start()
        for callback in ready:
            callback(None)

    def _fail(self, error: OSError) -> None:
        log = self._log
        self._running = False
        self._again = False
        log.adopt(Change(failed=error))
        log.losses.on_refused(error)
        logger.error("%s takes no records any more until the broker is started anew: %s", log.directory, error)
        waiters, self._waiters = self._waiters, []
        refusal = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.directory} could not be made durable: {error}")
        for _, callback in waiters:
            callback(refusal)
