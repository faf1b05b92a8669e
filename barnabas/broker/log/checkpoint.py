"""Kafka's small text files: offset checkpoints, leader epochs, partition metadata, the clean shutdown marker.

A checkpoint is a version line (0), a count line, and that many entry lines. A file that does not parse is treated as
missing by those who can do without it: all of them can be rebuilt or only cost time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.broker.jobs import Job
from barnabas.broker.ports import Disk
from barnabas.protocol.ids import ZERO_UUID, TopicPartition, format_uuid, parse_uuid

RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
LOG_START_FILE: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
CLEANER_FILE: Final = "cleaner-offset-checkpoint"
LEADER_EPOCH_FILE: Final = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
CLEAN_SHUTDOWN_MARK: Final = b'{"version":0,"brokerEpoch":-1}'
_ID_HEAD: Final = b"version: 0\ntopic_id: "
_ID_SIZE: Final = len(_ID_HEAD) + 22
_LINES_PER_STEP: Final = 1000


def _format(lines: list[str]) -> bytes:
    return "\n".join(["0", str(len(lines)), *lines, ""]).encode()


def _entries(data: bytes) -> list[str]:
    """The entry lines.

    Raises:
        ValueError: wrong version, or not as many entries as the count says.
    """
    lines = data.decode().split("\n")
    if lines[0].strip() != "0":
        raise ValueError(f"version {lines[0]!r} of a checkpoint is not 0")
    entries = list(filter(str.strip, lines[2:]))
    if len(entries) != int(lines[1]):
        raise ValueError(f"a checkpoint of {lines[1]} entries holds {len(entries)}")
    return entries


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Lines `topic partition offset` (Kafka's OffsetCheckpointFile)."""
    return _format([f"{partition.topic} {partition.partition} {offset}" for partition, offset in offsets.items()])


def load_offsets(disk: Disk, path: str) -> Job[dict[TopicPartition, int]]:
    """A checkpoint's offsets by partition; none when the file is missing or malformed."""
    offsets: dict[TopicPartition, int] = {}
    try:
        for count, line in enumerate(_entries(disk.load(path)), 1):
            topic, partition, offset = line.split()
            offsets[TopicPartition(topic, int(partition))] = int(offset)
            if count % _LINES_PER_STEP == 0:
                yield None
    except (FileNotFoundError, ValueError, IndexError):
        return {}
    return offsets


def format_epochs(epochs: list[tuple[int, int]]) -> bytes:
    """Lines `epoch start_offset` (Kafka's LeaderEpochCheckpointFile)."""
    return _format([f"{epoch} {start}" for epoch, start in epochs])


def parse_epochs(data: bytes) -> list[tuple[int, int]]:
    """Pairs (epoch, start offset) in file order.

    Raises:
        ValueError: the file is malformed.
    """
    return [(int(epoch), int(start)) for epoch, start in map(str.split, _entries(data))]


def format_partition_metadata(topic_id: bytes) -> bytes:
    """`partition.metadata` version 0."""
    return f"version: 0\ntopic_id: {format_uuid(topic_id)}".encode()


def parse_partition_metadata(data: bytes) -> bytes:
    """The topic id of a `partition.metadata` file; zeros where a power failure took the end of the file.

    Raises:
        ValueError: the file is malformed or of a newer version.
    """
    if not data.strip(b"\0") or (data.startswith(_ID_HEAD) and len(data) < _ID_SIZE) or _ID_HEAD.startswith(data):
        return ZERO_UUID
    fields = dict(line.split(": ", 1) for line in data.decode().splitlines() if line.strip())
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise ValueError("partition.metadata is not of version 0, or names no topic id")
    return parse_uuid(fields["topic_id"].strip())


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition a log directory belongs to: None for names that are no log (`-delete` and the like)."""
    topic, _, number = name.rpartition("-")
    if not topic or not number.isascii() or not number.isdigit() or str(int(number)) != number:
        return None  # `t-00` is nobody's: partition 0 of t lies in `t-0`
    return TopicPartition(topic, int(number))
