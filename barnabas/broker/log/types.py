"""What the log takes and gives: offsets with their place, and the answers to append and read."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import Buffer

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What says that there is no room on the disk, as there may be later."""


class OffsetMetadata(NamedTuple):
    """An offset and where it lies: base offset of its segment and byte position in it (-1, -1: not looked up)."""

    offset: int
    segment_base: int = -1
    position: int = -1

    def on_older_segment(self, other: OffsetMetadata) -> bool:
        """Whether this offset's segment lies before `other`'s. Both places must be known."""
        return self.segment_base < other.segment_base

    def on_same_segment(self, other: OffsetMetadata) -> bool:
        """Whether both offsets lie in one segment. Both places must be known."""
        return self.segment_base == other.segment_base

    def bytes_since(self, other: OffsetMetadata) -> int:
        """Bytes from `other` up to here; both in one segment."""
        return self.position - other.position


class TimestampOffset(NamedTuple):
    """The answer to a lookup by time: `timestamp` in ms, the record's offset, the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """The answer to `end_offset_for_epoch`: (-1, -1) when undefined."""

    leader_epoch: int
    end_offset: int


class Isolation(IntEnum):
    """How far a reader sees (Kafka's FetchIsolation): to LEO, to the high watermark, to the last stable offset."""

    LOG_END = 0
    HIGH_WATERMARK = 1
    TXN_COMMITTED = 2


class AppendOrigin(IntEnum):
    """Who appends as the leader. CLIENT alone is held to a client's rules: base offset 0, sequences, no control."""

    CLIENT = 0
    COORDINATOR = 1


@dataclass(slots=True)
class AppendInfo:
    """What an append did.

    `first_offset` and `last_offset` are the offsets now held by the records (of the first write, for a `duplicate`).
    `log_append_time_ms` is -1 unless the broker stamped the batch, or it is a duplicate (then the stored batch's
    timestamp). `rolled`: a new segment was opened for it. `sync_needed`: `flush.messages` asks that nobody hears of
    these records before `Log.when_durable(last_offset + 1, ...)` has called back.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False
    rolled: bool = False
    sync_needed: bool = False


class FetchData(NamedTuple):
    """What a read gives: whole batches by reference (the last may be cut), and the offsets to report with them.

    `start` is the fetch offset with its place, as DelayedFetch remembers it. `records` is a leased view.
    """

    start: OffsetMetadata
    records: Buffer
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    log_end_offset: int


class InvalidRecord(KafkaError):
    """A batch refused as a whole for some of its records: INVALID_RECORD or INVALID_TIMESTAMP.

    `record_errors` holds (index in the batch, message) per refused record, in order; empty when the batch itself is
    at fault.
    """

    def __init__(
        self,
        detail: str,
        record_errors: list[tuple[int, str | None]] | None = None,
        code: ErrorCode = ErrorCode.INVALID_RECORD,
    ) -> None:
        super().__init__(code, detail)
        self.record_errors = record_errors or []


class CorruptLogError(KafkaError):
    """Stored bytes that cannot be what this log wrote, found outside of recovery: CORRUPT_MESSAGE."""

    def __init__(self, detail: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, detail)
