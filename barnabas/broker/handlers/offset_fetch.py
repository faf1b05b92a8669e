"""OffsetFetch (9). A real broker asks the group's coordinator; none is here yet (see `not_coordinator`).

v1 says the error in each partition, v2 to v7 once, without partitions, v8 on once for each group.
"""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.not_coordinator import refuse
from barnabas.broker.handlers.services import Services
from barnabas.protocol.requests.offset_fetch import OffsetFetchRequest

_ONE_ERROR_FROM = 2


def handle(services: Services, request: OffsetFetchRequest, context: RequestContext, now_ms: int) -> None:
    """Refuse: the group is another broker's."""
    if context.api_version >= _ONE_ERROR_FROM:
        request.topics = []
    partitions = sum(len(topic.partition_indexes) + 1 for topic in request.topics or ())
    refuse(services, request, context, partitions + len(request.groups))
