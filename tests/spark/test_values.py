"""Columns from Avro and Protobuf values: types as Spark's own functions give them, headers, registries, bad values."""

from __future__ import annotations

import datetime as dt
import io
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from http.client import IncompleteRead
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import URLError

import pyarrow as pa
import pytest

from tests.spark.conftest import Cluster

try:
    import fastavro
    from google.protobuf import descriptor_pb2, duration_pb2, timestamp_pb2
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

    from barnabas.spark_bridge.values import (
        BadValue,
        RegistryAway,
        avro,
        from_avro,
        from_protobuf,
        latest_schema,
        protobuf,
        to_avro,
    )
    from barnabas.spark_bridge.values import registry as registry_module
    from barnabas.spark_bridge.values.columns import to_array
    from barnabas.spark_bridge.values.registry import TRIES, message_start, schema_id
except ImportError as error:
    pytest.skip(str(error), allow_module_level=True)

WHEN = dt.datetime(2026, 11, 22, 10, 30, tzinfo=dt.UTC)

ORDER: dict[str, Any] = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "paid", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line", "fields": [{"name": "count", "type": ["int", "long"]}]}}},
        {"name": "last", "type": ["null", "Line"]},
        {"name": "tags", "type": {"type": "map", "values": "float"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "DONE"]}},
    ],
}  # fmt: skip
VALUE: dict[str, Any] = {
    "id": 7, "note": None, "paid": Decimal("12.50"), "at": WHEN, "lines": [{"count": 1}, {"count": 2}], "last": None,
    "tags": {"x": 0.5}, "state": "DONE",
}  # fmt: skip


def written(schema: Any, value: Any, number: int | None = None) -> bytes:
    target = io.BytesIO(b"" if number is None else b"\0" + number.to_bytes(4, "big"))
    target.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(target, fastavro.parse_schema(schema), value)
    return target.getvalue()


# ---- Avro -----------------------------------------------------------------------------------------------------------


def test_avro_s_types_are_those_of_spark_s_own_function() -> None:
    assert avro.spark_type(json.dumps(ORDER)) == (
        "struct<`id`: bigint, `note`: string, `paid`: decimal(9,2), `at`: timestamp, `lines`: array<struct<`count`: "
        "bigint>>, `last`: struct<`count`: bigint>, `tags`: map<string, float>, `state`: string>"
    )
    kinds = {
        '"bytes"': "binary",
        '{"type": "fixed", "name": "f", "size": 3}': "binary",
        '{"type": "int", "logicalType": "date"}': "date",
        '{"type": "long", "logicalType": "local-timestamp-micros"}': "timestamp_ntz",
        '{"type": "long", "logicalType": "time-micros"}': "bigint",
        '{"type": "string", "logicalType": "uuid"}': "string",
        '["float", "double"]': "double",
    }
    assert {text: avro.spark_type(text) for text in kinds} == kinds


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("{", "no schema of Avro's"),
        ('{"type": "record"}', "no schema of Avro's"),
        ('["int", "string"]', "the schema: Spark has no type for a union of 2 types"),
        (
            '{"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}',
            r"the schema.next: the type 'N' is used within itself",
        ),
    ],
)
def test_what_spark_has_no_type_for_is_named(schema: str, said: str) -> None:
    with pytest.raises(BadValue, match=said):
        avro.spark_type(schema)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (written(ORDER, VALUE)[:5], "no value of the schema"),
        (written(ORDER, VALUE) + b"x", "goes on behind what the schema describes"),
        (b"", "no value of the schema"),
    ],
)
def test_a_value_that_is_none_of_the_schema_s_is_told(value: bytes, said: str) -> None:
    with pytest.raises(BadValue, match=said):
        avro._reader(json.dumps(ORDER), None, False)(value)


@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [
        ([1, 2**40, None], pa.int32(), "1099511627776"),
        ([Decimal("1.50"), Decimal("9.1E+16"), None], pa.decimal128(4, 2), r"9\.1E\+16"),
        ([{"id": 1}, {"id": 2**70}, None], pa.struct([("id", pa.int64())]), "1180591620717411303424"),
    ],
    ids=["int", "decimal", "within a struct"],
)
def test_what_the_type_cannot_hold_is_a_bad_value_and_the_others_stay(
    values: list[Any], kind: pa.DataType, said: str
) -> None:
    """Avro's int may be written with more than 32 bits, a decimal with more digits than its schema says."""
    with pytest.raises(BadValue, match=f"no value of Spark's type .*{said}"):
        to_array(values, kind, nulls=False)
    assert to_array(values, kind, nulls=True).to_pylist() == [values[0], None, None]
    assert to_array([values[0]], kind, nulls=False).to_pylist() == values[:1]


