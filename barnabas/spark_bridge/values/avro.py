"""Avro through `fastavro`, with types as Spark's own `from_avro` gives them (which needs a jar)."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark_bridge.values.avro_bounds import check_depth, reading, wrapped
from barnabas.spark_bridge.values.columns import check_mode, over_column
from barnabas.spark_bridge.values.registry import HEADER_BYTES, BadValue, check_address, schema_by_id, schema_id

if TYPE_CHECKING:
    from pyspark.sql import Column

NEEDS_FASTAVRO: Final = "Avro needs fastavro: run pip install '.[values]' in a checkout of Barnabas"

_PLAIN: Final = {
    "null": "void", "boolean": "boolean", "int": "int", "long": "bigint", "float": "float", "double": "double",
    "bytes": "binary", "string": "string", "enum": "string", "fixed": "binary",
}  # fmt: skip
_LOGICAL: Final = {
    ("int", "date"): "date", ("long", "timestamp-millis"): "timestamp", ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz", ("long", "local-timestamp-micros"): "timestamp_ntz",
}  # fmt: skip
_WIDER: Final = ({"int": "int", "long": "bigint"}, {"float": "float", "double": "double"})


def from_avro(
    column: Column | str,
    schema: str | Mapping[str, Any],
    *,
    registry: str | None = None,
    header: bool = False,
    mode: str = "FAILFAST",
    at: Sequence[Column | str] = (),
) -> Column:
    """Avro values as a column of the schema's type.

    Args:
        column: of binary values.
        schema: JSON, or what it stands for: how the values were written, with a `registry` how they are to be read.
        registry: a schema registry's address. Each value begins with the id of the schema it was written with, which
            is fetched by each worker once, and resolved with `schema` by Avro's rules.
        header: values begin with such an id, which is passed over.
        mode: FAILFAST ends the query at a bad value, PERMISSIVE makes it null. A registry that gives no answer ends it
            in either (RegistryAway).
        at: columns that say where a value stands, such as `("topic", "partition", "offset")`: an error says it.

    Raises:
        BadValue: the schema is none, or has something that Spark has no type for; the registry's address is none.
        ImportError: fastavro is not installed.
    """
    if registry is not None:
        check_address(registry)
    text = schema if isinstance(schema, str) else json.dumps(schema)
    nulls = check_mode(mode)
    result = spark_type(text)
    return over_column(column, result, partial(_reader, text, registry, header), nulls=nulls, at=at)


def to_avro(column: Column | str, schema: str | Mapping[str, Any], *, schema_id: int | None = None) -> Column:
    """A column as Avro values, behind a registry's header where a `schema_id` is given.

    Raises:
        BadValue: the schema is none.
        ImportError: fastavro is not installed.
    """
    text = schema if isinstance(schema, str) else json.dumps(schema)
    _parsed(text)
    return over_column(column, "binary", partial(_writer, text, schema_id), nulls=False)


def spark_type(schema: str) -> str:
    """The type of a schema's values in Spark's words, as its SchemaConverters have it.

    Raises:
        BadValue: the schema is none, or has something that Spark has no type for.
    """
    return _ddl(json.loads(_parsed_text(schema)), {}, "the schema")


def _ddl(schema: Any, named: dict[str, str], at: str) -> str:
    """A schema's type in Spark's words; `named` has the types that were defined before."""
    if isinstance(schema, list):
        return _union(schema, named, at)
    if isinstance(schema, str):
        found = _PLAIN.get(schema) or named.get(schema)
        if not found:
            raise BadValue(
                f"{at}: the type {schema!r} is used within itself or nowhere defined: Spark has no such type"
            )
        return found
    kind, logical = schema["type"], schema.get("logicalType")
    if kind in ("record", "error"):
        fields = [(field["name"], field["type"]) for field in schema["fields"]]
        found = f"struct<{', '.join(f'`{name}`: ' + _ddl(each, named, f'{at}.{name}') for name, each in fields)}>"
    elif kind == "array":
        return f"array<{_ddl(schema['items'], named, f'{at}[]')}>"
    elif kind == "map":
        return f"map<string, {_ddl(schema['values'], named, f'{at}[]')}>"
    elif logical == "decimal" and kind in ("bytes", "fixed"):
        found = f"decimal({schema['precision']},{schema.get('scale', 0)})"
    else:
        found = _LOGICAL.get((kind, logical)) or _ddl(kind, named, at)
    if "name" in schema:
        named[schema["name"]] = found
    return found


def _union(members: list[Any], named: dict[str, str], at: str) -> str:
    kinds = [member for member in members if member != "null"]
    if len(kinds) == 1:
        return _ddl(kinds[0], named, at)
    for wider in _WIDER:
        if kinds and all(isinstance(kind, str) and kind in wider for kind in kinds):
            return list(wider.values())[-1]
    raise BadValue(
        f"{at}: Spark has no type for a union of {len(kinds)} types; give a schema in which it is one of them"
    )


@lru_cache(maxsize=1000)
def _parsed(text: str) -> Any:
    return _parse(text, lambda schema: schema)


@lru_cache(maxsize=1000)
def _wrapped(text: str) -> Any:
    return _parse(text, wrapped)


@lru_cache(maxsize=1000)
def _reading(text: str) -> Callable[[bytes, int, Any], Any]:
    return reading(_wrapped(text))


def _parse(text: str, made_of: Callable[[Any], Any]) -> Any:
    try:
        import fastavro
    except ImportError as error:
        raise ImportError(NEEDS_FASTAVRO) from error
    try:
        schema = json.loads(text)
        check_depth(schema)
        return fastavro.parse_schema(made_of(schema))
    except (ValueError, KeyError, TypeError, RecursionError, fastavro.schema.SchemaParseException) as error:
        why = error if isinstance(error, BadValue) else repr(error)
        raise BadValue(f"no schema of Avro's: {why} in {text[:200]}") from error


@lru_cache(maxsize=1000)
def _parsed_text(text: str) -> str:
    """The schema with the full names that its references use."""
    return json.dumps(_parsed(text))


def _reader(text: str, registry: str | None, header: bool) -> Callable[[bytes], Any]:
    """Called in the worker: what reads one value."""
    own, wanted = _reading(text), _wrapped(text)
    find = None if registry is None else _asking(registry)
    begin = HEADER_BYTES if header or registry is not None else 0

    def read(value: bytes) -> Any:
        read_one, resolved = own, None
        if find is not None:
            written = find(schema_id(value))
            read_one, resolved = _reading(written), None if written == text else wanted
        elif header:
            schema_id(value)
        try:
            return _plain(read_one(value, begin, resolved))
        except Exception as error:  # fastavro's, struct's, or whatever a wrong length leads to
            why = error if isinstance(error, BadValue) else repr(error)
            raise BadValue(f"no value of the schema ({why}): {value[:16].hex(' ')}, {len(value)} bytes") from error

    return read


def _asking(registry: str) -> Callable[[int], str]:
    """What finds the schema of an id. What the registry has not is not asked for again: it lives for a batch."""
    refused: dict[int, str] = {}

    def find(number: int) -> str:
        if number in refused:
            raise BadValue(refused[number])
        try:
            found = schema_by_id(registry, number)
            _reading(found)
            return found
        except BadValue as error:
            refused[number] = str(error)
            raise

    return find


def _plain(found: Any) -> Any:
    """What Arrow takes for Spark's types: times of day count microseconds, UUIDs are text."""
    if isinstance(found, dict):
        return {key: _plain(value) for key, value in found.items()}
    if isinstance(found, list):
        return [_plain(value) for value in found]
    if isinstance(found, dt.time):
        return ((found.hour * 60 + found.minute) * 60 + found.second) * 1_000_000 + found.microsecond
    return str(found) if type(found).__name__ == "UUID" else found


def _writer(text: str, number: int | None) -> Callable[[Any], bytes]:
    """Called in the worker: what writes one value."""
    import fastavro

    schema = _parsed(text)
    head = b"" if number is None else b"\0" + number.to_bytes(4, "big")

    def write(value: Any) -> bytes:
        target = io.BytesIO()
        target.write(head)
        try:
            fastavro.schemaless_writer(target, schema, value)
        except Exception as error:
            raise BadValue(f"no value of the schema ({error!r}): {str(value)[:100]}") from error
        return target.getvalue()

    return write
