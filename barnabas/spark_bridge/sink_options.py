"""The options and the columns of Spark's own Kafka sink, read and checked.

Columns (others are passed over, as there): `value` (binary or string) must be there; `key` (binary or string),
`headers` (array<struct<key: string, value: binary>>), `partition` (int) and `topic` (string) may. The option `topic`
wins over the column. What differs from Spark's own sink: an unknown option is refused instead of ignored.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from barnabas.client.produce.config import ProducerConfig
from barnabas.net.errors import ConfigError
from barnabas.spark_bridge.errors import OptionError
from barnabas.spark_bridge.kafka_settings import client_options, is_known
from barnabas.spark_bridge.options import SOURCE_NAMES

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)

_NAMES: Final = ("topic",)
_SPARKS_OWN: Final = ("checkpointlocation", "queryname")
"""What a streaming query hands to its sink, too."""
_FAST_WRITES: Final[dict[str, Any]] = {"client.id": "barnabas-spark"}

_TYPES: Final = {
    "topic": ("string",),
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """All that the sink was asked for.

    Attributes:
        client: settings of the producer, by Kafka's names.
        topic: where all rows go; None where each row says it.
        columns: those of a record that the rows have, without `topic` where the option wins.
    """

    client: dict[str, Any]
    topic: str | None
    columns: tuple[str, ...]


def read_sink_options(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> SinkOptions:
    """Reads the options of a write and the columns of its rows.

    Args:
        given: the options as Spark hands them over.
        schema: of the rows.
        overwrite: Spark was asked to replace what is there.

    Raises:
        OptionError: one sentence that says what is wrong and what to do.
    """
    if overwrite:
        raise OptionError("a topic cannot be overwritten: use mode('append')")
    options = {key.lower(): value for key, value in given.items()}
    for key in options:
        _check_name(key, options[key])
    settings = {**_FAST_WRITES, **client_options(options, "sink")}
    try:
        ProducerConfig.of(settings)
    except ConfigError as error:
        raise OptionError(f"in the options kafka.*: {error}") from error
    topic = options.get("topic")
    if topic is not None and not topic.strip():
        raise OptionError("the option topic is empty: name the topic, or leave the option out")
    return SinkOptions(settings, topic, _columns(schema, topic))


def _check_name(key: str, value: str) -> None:
    if key.startswith("kafka.") or key in _NAMES or key in _SPARKS_OWN:
        return
    if key == "path":
        raise OptionError(f"the format barnabas writes topics, not the path {value!r}: use option('topic')")
    if key in SOURCE_NAMES:
        log.warning("%s has no effect on a sink: it is an option of the source", SOURCE_NAMES[key])
        return
    near = [f"kafka.{key}"] if is_known(key) else difflib.get_close_matches(key, _NAMES, n=1)
    raise OptionError(f"unknown option {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def _columns(schema: StructType, topic: str | None) -> tuple[str, ...]:
    found = {field.name: field.dataType.simpleString() for field in schema.fields if field.name in _TYPES}
    if topic is not None:
        found.pop("topic", None)
    elif "topic" not in found:
        raise OptionError("where to write is not said: set the option topic, or give the rows a column topic (string)")
    if "value" not in found:
        raise OptionError("the rows have no column value: select one, such as to_json(struct('*')) AS value")
    for name, kind in found.items():
        if kind not in _TYPES[name]:
            raise OptionError(f"the column {name} is {kind}: cast it to {' or '.join(_TYPES[name])}")
    return tuple(found)
