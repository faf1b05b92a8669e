"""One function over values made into one over columns: Arrow in, Arrow out, nulls kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from barnabas.spark_bridge.process import plain_errors
from barnabas.spark_bridge.values.registry import BadValue

if TYPE_CHECKING:
    from pyspark.sql import Column

MODES = ("FAILFAST", "PERMISSIVE")


def check_mode(mode: str) -> bool:
    """Whether a bad value is null instead of an error.

    Raises:
        BadValue: it is no mode.
    """
    if mode.upper() not in MODES:
        raise BadValue(f"mode is {' or '.join(MODES)}, as in Spark's from_json, not {mode!r}")
    return mode.upper() == "PERMISSIVE"


def to_array(found: list[Any], kind: pa.DataType, *, nulls: bool) -> pa.Array:
    """The values as Spark takes them; one that the type cannot hold (an int of 40 bits) is a bad one.

    Raises:
        BadValue: there is one, and it is not to be null.
    """
    try:
        return pa.array(found, kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return pa.array([_held(value, kind, nulls=nulls) for value in found], kind)


def _held(value: Any, kind: pa.DataType, *, nulls: bool) -> Any:
    try:
        pa.array([value], kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        if nulls:
            return None
        raise BadValue(f"no value of Spark's type for the schema ({error}): {str(value)[:100]}") from error
    return value


def over_column(
    column: Column | str, result: str, reader: Callable[[], Callable[[Any], Any]], *, nulls: bool
) -> Column:
    """A column of the type `result` (in Spark's words) whose values went through a function.

    `reader` makes the function in the worker, once for each batch. With `nulls`, a value that it refuses (BadValue) is
    null.
    """
    from pyspark.sql import functions
    from pyspark.sql.types import DataType

    kind = DataType.fromDDL(result)

    def through(values: pa.Array) -> pa.Array:
        from pyspark.sql.pandas.types import to_arrow_type

        read = reader()

        def one(value: Any) -> Any:
            if value is None:
                return None
            try:
                return read(value)
            except BadValue:
                if nulls:
                    return None
                raise

        with plain_errors():
            found = [one(value) for value in values.to_pylist()]
            return to_array(found, to_arrow_type(kind, timezone="UTC"), nulls=nulls)

    through.__annotations__ = {"values": pa.Array, "return": pa.Array}  # as types: PySpark reads them in the worker
    arrow_udf: Any = functions.arrow_udf  # type: ignore[attr-defined]  # PySpark gives it no types
    made: Column = arrow_udf(through, returnType=kind)(column)
    return made
