"""Kafka's small text files: offset checkpoints, leader epochs, partition metadata, the clean shutdown marker.

A file is a version line, a count line, and that many entry lines. One that cannot be read or does not parse is treated
as missing by those who can do without it: nearly all of them can be rebuilt or only cost time.

Offsets are of a topic id, not of a name: a topic that is deleted and made anew has nothing to do with what was noted of
its predecessor. So each line has the id behind the three fields that Kafka has, and the version is 1. Lines of Kafka's
version 0, which earlier builds wrote too, name no topic id: they count for whatever log has that name.

Kafka's files have no sum. One wrong digit of a log start would hide records for good, one of a topic id would set a log
aside, one of a leader epoch would have followers cut what they should keep: version 1 ends with a line `sum` of the
CRC-32C of all before it, and so does `partition.metadata`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from barnabas.broker.jobs import Job
from barnabas.broker.ports import Disk
from barnabas.protocol.ids import ZERO_UUID, TopicPartition, format_uuid, parse_uuid
from barnabas.protocol.primitives import crc32c

logger = logging.getLogger(__name__)

RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
LOG_START_FILE: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
CLEANER_FILE: Final = "cleaner-offset-checkpoint"
OFFSET_FILES: Final = (RECOVERY_POINT_FILE, LOG_START_FILE, HIGH_WATERMARK_FILE, CLEANER_FILE)
LEADER_EPOCH_FILE: Final = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
_WITHOUT: Final = {
    RECOVERY_POINT_FILE: "after a sudden end, logs are checked from their beginning",
    LOG_START_FILE: "records that DeleteRecords removed may be readable until they are deleted again",
    HIGH_WATERMARK_FILE: "high watermarks rise anew, and a log that lost its end is not told from one that did not",
    CLEANER_FILE: "compaction goes over all of its logs again",
}
"""What is lost with each of the offset checkpoints."""
_ID_HEAD: Final = b"version: 0\ntopic_id: "
_ID_SIZE: Final = len(_ID_HEAD) + 22
_LINES_PER_STEP: Final = 1000


class Point(NamedTuple):
    """An offset that was noted down of a log, and the log's topic id (zeros: it is not known)."""

    offset: int
    topic_id: bytes = ZERO_UUID


Points = dict[TopicPartition, Point]


def noted(points: Points, partition: TopicPartition, topic_id: bytes, otherwise: int) -> int:
    """What was noted of the log of that topic id; `otherwise` if nothing was."""
    point = points.get(partition)
    return point.offset if point is not None and point.topic_id in (topic_id, ZERO_UUID) else otherwise


def _format(version: str, lines: list[str]) -> bytes:
    return "\n".join([version, str(len(lines)), *lines, ""]).encode()


def _entries(data: bytes, *versions: str) -> list[str]:
    """The entry lines.

    Raises:
        ValueError: wrong version, or not as many entries as the count says.
    """
    lines = data.decode().split("\n")
    if lines[0].strip() not in versions:
        raise ValueError(f"version {lines[0]!r} of a checkpoint is not {' or '.join(versions)}")
    entries = list(filter(str.strip, lines[2:]))
    if len(entries) != int(lines[1]):
        raise ValueError(f"a checkpoint of {lines[1]} entries holds {len(entries)}")
    return entries


def with_sum(data: bytes) -> bytes:
    """A file of version 1: its lines, and the sum of them."""
    return data + b"sum %08x\n" % crc32c(data)


def _without_sum(data: bytes) -> bytes:
    """The lines of a file of version 1; any other file as it is.

    Raises:
        ValueError: the sum is wrong, or not there.
    """
    if data[:2] != b"1\n":
        return data
    body = data[: data.rfind(b"sum ")]
    if with_sum(body) != data:
        raise ValueError("its sum is wrong")
    return body


def format_offsets(points: Mapping[TopicPartition, Point]) -> Job[bytes]:
    """Lines `topic partition offset id` (Kafka's OffsetCheckpointFile, and the topic id), and their sum."""
    ids: dict[bytes, str] = {}
    lines = []
    for count, (key, (offset, topic_id)) in enumerate(points.items(), 1):
        told = ids.get(topic_id) or ids.setdefault(topic_id, format_uuid(topic_id))
        lines.append(f"{key.topic} {key.partition} {offset} {told}")
        if count % _LINES_PER_STEP == 0:
            yield None
    return with_sum(_format("1", lines))


