"""What a start makes of the metadata log and its snapshot: all is well, a torn tail to cut, or a refusal.

A torn tail was never announced: an operation is answered after its sync. Anything else that is broken or missing was,
and going on without it would set the logs of topics aside as if nobody had made them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, NoReturn

from barnabas.broker.cluster.ledger import Ledger
from barnabas.broker.cluster.records import MetadataRecord, decode
from barnabas.broker.config.topics import METADATA_TOPIC
from barnabas.broker.log.check import Checked, segment_bases
from barnabas.broker.log.segment import DELETED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from barnabas.broker.ports import Disk
from barnabas.protocol.batch import batches, crc_ok
from barnabas.protocol.errors import BarnabasError, ProtocolError
from barnabas.protocol.records import decode_records

DIRECTORY: Final = f"{METADATA_TOPIC}-0"
SUFFIX: Final = ".checkpoint"
TEMPORARY_SUFFIX: Final = ".tmp"
"""What `Disk.write_atomic` puts behind a name until the file is whole."""
_REMEDY: Final = (
    "restore the data directory from a copy, or let `barnabas log repair` go on without them (logs of topics that are "
    "lost stay, as -stray directories)"
)


class MetadataUnreadable(BarnabasError):
    """The metadata is not all there: serving without it would lose topics. Says where, what, and what can be done."""


class Snapshot(NamedTuple):
    """A snapshot's file name, and what it says: offset after the last record it holds, and leader epoch."""

    name: str
    end: int
    epoch: int


def snapshots(disk: Disk) -> list[Snapshot]:
    """All snapshots, oldest first."""
    names = disk.list(DIRECTORY) if disk.exists(DIRECTORY) else []
    found = []
    for name in names:
        end, dash, epoch = name[: -len(SUFFIX)].partition("-")
        if name.endswith(SUFFIX) and dash and name.isascii() and end.isdigit() and epoch.isdigit():
            found.append(Snapshot(name, int(end), int(epoch)))
    return found


def newest_snapshot(disk: Disk) -> Snapshot | None:
    """The newest snapshot, None if there is none."""
    found = snapshots(disk)
    return found[-1] if found else None


def unfinished_snapshots(disk: Disk) -> list[str]:
    """Paths of what was being written of a snapshot when the broker was killed, which nothing reads."""
    names = disk.list(DIRECTORY) if disk.exists(DIRECTORY) else []
    return [f"{DIRECTORY}/{name}" for name in names if name.endswith(SUFFIX + TEMPORARY_SUFFIX)]


def indexes_alone(disk: Disk) -> list[int]:
    """Base offsets of which an index is here and no log file, rising: an index comes when its segment is sealed."""
    names = disk.list(DIRECTORY)
    indexed = {name.partition(".")[0] for name in names if name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX))}
    gone = {base for base in indexed if base.isdigit() and base + LOG_SUFFIX not in names}
    return sorted(int(base) for base in gone if base + LOG_SUFFIX + DELETED_SUFFIX not in names)


def lost_segments(disk: Disk) -> list[int]:
    """Those behind the end of the log: what is gone before it is a gap, which `check_log` finds."""
    last = max(segment_bases(disk, DIRECTORY), default=-1)
    return [base for base in indexes_alone(disk) if base > last]


def judge(found: Checked, snapshot: Snapshot | None, ledger: Ledger, *, in_use: bool, gone: Sequence[int] = ()) -> None:
    """Pass if the log is whole, or whole up to a torn tail; `gone` as `lost_segments` has them.

    Raises:
        MetadataUnreadable: it is not.
    """
    start = 0 if snapshot is None else snapshot.end
    end = found.end_offset if found.segments else start
    announced = max(ledger.metadata_end, start)
    broken = found.broken
    if broken is not None and not (broken.torn and broken.offset >= announced):
        lost = _records(broken.offset, max(broken.known_end, announced, broken.offset + 1))
        where = f"{broken.path} is broken at byte {broken.position} (record {broken.offset}): {broken.reason}"
        _refuse(f"{where}; {lost}{'' if broken.known_end > 0 else ' and what followed'} cannot be read")
    if found.segments and found.segments[0].base > start:
        first = found.segments[0]
        where = f"{first.path} is the first file of the metadata"
        _refuse(f"{where}, and {_records(start, first.base)} before it cannot be found")
    if end < announced:
        what = "is empty" if found.segments else "is missing"
        where = f"{DIRECTORY} ends with record {end - 1}" if end else f"the metadata log {DIRECTORY} {what}"
        _refuse(f"{where}, and more was announced: {_records(end, announced)} cannot be found")
    if gone:
        where = f"{DIRECTORY}/{gone[0]:020d}{LOG_SUFFIX} is gone, and its index is here"
        _refuse(f"{where}: record {end} and what followed cannot be found")
    if not end and not ledger.present and in_use:
        what = "is empty" if found.segments else "is missing"
        _refuse(
            f"the metadata log {DIRECTORY} {what} in a data directory that was in use: all its records are lost, or "
            "other nodes are this broker's controllers and have them: name those in controller.quorum.voters"
        )


def _records(first: int, end: int) -> str:
    return f"record {first}" if end == first + 1 else f"records {first} to {end - 1}"


def _refuse(what: str) -> NoReturn:
    raise MetadataUnreadable(f"{what}; {_REMEDY}")


def snapshot_records(data: bytes, snapshot: Snapshot, *, log_holds_all: bool) -> Iterator[list[MetadataRecord]]:
    """The records of a snapshot, slice by slice. `log_holds_all`: the log begins with record 0.

    Raises:
        MetadataUnreadable: it is broken.
    """
    end = 0
    with suppress(ProtocolError):  # a length that no batch can have
        for position, size in batches(data):
            if not crc_ok(data, position, size):
                break
            yield [decode(record.value or b"") for record in decode_records(data, position)]
            end = position + size
    if end == len(data) and end:
        return
    where = f"{DIRECTORY}/{snapshot.name} is broken at byte {end}"
    if log_holds_all:
        raise MetadataUnreadable(
            f"{where}, and nothing is lost, for the log still holds all records; move this file out of the data "
            "directory, and start again"
        )
    _refuse(f"{where}: what it says of the records below {snapshot.end} cannot be read")
