"""What a write is asked for, before anything is written: options, columns, and rows by their topics."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from barnabas.spark_bridge.errors import OptionError
from barnabas.spark_bridge.sink import BatchWriter, SinkError, by_topic
from barnabas.spark_bridge.sink_options import SinkOptions, read_sink_options
from barnabas.spark_bridge.source import BarnabasDataSource

pytestmark = pytest.mark.spark

SERVERS = {"kafka.bootstrap.servers": "h:1"}
TYPES: dict[str, DataType] = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "headers": ArrayType(StructType().add("key", StringType()).add("value", BinaryType())),
    "map": MapType(StringType(), BinaryType()),
}


def schema(text: str) -> StructType:
    """Of columns as `name type, name type`; Spark's own reader of such a text needs a session."""
    found = StructType()
    for column in text.split(", "):
        name, kind = column.split()
        found.add(name, TYPES[kind])
    return found


def read(columns: str = "value binary", overwrite: bool = False, **options: str) -> SinkOptions:
    given = {"topic": "t", **options}
    return read_sink_options({**SERVERS, **{k: v for k, v in given.items() if v}}, schema(columns), overwrite=overwrite)


def test_all_columns_of_a_record_are_taken_and_others_passed_over() -> None:
    options = read("key string, value binary, partition int, headers headers, topic string, offset long, note int")
    assert (options.topic, options.columns) == ("t", ("key", "value", "partition", "headers"))
    assert read("value string, topic string", topic="").columns == ("value", "topic")
    assert options.client["bootstrap.servers"] == "h:1"


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("value binary", {"topic": ""}, "where to write is not said: set the option topic, or give the rows a column"),
        ("value binary", {"topic": " "}, "the option topic is empty"),
        ("value binary, topic int", {"topic": ""}, "the column topic is int: cast it to string"),
        ("key binary", {}, r"no column value: select one, such as to_json\(struct\('\*'\)\) AS value"),
        ("value int", {}, "the column value is int: cast it to binary or string"),
        ("value binary, key long", {}, "the column key is bigint: cast it to binary or string"),
        ("value binary, partition long", {}, "the column partition is bigint: cast it to int"),
        ("value binary, headers map", {}, r"headers is map<string,binary>: cast it to array<struct"),
        ("value binary", {"topics": "a"}, "unknown option 'topics'; did you mean 'topic'"),
        ("value binary", {"linger.ms": "1"}, r"unknown option 'linger\.ms'; did you mean 'kafka\.linger\.ms'"),
        ("value binary", {"path": "a"}, r"writes topics, not the path 'a': use option\('topic'\)"),
        ("value binary", {"kafka.acks": "2"}, r"in the options kafka\.\*: acks: '2' is none of"),
        ("value binary", {"kafka.transactional.id": "x"}, "transactions are not supported yet"),
    ],
)
def test_what_cannot_be_written_is_refused_with_a_remedy(columns: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read(columns, **options)


def test_a_topic_is_not_overwritten() -> None:
    with pytest.raises(OptionError, match=r"cannot be overwritten: use mode\('append'\)"):
        read(overwrite=True)


def test_options_of_the_source_have_no_effect_and_say_so(caplog: pytest.LogCaptureFixture) -> None:
    read(includeHeaders="true", startingOffsets="earliest", checkpointLocation="x", queryName="q")
    assert "startingOffsets has no effect on a sink: it is an option of the source" in caplog.text
    assert "includeHeaders has no effect on a sink" in caplog.text
    assert "checkpoint" not in caplog.text


def test_writers_travel_to_the_tasks() -> None:
    source = BarnabasDataSource({**SERVERS, "topic": "t"})
    for writer in (source.writer(schema("value binary"), False), source.streamWriter(schema("value binary"), True)):
        again = pickle.loads(pickle.dumps(writer))
        assert again.options == read()
        assert type(again) is type(writer)
    assert isinstance(source.writer(schema("value binary"), False), BatchWriter)


def rows(**columns: list[Any]) -> pa.RecordBatch:
    return pa.record_batch(columns)


def test_rows_are_dealt_to_their_topics_in_order() -> None:
    batch = rows(value=["1", "2", "3", "4"], topic=["b", "a", "b", "a"], note=[0, 0, 0, 0])
    options = read("value string, topic string, note int", topic="")
    assert [(topic, part.to_pydict()) for topic, part, _ in by_topic(batch, options)] == [
        ("b", {"value": ["1", "3"]}),
        ("a", {"value": ["2", "4"]}),
    ]
    one = read("value string, topic string, note int", topic="t")
    assert [(topic, part.num_rows) for topic, part, _ in by_topic(batch, one)] == [("t", 4)]
    assert list(by_topic(batch.slice(0, 0), one)) == []


def test_a_row_without_a_topic_is_refused() -> None:
    batch = rows(value=["1", "2"], topic=["b", None])
    with pytest.raises(SinkError, match="null in its column topic: filter such rows out, or set the option topic"):
        list(by_topic(batch, read("value string, topic string", topic="")))
