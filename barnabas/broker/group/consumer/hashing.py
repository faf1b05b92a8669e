"""What the topics of a group look like, as one number: where it has changed, the group is assigned anew (KIP-1101).

It is Apache Kafka's number, so that either takes over the other's log without a rebalance.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from xxhash import xxh3_64_intdigest

from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.consumer.topics import Topics
from barnabas.broker.jobs import Job

HASHES_PER_STEP: Final = 200
"""Topics whose hashes one step computes: 1 ms, of a hundred partitions each."""


def group_hash(topics: Topics, names: Iterable[str]) -> int:
    """The hash of all topics that are there, signed 64 bits; 0 for none. Source: `Utils.computeGroupHash`."""
    found = [topics.hash_of(name) for name in sorted(names) if topics.get(name) is not None]
    return xxh3_64(b"".join(one.to_bytes(8, "little", signed=True) for one in found)) if found else 0


def hash_topics(topics: Topics, names: Sequence[str]) -> Job[None]:
    """Compute the hashes of topics in bounded steps, so that those of groups come from them at once."""
    for start in range(0, len(names), HASHES_PER_STEP):
        for name in names[start : start + HASHES_PER_STEP]:
            if topics.get(name) is not None:
                topics.hash_of(name)
        if start + HASHES_PER_STEP < len(names):
            yield None


def topic_hash(name: str, topic_id: bytes, partitions: int) -> int:
    """The hash of one topic whose partitions have no racks, signed 64 bits. Source: `Utils.computeTopicHash`."""
    units = name.encode("utf-16-le", "surrogatepass")
    return xxh3_64(
        b"\0"
        + topic_id[7::-1]
        + topic_id[:7:-1]
        + units
        + (len(units) // 2).to_bytes(4, "little")
        + partitions.to_bytes(4, "little")
        + b"".join(number.to_bytes(4, "little") for number in range(partitions))
    )


def hash_after(group: ConsumerGroup, topics: Topics, names: frozenset[str] | None) -> int:
    """The hash once a group wants these topics (None: as before); that of before where the metadata are so, too."""
    if names is None and group.checked == topics.version:
        return group.metadata_hash
    return group_hash(topics, group.names if names is None else names)


def xxh3_64(data: bytes) -> int:
    """XXH3 without seed, as a signed number of 64 bits."""
    value: int = xxh3_64_intdigest(data)
    return value - (1 << 64) if value >> 63 else value
