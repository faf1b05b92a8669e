"""Metrics as Prometheus text, named as the JMX exporter's published rules name Kafka's.

    kafka.server:type=ReplicaManager,name=PartitionCount        kafka_server_replicamanager_partitioncount 12
    kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec  ..._brokertopicmetrics_messagesin_total{topic="t"} 7
    kafka.network:type=RequestMetrics,name=TotalTimeMs          ..._totaltimems{quantile="0.99"} 3
                                                                ..._totaltimems_count 7, ..._totaltimems_sum 9

so that dashboards made for Apache Kafka find them. What Kafka counts by topic and once more for all stands apart, so
that no `sum()` counts twice: `..._messagesin_alltopics_total`. Labels are in snake case, only a summary's name ends
in `_count`, and none in `_ms`, as Prometheus' linter (`promtool check metrics`) asks: `lag-ms` is `lagms`, as
`TotalTimeMs` is `totaltimems`. Format: Prometheus text exposition 0.0.4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final

from barnabas.broker.host.meanings import meaning
from barnabas.broker.metrics import Number, Reading

_QUANTILES: Final = {"p50": "0.5", "p75": "0.75", "p95": "0.95", "p99": "0.99", "p999": "0.999"}
_NOT_ALLOWED: Final = re.compile(r"[^a-zA-Z0-9_]")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ALSO_BY_TOPIC: Final = ("BrokerTopicMetrics", "DelayedProduceMetrics")
_FOR_ALL_ALONE: Final = ("ReplicationBytesOutPerSec",)
_TYPES: Final = {"gauge": "gauge", "counter": "counter", "meter": "counter", "histogram": "summary"}

_READINGS_PER_STEP: Final = 500


def render(readings: Iterable[Reading]) -> str:
    """All readings, those of one name together under one HELP and one TYPE line."""
    return "".join(pieces(readings))


def pieces(readings: Iterable[Reading], told: Callable[[Reading], str] = meaning) -> Iterator[str]:
    """The same piece by piece, nothing of which is kept; an empty one is a step of reading. `told` makes the HELP.

    Readings of one name come one after the other. The first of a name may have to look at all partitions, and each
    `_READINGS_PER_STEP` others take a few ms.
    """
    lines: list[str] = []
    last = ""
    for reading in readings:
        name = _name(reading)
        if name != last:
            last = name
            lines.append(f"# HELP {name} {_escape_help(told(reading))}\n# TYPE {name} {_TYPES[reading.kind]}")
            yield ""
        lines += _samples(name, reading)
        if len(lines) >= _READINGS_PER_STEP:
            yield "\n".join(lines) + "\n"
            lines.clear()
    if lines:
        yield "\n".join(lines) + "\n"


def _name(reading: Reading) -> str:
    name = _NOT_ALLOWED.sub("_", f"{reading.domain}_{reading.type}_{reading.name}").lower()
    if reading.kind == "gauge":
        ending = next((one for one in ("count", "ms") if name.endswith(f"_{one}")), "")
        return f"{name.removesuffix(f'_{ending}')}{ending}" if ending else name
    if reading.kind == "histogram":
        return name
    name = name.removesuffix("persec").removesuffix("_total")
    for_all = not reading.tags and reading.type in _ALSO_BY_TOPIC and reading.name not in _FOR_ALL_ALONE
    return f"{name}_alltopics_total" if for_all else f"{name}_total"


def _samples(name: str, reading: Reading) -> list[str]:
    values, tags = reading.values, reading.tags
    if reading.kind in ("gauge", "counter"):
        return [_line(name, tags, values["value"])]
    if reading.kind == "meter":
        return [_line(name, tags, values["count"])]
    lines = [_line(name, (*tags, ("quantile", share)), values[key]) for key, share in _QUANTILES.items()]
    return [*lines, _line(f"{name}_sum", tags, values["sum"]), _line(f"{name}_count", tags, values["count"])]


def _line(name: str, tags: Iterable[tuple[str, str]], value: Number) -> str:
    labels = ",".join(f'{_label(key)}="{_escape(text)}"' for key, text in tags)
    return f"{name}{{{labels}}} {value}" if labels else f"{name} {value}"


@lru_cache(256)
def _label(key: str) -> str:
    return _CAMEL.sub("_", _NOT_ALLOWED.sub("_", key)).lower()


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
