"""Under which leaders the offsets of a checkpoint were told: by them a log is known that was cut and has grown anew.

A leader never cuts its log. What a power failure or an unclean election takes is taken between two leaders, whose
epochs differ, and a leader tells where an earlier epoch ended in its log (KIP-101). So a batch writes down the epoch in
which the ends of the logs were told, and what lies below its end is of that epoch or an earlier one:

    read up to 10 in epoch 3       the leader has epoch 3                     all is there
    read up to 10 in epoch 3       it has 5, and epoch 3 ended at 10, or 14   all is there
    read up to 10 in epoch 3       it has 5, and epoch 3 ended at 7           cut at 7: what is there from 7 on is new

In the checkpoint it stands as a topic without partitions, as what else `offsets.py` writes there: a key for each topic,
runs of partitions with their epoch, `"$epochs/flights/0-2:3,3:4": {}`. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from barnabas.protocol.ids import TopicPartition

_EPOCHS: Final = "$epochs/"
_RUN: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?:(\d{1,9})")
PARTITIONS_MAX: Final = 1 << 20
"""So many a run names at most: what is read may be damaged."""

Epochs = dict[TopicPartition, int]


def epoch_keys(epochs: Mapping[TopicPartition, int]) -> Iterator[str]:
    """The keys, in order of the topics; epochs that are not known (-1) are left out."""
    runs: dict[str, list[list[int]]] = {}
    for where in sorted(epochs):
        epoch, (topic, partition) = epochs[where], where
        if epoch < 0:
            continue
        of_topic = runs.setdefault(topic, [])
        if of_topic and of_topic[-1][1:] == [partition - 1, epoch]:
            of_topic[-1][1] = partition
        else:
            of_topic.append([partition, partition, epoch])
    for topic, of_topic in runs.items():
        parts = (f"{first}:{epoch}" if first == last else f"{first}-{last}:{epoch}" for first, last, epoch in of_topic)
        yield f"{_EPOCHS}{topic}/{','.join(parts)}"


def stored_epochs(stored: Mapping[str, Any]) -> Epochs:
    """The epochs of a stored form; nothing is known of one that Spark's own source wrote, or of damaged keys."""
    found: Epochs = {}
    for key in stored:
        if not key.startswith(_EPOCHS):
            continue
        topic, _, runs = key.removeprefix(_EPOCHS).partition("/")
        for run in runs.split(","):
            match = _RUN.fullmatch(run)
            if match:
                partitions = range(int(match[1]), int(match[2] or match[1]) + 1)[:PARTITIONS_MAX]
                found |= {TopicPartition(topic, partition): int(match[3]) for partition in partitions}
    return found


def newer(was: Mapping[TopicPartition, int], now: Mapping[TopicPartition, int]) -> Epochs:
    """The epochs of those partitions whose leaders changed since: what was read there is to be looked for."""
    return {where: epoch for where, epoch in was.items() if now.get(where, epoch) > epoch}
