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
from hypothesis import given
from hypothesis import strategies as st

from tests.spark.conftest import Cluster

try:
    import fastavro
    from google.protobuf import descriptor_pb2, duration_pb2, timestamp_pb2
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

    from barnabas.spark_bridge.values import (
        BadValue,
        RegistryAway,
        avro,
        avro_bounds,
        from_avro,
        from_protobuf,
        latest_schema,
        protobuf,
        to_avro,
    )
    from barnabas.spark_bridge.values import registry as registry_module
    from barnabas.spark_bridge.values.columns import read_all, to_array
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


def test_a_bad_value_is_told_with_where_it_stands() -> None:
    places = pa.array([{"topic": "orders", "partition": 3, "offset": offset} for offset in (7, 8, 9)])
    read = avro._reader('"int"', None, False)

    def through(values: list[bytes | None], **more: Any) -> pa.Array:
        return read_all(pa.array(values, pa.binary()), read, pa.int32(), **{"nulls": False, "places": places, **more})

    good = written("int", 1)
    with pytest.raises(BadValue, match=r"^topic orders, partition 3, offset 9: no value of the schema"):
        through([good, None, b""])
    with pytest.raises(BadValue, match=r"^topic orders, partition 3, offset 8: no value of Spark's type"):
        through([good, written("long", 2**40), None])
    with pytest.raises(BadValue, match=r"^no value of the schema"):
        through([good, None, b""], places=None)
    assert through([good, None, b""], nulls=True).to_pylist() == [1, None, None]


# ---- a registry -----------------------------------------------------------------------------------------------------

OLD = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "int"}]}
NEW = {**OLD, "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": "none"}]}
KEPT: dict[str, Any] = {f"/schemas/ids/{number}": schema for number, schema in ((1, OLD), (2, NEW), (3, OLD))}
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


# ---- what must not be read, whoever produced it ---------------------------------------------------------------------

NULLS: dict[str, Any] = {"type": "array", "items": "null"}
CHAIN: dict[str, Any] = {
    "type": "record", "name": "Chain", "fields": [{"name": "next", "type": ["null", "Chain"]}],
}  # fmt: skip
STATE: dict[str, Any] = {"type": "enum", "name": "State", "symbols": ["OPEN", "DONE"]}


def number(value: int) -> bytes:
    return written("long", value)


