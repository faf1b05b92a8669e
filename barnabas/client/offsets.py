"""Questions about offsets, asked of every leader concerned at once and asked again until all are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from barnabas.client.consume.fetch_session import FetchSession, Wanted
from barnabas.client.consume.lookups import list_offsets
from barnabas.net.errors import ClientTimeout, Disconnected
from barnabas.net.host.connection import Client
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.fetch import FetchRequest, FetchResponse
from barnabas.protocol.requests.list_offsets import ListOffsetsResponse


class OffsetAndTimestamp(NamedTuple):
    """An offset and its record's timestamp (ms since the epoch; -1 for earliest and latest)."""

    offset: int
    timestamp: int


async def lookup(
    client: Client, targets: Mapping[TopicPartition, int], isolation: int, timeout_ms: int | None = None
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """The first offset at or after a timestamp (ms), or -2 earliest, -1 latest, -3 of the largest timestamp.

    Offset -1 means that no record is so young.

    Raises:
        KafkaError: a partition refused for good.
        ClientTimeout: not all were answered within `timeout_ms` (`default.api.timeout.ms` by default).
    """
    wait_ms = client.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
    deadline_ms = client.now_ms() + wait_ms
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    trouble: Exception | None = None
    open_targets = dict(targets)
    while open_targets:
        by_node, homeless = _by_leader(client, open_targets)
        if by_node:
            left_ms = max(deadline_ms - client.now_ms(), 1)
            answers = await asyncio.gather(
                *(_ask(client, node_id, asked, isolation, left_ms) for node_id, asked in by_node.items())
            )
            for answer, error in answers:
                found.update(answer)
                cut_off = isinstance(error, Disconnected) and client.now_ms() >= deadline_ms  # by the time given
                if error is not None and not (cut_off and trouble):
                    trouble = error
            open_targets = {where: at for where, at in open_targets.items() if where not in found}
        if not open_targets:
            break
        left_ms = deadline_ms - client.now_ms()
        if left_ms <= 0:
            for where in open_targets:
                client.metadata.note_missing(where, client.now_ms())
            why = client.metadata.troubles.why(*open_targets)
            client.metadata.troubles.clear_all(open_targets.__contains__)
            missing = ", ".join(str(where) for where in sorted(open_targets))
            raise ClientTimeout(f"no offsets of {missing} within {wait_ms} ms" + (f": {trouble}" if trouble else why))
        if homeless or trouble:
            with suppress(ClientTimeout):  # what is missing is told above
                await client.refresh_metadata({where.topic for where in open_targets}, left_ms)
    return {where: found[where] for where in targets}


def _by_leader(
    client: Client, targets: Mapping[TopicPartition, int]
) -> tuple[dict[int, dict[TopicPartition, tuple[int, int]]], bool]:
    by_node: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
    homeless = False
    for where, timestamp in targets.items():
        info = client.cluster.partition(*where)
        if info is None or info.leader not in client.cluster.nodes:
            homeless = True
        else:
            by_node.setdefault(info.leader, {})[where] = (info.leader_epoch, timestamp)
    return by_node, homeless


async def _ask(
    client: Client, node_id: int, asked: dict[TopicPartition, tuple[int, int]], isolation: int, timeout_ms: int
) -> tuple[dict[TopicPartition, OffsetAndTimestamp], Exception | None]:
    request = list_offsets(((where, epoch, at) for where, (epoch, at) in asked.items()), isolation)
    try:
        response: ListOffsetsResponse = await client.send(
            node_id, request, timeout_ms=min(timeout_ms, client.config.request_timeout_ms)
        )
    except Disconnected as error:
        return {}, error
    found = {}
    trouble: Exception | None = None
    for topic in response.topics:
        for each in topic.partitions:
            where = TopicPartition(topic.name, each.partition_index)
            if each.error_code:
                trouble = KafkaError(each.error_code, f"offsets of {where}")
                if not trouble.retriable:
                    raise trouble
            else:
                found[where] = OffsetAndTimestamp(each.offset, each.timestamp)
    return found, trouble


async def wait_for_data(client: Client, offsets: Mapping[TopicPartition, int], wait_ms: int) -> bool:
    """Waits at the brokers until one of the partitions has a record at its offset or beyond, at most `wait_ms`.

    Returns whether that is so; an error of any partition counts as news, for whoever reads next will meet it.
    """
    by_node: dict[int, dict[TopicPartition, Wanted]] = {}
    for where, offset in offsets.items():
        info = client.cluster.partition(*where)
        if info is None or info.leader not in client.cluster.nodes:
            return True
        wanted = Wanted(client.cluster.topic_id(where.topic), offset, info.leader_epoch, 1)
        by_node.setdefault(info.leader, {})[where] = wanted
    if not by_node:
        await asyncio.sleep(wait_ms / 1000)
        return False
    asks = [asyncio.ensure_future(_wait_at(client, node, wanted, wait_ms)) for node, wanted in by_node.items()]
    try:
        for ask in asyncio.as_completed(asks, timeout=wait_ms / 1000):
            if await ask:
                return True
        return False
    except TimeoutError:  # a broker that keeps the question for longer
        return False
    finally:
        for task in asks:
            task.cancel()


async def _wait_at(client: Client, node_id: int, wanted: dict[TopicPartition, Wanted], wait_ms: int) -> bool:
    request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1)
    max_version = FetchSession().fill(request, wanted)
    request.session_epoch = -1  # no session: this is one question
    try:
        response: FetchResponse = await client.send(
            node_id, request, timeout_ms=wait_ms + client.config.request_timeout_ms, max_version=max_version
        )
    except KafkaError:
        return True
    parts = [data for topic in response.responses for data in topic.partitions]
    return bool(response.error_code) or any(data.error_code or data.records for data in parts)
