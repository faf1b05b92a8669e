"""What the members of a group consume, as far as the coordinator can know: only of the protocol type `consumer`.

The metadata of such a member is a `ConsumerProtocolSubscription`, which begins the same in every version: the version
(16 bits), how many topics (32 bits), their names (16 bits of length, UTF-8).
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from typing import Final

from barnabas.broker.group.group import CONSUMER, Group

_COUNT: Final = struct.Struct(">hi")
_LENGTH: Final = struct.Struct(">h")

logger = logging.getLogger(__name__)


def consumed_topics(group: Group) -> frozenset[str] | None:
    """All topics of all members; None where that cannot be known."""
    if group.protocol_type != CONSUMER:
        return None
    try:
        return frozenset(topic for one in group.members.values() for topic in _topics(one.metadata(group.protocol)))
    except (struct.error, UnicodeDecodeError, ValueError) as fault:
        logger.warning("group %s: what its members consume cannot be read (%s)", group.group_id, fault)
        return None


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
