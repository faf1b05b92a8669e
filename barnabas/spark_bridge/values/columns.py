"""One function over values made into one over columns: Arrow in, Arrow out, nulls kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def read_all(
    values: pa.Array, read: Callable[[Any], Any], kind: pa.DataType, *, nulls: bool, places: pa.Array | None = None
) -> pa.Array:
    """What a function makes of each value, as Spark takes it; nulls stay.

    Raises:
        BadValue: the function refuses one, and it is not to be null; `places` say where it stands.
    """

    def one(number: int, value: Any) -> Any:
        if value is None:
            return None
        try:
            return read(value)
        except BadValue as error:
            if nulls:
                return None
            raise BadValue(f"{_place(places, number)}{error}") from error

    found = [one(number, value) for number, value in enumerate(values.to_pylist())]
    return to_array(found, kind, nulls=nulls, places=places)


def to_array(found: list[Any], kind: pa.DataType, *, nulls: bool, places: pa.Array | None = None) -> pa.Array:
    """The values as Spark takes them; one that the type cannot hold (an int of 40 bits) is a bad one.

    Raises:
        BadValue: there is one, and it is not to be null.
    """
    try:
        return pa.array(found, kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        held = [_held(value, kind, nulls, _place(places, number)) for number, value in enumerate(found)]
        return pa.array(held, kind)


def _held(value: Any, kind: pa.DataType, nulls: bool, place: str) -> Any:
    try:
        pa.array([value], kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        if nulls:
            return None
        raise BadValue(f"{place}no value of Spark's type for the schema ({error}): {str(value)[:100]}") from error
    return value


def _place(places: pa.Array | None, number: int) -> str:
    """The beginning of a sentence about a value: `topic orders, partition 0, offset 7: `."""
    if places is None:
        return ""
    return ", ".join(f"{name} {told}" for name, told in places[number].as_py().items()) + ": "


def over_column(
    column: Column | str,
    result: str,
    reader: Callable[[], Callable[[Any], Any]],
    *,
    nulls: bool,
    at: Sequence[Column | str] = (),
) -> Column:
    """A column of the type `result` (in Spark's words) whose values went through a function.

    `reader` makes the function in the worker, once for each batch. With `nulls`, a value that it refuses (BadValue) is
    null; else it is told with what stands in the columns `at`.
    """
    from pyspark.sql import functions
    from pyspark.sql.types import DataType

    kind = DataType.fromDDL(result)

    def placed(values: pa.Array, places: pa.Array | None) -> pa.Array:
        from pyspark.sql.pandas.types import to_arrow_type

        with plain_errors():
            return read_all(values, reader(), to_arrow_type(kind, timezone="UTC"), nulls=nulls, places=places)

    def alone(values: pa.Array) -> pa.Array:
        return placed(values, None)

    # As types: PySpark reads them in the worker.
    placed.__annotations__ = {"values": pa.Array, "places": pa.Array, "return": pa.Array}
    alone.__annotations__ = {"values": pa.Array, "return": pa.Array}
    arrow_udf: Any = functions.arrow_udf  # type: ignore[attr-defined]  # PySpark gives it no types
    through = arrow_udf(placed if at else alone, returnType=kind)
    made: Column = through(column, functions.struct(*at)) if at else through(column)
    return made
