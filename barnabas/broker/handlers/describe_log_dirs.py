"""DescribeLogDirs (35). A real broker tells the sizes of its own logs, by the directory that holds them.

- No list of topics means all. What is not here is left out. A partition named twice is told once.
- There is one directory. v4 (KIP-827): bytes of its volume and those left to use, -1 in memory. v5 (KIP-1066): whether
  it takes no new partitions; ours always does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import CLUSTER, Operation, Services
from barnabas.broker.handlers.steps import SLICE, answer
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

_BYTES: Final = 170
"""What a partition takes as it is told, and written."""


def handle(services: Services, request: DescribeLogDirsRequest, context: RequestContext, now_ms: int) -> None:
    """Answer with the sizes of the logs asked for."""
    asked = request.topics
    size = len(services.replicas.hosted.online) if asked is None else sum(len(one.partitions) for one in asked)
    work = services.work_in_line if size > SLICE else services.work
    work(_serve(services, request, context), request, context)


def _serve(services: Services, request: DescribeLogDirsRequest, context: RequestContext) -> Job[None]:
    if not services.authorise(context.connection.principal, Operation.DESCRIBE, CLUSTER):
        context.respond(DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        return
    online = services.replicas.hosted.online
    topics: dict[str, DescribeLogDirsTopic] = {}
    keys = list(online) if request.topics is None else list(dict.fromkeys(_named(request)))
    with services.charging(context) as charge:
        for number, key in enumerate(keys, 1):
            partition = online.get(key)
            if partition is not None:
                told = topics.setdefault(key.topic, DescribeLogDirsTopic(key.topic))
                told.partitions.append(DescribeLogDirsPartition(key.partition, partition.log.size_bytes))
            if number % SLICE == 0:
                charge(_BYTES * SLICE)
                yield None
        charge(_BYTES * (len(keys) % SLICE))
        volume = services.volume()
        result = DescribeLogDirsResult(0, volume.path, list(topics.values()), volume.total_bytes, volume.usable_bytes)
        yield from answer(context, DescribeLogDirsResponse(results=[result]), len(keys) + len(topics))


def _named(request: DescribeLogDirsRequest) -> Iterator[TopicPartition]:
    for topic in request.topics or ():
        for index in topic.partitions:
            yield TopicPartition(topic.topic, index)
