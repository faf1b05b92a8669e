"""AlterConfigs (33). A real broker hands it to the controller: each resource has these settings then, and no others.

So a setting that is not named goes back to its default: IncrementalAlterConfigs is what one wants (KIP-339). The checks
are the same; a null value is INVALID_REQUEST. A resource named twice is INVALID_REQUEST (Kafka 4.3 never answers).
"""

from __future__ import annotations

from barnabas.broker.cluster.config_rules import Alteration, Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.altering import alter
from barnabas.broker.handlers.services import Services
from barnabas.protocol.requests.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(services: Services, request: AlterConfigsRequest, context: RequestContext, now_ms: int) -> None:
    """Have the settings replaced, then tell what became of each resource."""

    def changes(resource: AlterConfigsResource) -> list[Alteration]:
        there = services.image.configs.get((resource.resource_type, resource.resource_name), {})
        named = {one.name for one in resource.configs}
        wanted = [Alteration(one.name, Operation.SET, one.value) for one in resource.configs]
        return wanted + [Alteration(name, Operation.DELETE, None) for name in there if name not in named]

    services.work(
        alter(services, request, context, AlterConfigsResourceResponse, AlterConfigsResponse, changes), request, context
    )
