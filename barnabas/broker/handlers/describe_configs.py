"""DescribeConfigs (32). A real broker answers from its configuration and its image.

- Topics (2): every setting with its effective value; unknown: UNKNOWN_TOPIC_OR_PARTITION, no name for a topic:
  INVALID_TOPIC_EXCEPTION. Brokers (4): this broker's id, or the empty name for what all brokers share; any other id is
  INVALID_REQUEST. Groups (32): every setting, whether there is such a group or not; no name: INVALID_REQUEST. Other
  resources are not kept here: INVALID_REQUEST.
- A resource named twice is answered once (Kafka: twice). An answer of too many settings ends in POLICY_VIOLATION.
- `configuration_keys` null or empty: all of them. Synonyms and documentation only if asked for. v3 on: the type.
- Documentation is a sentence of ours (`config.descriptions`), not Kafka's text. With it a setting takes about twice as
  much of an answer, so one counts for two.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Final

from barnabas.broker.cluster.image import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from barnabas.broker.cluster.topic_rules import check_topic_name
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.config_entries import (
    Entry,
    broker_entries,
    cluster_entries,
    group_entries,
    topic_entries,
    whose,
)
from barnabas.broker.handlers.services import Charge, Operation, Services
from barnabas.broker.handlers.steps import SLICE, answer
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

DESCRIBED_PER_STEP: Final = 10
"""Resources in one step: up to 200 µs each."""
SETTINGS_TOLD_MAX: Final = 200_000
"""Settings that one answer tells, and no resource more: 5,000 topics with all of theirs, some 20 MB."""
KNOWN_MAX: Final = 100
SETTINGS_MADE_MAX: Final = 50_000
"""Those of them that no two resources share: 25 MB of objects, whose end alone takes 5 ms."""
_TOLD_BYTES: Final = 100
_MADE_BYTES: Final = 400
"""What a setting takes as it is written, and beside that as it is made."""
_TOO_MANY: Final = (
    f"The answer would tell more than {SETTINGS_TOLD_MAX} settings, or {SETTINGS_MADE_MAX} different ones; "
    "name fewer resources at a time."
)


class Known(dict[Hashable, dict[str, DescribeConfigsResourceResult]]):
    """What was told of resources, by what it depends on; how many settings were made for it."""

    made = 0


def handle(services: Services, request: DescribeConfigsRequest, context: RequestContext, now_ms: int) -> None:
    """Answer with the settings asked for."""
    work = services.work_in_line if len(request.resources) > DESCRIBED_PER_STEP else services.work
    work(_serve(services, request, context), request, context)


def _serve(services: Services, request: DescribeConfigsRequest, context: RequestContext) -> Job[None]:
    with services.charging(context) as charge:
        yield from _answer(services, request, context, charge)


def _answer(services: Services, request: DescribeConfigsRequest, context: RequestContext, charge: Charge) -> Job[None]:
    results = []
    told_count = 0
    charged = text_bytes = 0
    known = Known()
    for resource in (yield from _once(request.resources)):
        result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
        try:
            if told_count > SETTINGS_TOLD_MAX or known.made > SETTINGS_MADE_MAX:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, _TOO_MANY)
            result.configs = _settings(services, resource, context, request, known)
            result.error_message = ""
            text_bytes += _text_bytes(services, resource)
            told_count += len(result.configs) * (2 if request.include_documentation else 1)
        except KafkaError as fault:
            result.error_code, result.error_message = fault.code, fault.detail
        results.append(result)
        if len(results) % DESCRIBED_PER_STEP == 0:
            made = told_count * _TOLD_BYTES + known.made * _MADE_BYTES + text_bytes
            charge(made - charged)
            charged = made
            yield None
    yield from answer(context, DescribeConfigsResponse(results=results), told_count + len(results))


def _once(resources: list[DescribeConfigsResource]) -> Job[list[DescribeConfigsResource]]:
    """Each resource once, with all settings that it was named with."""
    found: dict[tuple[int, str], DescribeConfigsResource] = {}
    for number, one in enumerate(resources, 1):
        twin = found.setdefault((one.resource_type, one.resource_name), one)
        if twin is not one:
            if not twin.configuration_keys or not one.configuration_keys:
                twin.configuration_keys = None
            else:
                twin.configuration_keys += one.configuration_keys
        if number % SLICE == 0:
            yield None
    return list(found.values())


def _settings(
    services: Services,
    resource: DescribeConfigsResource,
    context: RequestContext,
    request: DescribeConfigsRequest,
    known: Known,
) -> list[DescribeConfigsResourceResult]:
    """What is told of a resource; topics with the same settings of their own share it."""
    entries_key = _check(services, resource, context)
    all_told = known.get(entries_key)
    is_new = all_told is None
    if all_told is None:
        if len(known) == KNOWN_MAX:
            known.clear()
        entries = _entries(services, resource.resource_type, resource.resource_name)
        text = _descriptions(resource.resource_type) if request.include_documentation else _nothing
        all_told = known[entries_key] = {
            entry.name: _told(entry, request.include_synonyms, text(entry.name)) for entry in entries
        }
    wanted = all_told.keys() if not resource.configuration_keys else set(resource.configuration_keys)
    told = [one for name, one in all_told.items() if name in wanted]
    if is_new:
        known.made += len(told)
    return told


def _text_bytes(services: Services, resource: DescribeConfigsResource) -> int:
    """What a topic's own values take, once as they are made and twice as they are written: a list may have 32 KB."""
    if resource.resource_type != TOPIC_RESOURCE:
        return 0
    own, wanted = services.image.topic_overrides(resource.resource_name), set(resource.configuration_keys or ())
    return 3 * sum(len(value) for name, value in own.items() if not wanted or name in wanted)