# ---- a registry -----------------------------------------------------------------------------------------------------

OLD = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "int"}]}
NEW = {**OLD, "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": "none"}]}
KEPT = {f"/schemas/ids/{number}": schema for number, schema in ((1, OLD), (2, NEW), (3, OLD))}
KEPT["/subjects/orders-value/versions/latest"] = NEW
BROKEN = {"/schemas/ids/401": 401, "/schemas/ids/503": 503, "/schemas/ids/200": 200}
"""Answered with such a status, and without a schema."""
asked: Counter[str] = Counter()
ill: list[int] = []
"""The statuses of the next answers, whatever is asked for."""


class Registry(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        asked[self.path] += 1
        schema = KEPT.get(self.path)
        status = ill.pop(0) if ill else BROKEN.get(self.path, 200 if schema else 404)
        told = 40403 if status == 404 and self.path.startswith("/schemas/ids/") else status
        body = json.dumps({"schema": json.dumps(schema)} if schema else {"error_code": told}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_each_value_is_read_with_the_schema_it_was_written_with(registry: str) -> None:
    read = avro._reader(json.dumps(NEW), registry, False)
    assert read(written(OLD, {"id": 3}, 1)) == {"id": 3, "note": "none"}
    assert read(written(NEW, {"id": 4, "note": "x"}, 2)) == {"id": 4, "note": "x"}
    assert json.loads(latest_schema(registry, "orders-value")) == NEW


def test_a_registry_s_refusal_and_a_missing_header_are_told(registry: str) -> None:
    read = avro._reader(json.dumps(NEW), registry, False)
    with pytest.raises(BadValue, match="/schemas/ids/9 gives no schema: HTTP Error 404"):
        read(written(NEW, {"id": 4, "note": "x"}, 9))
    with pytest.raises(BadValue, match="the value begins with 08 02 78, not with a registry's header"):
        read(written(NEW, {"id": 4, "note": "x"}))
    with pytest.raises(BadValue, match="'localhost:1' is no address of a schema registry; write http"):
        latest_schema("localhost:1", "orders-value")
    with pytest.raises(BadValue, match="'localhost:1' is no address of a schema registry; write http"):
        from_avro("value", NEW, registry="localhost:1", mode="PERMISSIVE")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry_module, "PAUSE_S", 0)
    yield
    ill.clear()


def test_a_schema_that_is_not_known_is_asked_for_once_a_batch(registry: str) -> None:
    read = avro._reader(json.dumps(NEW), registry, False)
    asked.clear()
    for _ in range(5):
        with pytest.raises(BadValue, match="HTTP Error 404"):
            read(written(NEW, {"id": 4, "note": "x"}, 8))
    assert asked == {"/schemas/ids/8": 1}


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("path", "number", "tries", "why"),
    [
        ("", 503, TRIES, "HTTP Error 503"),
        ("", 401, 1, "HTTP Error 401"),
        ("", 200, 1, "KeyError"),
        ("/elsewhere", 1, 1, "HTTP Error 404"),
    ],
)
def test_an_answer_that_says_nothing_of_the_schema_is_no_fault_of_the_value(
    registry: str, path: str, number: int, tries: int, why: str
) -> None:
    """A 404 does so by its error code: without, the address is wrong."""
    read = avro._reader(json.dumps(NEW), registry + path, False)
    asked.clear()
    with pytest.raises(RegistryAway, match=f"the schema registry {registry}{path} gives no answer .*{why}"):
        read(written(NEW, {"id": 4, "note": "x"}, number))
    assert asked.total() == tries
    assert not issubclass(RegistryAway, BadValue), "which PERMISSIVE makes null"


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "error", [URLError(ConnectionRefusedError("refused")), TimeoutError("late"), IncompleteRead(b"{"), OSError("reset")]
)
def test_a_registry_that_cannot_be_reached_is_asked_a_few_times(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[float] = []

    def fails(_: Any, *, timeout: float) -> Any:
        tries.append(timeout)
        raise error

    monkeypatch.setattr(registry_module, "urlopen", fails)
    with pytest.raises(RegistryAway, match="the schema registry http://r:8081 gives no answer"):
        latest_schema("http://r:8081", "orders-value")
    assert tries == [registry_module.ANSWER_S] * TRIES


@pytest.mark.usefixtures("at_once")
def test_a_registry_that_answers_again_is_taken_at_its_word(registry: str) -> None:
    ill[:] = [503, 429]
    assert avro._reader(json.dumps(NEW), registry, False)(written(OLD, {"id": 5}, 3)) == {"id": 5, "note": "none"}
    assert not ill


@pytest.mark.parametrize(
    ("indexes", "length"),
    [(b"\x00", 1), (b"\x02\x00", 2), (b"\x04\x02\x04", 3), (b"\x02\x80\x02", 3)],
)
def test_message_indexes_are_passed_over(indexes: bytes, length: int) -> None:
    value = b"\0\0\0\0\x05" + indexes + b"rest"
    assert schema_id(value) == 5
    assert value[message_start(value) :] == b"rest"
    assert message_start(value) == 5 + length
    with pytest.raises(BadValue, match="cut off"):
        message_start(value[: 5 + length - 1])


# ---- Protobuf -------------------------------------------------------------------------------------------------------


def descriptors() -> bytes:
    """Of a message Trip, as `protoc --include_imports` would write them."""
    one, many = Field.LABEL_OPTIONAL, Field.LABEL_REPEATED
    file = descriptor_pb2.FileDescriptorProto(name="trip.proto", package="air", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/duration.proto"])
    state = file.enum_type.add(name="State")
    state.value.add(name="PLANNED", number=0)
    state.value.add(name="FLOWN", number=1)
    stop = file.message_type.add(name="Stop")
    stop.field.add(name="code", number=1, type=Field.TYPE_STRING, label=one)
    stop.field.add(name="gates", number=2, type=Field.TYPE_UINT64, label=many)
    trip = file.message_type.add(name="Trip")
    trip.field.add(name="number", number=1, type=Field.TYPE_INT32, label=one)
    trip.field.add(name="stops", number=2, type=Field.TYPE_MESSAGE, type_name=".air.Stop", label=many)
    trip.field.add(name="state", number=3, type=Field.TYPE_ENUM, type_name=".air.State", label=one)
    trip.field.add(name="at", number=4, type=Field.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp", label=one)
    trip.field.add(name="took", number=5, type=Field.TYPE_MESSAGE, type_name=".google.protobuf.Duration", label=one)
    trip.field.add(name="last", number=6, type=Field.TYPE_MESSAGE, type_name=".air.Stop", label=one)
    entry = trip.nested_type.add(name="SeatsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=Field.TYPE_STRING, label=one)
    entry.field.add(name="value", number=2, type=Field.TYPE_DOUBLE, label=one)
    trip.field.add(name="seats", number=7, type=Field.TYPE_MESSAGE, type_name=".air.Trip.SeatsEntry", label=many)
    files = descriptor_pb2.FileDescriptorSet()
    for module in (timestamp_pb2, duration_pb2):
        module.DESCRIPTOR.CopyToProto(files.file.add())
    files.file.add().CopyFrom(file)
    return bytes(files.SerializeToString())


def trip(**more: Any) -> bytes:
    kind = protobuf._message("air.Trip", descriptors())
    written = kind(number=5, state=1, stops=[{"code": "EWR", "gates": [1, 2**64 - 1]}], seats={"A": 1.5}, **more)
    written.at.FromDatetime(WHEN)
    written.took.FromTimedelta(dt.timedelta(hours=2, milliseconds=5))
    return bytes(written.SerializeToString())


def test_protobuf_s_types_are_those_of_spark_s_own_function() -> None:
    assert protobuf.spark_type("air.Trip", descriptors()) == (
        "struct<`number`: int, `stops`: array<struct<`code`: string, `gates`: array<decimal(20,0)>>>, `state`: string, "
        "`at`: timestamp, `took`: interval day to second, `last`: struct<`code`: string, `gates`: "
        "array<decimal(20,0)>>, `seats`: map<string, double>>"
    )
    with pytest.raises(BadValue, match=r"message 'air.Train' is not in the descriptors"):
        protobuf.spark_type("air.Train", descriptors())


def test_a_message_that_holds_itself_is_refused() -> None:
    from google.protobuf import struct_pb2

    with pytest.raises(BadValue, match=r"the message google.protobuf.* holds itself: Spark has no such type"):
        from_protobuf("value", struct_pb2.Struct)


def test_protobuf_values_are_read_with_their_presence() -> None:
    read = protobuf._reader("air.Trip", descriptors(), False)
    found = read(trip())
    assert (found["last"], found["stops"]) == (None, [{"code": "EWR", "gates": [1, 2**64 - 1]}])
    assert protobuf._reader("air.Trip", descriptors(), True)(b"\0\0\0\0\x01\x02\x02" + trip()) == found
    assert read(b"")["number"] == 0, "a field without presence has its default"
    with pytest.raises(BadValue, match=r"no value of air.Trip"):
        read(b"\xff\xff")


# ---- in Spark -------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_columns_of_a_topic_s_values(
    spark: Any, cluster: Cluster, read: Callable[..., Any], registry: str, tmp_path: Any
) -> None:
    """All of it in one job: a session's first use of each costs."""
    from pyspark.sql import functions as f

    topic = cluster.topic(1)
    for value in (written(ORDER, VALUE), None, b"bad"):
        cluster.put_one(topic, value, trip(), [])
    cluster.put_one(topic, written(ORDER, VALUE), written(OLD, {"id": 3}, 1), [])
    place = tmp_path / "trip.desc"
    place.write_bytes(descriptors())
    rows = read(topic).select(
        from_avro("value", ORDER, mode="PERMISSIVE").alias("order"),
        from_protobuf("key", "air.Trip", place, mode="PERMISSIVE").alias("trip"),
        from_avro("key", NEW, registry=registry, mode="PERMISSIVE").alias("new"),
        to_avro(f.struct(f.col("offset").alias("id"), f.lit("y").alias("note")), NEW, schema_id=2).alias("again"),
    )
    rows = rows.selectExpr("*", "unix_millis(order.at) AS order_ms", "unix_millis(trip.at) AS trip_ms")
    first, second, third, fourth = rows.collect()
    order = first.order.asDict(recursive=True)
    assert {**order, "at": None} == {**VALUE, "at": None}
    assert first.order_ms == first.trip_ms == WHEN.timestamp() * 1000
    assert (second.order, third.order, fourth.order) == (None, None, first.order)
    assert first.trip.took == dt.timedelta(hours=2, milliseconds=5)
    assert (first.trip.state, first.trip.seats, first.trip.stops[0].gates[1]) == (
        "FLOWN",
        {"A": 1.5},
        Decimal(2**64 - 1),
    )
    assert (first.new, fourth.new.asDict()) == (None, {"id": 3, "note": "none"})
    assert avro._reader(json.dumps(NEW), registry, False)(fourth.again) == {"id": 3, "note": "y"}
    with pytest.raises(Exception, match="BadValue: no value of the schema") as raised:
        read(topic).select(from_avro("value", ORDER)).collect()
    assert "values/avro.py" not in str(raised.value), "one sentence, and no traceback of ours"


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE"])
def test_a_registry_s_outage_ends_the_query_in_every_mode(
    cluster: Cluster, read: Callable[..., Any], registry: str, mode: str
) -> None:
    topic = cluster.topic(1)
    for number in range(5):
        cluster.put_one(topic, written(OLD, {"id": number}, 503), None, [])
    asked.clear()
    with pytest.raises(Exception, match=f"RegistryAway: the schema registry {registry} gives no answer") as raised:
        read(topic).select(from_avro("value", NEW, registry=registry, mode=mode)).collect()
    assert "values/registry.py" not in str(raised.value), "one sentence, and no traceback of ours"
    assert asked == {"/schemas/ids/503": TRIES}, "not for each value"


@pytest.mark.spark
def test_json_needs_no_helper(cluster: Cluster, read: Callable[..., Any]) -> None:
    """The recipes of docs/SPARK.md."""
    from pyspark.sql import functions as f

    topic = cluster.topic(1)
    cluster.put_one(topic, b'{"id": 7, "note": "x"}', b'\0\0\0\0\x05{"id": 8}', [])
    found = read(topic).select(
        f.from_json(f.col("value").cast("string"), "id bigint, note string").alias("order"),
        f.from_json(f.expr("cast(substring(key, 6) as string)"), "id bigint").alias("with_header"),
    )
    assert found.collect() == [((7, "x"), (8,))]
