"""Names of directories that are set aside: bounded in bytes, and none is ever given twice.

    orders-0.5f1c...-delete     a deleted log, whose files go after `file.delete.delay.ms`
    orders-0.5f1c...-stray      a log of no topic of this cluster: its bytes stay

A name holds partition and topic id in full; the topic's own name is cut where the whole would be longer than file
systems allow (Kafka's `LocalLog.logDirNameWithSuffixCappedLength`, which bounds those of deleted topics alone).
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.ports import Disk
from barnabas.protocol.ids import TopicPartition

NAME_BYTES_MAX: Final = 255
DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"


def free_name(disk: Disk, partition: TopicPartition, topic_id: bytes, suffix: str) -> str:
    """The name for a log's directory that is set aside, and is not taken.

    It is taken only where a directory of that partition and id was set aside before and has come back since, or where
    the id is not known.
    """
    number = 0
    while True:
        again = f".{number}" if number else ""
        tail = f"-{partition.partition}.{topic_id.hex()}{again}{suffix}"
        head = partition.topic.encode("utf-8", "surrogateescape")[: NAME_BYTES_MAX - len(tail)]
        name = head.decode("utf-8", "ignore") + tail
        if not disk.exists(name):
            return name
        number += 1
