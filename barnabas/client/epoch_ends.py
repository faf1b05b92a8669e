"""Where leader epochs ended: whoever knows in which one it read finds out whether the log still holds what it read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from barnabas.net.host.connection import Client
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import CONSUMER_REPLICA_ID, TopicPartition
from barnabas.protocol.requests.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


async def epoch_ends(client: Client, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The offset behind the last record of an epoch, or of those before it; a log that was cut tells a smaller one.

    A partition is left out where its leader does not answer, or does not know (KIP-320).
    """
    by_node: dict[int, dict[str, OffsetForLeaderTopic]] = {}
    for where, epoch in epochs.items():
        info = client.cluster.partition(*where)
        if info is not None and info.leader in client.cluster.nodes:
            topics = by_node.setdefault(info.leader, {})
            topic = topics.setdefault(where.topic, OffsetForLeaderTopic(where.topic))
            topic.partitions.append(OffsetForLeaderPartition(where.partition, info.leader_epoch, epoch))
    answers = await asyncio.gather(*(_ask(client, node, list(topics.values())) for node, topics in by_node.items()))
    return {where: end for answer in answers for where, end in answer.items()}


async def _ask(client: Client, node_id: int, topics: list[OffsetForLeaderTopic]) -> dict[TopicPartition, int]:
    request = OffsetForLeaderEpochRequest(CONSUMER_REPLICA_ID, topics)
    try:
        response: OffsetForLeaderEpochResponse = await client.send(
            node_id, request, timeout_ms=client.config.request_timeout_ms
        )
    except BarnabasError:  # older brokers have no such question
        return {}
    return {
        TopicPartition(topic.topic, each.partition): each.end_offset
        for topic in response.topics
        for each in topic.partitions
        if not each.error_code and each.end_offset >= 0
    }