def _check(services: Services, resource: DescribeConfigsResource, context: RequestContext) -> Hashable:
    """Refuse what cannot be described; what the settings of the resource depend on.

    Raises:
        KafkaError: why it cannot.
    """
    name, image = resource.resource_name, services.image
    target, refusal = whose(resource)
    if not services.authorise(context.connection.principal, Operation.DESCRIBE_CONFIGS, target):
        raise KafkaError(refusal, "Authorization failed.")
    if resource.resource_type == GROUP_RESOURCE:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return GROUP_RESOURCE, tuple(sorted(image.group_overrides(name).items()))
    if resource.resource_type == TOPIC_RESOURCE:
        check_topic_name(name)
        if name not in image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return tuple(sorted(image.topic_overrides(name).items()))
    if resource.resource_type != BROKER_RESOURCE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}")
    if name not in ("", str(services.node_id)):
        detail = f"Unexpected broker id, expected {services.node_id} or empty string, but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
    return name


def _entries(services: Services, resource_type: int, name: str) -> Iterable[Entry]:
    image, static, stored = services.image, services.static_config, services.stored_settings
    if resource_type == TOPIC_RESOURCE:
        return topic_entries(image, static, image.topic_overrides(name), stored)
    if resource_type == GROUP_RESOURCE:
        return group_entries(image, static, image.group_overrides(name), stored)
    return cluster_entries(image) if name == "" else broker_entries(image, static, stored)


def _descriptions(resource_type: int) -> Callable[[str], str | None]:
    from barnabas.broker.config import descriptions  # many sentences, which few ask for

    texts = {
        TOPIC_RESOURCE: descriptions.TOPIC,
        GROUP_RESOURCE: descriptions.GROUP,
        BROKER_RESOURCE: descriptions.BROKER,
    }
    return lambda name: texts[resource_type].get(name, descriptions.NO_EFFECT)


def _nothing(name: str) -> str | None:
    return None


def _told(entry: Entry, with_synonyms: bool, documentation: str | None) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        entry.name,
        entry.value,
        entry.read_only,
        entry.source,
        entry.sensitive,
        [DescribeConfigsSynonym(name, value, source) for name, value, source in entry.synonyms]
        if with_synonyms
        else [],
        entry.key.kind,
        documentation,
    )
