"""The options `kafka.*`: settings of Kafka's clients, as far as they mean something to ours.

Every name that Kafka's consumer or producer knows is taken. What has no effect here is named in a warning; what would
break the source or the sink is refused, as by Spark's own; a name nobody knows is refused with the nearest one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, Literal, TypeAlias

from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.produce.config import ProducerConfig
from barnabas.net.config import dotted
from barnabas.spark_bridge.errors import OptionError

log = logging.getLogger(__name__)

Side: TypeAlias = Literal["source", "sink"]

_CONSUMER: Final = frozenset(dotted(each.name) for each in fields(ConsumerConfig))
_PRODUCER: Final = frozenset(dotted(each.name) for each in fields(ProducerConfig))
_TAKEN: Final = {"source": _CONSUMER, "sink": _PRODUCER}
_OTHERS: Final = {"source": _PRODUCER, "sink": _CONSUMER}

_FIXED: Final = "values and keys pass as bytes; use DataFrame operations"
_JAVA: Final = "a Java class cannot run here"
_REFUSED: Final[dict[Side, dict[str, str]]] = {
    "source": {
        "auto.offset.reset": "use the option startingOffsets",
        "key.deserializer": _FIXED,
        "value.deserializer": _FIXED,
        "enable.auto.commit": "the source commits no offsets; the checkpoint holds them",
        "interceptor.classes": "interceptors could break the source's guarantees",
    },
    "sink": {
        "key.serializer": _FIXED,
        "value.serializer": _FIXED,
        "interceptor.classes": f"{_JAVA}; leave it out",
        "partitioner.class": f"{_JAVA}; give the rows a column partition (int)",
    },
}
_GROUP: Final = (
    "auto.commit.interval.ms", "exclude.internal.topics", "group.id", "group.instance.id", "group.protocol",
    "group.remote.assignor", "heartbeat.interval.ms", "max.poll.interval.ms", "partition.assignment.strategy",
    "session.timeout.ms",
)  # fmt: skip
_OF_JAVA: Final = (
    "auto.include.jmx.reporter", "client.dns.lookup", "config.providers", "enable.metrics.push",
    "internal.leave.group.on.close", "internal.throw.on.fetch.stable.offset.unsupported", "metric.reporters",
    "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms", "security.providers",
    "share.acknowledgement.mode", "share.acquire.mode",
)  # fmt: skip
"""Of Kafka's clients for Java (3.9 and 4.3) alone, or told by them alone."""


def is_known(key: str) -> bool:
    """Whether our consumer or producer has a setting of this name (without `kafka.`)."""
    return key in _CONSUMER or key in _PRODUCER


def client_options(options: Mapping[str, str], side: Side) -> dict[str, Any]:
    """The settings that reach our client, under Kafka's names; what has no effect is left out with a warning.

    Args:
        options: all of them, names in lower case.
        side: whose they are.

    Raises:
        OptionError: a setting is refused, contradicts another, or nobody knows it.
    """
    given = {key.removeprefix("kafka."): value for key, value in options.items() if key.startswith("kafka.")}
    if not given.get("bootstrap.servers", "").strip():
        raise OptionError("the option kafka.bootstrap.servers is required: name at least one host:port")
    _check_protocol(given)
    settings = {}
    for key, value in given.items():
        if key in _REFUSED[side]:
            raise OptionError(f"kafka.{key} is not supported: {_REFUSED[side][key]}")
        why = _without_effect(key, side)
        if why:
            log.warning("kafka.%s has no effect: %s", key, why)
        else:
            settings[key] = value
    return settings


def _without_effect(key: str, side: Side) -> str:
    if key in _OF_JAVA:
        return "it is for Kafka's own clients"
    if side == "source" and key in _GROUP:
        return "the source joins no group"
    if key in _OTHERS[side] and key not in _TAKEN[side]:
        return f"it is a setting of the {'producer' if side == 'source' else 'consumer'}"
    if key.startswith(("ssl.", "sasl.")):
        return "the protocol is PLAINTEXT"
    return ""


def _check_protocol(given: dict[str, str]) -> None:
    protocol = given.pop("security.protocol", "PLAINTEXT")
    if protocol.strip().upper() != "PLAINTEXT":
        raise OptionError("kafka.security.protocol: TLS and SASL are not supported yet; name a PLAINTEXT listener")
