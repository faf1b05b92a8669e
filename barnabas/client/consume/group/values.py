"""What a group stores of a consumer, and as whom: plain values, for who commits and who asks."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import Any, NamedTuple

from barnabas.client.arguments import checked_partition, shown
from barnabas.net.errors import ConfigError
from barnabas.protocol.ids import TopicPartition


class OffsetAndMetadata(NamedTuple):
    """A committed offset: that of the next record to read. `metadata` is the application's own."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


Offsets = dict[TopicPartition, OffsetAndMetadata]


class Identity(NamedTuple):
    """As whom a commit is made; without a generation by nobody in particular, as by `assign` or an admin client."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


def checked_offsets(offsets: Any, call: str) -> Offsets:
    """Offsets as people give them: by partition, an offset alone or with metadata.

    Raises:
        ConfigError: something in it is neither, or an offset is negative.
    """
    if not isinstance(offsets, Mapping):
        raise ConfigError(f"{call}: {shown(offsets)} is no mapping; give offsets by partition")
    return {checked_partition(where, call): _checked(where, given, call) for where, given in offsets.items()}


def _checked(where: Any, given: Any, call: str) -> OffsetAndMetadata:
    each: OffsetAndMetadata = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)
    try:
        offset = index(each.offset)
    except TypeError:
        raise ConfigError(f"{call}: {shown(each.offset)} of {where} is no offset; give a whole number") from None
    if offset < 0:
        raise ConfigError(f"{call}: the offset {offset} of {where} is negative")
    if not isinstance(each.metadata, str):
        raise ConfigError(f"{call}: the metadata {shown(each.metadata)} of {where} is no string")
    return each._replace(offset=offset)
