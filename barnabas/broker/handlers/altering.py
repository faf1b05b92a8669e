"""What AlterConfigs and IncrementalAlterConfigs have in common: each resource once, checked, then handed on.

Their answers have the same form, in classes of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from barnabas.broker.cluster.config_rules import Alteration
from barnabas.broker.cluster.image import BROKER_RESOURCE
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.config_entries import whose
from barnabas.broker.handlers.services import Operation, Services
from barnabas.broker.handlers.steps import SLICE, answer, slices
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError

SETTINGS_PER_RESOURCE_MAX: Final = 1000
"""Settings of one resource that are looked at, four times as many as there are: each must be known, and named once."""
_TOO_MANY: Final = "The resource is given {} settings, there are no more than " + f"{SETTINGS_PER_RESOURCE_MAX}."


def alter(
    services: Services,
    request: Any,
    context: RequestContext,
    told_as: Callable[..., Any],
    answered_as: Callable[..., Any],
    changes_of: Callable[[Any], list[Alteration]],
) -> Job[None]:
    """Have settings changed, and tell what became of each resource (`told_as`) in one response (`answered_as`)."""
    answers = []
    pending = []
    asked = []
    named = Counter((one.resource_type, one.resource_name) for one in request.resources)
    for number, resource in enumerate(request.resources, 1):
        if number % SLICE == 0:
            yield None
        told = told_as(0, None, resource.resource_type, resource.resource_name)
        answers.append(told)
        if named[resource.resource_type, resource.resource_name] > 1:
            _fail(told, KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."))
        elif len(resource.configs) > SETTINGS_PER_RESOURCE_MAX:
            _fail(told, KafkaError(ErrorCode.INVALID_CONFIG, _TOO_MANY.format(len(resource.configs))))
        elif not _allowed(services, resource, context):
            _fail(told, KafkaError(whose(resource)[1], "Authorization failed."))
        elif (fault := _of_another_broker(services, resource, context)) is not None:
            _fail(told, fault)
        else:
            pending.append(told)
            asked.append((resource.resource_type, resource.resource_name, changes_of(resource)))

    def done(errors: list[KafkaError | None]) -> None:
        decided = list(zip(pending, errors, strict=True))
        services.work(_tell(decided, answered_as(responses=answers), context), request, context)

    services.controller.alter_configs(asked, request.validate_only, done)


def _tell(decided: list[tuple[Any, KafkaError | None]], response: Any, context: RequestContext) -> Job[None]:
    for some in slices(decided):
        for told, fault in some:
            if fault is not None:
                _fail(told, fault)
        if some is not decided:
            yield None
    yield from answer(context, response, len(response.responses))


def _allowed(services: Services, resource: Any, context: RequestContext) -> bool:
    return services.authorise(context.connection.principal, Operation.ALTER_CONFIGS, whose(resource)[0])


def _of_another_broker(services: Services, resource: Any, context: RequestContext) -> KafkaError | None:
    """A broker's settings are changed by asking itself: the one that sent the request on, or else this one."""
    peer = context.connection.peer
    asked = str(peer if peer >= 0 else services.node_id)
    if resource.resource_type != BROKER_RESOURCE or resource.resource_name in ("", asked):
        return None
    problem = f"Unexpected broker id, expected {asked} or empty string, but received {resource.resource_name}"
    return KafkaError(ErrorCode.INVALID_REQUEST, problem)


def _fail(told: Any, fault: KafkaError) -> None:
    told.error_code = fault.code
    told.error_message = fault.detail or None
