"""Large batches: written in pieces to a file of their own, which becomes the active segment when their turn has come.

Until then nothing of the log changes, whoever appends, cuts or closes it meanwhile; then the name of one file does:

    written    00000000000000000042.0.large.cleaned, a MiB a step; a start that finds it takes it away
    refused    or the disk was full, or another end of the log has come: the file goes
    appended   it is called 00000000000000000042.log; an empty segment of that name makes room by way of `.log.swap`
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from barnabas.broker.jobs import Job
from barnabas.broker.log.look import ClientBatch
from barnabas.broker.log.segment import CLEANED_SUFFIX, DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, Segment, stem
from barnabas.broker.log.state import LogView
from barnabas.broker.log.truncation import rename_all_away, undone_on_failure
from barnabas.broker.ports import Disk
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import Buffer

PIECE: Final = 1024 * 1024
"""Bytes written in one step: 2 ms where the pages are new."""


class StagedSegment(Segment):
    """A segment whose first batch is in its file already; `leader_epoch` is that in which it was written."""

    __slots__ = ("leader_epoch",)

    def __init__(self, disk: Disk, directory: str, base: int, created_ms: int, leader_epoch: int) -> None:
        super().__init__(disk, directory, base, created_ms)
        self.leader_epoch = leader_epoch
        self.adopt(disk.open(_unused(disk, f"{directory}/{stem(base)}"), create=True))

    def append(self, data: Buffer, size: int, last_offset: int, max_timestamp: int, index_interval: int) -> int:
        """The first batch was written when it was staged; those after it are as anywhere."""
        if self.size or not self.file.size:  # or it was cut since
            return super().append(data, size, last_offset, max_timestamp, index_interval)
        assert self.file.size == size, "another batch than the one that was staged"
        self.size = size
        self.note(0, size, last_offset, max_timestamp, index_interval)
        return 0


class StagedBatch(ClientBatch):
    """A batch that was looked through, and the segment that holds it."""

    segment: StagedSegment


def stage(log: LogView, batch: ClientBatch, leader_epoch: int, now_ms: int) -> Job[StagedBatch]:
    """Write a batch, which has its place, to be the next one in this epoch.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR; there is no trace of it.
    """
    segment = None
    try:
        segment = StagedSegment(log.disk, log.directory, log.log_end_offset, now_ms, leader_epoch)
        segment.file.expect(len(batch.data))
        for at in range(0, len(batch.data), PIECE):
            segment.file.append((batch.data[at : at + PIECE],))
            yield None
    except OSError as error:
        if segment is not None:
            abandon(log, segment)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.directory}: {error}") from error
    staged = StagedBatch(*batch)
    staged.segment = segment
    return staged


def fits(log: LogView, segment: StagedSegment, leader_epoch: int) -> bool:
    """Whether it may be the active segment: the log ends where it begins, and the epoch is the same."""
    return segment.base == log.log_end_offset and segment.leader_epoch == leader_epoch


def put_in_place(log: LogView, segment: StagedSegment) -> None:
    """Give it its name.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR, the log is as it was.
    """
    path = segment.path(LOG_SUFFIX)
    gone: list[str] = []
    with undone_on_failure(log) as rename:
        if log.active.base == segment.base:  # there is always one of that base, or one that a start lets take its place
            rename(segment.file.path, path + SWAP_SUFFIX)
            gone = rename_all_away(log.disk, [log.active], rename)
            rename(path + SWAP_SUFFIX, path)
        else:
            rename(segment.file.path, path)
    log.discard(gone)


def abandon(log: LogView, segment: StagedSegment) -> None:
    """Let go of one that was not taken."""
    segment.close()
    path = segment.file.path
    if not log.closed and log.disk.exists(path):  # of a log that is deleted it went with all else
        with suppress(OSError):  # a start takes it away
            log.disk.rename(path, path + DELETED_SUFFIX)
            log.discard([path + DELETED_SUFFIX])


def _unused(disk: Disk, path: str) -> str:
    """Who led and who follows now may write at the same end of the log at the same time."""
    number = 0
    while disk.exists(found := f"{path}.{number}.large{CLEANED_SUFFIX}"):
        number += 1
    return found
