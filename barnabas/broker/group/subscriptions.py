"""What the members of a group consume, as far as the coordinator can know: only of the protocol type `consumer`.

The metadata of such a member is a `ConsumerProtocolSubscription`, which begins the same in every version: the version
(16 bits), how many topics (32 bits), their names (16 bits of length, UTF-8). One field may hold millions of names, and
all are read when a generation begins: above `NAMES_MAX` it is as if they could not be read. Kafka has no such bound.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Iterator
from typing import Final

from barnabas.broker.group.group import CONSUMER, Group
from barnabas.broker.group.holdings import NAME_BYTES, Holdings, size_of_text

NAMES_MAX: Final = 30_000
"""Of a group, those once that members name in the same words: 9 ms."""

_COUNT: Final = struct.Struct(">hi")
_LENGTH: Final = struct.Struct(">h")

logger = logging.getLogger(__name__)


def note_topics(group: Group, holdings: Holdings) -> None:
    """Have a group know what its members consume, and count what that takes, and its protocol type.

    Groups can do without: where these names leave no half of the room for what groups cannot, they are not known.
    """
    group.topics, size = topics_with_size(group, holdings)
    _count(group, size, holdings)


def note_type(group: Group, protocol_type: str, holdings: Holdings) -> None:
    """The first member of a group says of which type it is; it consumes nothing yet."""
    group.protocol_type = protocol_type
    _count(group, size_of_text(protocol_type), holdings)


def _count(group: Group, size: int, holdings: Holdings) -> None:
    if size != group.said_bytes:
        holdings.take(group.address, size - group.said_bytes)
        group.said_bytes = size


def topics_with_size(group: Group, holdings: Holdings) -> tuple[frozenset[str] | None, int]:
    """What the members of a group consume, and the bytes that this and its protocol type take."""
    kind = size_of_text(group.protocol_type or "")
    topics = consumed_topics(group)
    if not topics:
        return topics, kind
    size = NAME_BYTES * len(topics) + size_of_text("".join(topics)) + kind
    growth = size - group.said_bytes
    if growth > 0 and not holdings.leaves_half(group.address, growth):
        logger.warning(
            "group %s: there is no room for the names of the %d topics that it consumes", group.group_id, len(topics)
        )
        return None, kind
    return topics, size


def consumed_topics(group: Group) -> frozenset[str] | None:
    """All topics of all members; None where that cannot be known."""
    if group.protocol_type != CONSUMER:
        return None
    different = {one.metadata(group.protocol) for one in group.members.values()}
    try:
        count = names_in(different)
        if count > NAMES_MAX:
            raise ValueError(f"{count} names, {NAMES_MAX} are looked at")
        return frozenset(topic for one in different for topic in _topics(one))
    except (struct.error, UnicodeDecodeError, ValueError) as fault:
        logger.warning("group %s: what its members consume cannot be read (%s)", group.group_id, fault)
        return None


def names_in(different: Iterable[bytes]) -> int:
    """How many names subscriptions say that they have.

    Raises:
        struct.error: one of them is none.
    """
    return sum(max(_COUNT.unpack_from(one)[1], 0) for one in different)


def _topics(metadata: bytes) -> Iterator[str]:
    _, count = _COUNT.unpack_from(metadata)
    at = _COUNT.size
    if not 0 <= count * _LENGTH.size <= len(metadata):
        raise ValueError(f"{count} topics in {len(metadata)} bytes")
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(metadata, at)
        at += _LENGTH.size
        if not 0 <= length <= len(metadata) - at:
            raise ValueError(f"a name of {length} bytes, {len(metadata) - at} are left")
        yield metadata[at : at + length].decode()
        at += length
