"""The schema of Spark's own Kafka source, for Spark and for Arrow, and the step from columns to it.

Spark checks the first record batch of a task only: order, types and nullability must match it exactly, always.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.client.consume.columnar import Columns, same_int32, same_string

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: Final = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
)
HEADERS: Final = "headers array<struct<key: string, value: binary>>"


def spark_schema(include_headers: bool) -> str:
    """The schema as DDL; with `includeHeaders` it ends with the headers."""
    return f"{COLUMNS}, {HEADERS}" if include_headers else COLUMNS


def arrow_schema(include_headers: bool) -> pa.Schema:
    """The same schema as Spark expects it from Arrow batches."""
    import pyarrow as pa

    fields = [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
    if include_headers:
        entry = pa.struct([("key", pa.string()), ("value", pa.binary())])
        fields.append(("headers", pa.list_(pa.field("element", entry))))
    return pa.schema(fields)


def to_spark(columns: Columns, schema: pa.Schema) -> pa.RecordBatch:
    """One record batch in Spark's schema; only the timestamps are computed anew (ms to us)."""
    import pyarrow as pa

    count = len(columns)
    arrays = [
        columns.key,
        columns.value,
        same_string(columns.topic, count),
        same_int32(columns.partition, count),
        columns.offset,
        columns.timestamp.cast(schema.field("timestamp").type),
        columns.timestamp_type,
    ]
    if "headers" in schema.names:
        assert columns.headers is not None
        headers = columns.headers
        # Kafka's source gives null, not an empty array, to a record without headers.
        arrays.append(_null_where_empty(headers).cast(schema.field("headers").type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


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
