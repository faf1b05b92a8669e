"""IncrementalAlterConfigs (44). A real broker hands it to the controller and answers when the records are committed.

- One resource twice is INVALID_REQUEST; each resource succeeds or fails as a whole. The checks are in `config_rules`:
  INVALID_CONFIG for a topic's value, INVALID_REQUEST for a broker's and for what only a restart can change, 3 for an
  unknown topic. A setting that no broker has is INVALID_CONFIG (Kafka keeps it); what is there can always be deleted.
- Operations: set, delete (back to the default), append and subtract (lists only).
"""

from __future__ import annotations

from barnabas.broker.cluster.config_rules import Alteration
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.altering import alter
from barnabas.broker.handlers.services import Services
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(services: Services, request: IncrementalAlterConfigsRequest, context: RequestContext, now_ms: int) -> None:
    """Have the settings changed, then tell what became of each resource."""
    told_as, answered_as = AlterConfigsResourceResponse, IncrementalAlterConfigsResponse
    services.work(alter(services, request, context, told_as, answered_as, _changes), request, context)


def _changes(resource: AlterConfigsResource) -> list[Alteration]:
    return [Alteration(one.name, one.config_operation, one.value) for one in resource.configs]
