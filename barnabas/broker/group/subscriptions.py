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

NAMES_MAX: Final = 30_000
"""Of a group, those once that members name in the same words: 9 ms."""

_COUNT: Final = struct.Struct(">hi")
_LENGTH: Final = struct.Struct(">h")

logger = logging.getLogger(__name__)


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
