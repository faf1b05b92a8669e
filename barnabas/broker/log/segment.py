"""One segment: a log file, its two indexes, and what is known of its timestamps (Kafka's LogSegment)."""

from __future__ import annotations

from typing import Final

from barnabas.broker.log.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE, OffsetIndex, TimeIndex
from barnabas.broker.log.index_room import INDEX_INTERVAL_MAX, IndexRoom
from barnabas.broker.ports import Disk, File
from barnabas.protocol.ids import Buffer

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"

_DIGITS: Final = 20
_OFFSET_MAX: Final = 2**63 - 1


def stem(offset: int) -> str:
    """The 20 digits that name a segment's files."""
    return f"{offset:020d}"


def base_of(name: str, suffix: str) -> int | None:
    """The offset in the name of a file of that kind; None for a name that no log gives (a stranger's)."""
    number = name.removesuffix(suffix)
    if len(name) - len(number) != len(suffix) or len(number) != _DIGITS or not (number.isascii() and number.isdigit()):
        return None
    return int(number) if int(number) <= _OFFSET_MAX else None


class Segment:
    """A segment of one log.

    Attributes:
        base: its first possible offset, and its name.
        size: bytes of whole batches.
        first_timestamp: max timestamp of the first batch (ms, -1: none), what `segment.ms` counts from.
        created_ms: time of day when it was opened (used where there is no timestamp).
        synced_size: bytes known to be on stable storage; -1 when the file was cut since (a cut must be synced, too:
            until then a power failure may bring back what was cut off).
        indexes_saved: whether the index files on disk are complete.
        doubted: whether an index was found wrong, or gone, where the segment is not.
        index_entries: entries of the offset index, once it is loaded: a cheap first look at `is_full_for`.
        index_used: whether anybody has asked for an index of late (see `IndexRoom`).
        knows_largest: whether `largest_timestamp` reads nothing any more.
        room: where the bytes of its indexes are counted; None before it is of a log.
    """

    __slots__ = (
        "_disk",
        "_file",
        "_offsets",
        "_times",
        "base",
        "bytes_since_index",
        "created_ms",
        "directory",
        "doubted",
        "first_timestamp",
        "index_entries",
        "index_used",
        "indexes_saved",
        "knows_largest",
        "max_timestamp",
        "max_timestamp_offset",
        "room",
        "size",
        "synced_size",
    )

    def __init__(self, disk: Disk, directory: str, base: int, created_ms: int) -> None:
        self._disk = disk
        self._file: File | None = None
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        self.room: IndexRoom | None = None
        self.knows_largest = True
        self.directory = directory
        self.base = base
        self.created_ms = created_ms
        self.size = 0
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.max_timestamp_offset = base
        self.bytes_since_index = 0
        self.synced_size = 0
        self.indexes_saved = False
        self.doubted = False
        self.index_entries = 0
        self.index_used = False

    @classmethod
    def create(cls, disk: Disk, directory: str, base: int, created_ms: int) -> Segment:
        """A new, empty segment.

        Raises:
            OSError: the file cannot be made.
        """
        segment = cls(disk, directory, base, created_ms)
        segment._file = disk.open(segment.path(LOG_SUFFIX), create=True)
        segment.reset_indexes()
        return segment

    @classmethod
    def existing(cls, disk: Disk, directory: str, base: int, created_ms: int) -> Segment:
        """A segment that lies on disk; its indexes are read when they are needed.

        Raises:
            OSError: the file cannot be opened.
        """
        segment = cls(disk, directory, base, created_ms)
        segment._file = disk.open(segment.path(LOG_SUFFIX))
        segment.size = segment.synced_size = segment._file.size
        segment.indexes_saved = True
        segment.knows_largest = False
        return segment

    def path(self, suffix: str) -> str:
        """Path of one of its files."""
        return f"{self.directory}/{self.base:020d}{suffix}"

    @property
    def file(self) -> File:
        """The log file."""
        assert self._file is not None
        return self._file

    @property
    def offsets(self) -> OffsetIndex:
        """The offset index.

        Raises:
            NotYet: it must be read first.
        """
        if self._offsets is None:
            self._offsets = OffsetIndex(self.base, self._load(INDEX_SUFFIX, OFFSET_ENTRY_SIZE))
            self.index_entries = len(self._offsets)
            self._came(len(self._offsets.data))
        self.index_used = True
        return self._offsets

    @property
    def times(self) -> TimeIndex:
        """The time index.

        Raises:
            NotYet: it must be read first.
        """
        if self._times is None:
            self._times = TimeIndex(self.base, self._load(TIME_INDEX_SUFFIX, TIME_ENTRY_SIZE))
            if not self.knows_largest:  # else the file has nothing to tell, and may have been damaged since
                self._learn_largest(self._times)
            self._came(len(self._times.data))
        self.index_used = True
        return self._times

    def _load(self, suffix: str, entry_size: int, *, last: bool = False) -> Buffer:
        """The whole entries of an index file, or the last one."""
        try:
            file = self._disk.open(self.path(suffix))
        except FileNotFoundError:
            self.doubted = True  # it is made anew before long, as one that is wrong
            raise
        try:
            size = file.size - file.size % entry_size
            return file.read(max(size - entry_size, 0) if last else 0, entry_size if last else size)
        finally:
            file.close()

    def _learn_largest(self, times: TimeIndex) -> None:
        self.knows_largest = True
        if times.last_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = times.last_timestamp, times.last_offset

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp in it (ms), -1 if there is none.

        It stands in the last entry of the time index, and a lookup may go through thousands of segments: the rest of
        the index is not read for it.

        Raises:
            NotYet: that entry must be read first.
        """
        if not self.knows_largest:
            self._learn_largest(TimeIndex(self.base, self._load(TIME_INDEX_SUFFIX, TIME_ENTRY_SIZE, last=True)))
        return self.max_timestamp

    def reset_indexes(self) -> None:
        """Begin both indexes anew (a new segment, or before a rebuild)."""
        self._offsets = OffsetIndex(self.base)
        self._times = TimeIndex(self.base)
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.max_timestamp_offset = self.base
        self.bytes_since_index = 0
        self.index_entries = 0
        self.indexes_saved = False
        self.doubted = False
        self.knows_largest = True

    def take_indexes(self, offsets: bytes, times: bytes) -> None:
        """Go on with indexes that were kept elsewhere: its files do not hold them."""
        self.reset_indexes()
        self._offsets = OffsetIndex(self.base, offsets)
        self._times = TimeIndex(self.base, times)
        self.index_entries = len(self._offsets)
        self.max_timestamp, self.max_timestamp_offset = self._times.last_timestamp, self._times.last_offset
        self._came(self.index_bytes)

    def enter(self, room: IndexRoom) -> None:
        """Have the bytes of the indexes counted, those that are there and those that come."""
        self.room = room
        room.came(self.index_bytes)

    def _came(self, size: int) -> None:
        if self.room is not None:
            self.room.came(size)

    @property
    def index_bytes(self) -> int:
        """What its indexes take in memory now (bytes)."""
        offsets, times = self._offsets, self._times
        return (0 if offsets is None else len(offsets.data)) + (0 if times is None else len(times.data))

    def let_indexes_go(self) -> None:
        """Forget indexes that are complete on disk; they are read again when they are needed.

        Never those of an active segment, nor within a step that uses them.
        """
        assert self.indexes_saved
        self._offsets = self._times = None

    def append(self, data: Buffer, size: int, last_offset: int, max_timestamp: int, index_interval: int) -> int:
        """Write one batch of `size` bytes. Returns its position.

        Raises:
            OSError: nothing was written.
        """
        position = self.size
        assert self._file is not None
        self._file.append((data,))
        self.size = position + size
        self.note(position, size, last_offset, max_timestamp, index_interval)
        return position

    def note(self, position: int, size: int, last_offset: int, max_timestamp: int, index_interval: int) -> None:
        """Bring indexes and timestamps up to date with the batch at `position`."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if not position:
            self.first_timestamp = max_timestamp
        if self.bytes_since_index > index_interval or self.bytes_since_index > INDEX_INTERVAL_MAX:
            room = self.room
            if room is None or not room.crowded or self.bytes_since_index > INDEX_INTERVAL_MAX:
                self.offsets.append(last_offset, position)
                self.index_entries += 1
                self.times.maybe_append(self.max_timestamp, self.max_timestamp_offset)
                self.indexes_saved = False
                self.bytes_since_index = 0
                if room is not None:
                    room.came(OFFSET_ENTRY_SIZE + TIME_ENTRY_SIZE)
        self.bytes_since_index += size

    def is_full_for(self, index_bytes: int) -> bool:
        """Whether an index has no room for another entry (the time index keeps one slot for the closing entry)."""
        return len(self.offsets) >= index_bytes // 8 or len(self.times) >= index_bytes // 12 - 1

    def close_times(self) -> None:
        """Add the closing entry of the time index: the largest timestamp must not be lost with this object."""
        if self.max_timestamp > self.times.last_timestamp:
            self.times.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            self.indexes_saved = False

    def index_files(self) -> list[tuple[str, bytes]]:
        """Path and content of both index files."""
        return [
            (self.path(INDEX_SUFFIX), bytes(self.offsets.data)),
            (self.path(TIME_INDEX_SUFFIX), bytes(self.times.data)),
        ]

    def truncate(self, position: int, offset: int) -> None:
        """Keep the first `position` bytes, which hold what lies below `offset`. Both indexes must be loaded.

        Raises:
            OSError: the file could not be cut.
        """
        self.file.truncate(position)
        self.size = position
        self.synced_size = -1
        self.offsets.truncate(offset)
        self.times.truncate(offset)
        self.max_timestamp, self.max_timestamp_offset = self.times.last_timestamp, self.times.last_offset
        self.indexes_saved = False
        if not position:
            self.first_timestamp = -1
            self.bytes_since_index = 0

    def adopt(self, file: File) -> None:
        """Take `file` as the log file: one that compaction writes, before it carries this segment's name."""
        self._file = file
        self.reset_indexes()

    def like(self) -> Segment:
        """The same file, to make its indexes anew while these are in use."""
        other = Segment(self._disk, self.directory, self.base, self.created_ms)
        other._file, other.size, other.room = self._file, self.size, self.room
        return other

    def close(self) -> None:
        """Release the file handle."""
        if self._file is not None:
            self._file.close()


def close_all(segments: list[Segment]) -> None:
    """Release the file handles of segments."""
    for segment in segments:
        segment.close()
