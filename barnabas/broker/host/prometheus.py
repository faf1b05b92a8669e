"""Metrics as Prometheus text, named as the JMX exporter's published rules name Kafka's.

    kafka.server:type=ReplicaManager,name=PartitionCount        kafka_server_replicamanager_partitioncount 12
    kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec  kafka_server_brokertopicmetrics_messagesin_total 7
    kafka.network:type=RequestMetrics,name=TotalTimeMs          ..._totaltimems{quantile="0.99"} 3
                                                                ..._totaltimems_count 7, ..._totaltimems_sum 9

so that dashboards made for Apache Kafka find them. Format: Prometheus text exposition 0.0.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from barnabas.broker.metrics import Number, Reading

_QUANTILES: Final = {"p50": "0.5", "p75": "0.75", "p95": "0.95", "p99": "0.99", "p999": "0.999"}
_NOT_ALLOWED: Final = re.compile(r"[^a-zA-Z0-9_]")


_READINGS_PER_STEP: Final = 500


def render(readings: Iterable[Reading]) -> str:
    """All readings, those of one name together under one TYPE line."""
    return "".join(pieces(readings))


def pieces(readings: Iterable[Reading]) -> Iterator[str]:
    """The same piece by piece; an empty one is a step of reading (`_READINGS_PER_STEP`, a few ms)."""
    families: dict[str, tuple[str, list[str]]] = {}
    for count, reading in enumerate(readings, 1):
        if count % _READINGS_PER_STEP == 0:
            yield ""
        name = _NOT_ALLOWED.sub("_", f"{reading.domain}_{reading.type}_{reading.name}").lower()
        if reading.kind == "meter":
            name = name.removesuffix("persec") + "_total"
        kind = {"gauge": "gauge", "meter": "counter", "histogram": "summary"}[reading.kind]
        lines = families.setdefault(name, (kind, []))[1]
        lines += _samples(name, reading)
    for name, (kind, lines) in families.items():
        yield f"# TYPE {name} {kind}\n"
        for at in range(0, len(lines), _READINGS_PER_STEP):
            yield "\n".join(lines[at : at + _READINGS_PER_STEP]) + "\n"


def _samples(name: str, reading: Reading) -> list[str]:
    values, tags = reading.values, reading.tags
    if reading.kind == "gauge":
        return [_line(name, tags, values["value"])]
    if reading.kind == "meter":
        return [_line(name, tags, values["count"])]
    lines = [_line(name, (*tags, ("quantile", share)), values[key]) for key, share in _QUANTILES.items()]
    return [*lines, _line(f"{name}_sum", tags, values["sum"]), _line(f"{name}_count", tags, values["count"])]


def _line(name: str, tags: Iterable[tuple[str, str]], value: Number) -> str:
    labels = ",".join(f'{_NOT_ALLOWED.sub("_", key)}="{_escape(text)}"' for key, text in tags)
    return f"{name}{{{labels}}} {value}" if labels else f"{name} {value}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
