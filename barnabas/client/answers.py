"""What brokers answered an admin client: errors with what they are about, topics, and what may have been done twice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from barnabas.client.arguments import shown
from barnabas.net.errors import ConfigError
from barnabas.net.topology import Cluster, PartitionInfo, TopicInfo
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.create_partitions import CreatePartitionsRequest
from barnabas.protocol.requests.create_topics import CreateTopicsRequest
from barnabas.protocol.requests.delete_topics import DeleteTopicsRequest
from barnabas.protocol.requests.metadata import MetadataResponseTopic

TOPIC: Final = 2
BROKER: Final = 4
CLIENT_METRICS: Final = 16
GROUP: Final = 32
"""Kinds of resources that have settings (Kafka's ConfigResource.Type)."""

_DONE_BEFORE: Final[dict[type, int]] = {
    CreateTopicsRequest: ErrorCode.TOPIC_ALREADY_EXISTS,
    DeleteTopicsRequest: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    CreatePartitionsRequest: ErrorCode.INVALID_PARTITIONS,
}
"""What a broker answers whoever asks for what is done already."""

_ASKED_TWICE: Final = (
    "the connection was lost before the first answer and this was asked again: the first may have done it; "
    "see describe_topics()"
)


def codes(response: Any) -> set[int]:
    """All error codes of an answer: its own, and those of what it tells of."""
    return {getattr(one, "error_code", 0) for one in (response, *_results(response))}


def note_asked_twice(request: Any, response: Any) -> None:
    """Say in the answers of a request's second try that the first may have been carried out, where it looks so.

    Such requests carry no number by which a broker could know them again, in Kafka neither.
    """
    if not getattr(request, "validate_only", False):
        for result in _results(response):
            if getattr(result, "error_code", 0) == _DONE_BEFORE.get(type(request), -1):
                told = result.error_message
                result.error_message = f"{told} ({_ASKED_TWICE})" if told else _ASKED_TWICE


def _results(response: Any) -> Iterable[Any]:
    results: Iterable[Any] = ()
    for name in ("topics", "responses", "results"):
        results = getattr(response, name, results)
    return results


def topic_info(topic: MetadataResponseTopic) -> TopicInfo:
    """A topic as Metadata tells of it."""
    name = topic.name or ""
    ordered = sorted(topic.partitions, key=lambda each: each.partition_index)
    partitions = tuple(PartitionInfo.told(name, partition) for partition in ordered)
    return TopicInfo(name, topic.topic_id, partitions, topic.is_internal)


def error_of(code: int, what: str, message: str | None) -> KafkaError | None:
    """The error that a code means; None for none."""
    return KafkaError(code, ": ".join(filter(None, (what, message)))) if code else None


def check(code: int, what: str, message: str | None) -> None:
    """Raise what a code means, unless it is none.

    Raises:
        KafkaError: it is one.
    """
    error = error_of(code, what, message)
    if error is not None:
        raise error


def led(cluster: Cluster, name: str, count: int) -> bool:
    """Whether a topic has so many partitions, and all have a leader."""
    infos = cluster.partitions_for(name)
    return len(infos) >= count and all(info.leader in cluster.nodes for info in infos)


def text(value: Any) -> str:
    """A setting's value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def broker_named(name: Any, kind: Any) -> int | None:
    """The broker whose settings are meant; None where they are those of something else, of all brokers ("") too.

    Raises:
        ConfigError: no broker's id, or no kind.
    """
    if type(kind) is not int:
        raise ConfigError(
            f"kind: {shown(kind)} is no kind of settings; give TOPIC, BROKER or GROUP of barnabas.client.admin"
        )
    if kind != BROKER or name == "":
        return None
    number = str(name)
    if not (number.isascii() and number.isdigit()):
        raise ConfigError(f"kind=BROKER: {shown(name)} is no broker's id; describe_cluster().brokers has them")
    return int(number)
