"""The small files beside a log's segments: producer snapshots, the epoch checkpoint, and what a clean stop leaves.

None of them holds a record, and all can be made anew from the batches: one that cannot be written, on whatever grounds,
is said, counted and tried again, and ends nothing. They are written off the loop's thread. Until they are on the device
the recovery point that is saved does not pass what they say, so that a start reads those batches.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from barnabas.broker.jobs import Gate
from barnabas.broker.log import checkpoint
from barnabas.broker.log.closing import ClosingFiles
from barnabas.broker.log.segment import SNAPSHOT_SUFFIX, stem
from barnabas.broker.log.state import Change, LogView

OFFSET_MAX: Final = 2**63 - 1


class SmallFiles:
    """Those of one log."""

    __slots__ = ("_log", "_snapshot")

    def __init__(self, log: LogView) -> None:
        self._log = log
        self._snapshot: Gate | None = None
        """Opens with the newest producer snapshot."""

    def take_snapshot(self) -> Gate:
        """Write the producer state at the log end.

        Where that fails, a start reads more batches, and the next roll, the next retention or the stop writes another.
        """
        log = self._log
        disk, offset, cuts = log.disk, log.log_end_offset, log.cuts
        path = self._snapshot_path(offset)
        gate = self._snapshot = Gate()

        def done(error: OSError | None) -> None:
            if error is not None:
                log.unwritten(path, error)
            elif not log.closed and not _contains(log.snapshots, offset):
                if log.cuts == cuts:
                    snapshots = list(log.snapshots)
                    insort(snapshots, offset)
                    log.adopt(Change(snapshots=snapshots))
                else:  # of records that are gone
                    with suppress(OSError):
                        disk.remove(path)
            gate.open(error)

        disk.write_atomic(path, log.producers.snapshot(), done)
        return gate

    def snapshot_from(self, offset: int) -> Gate | None:
        """Have a snapshot at or above `offset`, which no segment's base may pass; a token while there is none.

        None if there is one, or no producer to know. The segments below `offset` may go then.
        """
        log = self._log
        if not log.producers.producers or (log.snapshots and log.snapshots[-1] >= offset):
            return None
        under_way = self._snapshot
        if under_way is not None and not under_way.is_open:
            return under_way
        return self.take_snapshot()

    def save_epochs(self, *, cut: bool = False) -> Gate | None:
        """Write the epoch checkpoint, if it is behind; a token then.

        After a crash a start learns epochs from the batches behind the recovery point. So this file must be there
        before a checkpoint says that the recovery point has passed them, and no earlier; but at once after a `cut`,
        for what it says of epochs that are gone.
        """
        log = self._log
        if not log.epochs.behind(OFFSET_MAX if cut else log.log_end_offset):
            return None
        gate = Gate()
        entries = log.epochs.entries
        path = f"{log.directory}/{checkpoint.LEADER_EPOCH_FILE}"

        def done(error: OSError | None) -> None:
            if error is None:
                log.adopt(Change(epochs=log.epochs.as_saved(entries)))
            else:
                log.adopt(Change(epochs=log.epochs.as_lost()))
                log.unwritten(path, error)
            gate.open(error)

        log.disk.write_atomic(path, checkpoint.format_epochs(entries), done)
        return gate

    def recovery_point_to_save(self) -> int:
        """What a checkpoint may say: below, records, indexes of sealed segments and epochs are on the device.

        Nothing is before the device knows whose log it is: a start takes it from there that this is to be told still.
        """
        log = self._log
        point = log.recovery_point if log.is_named else min(log.recovery_point, log.segments[0].base)
        for segment in log.segments[:-1]:
            if not segment.indexes_saved or segment.synced_size < 0:
                point = min(point, segment.base)
                break
        unsaved = log.epochs.unsaved_from()
        return point if unsaved is None else min(point, unsaved)

    def closing(self) -> ClosingFiles:
        """What a clean end still has to write (or to put down in another place, see `closing.py`)."""
        log = self._log
        files = dict(file for one in log.segments if one.size and not one.indexes_saved for file in one.index_files())
        offset = log.log_end_offset
        # Without any snapshot a clean start takes it that there are no producers (Kafka does, too).
        if offset and (log.snapshots[-1] != offset if log.snapshots else log.producers.producers):
            log.adopt(Change(snapshots=[*log.snapshots, offset]))
            files[self._snapshot_path(offset)] = log.producers.snapshot()
        if log.epochs.behind(offset):
            files[f"{log.directory}/{checkpoint.LEADER_EPOCH_FILE}"] = checkpoint.format_epochs(log.epochs.entries)
        inside = len(log.directory) + 1
        contents = {path[inside:]: content for path, content in files.items()}
        return ClosingFiles(log.active.base, log.active.size, contents)

    def write_closing(self, files: ClosingFiles) -> Gate:
        """Write what `closing` found."""
        log = self._log
        gate = Gate()

        def done(error: OSError | None) -> None:
            if error is None:
                log.adopt(Change(epochs=log.epochs.as_saved()))
            else:
                log.losses.unwritten(log.directory, error)
            gate.open(error)

        log.disk.write_files([(f"{log.directory}/{name}", data) for name, data in files.contents.items()], done)
        return gate

    def _snapshot_path(self, offset: int) -> str:
        return f"{self._log.directory}/{stem(offset)}{SNAPSHOT_SUFFIX}"


def _contains(rising: Sequence[int], one: int) -> bool:
    at = bisect_left(rising, one)
    return at < len(rising) and rising[at] == one
