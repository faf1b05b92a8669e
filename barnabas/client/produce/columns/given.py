"""A table as `send_columns` takes it: every column is checked before anything is sent, with name, value and remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from barnabas.client.errors import InvalidRecord

if TYPE_CHECKING:
    import pyarrow as pa

NAMES: Final = ("value", "key", "timestamp", "partition", "headers")
_OF_A_CONSUMER: Final = frozenset({"topic", "offset", "timestamp_type"})
"""What a consumer's columns hold besides is passed over, so that they can be sent on as they are."""


def table_of(columns: Any) -> pa.Table:
    """The columns of `NAMES` that are there: key and value bytes, timestamp and partition int64.

    Args:
        columns: a pyarrow Table or RecordBatch, a pandas DataFrame, a mapping of names to arrays, or what a consumer's
            `poll_columns` returns.

    Raises:
        InvalidRecord: it is no table, or a column is unknown, of another type, or holds what no record can.
    """
    table = _table(columns)
    _check_names(table.column_names)
    table = table.select([name for name in NAMES if name in table.column_names])
    for index, name in enumerate(table.column_names):
        table = table.set_column(index, name, _CHECKS[name](name, table[name]))
    return table


def _table(columns: Any) -> pa.Table:
    import pyarrow as pa

    if isinstance(columns, pa.Table):
        return columns
    if isinstance(columns, pa.RecordBatch):
        return pa.Table.from_batches([columns])
    if isinstance(columns, Mapping):
        return _of_arrays(columns)
    if hasattr(columns, "to_arrow"):
        return _table(columns.to_arrow())
    if type(columns).__module__.partition(".")[0] == "pandas" and hasattr(columns, "columns"):
        return _of_arrays({str(name): columns[name] for name in columns.columns})
    raise InvalidRecord(
        f"columns: {type(columns).__name__} is no table; give a pyarrow Table or RecordBatch, a pandas DataFrame, "
        'or a mapping such as {"key": ..., "value": ...}'
    )


def _of_arrays(columns: Mapping[str, Any]) -> pa.Table:
    import pyarrow as pa

    arrays = {}
    for name, each in columns.items():
        try:
            arrays[name] = each if isinstance(each, pa.Array | pa.ChunkedArray) else pa.array(each, from_pandas=True)
        except (pa.ArrowException, TypeError) as error:
            raise InvalidRecord(f"column {name!r}: {error}; give values of one type") from None
    counts = {name: len(each) for name, each in arrays.items()}
    if len(set(counts.values())) > 1:
        raise InvalidRecord(f"columns: of different lengths: {counts}")
    return pa.table(arrays)


def _check_names(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InvalidRecord(f"columns: {name!r} is there {names.count(name)} times; give each once")
        if name not in NAMES and name not in _OF_A_CONSUMER:
            raise InvalidRecord(
                f"columns: {name!r} is no part of a record ({', '.join(NAMES)}); "
                'give {"key": table["..."], "value": table["..."]}'
            )
    if "key" not in names and "value" not in names:
        raise InvalidRecord('columns: there is neither "value" nor "key"; give {"value": table["..."]}')


def _octets(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind, types = column.type, pa.types
    if types.is_binary(kind) or types.is_string(kind):
        return column.cast(pa.binary())
    if (
        types.is_large_binary(kind)
        or types.is_large_string(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_null(kind)
    ):
        return column.cast(pa.large_binary())
    raise InvalidRecord(
        f"column {name!r}: {kind} is neither bytes nor text; encode it, or cast it: "
        f'table["{name}"].cast("string") of pyarrow, astype(str) of pandas'
    )


def _whole_numbers(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_integer(column.type) and not pa.types.is_null(column.type):
        raise InvalidRecord(f"column {name!r}: {column.type} holds no whole numbers; cast it to int64")
    most = 2**31 - 1 if name == "partition" else 2**63 - 1
    ends = pc.min_max(column).as_py()
    for end in (ends["min"], ends["max"]):
        if end is not None and not 0 <= end <= most:
            raise InvalidRecord(f"column {name!r}: {end} is not between 0 and {most}; null stands for none given")
    return column.cast(pa.int64())


def _timestamps(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    elif not pa.types.is_integer(column.type) and not pa.types.is_null(column.type):
        raise InvalidRecord(
            f"column {name!r}: {column.type} is no time; give a timestamp, or int64 milliseconds since the epoch"
        )
    return _whole_numbers(name, column)


def _headers(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    kind = column.type
    pairs = pa.types.is_map(kind) or (
        (pa.types.is_list(kind) or pa.types.is_large_list(kind))
        and pa.types.is_struct(kind.value_type)
        and [field.name for field in kind.value_type] == ["key", "value"]
    )
    if not pairs and not pa.types.is_null(kind):
        raise InvalidRecord(f"column {name!r}: {kind} are no headers; give list<struct<key: string, value: binary>>")
    return column


_CHECKS: Final = {
    "key": _octets,
    "value": _octets,
    "timestamp": _timestamps,
    "partition": _whole_numbers,
    "headers": _headers,
}
