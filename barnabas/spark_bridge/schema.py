"""The schema of Spark's own Kafka source, for Spark and for Arrow, and the step from columns to it.

A narrower one, any of its columns in any order, makes the source decode only these: `.schema("value binary")`.

Spark checks the first record batch of a task only: order, types and nullability must match it exactly, always.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.client.consume.columnar import Columns, same_int32, same_string
from barnabas.protocol.errors import BarnabasError

if TYPE_CHECKING:
    import pyarrow as pa

TYPES: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
"""The columns in their order, and their types as Spark writes them."""
MILLISECONDS_MAX: Final = (2**63 - 1) // 1000
"""Spark counts microseconds in 64 bits, records milliseconds."""


class BadTimestamp(BarnabasError, ValueError):
    """A record's producer gave it a time that Spark has no number for."""


class Column(NamedTuple):
    """A column that somebody asks for; the type as Spark writes it (`bigint`)."""

    name: str
    type: str
    nullable: bool = True


def names_of(include_headers: bool) -> tuple[str, ...]:
    """The columns without a schema of the user's; with `includeHeaders` they end with the headers."""
    names = tuple(TYPES)
    return names if include_headers else names[:-1]


def spark_schema(include_headers: bool) -> str:
    """The schema as DDL."""
    return ", ".join(f"{name} {TYPES[name]}" for name in names_of(include_headers))


def checked_names(columns: Iterable[Column]) -> tuple[str, ...]:
    """The names of the columns that a schema of the user's asks for.

    Raises:
        ValueError: there is no such column, or not of that type; the text says what there is.
    """
    names: list[str] = []
    for each in columns:
        if each.name not in TYPES:
            near = difflib.get_close_matches(each.name.lower(), TYPES, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f": there are {', '.join(TYPES)}"
            raise ValueError(f"the schema asks for a column {each.name!r}, which no record has{hint}")
        if each.type != TYPES[each.name]:
            raise ValueError(
                f"the schema asks for {each.name} as {each.type}, but it is {TYPES[each.name]}: read it as that, "
                "and cast it with DataFrame operations"
            )
        if not each.nullable:
            raise ValueError(f"the schema says NOT NULL of {each.name}, which nobody can promise: leave it out")
        if each.name in names:
            raise ValueError(f"the schema names {each.name} twice")
        names.append(each.name)
    if not names:
        raise ValueError("the schema names no column: leave it out, or name those that you need")
    return tuple(names)


def arrow_schema(names: Sequence[str]) -> pa.Schema:
    """These columns as Spark expects them from Arrow batches."""
    import pyarrow as pa

    entry = pa.struct([("key", pa.string()), ("value", pa.binary())])
    types = {
        "binary": pa.binary(),
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        TYPES["headers"]: pa.list_(pa.field("element", entry)),
    }
    return pa.schema([(name, types[TYPES[name]]) for name in names])


def to_spark(columns: Columns, schema: pa.Schema) -> pa.RecordBatch:
    """One record batch in Spark's schema; only the timestamps are computed anew (ms to us)."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([_column(columns, field) for field in schema], schema=schema)


def _column(columns: Columns, field: pa.Field) -> Any:
    name: str = field.name
    if name == "topic":
        return same_string(columns.topic, len(columns))
    if name == "partition":
        return same_int32(columns.partition, len(columns))
    if name == "timestamp":
        return _microseconds(columns, field.type)
    if name == "timestampType":
        return columns.timestamp_type
    if name == "headers":
        assert columns.headers is not None
        # Kafka's source gives null, not an empty array, to a record without headers.
        return _null_where_empty(columns.headers).cast(field.type)
    return getattr(columns, name)


def _microseconds(columns: Columns, kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    try:
        return columns.timestamp.cast(kind)
    except pa.ArrowInvalid as error:
        times = columns.timestamp.cast(pa.int64()).to_pylist()
        at = next(index for index, time_ms in enumerate(times) if abs(time_ms) > MILLISECONDS_MAX)
        raise BadTimestamp(
            f"{columns.where} at offset {columns.offset[at]}: the timestamp {times[at]} ms is more than Spark can "
            "hold: read without this column, as in .schema('key binary, value binary'), or begin behind this record, "
            "from a new checkpoint with startingOffsets"
        ) from error


def _null_where_empty(headers: pa.Array) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    offsets = headers.offsets.to_numpy()
    empty = np.diff(offsets) == 0
    if not empty.any():
        return headers
    mask = pa.py_buffer(np.packbits(~empty, bitorder="little"))
    return pa.Array.from_buffers(
        headers.type, len(headers), [mask, pa.py_buffer(offsets.astype(np.int32))], children=[headers.values]
    )
