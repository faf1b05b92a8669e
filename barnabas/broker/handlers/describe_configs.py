"""DescribeConfigs (32). A real broker answers from its configuration and its image.

- Topics (2): every setting with its effective value; unknown: UNKNOWN_TOPIC_OR_PARTITION, no name for a topic:
  INVALID_TOPIC_EXCEPTION. Brokers (4): this broker's id, or the empty name for what all brokers share; any other id is
  INVALID_REQUEST. Other resources are not kept here: INVALID_REQUEST.
- `configuration_keys` null or empty: all of them. Synonyms only if asked for. v3 on: the type; documentation is null.
"""

from __future__ import annotations

from barnabas.broker.cluster.image import BROKER_RESOURCE, TOPIC_RESOURCE
from barnabas.broker.cluster.topic_rules import check_topic_name
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.config_entries import Entry, broker_entries, cluster_entries, topic_entries
from barnabas.broker.handlers.services import CLUSTER, Operation, Resource, Services
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def handle(services: Services, request: DescribeConfigsRequest, context: RequestContext, now_ms: int) -> None:
    """Answer with the settings asked for."""
    results = []
    for resource in request.resources:
        result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
        wanted = resource.configuration_keys
        try:
            result.configs = [
                _told(entry, request.include_synonyms)
                for entry in _entries(services, resource, context)
                if not wanted or entry.name in wanted
            ]
            result.error_message = ""
        except KafkaError as fault:
            result.error_code, result.error_message = fault.code, fault.detail
        results.append(result)
    context.respond(DescribeConfigsResponse(results=results))


def _entries(services: Services, resource: DescribeConfigsResource, context: RequestContext) -> list[Entry]:
    name, image, static = resource.resource_name, services.image, services.static_config
    topical = resource.resource_type == TOPIC_RESOURCE
    target = Resource("topic", name) if topical else CLUSTER
    if not services.authorise(context.connection.principal, Operation.DESCRIBE_CONFIGS, target):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if topical else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        raise KafkaError(code, "Authorization failed.")
    if topical:
        check_topic_name(name)
        if name not in image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return list(topic_entries(image, static, image.topic_overrides(name)))
    if resource.resource_type != BROKER_RESOURCE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}")
    if name == "":
        return list(cluster_entries(image))
    if name != str(services.node_id):
        detail = f"Unexpected broker id, expected {services.node_id} or empty string, but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
    return list(broker_entries(image, static))


def _told(entry: Entry, with_synonyms: bool) -> DescribeConfigsResourceResult:
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
        None,
    )
