"""IncrementalAlterConfigs (44). A real broker hands it to the controller and answers when the records are committed.

- One resource twice is INVALID_REQUEST; each resource succeeds or fails as a whole. The checks are in `config_rules`:
  INVALID_CONFIG for a value, INVALID_REQUEST for what only a restart can change, 3 for an unknown topic.
- Operations: set, delete (back to the default), append and subtract (lists only).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from barnabas.broker.cluster.config_rules import Alteration
from barnabas.broker.cluster.image import TOPIC_RESOURCE
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import CLUSTER, Operation, Resource, Services
from barnabas.broker.handlers.steps import SLICE, answer, slices
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

SETTINGS_PER_RESOURCE_MAX: Final = 1000
"""Settings of one resource that are looked at, four times as many as there are: each must be known, and named once."""
_TOO_MANY: Final = "The resource is given {} settings, there are no more than " + f"{SETTINGS_PER_RESOURCE_MAX}."


def handle(services: Services, request: IncrementalAlterConfigsRequest, context: RequestContext, now_ms: int) -> None:
    """Have the settings changed, then tell what became of each resource."""
    services.work(_serve(services, request, context), request, context)


def _serve(services: Services, request: IncrementalAlterConfigsRequest, context: RequestContext) -> Job[None]:
    answers = []
    pending = []
    asked = []
    named = Counter((one.resource_type, one.resource_name) for one in request.resources)
    for number, resource in enumerate(request.resources, 1):
        if number % SLICE == 0:
            yield None
        told = AlterConfigsResourceResponse(0, None, resource.resource_type, resource.resource_name)
        answers.append(told)
        if named[resource.resource_type, resource.resource_name] > 1:
            _fail(told, KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."))
        elif len(resource.configs) > SETTINGS_PER_RESOURCE_MAX:
            _fail(told, KafkaError(ErrorCode.INVALID_CONFIG, _TOO_MANY.format(len(resource.configs))))
        elif not _allowed(services, resource, context):
            topical = resource.resource_type == TOPIC_RESOURCE
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if topical else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            _fail(told, KafkaError(code, "Authorization failed."))
        else:
            pending.append(told)
            changes = [Alteration(one.name, one.config_operation, one.value) for one in resource.configs]
            asked.append((resource.resource_type, resource.resource_name, changes))

    def done(errors: list[KafkaError | None]) -> None:
        services.work(_tell(list(zip(pending, errors, strict=True)), answers, context), request, context)

    services.controller.alter_configs(asked, request.validate_only, done)


def _tell(
    decided: list[tuple[AlterConfigsResourceResponse, KafkaError | None]],
    answers: list[AlterConfigsResourceResponse],
    context: RequestContext,
) -> Job[None]:
    for some in slices(decided):
        for told, fault in some:
            if fault is not None:
                _fail(told, fault)
        if some is not decided:
            yield None
    yield from answer(context, IncrementalAlterConfigsResponse(responses=answers), len(answers))


def _allowed(services: Services, resource: AlterConfigsResource, context: RequestContext) -> bool:
    target = Resource("topic", resource.resource_name) if resource.resource_type == TOPIC_RESOURCE else CLUSTER
    return services.authorise(context.connection.principal, Operation.ALTER_CONFIGS, target)


def _fail(told: AlterConfigsResourceResponse, fault: KafkaError) -> None:
    told.error_code = fault.code
    told.error_message = fault.detail or None
