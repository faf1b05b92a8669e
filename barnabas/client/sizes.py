"""How large a partition's batches are, by their headers: one small fetch to each leader, no session.

The first partition of a leader with records sends its first batch whole, however large, as with any fetch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.client.consume.batches import one_buffer
from barnabas.client.consume.fetch_session import FetchSession, Wanted
from barnabas.net.host.connection import Client
from barnabas.protocol import batch as wire
from barnabas.protocol.errors import BarnabasError, ProtocolError
from barnabas.protocol.ids import ZERO_UUID, Buffer, TopicPartition
from barnabas.protocol.requests.fetch import FetchRequest

if TYPE_CHECKING:
    from barnabas.protocol.requests.fetch import FetchResponse


ANSWER_MS: Final = 1000
"""Sizes are an estimate for whoever asks: a leader that is slow is left out."""


class BatchSize(NamedTuple):
    """A batch in a log: the offset behind it, and its bytes there, compressed if it is."""

    next_offset: int
    bytes: int


async def batch_sizes(
    client: Client, offsets: Mapping[TopicPartition, int], bytes_max: int
) -> dict[TopicPartition, list[BatchSize]]:
    """The batches from an offset on, as many as about `bytes_max` of each tell of; the first holds the offset.

    A partition is left out where its leader does not answer, or has nothing there.
    """
    by_node: dict[int, dict[TopicPartition, Wanted]] = {}
    for where, offset in offsets.items():
        info = client.cluster.partition(*where)
        if info is not None and info.leader in client.cluster.nodes:
            wanted = Wanted(client.cluster.topic_id(where.topic), offset, info.leader_epoch, bytes_max)
            by_node.setdefault(info.leader, {})[where] = wanted
    answers = await asyncio.gather(*(_ask(client, node, wanted, bytes_max) for node, wanted in by_node.items()))
    return {where: sizes for answer in answers for where, sizes in answer.items() if sizes}


async def _ask(
    client: Client, node_id: int, wanted: dict[TopicPartition, Wanted], bytes_max: int
) -> dict[TopicPartition, list[BatchSize]]:
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=bytes_max * len(wanted))
    max_version = FetchSession().fill(request, wanted)
    request.session_epoch = -1  # no session: this is one question
    try:
        response: FetchResponse = await client.send(node_id, request, timeout_ms=ANSWER_MS, max_version=max_version)
    except BarnabasError:
        return {}
    names = {want.topic_id: where.topic for where, want in wanted.items() if want.topic_id != ZERO_UUID}
    return {
        TopicPartition(topic.topic or names.get(topic.topic_id, ""), data.partition_index): list(
            sizes_in(one_buffer(data.records))
        )
        for topic in response.responses
        for data in topic.partitions
        if data.records is not None and len(data.records)
    }


def sizes_in(data: Buffer) -> Iterator[BatchSize]:
    """The batches whose header is there; the last one may be cut behind it."""
    at = 0
    while len(data) - at >= wire.HEADER_SIZE:
        try:
            size = wire.batch_size(data, at)
        except ProtocolError:  # who reads it will say so
            return
        yield BatchSize(wire.read_header(data, at).next_offset, size)
        at += size
