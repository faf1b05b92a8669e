"""IncrementalAlterConfigs (44). A real broker hands it to the controller and answers when the records are committed.

- One resource twice is INVALID_REQUEST; each resource succeeds or fails as a whole. The checks are in `config_rules`:
  INVALID_CONFIG for a value, INVALID_REQUEST for what only a restart can change, 3 for an unknown topic.
- Operations: set, delete (back to the default), append and subtract (lists only).
"""

from __future__ import annotations

from collections import Counter

from barnabas.broker.cluster.config_rules import Alteration
from barnabas.broker.cluster.image import TOPIC_RESOURCE
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import CLUSTER, Operation, Resource, Services
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(services: Services, request: IncrementalAlterConfigsRequest, context: RequestContext, now_ms: int) -> None:
    """Have the settings changed, then tell what became of each resource."""
    answers = []
    pending = []
    asked = []
    named = Counter((one.resource_type, one.resource_name) for one in request.resources)
    for resource in request.resources:
        answer = AlterConfigsResourceResponse(0, None, resource.resource_type, resource.resource_name)
        answers.append(answer)
        if named[resource.resource_type, resource.resource_name] > 1:
            _fail(answer, KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."))
        elif not _allowed(services, resource, context):
            topical = resource.resource_type == TOPIC_RESOURCE
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if topical else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            _fail(answer, KafkaError(code, "Authorization failed."))
        else:
            pending.append(answer)
            changes = [Alteration(one.name, one.config_operation, one.value) for one in resource.configs]
            asked.append((resource.resource_type, resource.resource_name, changes))

    def done(errors: list[KafkaError | None]) -> None:
        for answer, fault in zip(pending, errors, strict=True):
            if fault is not None:
                _fail(answer, fault)
        context.respond(IncrementalAlterConfigsResponse(responses=answers))

    services.controller.alter_configs(asked, request.validate_only, done)


def _allowed(services: Services, resource: AlterConfigsResource, context: RequestContext) -> bool:
    target = Resource("topic", resource.resource_name) if resource.resource_type == TOPIC_RESOURCE else CLUSTER
    return services.authorise(context.connection.principal, Operation.ALTER_CONFIGS, target)


def _fail(answer: AlterConfigsResourceResponse, fault: KafkaError) -> None:
    answer.error_code = fault.code
    answer.error_message = fault.detail or None
