"""ListConfigResources (74). A real broker lists, from its image, what has settings.

- v0 lists client metrics alone, of which there are none here; v1 (KIP-1142) the types that are named, all without one.
- Topics (2), brokers (4), and the groups (32) that have settings of their own. Broker loggers (8) are no resource here,
  client metrics (16) have no settings: none. A type that nobody knows is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from barnabas.broker.cluster.image import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import CLUSTER, Charge, Operation, Services
from barnabas.broker.handlers.steps import SLICE, answer, slices
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_TYPED_FROM: Final = 1
_TYPES: Final = frozenset((TOPIC_RESOURCE, BROKER_RESOURCE, 8, 16, GROUP_RESOURCE))
"""All that Kafka knows (`ConfigResource.Type`)."""


_BYTES: Final = 150
"""What a resource takes as it is listed, and written."""


def handle(services: Services, request: ListConfigResourcesRequest, context: RequestContext, now_ms: int) -> None:
    """List topics, brokers and groups, as far as they are asked for."""
    image = services.image
    work = services.work_in_line if len(image.topics) + len(image.configs) > SLICE else services.work
    work(_serve(services, request, context), request, context)


def _serve(services: Services, request: ListConfigResourcesRequest, context: RequestContext) -> Job[None]:
    asked = set(request.resource_types) or _TYPES
    if context.api_version < _TYPED_FROM:
        asked = set()
    refusal = 0
    if not services.authorise(context.connection.principal, Operation.DESCRIBE_CONFIGS, CLUSTER):
        refusal = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    elif not asked <= _TYPES:
        refusal = ErrorCode.UNSUPPORTED_VERSION
    if refusal:
        context.respond(ListConfigResourcesResponse(error_code=refusal))
        return
    with services.charging(context) as charge:
        yield from _list(services, asked, context, charge)


def _list(services: Services, asked: Set[int], context: RequestContext, charge: Charge) -> Job[None]:
    listed = []
    if GROUP_RESOURCE in asked:
        for resources in slices(list(services.image.configs)):
            listed += [ConfigResource(name, kind) for kind, name in resources if kind == GROUP_RESOURCE]
            charge(_BYTES * len(resources))
            if len(resources) == SLICE:
                yield None
    if BROKER_RESOURCE in asked:
        listed += [ConfigResource(str(broker_id), BROKER_RESOURCE) for broker_id in sorted(services.image.brokers)]
    if TOPIC_RESOURCE in asked:
        for names in slices(list(services.image.topics)):
            listed += [ConfigResource(name, TOPIC_RESOURCE) for name in names]
            charge(_BYTES * len(names))
            if len(names) == SLICE:
                yield None
    yield from answer(context, ListConfigResourcesResponse(config_resources=listed), len(listed))