def load_offsets(disk: Disk, path: str, *, expected: bool = False) -> Job[Points]:
    """A checkpoint's offsets by partition; none when the file is missing, or cannot be made out.

    The latter is said, and so is the former where the file is `expected`: a clean stop writes all of them.
    """
    points: Points = {}
    try:
        for count, (partition, point) in enumerate(parse_offsets(disk.load(path)), 1):
            points[partition] = point
            if count % _LINES_PER_STEP == 0:
                yield None
    except FileNotFoundError:
        if expected:
            logger.warning("%s is gone, which the last stop wrote; %s", path, _WITHOUT[path])
        return {}
    except (OSError, ValueError, IndexError) as error:
        logger.warning("%s is not used: %s; %s", path, error, _WITHOUT[path])
        return {}
    return points


def parse_offsets(data: bytes) -> Iterator[tuple[TopicPartition, Point]]:
    """What an offset checkpoint says of each partition, in file order.

    Raises:
        ValueError: the file is malformed, or its sum is wrong.
        IndexError: the same.
    """
    for line in _entries(_without_sum(data), "0", "1"):
        topic, partition, offset, *topic_id = line.split()
        point = Point(int(offset), *map(parse_uuid, topic_id[:1]))
        if point.offset < 0:
            raise ValueError(f"offset {offset} of a checkpoint is below 0")
        yield TopicPartition(topic, int(partition)), point


def format_epochs(epochs: list[tuple[int, int]]) -> bytes:
    """Lines `epoch start_offset` (Kafka's LeaderEpochCheckpointFile), and their sum."""
    return with_sum(_format("1", [f"{epoch} {start}" for epoch, start in epochs]))


def parse_epochs(data: bytes) -> list[tuple[int, int]]:
    """Pairs (epoch, start offset) in file order.

    Raises:
        ValueError: the file is malformed, or its sum is wrong.
    """
    return [(int(epoch), int(start)) for epoch, start in map(str.split, _entries(_without_sum(data), "0", "1"))]


def format_partition_metadata(topic_id: bytes) -> bytes:
    """`partition.metadata` version 0, and its sum."""
    body = _ID_HEAD + format_uuid(topic_id).encode()
    return body + _sum_line(body)


def _sum_line(body: bytes) -> bytes:
    return b"\nsum: %08x\n" % crc32c(body)


def parse_partition_metadata(data: bytes) -> bytes:
    """The topic id of a `partition.metadata` file; zeros where a power failure took the end of the file.

    A file without a sum, as Kafka and earlier builds write it, or with the beginning of one, is believed.

    Raises:
        ValueError: the file is damaged, or of a newer version.
    """
    data = data.rstrip(b"\0")
    if _ID_HEAD.startswith(data) or (data.startswith(_ID_HEAD) and len(data) < _ID_SIZE):
        return ZERO_UUID
    body = data[:_ID_SIZE]
    if not body.startswith(_ID_HEAD):
        raise ValueError("partition.metadata is not of version 0, or names no topic id")
    if not _sum_line(body).startswith(data[_ID_SIZE:]):
        raise ValueError(
            "the sum of partition.metadata is wrong; remove that file if the topic of this name owns the log"
        )
    return parse_uuid(body[len(_ID_HEAD) :].decode())


class DamagedId(OSError):
    """A log does not say any more which topic's it is, for the file that did is damaged."""


def load_topic_id(disk: Disk, directory: str) -> bytes:
    """The topic id that a log's directory names; zeros if it names none.

    Raises:
        DamagedId: the file holds something else.
        OSError: it cannot be read.
    """
    try:
        return parse_partition_metadata(disk.load(f"{directory}/{PARTITION_METADATA_FILE}"))
    except FileNotFoundError:
        return ZERO_UUID
    except ValueError as error:
        raise DamagedId(f"{directory}: {error}") from error


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition a log directory belongs to: None for names that are no log (`-delete` and the like)."""
    topic, _, number = name.rpartition("-")
    if not topic or not number.isascii() or not number.isdigit() or str(int(number)) != number:
        return None  # `t-00` is nobody's: partition 0 of t lies in `t-0`
    return TopicPartition(topic, int(number))