@pytest.mark.parametrize("walked", [False, True], ids=["asked", "walked"])
@pytest.mark.parametrize("name", ["Value", "barnabas.Value", "org.example.Value"])
def test_a_record_may_have_any_name(name: str, walked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if walked:
        monkeypatch.setattr(avro_bounds, "_guarded_lists_bite", lambda: False)
    avro._reading.cache_clear()
    schema = {"type": "record", "name": name, "fields": [{"name": "next", "type": ["null", name]}]}
    assert avro._reader(json.dumps(schema), None, False)(number(1) + number(0)) == {"next": {"next": None}}
    avro._reading.cache_clear()


@pytest.mark.parametrize("walked", [False, True], ids=["asked", "walked"])
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (STATE, number(-1)),
        (STATE, number(2)),
        (["null", "string"], number(-1) + number(1) + b"x"),
        (["null", "string"], number(2**62)),
        ({"type": "record", "name": "R", "fields": [{"name": "s", "type": STATE}]}, number(-2)),
        ({"type": "array", "items": STATE}, number(2) + number(0) + number(-1) + number(0)),
        ({"type": "map", "values": ["null", STATE]}, number(1) + number(1) + b"k" + number(-1) + number(-1)),
        (
            {"type": "record", "name": "R", "fields": [{"name": "s", "type": STATE}, {"name": "t", "type": "State"}]},
            number(0) + number(-1),
        ),
    ],
)
def test_an_index_that_is_none_is_a_bad_value(
    schema: Any, value: bytes, walked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fastavro` counts an index below 0 from the end: -1 would be read as the last one."""
    if walked:
        monkeypatch.setattr(avro_bounds, "_guarded_lists_bite", lambda: False)
    avro._reading.cache_clear()
    with pytest.raises(BadValue, match=r"no value of the schema \(.*\d bytes"):
        avro._reader(json.dumps(schema), None, False)(value)
    avro._reading.cache_clear()


def test_this_fastavro_asks_lists_as_expected() -> None:
    """Else every value is walked through, which costs as much again."""
    assert avro_bounds._guarded_lists_bite()


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "fixed", "name": "F", "size": 0},
        {"type": "record", "name": "E", "fields": []},
        {"type": "record", "name": "E", "fields": [{"name": "a", "type": {"type": "null"}}]},
    ],
)  # fmt: skip
def test_a_count_of_what_takes_no_bytes_has_a_bound(items: Any) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": {"type": "array", "items": items}}]}
    read = avro._reader(json.dumps(schema), None, False)
    assert len(read(number(1000) + number(0))["n"]) == 1000
    for count in (2**62, -(2**62)):
        with pytest.raises(BadValue, match="more than 1000 items that take no bytes"):
            read(number(count) + (number(0) if count < 0 else b""))
    nested = avro._reader(json.dumps({"type": "array", "items": schema}), None, False)
    with pytest.raises(BadValue, match="more than 1000 items"):
        nested(number(2) + (number(600) + number(0)) * 2 + number(0))


def test_a_count_that_another_schema_passes_over_has_the_same_bound(registry: str) -> None:
    old = {"type": "record", "name": "R", "fields": [{"name": "n", "type": NULLS}, {"name": "id", "type": "int"}]}
    new = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    KEPT["/schemas/ids/20"] = old
    read = avro._reader(json.dumps(new), registry, False)
    assert read(written(old, {"n": [None], "id": 5}, 20)) == {"id": 5}
    with pytest.raises(BadValue, match="more than 1000 items"):
        read(written(old, {"n": [None], "id": 5}, 20)[:5] + number(2**62))


def test_a_value_nests_as_deep_as_it_may(registry: str) -> None:
    """A schema of a registry may hold itself where the one it is read with does not."""
    KEPT["/schemas/ids/21"] = CHAIN
    read = avro._reader('{"type": "record", "name": "Chain", "fields": []}', registry, False)
    head = b"\0\0\0\0\x15"
    assert read(head + number(1) * 99 + number(0)) == {}
    with pytest.raises(BadValue, match="records within records, more than 100 deep"):
        read(head + number(1) * 1_000_000 + number(0))


@pytest.mark.parametrize("deep", [301, 100_000])
def test_a_schema_that_is_nested_without_end_is_none(deep: int) -> None:
    with pytest.raises(BadValue, match="no schema of Avro's"):
        avro.spark_type('{"type":"array","items":' * deep + '"int"' + "}" * deep)


@given(st.binary(max_size=40), st.sampled_from([ORDER, CHAIN, NULLS, ["null", "double"], "string"]))
def test_whatever_bytes_come_are_a_value_or_a_bad_one(value: bytes, schema: Any) -> None:
    if schema is CHAIN:
        schema = {"type": "array", "items": CHAIN}
    try:
        avro._reading(json.dumps(schema))(value, 0, None)
    except (BadValue, ValueError, EOFError, IndexError, OverflowError):
        return


@given(st.integers(0, 200))
def test_a_value_that_is_cut_is_a_bad_one(at: int) -> None:
    whole = written(ORDER, VALUE)
    with pytest.raises(BadValue):
        avro._reader(json.dumps(ORDER), None, False)(whole[: at % len(whole)])


# ---- a schema that grows --------------------------------------------------------------------------------------------


def fields(*found: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, **more} for name, more in found]}


A_INT, A_LONG = ("a", {"type": "int"}), ("a", {"type": "long"})
FEWER = {"type": "enum", "name": "State", "symbols": ["OPEN"]}
WITH_DEFAULT = {**FEWER, "default": "OPEN"}


@pytest.mark.parametrize(
    ("old", "value", "new", "found"),
    [
        (fields(A_INT), {"a": 3}, fields(A_LONG, ("b", {"type": "string", "default": "x"})), {"a": 3, "b": "x"}),
        (fields(A_INT, ("b", {"type": "string"})), {"a": 3, "b": "x"}, fields(A_LONG), {"a": 3}),
        (fields(A_INT), {"a": 3}, fields(("a", {"type": "double"})), {"a": 3.0}),
        (fields(A_INT), {"a": 3}, fields(("c", {"type": "long", "aliases": ["a"]})), {"c": 3}),
        (fields(A_INT), {"a": 3}, fields(("a", {"type": ["null", "long"]})), {"a": 3}),
        (fields(("s", {"type": STATE})), {"s": "DONE"}, fields(("s", {"type": WITH_DEFAULT})), {"s": "OPEN"}),
        (fields(("s", {"type": STATE})), {"s": "DONE"}, fields(("s", {"type": FEWER})), None),
        (fields(A_INT), {"a": 3}, fields(("b", {"type": "long"})), None),
        (fields(("a", {"type": "string"})), {"a": "3"}, fields(A_LONG), None),
        ({**fields(A_INT), "name": "Other"}, {"a": 3}, fields(A_LONG), None),
        ("int", 3, "long", 3),
        ("int", 3, ["null", "long"], 3),
    ],
)  # fmt: skip
def test_a_value_is_resolved_by_avro_s_rules(old: Any, value: Any, new: Any, found: Any, registry: str) -> None:
    """None stands for what cannot be read with the new schema."""
    place = 100 + len(KEPT)
    KEPT[f"/schemas/ids/{place}"] = old
    read = avro._reader(json.dumps(new), registry, False)
    if found is not None:
        assert read(written(old, value, place)) == found
        return
    with pytest.raises(BadValue, match="no value of the schema"):
        read(written(old, value, place))


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


def varint(value: int) -> bytes:
    found = b""
    while value > 0x7F:
        found, value = found + bytes((value & 0x7F | 0x80,)), value >> 7
    return found + bytes((value,))


UNKNOWN = {"a varint": b"\xf8\x3f\x05", "bytes": b"\xfa\x3f\x03abc", "a group": b"\xfb\x3f\xf8\x3f\x05\xfc\x3f"}


@pytest.mark.parametrize("more", UNKNOWN.values(), ids=UNKNOWN)
def test_fields_that_the_message_does_not_know_are_passed_over(more: bytes) -> None:
    read = protobuf._reader("air.Trip", descriptors(), False)
    assert read(more + trip() + more) == read(trip())


@pytest.mark.parametrize(
    "value",
    [
        b"\x12" + varint(2**31),
        b"\x12" + varint(2**64 - 1) + b"abc",
        b"\x08" + b"\xff" * 11 + b"\x01",
        b"\x12\x04\x0a\x02\xff\xfe",
        b"\xfb\x3f" * 100_000 + b"\xfc\x3f" * 100_000,
        b"\xfb\x3f",
        b"\xfc\x3f",
        b"\x00\x01",
        b"\x0e",
    ],
    ids=["long", "longest", "wide", "text", "deep groups", "open group", "ended group", "field 0", "wire type 6"],
)
def test_bytes_that_are_no_message_are_a_bad_value(value: bytes) -> None:
    with pytest.raises(BadValue, match=r"no value of air.Trip \("):
        protobuf._reader("air.Trip", descriptors(), False)(value)


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
    at = ("topic", "partition", "offset")
    told = f"BadValue: topic {topic}, partition 0, offset 2: no value of the schema"
    with pytest.raises(Exception, match=told) as raised:
        read(topic).select(from_avro("value", ORDER, at=at), from_protobuf("key", "air.Trip", place, at=at)).collect()
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
