"""What the rooms see of a log, and what they give back: a `Change`, which `Log.adopt` alone takes over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from barnabas.broker.config import TopicConfig
from barnabas.broker.jobs import Gate
from barnabas.broker.log.apart import Apart
from barnabas.broker.log.epochs import LeaderEpochs
from barnabas.broker.log.losses import Losses
from barnabas.broker.log.producer_state import ProducerState
from barnabas.broker.log.segment import Segment
from barnabas.broker.log.types import OffsetMetadata
from barnabas.broker.ports import Disk
from barnabas.protocol.ids import TopicPartition


class Change(NamedTuple):
    """What is to be of a log. What is None stays as it is.

    `segments` rise by base, at least one. `cut_to`: the log was cut there, records from that offset on are gone (-1:
    all are), so that syncs and compactions under way prove nothing of it. `recovery_point`: all below is on stable
    storage. `high_watermark` is clamped to what the log then holds. `failed`: the sync that failed, for good.
    """

    segments: list[Segment] | None = None
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    cut_to: int | None = None
    recovery_point: int | None = None
    high_watermark: int | None = None
    epochs: LeaderEpochs | None = None
    producers: ProducerState | None = None
    snapshots: list[int] | None = None
    topic_id: bytes | None = None
    cleaned_to: int | None = None
    failed: OSError | None = None


class LogView(Protocol):
    """A log to read. What it holds is changed by `Log` itself and nobody else."""

    @property
    def disk(self) -> Disk:
        """Where it lies."""

    @property
    def directory(self) -> str:
        """Its directory on that disk."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose log it is."""

    @property
    def topic_id(self) -> bytes:
        """Of which topic of that name it is (all zero: not known)."""

    @property
    def is_named(self) -> bool:
        """Whether the device knows that."""

    @property
    def config(self) -> TopicConfig:
        """The topic's settings."""

    @property
    def discard(self) -> Callable[[list[str]], None]:
        """Takes the paths of files that were renamed away and may be removed later."""

    @property
    def unsaved(self) -> Callable[..., None]:
        """To be called when a small file is to be written soon, with `cut=True` after a cut."""

    def unwritten(self, path: str, error: OSError) -> None:
        """To be called when one could not be written: it is said, counted, and tried again."""

    @property
    def losses(self) -> Losses:
        """Is told of what is lost, and of reads that fail."""

    @property
    def apart(self) -> Apart:
        """Where batches that hold much are looked through."""

    @property
    def segments(self) -> Sequence[Segment]:
        """All segments, rising by base; the last is the active one."""

    @property
    def bases(self) -> Sequence[int]:
        """Their base offsets."""

    @property
    def active(self) -> Segment:
        """The segment that is written to."""

    @property
    def recent(self) -> dict[int, int]:
        """Offsets of batches lately appended to the active segment, and where they lie."""

    @property
    def epochs(self) -> LeaderEpochs:
        """Its leader epochs."""

    @property
    def producers(self) -> ProducerState:
        """Its producers."""

    @property
    def snapshots(self) -> Sequence[int]:
        """Offsets of its producer snapshots, rising."""

    @property
    def log_start_offset(self) -> int:
        """Everything below is hidden."""

    @property
    def log_end_offset(self) -> int:
        """The next record's offset."""

    @property
    def log_end_metadata(self) -> OffsetMetadata:
        """The log end offset and its place."""

    @property
    def high_watermark(self) -> int:
        """Everything below is committed."""

    @property
    def last_stable_offset(self) -> int:
        """Everything below belongs to no open transaction."""

    @property
    def recovery_point(self) -> int:
        """Everything below is on stable storage."""

    @property
    def cleaned_to(self) -> int:
        """Everything below was compacted, -1: not known."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""

    @property
    def cuts(self) -> int:
        """How often the end was cut: work that began before looks at it."""

    @property
    def closed(self) -> bool:
        """Whether its files are released."""

    def segment_index(self, offset: int) -> int:
        """Index of the segment an offset lies in (-1: before all)."""

    def placed_high_watermark(self) -> OffsetMetadata:
        """The high watermark with its place."""

    def placed_last_stable(self) -> OffsetMetadata:
        """The last stable offset with its place."""

    def roll(self, now_ms: int) -> None:
        """Open a new segment at the log end."""

    def snapshot_from(self, offset: int) -> Gate | None:
        """Have a producer snapshot at or above `offset`; None if there is one, or no producer to know."""

    def adopt(self, change: Change) -> None:
        """Take over what is to be; long work that comes in steps does so at the end of each."""


def holds(log: LogView, segment: Segment) -> bool:
    """Whether a segment is one of the log's, of which there may be thousands."""
    index = log.segment_index(segment.base)
    return index >= 0 and log.segments[index] is segment


def forget_orphan(log: LogView, segment: Segment, path: str) -> None:
    """An index was written: remove it if its segment went meanwhile. A start would take it for the trace of a loss."""
    index = log.segment_index(segment.base)
    if (index < 0 or log.bases[index] != segment.base) and not log.closed:
        disk = log.disk
        with suppress(OSError):
            disk.remove(path)
