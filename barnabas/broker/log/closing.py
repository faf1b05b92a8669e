"""What a clean stop had no time to write file by file: one file for many logs (`barnabas-closing-files`).

A log that took records since its last flush of everything leaves up to four small files behind at a stop: both indexes
of its active segment, a producer snapshot, its leader epochs. Each costs a sync of its own, 1.4 ms for the four; with
thousands of logs that is more than a stop may take. So only the first logs get their files; those of the others go
into this one, whole and under one sum, which the clean shutdown marker follows. The next start takes them from here.
The marker says which file of this kind belongs to it, or that none does: without the one that it names the end was not
clean, for nobody would know what the producers sent last.

    version i16 = 1 | crc-32c u32 of what follows | msgpack {directory: [base, size, {file name: content}]}

`base` and `size` are those of the active segment: where they are no longer what is there, another program wrote the
log meanwhile, and the log is checked like after any other end. The file is used once, after a clean stop, and removed
by the start that reads it. Without it nothing is lost: recovery points never pass what the files of a log say
(`SmallFiles.recovery_point_to_save`), so a start that checks the logs learns all of it from the batches.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgpack

from barnabas.broker.log.checkpoint import CLEAN_SHUTDOWN_FILE
from barnabas.broker.ports import Disk
from barnabas.protocol.primitives import crc32c

CLOSING_FILE: Final = "barnabas-closing-files"
_HEAD = struct.Struct(">hI")
_VERSION: Final = 1
_NONE: Final = "none"


class ClosingFiles(NamedTuple):
    """The files of one log: base and size (bytes) of its active segment, and contents by file name."""

    base: int
    size: int
    contents: Mapping[str, bytes]


def pack(closing: Mapping[str, ClosingFiles]) -> bytes:
    """The file, from the files of logs by their directories."""
    body: bytes = msgpack.packb(closing)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def mark(packed: bytes | None, broker_epoch: int = -1) -> bytes:
    """The clean shutdown marker: Kafka's fields (CleanShutdownFileHandler), and the sum of what goes with it."""
    return b'{"version":0,"brokerEpoch":%d,"closingFiles":"%s"}' % (broker_epoch, _sum(packed).encode())


def epoch_of_mark(data: bytes) -> int:
    """The broker epoch that a marker names; -1 if it names none.

    Raises:
        ValueError: it is no marker.
    """
    import json

    marker = json.loads(data)
    epoch = marker.get("brokerEpoch") if isinstance(marker, dict) else None
    return epoch if isinstance(epoch, int) else -1


def _sum(packed: bytes | None) -> str:
    return _NONE if packed is None else f"{crc32c(packed):08x}"


def load_closing(disk: Disk) -> dict[str, ClosingFiles]:
    """The files of a data directory; none when the stop wrote all of them where they belong.

    A marker that says nothing of them, as Kafka's and those of earlier builds, goes with whatever is there.

    Raises:
        ValueError: they cannot be read, or are not those that the clean shutdown marker names.
        OSError: the disk failed.
    """
    import json  # 2 ms, for those starts alone that follow a clean stop

    marker = json.loads(disk.load(CLEAN_SHUTDOWN_FILE))
    packed = disk.load(CLOSING_FILE) if disk.exists(CLOSING_FILE) else None
    named = marker.get("closingFiles") if isinstance(marker, dict) else _NONE
    if named is not None and named != _sum(packed):
        found = f"is another ({_sum(packed)})" if packed is not None else "is not there"
        raise ValueError(f"{CLOSING_FILE} {found}, {CLEAN_SHUTDOWN_FILE} names {named}")
    return {} if packed is None else unpack(packed)


def unpack(data: bytes) -> dict[str, ClosingFiles]:
    """The files of logs by their directories.

    Raises:
        ValueError: another version, or not what was written.
    """
    if len(data) < _HEAD.size:
        raise ValueError("the closing files are cut short")
    version, crc = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise ValueError(f"version {version} of closing files is not {_VERSION}")
    body = memoryview(data)[_HEAD.size :]
    if crc != crc32c(body):
        raise ValueError("the closing files are corrupt")
    return {directory: ClosingFiles(*fields) for directory, fields in msgpack.unpackb(body).items()}
