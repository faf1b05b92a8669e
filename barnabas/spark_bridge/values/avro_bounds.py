"""What `fastavro` would take of a broken value, and must not. A worker has to live with whatever somebody produced.

- An index below 0, of an enum or a union, counts from the end there, as in Python's lists: a wrong value, no error.
- A count of items that take no bytes may be any: nine bytes keep a worker busy for ever, or cost all its memory.
- A type that holds itself goes as deep as the value says. Nothing bounds that in C, and the process dies of it.

The first is met in the schema itself, at a fifth of what reading costs. The others are possible with few schemas: their
values are walked through before they are read.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from barnabas.spark_bridge.values.registry import BadValue

DEPTH_MAX: Final = 100
"""Types within types; as deep as Protobuf's messages may be."""
_SCHEMA_DEPTH_MAX: Final = 3 * DEPTH_MAX
"""Of its JSON: a record's type is in its field, in the list of these, in the record."""
EMPTY_ITEMS_MAX: Final = 1000
"""Items without bytes, of one value: nulls, or records of nothing."""
_LONG_BYTES_MAX: Final = 10
_WIDTHS: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_WRAPPED: Final = "value"

_Step = Callable[[bytes, int, int, list[int]], int]
"""Takes the value, the place, the depth and the count of empty items so far; gives the place behind."""


class _Branches(list[Any]):
    """Symbols or branches, of which none has an index below 0.

    For `list[-1]` C asks for the length and adds it: to a length of 0, and so gets here with what was in the value.
    """

    __slots__ = ()

    def __len__(self) -> int:
        return 0

    def __getitem__(self, index: Any) -> Any:
        if index < 0:
            raise IndexError(f"there is no index {index}")
        return list.__getitem__(self, index)


def wrapped(schema: Any) -> Any:
    """The schema as a record's only field, which changes no byte: `fastavro` parses for each value what is none.

    Its name has no namespace, which those inside it would take for theirs.
    """
    return {"type": "record", "name": "__barnabas_value", "fields": [{"name": _WRAPPED, "type": schema}]}


def reading(parsed: Any) -> Callable[[bytes, int, Any], Any]:
    """What reads values of a wrapped and parsed schema, from a place on, resolved with another such schema, or None.

    It raises whatever `fastavro` does, and BadValue.
    """
    import fastavro

    walked = needs_walk(parsed) or not _guarded_lists_bite()
    step, guarded = (_step(parsed, {}), parsed) if walked else (None, _guarded(parsed))

    def read(value: bytes, at: int, wanted: Any) -> Any:
        if step is not None:
            step(value, at, 0, [0])
        source = io.BytesIO(value)
        source.seek(at)
        found: Any = fastavro.schemaless_reader(source, guarded, wanted)
        if source.read(1):
            raise BadValue("it goes on behind what the schema describes")
        return found[_WRAPPED]

    return read


@lru_cache(maxsize=1)
def _guarded_lists_bite() -> bool:
    """Whether this `fastavro` asks lists as expected; else all values are walked through, which costs as much again."""
    import fastavro

    schema = fastavro.parse_schema(wrapped(["null", {"type": "enum", "name": "E", "symbols": ["A"]}]))
    for value in (b"\x01", b"\x02\x01"):
        try:
            fastavro.schemaless_reader(io.BytesIO(value), _guarded(schema), None)
        except IndexError:
            continue
        return False
    return True


def _guarded(schema: Any) -> Any:
    if isinstance(schema, list):
        return _Branches(map(_guarded, schema))
    if not isinstance(schema, dict):
        return schema
    changed = dict(schema)
    if "symbols" in schema:
        changed["symbols"] = _Branches(schema["symbols"])
    if "fields" in schema:
        changed["fields"] = [{**field, "type": _guarded(field["type"])} for field in schema["fields"]]
    for key in ("type", "items", "values"):
        if key in schema:
            changed[key] = _guarded(schema[key])
    named = schema.get("__named_schemas")
    if named:
        changed["__named_schemas"] = {name: _guarded(each) for name, each in named.items()}
    return changed


def check_depth(schema: Any) -> None:
    """That a schema can be walked through at all.

    Raises:
        BadValue: it is nested too deeply.
    """
    level = [schema]
    for _ in range(_SCHEMA_DEPTH_MAX):
        level = [each for one in level for each in (one.values() if isinstance(one, dict) else one)]
        level = [each for each in level if isinstance(each, dict | list)]
        if not level:
            return
    raise BadValue(f"it is nested more than {_SCHEMA_DEPTH_MAX} levels deep")


def needs_walk(schema: Any) -> bool:
    """Whether a type holds itself, or an array's items may take no bytes."""
    return _finds(schema, {}, frozenset())


def _finds(schema: Any, named: dict[str, Any], within: frozenset[str]) -> bool:
    if isinstance(schema, list):
        return any(_finds(each, named, within) for each in schema)
    if isinstance(schema, str):
        return schema in within
    kind, name = schema["type"], schema.get("name")
    if name:
        named[name] = schema
    if kind in ("record", "error"):
        inside = within | {name}
        return any(_finds(field["type"], named, inside) for field in schema["fields"])
    if kind == "array":
        return _finds(schema["items"], named, within) or _is_empty(schema["items"], named, within)
    if kind == "map":
        return _finds(schema["values"], named, within)
    return kind not in ("fixed", "enum") and _finds(kind, named, within)


def _is_empty(schema: Any, named: dict[str, Any], within: frozenset[str]) -> bool:
    """Whether values of a type take no bytes."""
    if isinstance(schema, str):
        return schema == "null" or (
            schema in named and schema not in within and _is_empty(named[schema], named, within)
        )
    if isinstance(schema, list):
        return False
    kind = schema["type"]
    if kind in ("record", "error"):
        inside = within | {schema["name"]}
        return all(_is_empty(field["type"], named, inside) for field in schema["fields"])
    if kind == "fixed":
        return not schema["size"]
    return kind not in ("array", "map", "enum") and _is_empty(kind, named, within)


# ---- walking through a value -----------------------------------------------------------------------------------------


def _step(schema: Any, named: dict[str, _Step]) -> _Step:
    """What passes over a value of the schema, and raises BadValue at what must not be read."""
    if isinstance(schema, list):
        return _union([_step(each, named) for each in schema])
    if isinstance(schema, str):
        if schema in _WIDTHS:
            return _fixed(_WIDTHS[schema])
        if schema in ("int", "long"):
            return lambda value, at, depth, empty: _long(value, at)[1]
        if schema in ("bytes", "string"):
            return _sized
        return lambda value, at, depth, empty: named[schema](value, at, depth, empty)  # it may hold itself
    kind = schema["type"]
    if kind in ("record", "error"):
        made = _record([_step(field["type"], named) for field in schema["fields"]])
    elif kind == "array":
        made = _blocks(_step(schema["items"], named))
    elif kind == "map":
        made = _blocks(_record([_sized, _step(schema["values"], named)]))
    elif kind == "enum":
        made = _enum(len(schema["symbols"]))
    else:
        made = _fixed(schema["size"]) if kind == "fixed" else _step(kind, named)
    if "name" in schema:
        named[schema["name"]] = made
    return made


def _long(value: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    for place in range(at, min(at + _LONG_BYTES_MAX, len(value))):
        byte = value[place]
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), place + 1
    raise BadValue(f"no whole number at byte {at} of {len(value)}")


def _behind(value: bytes, at: int, size: int) -> int:
    if not 0 <= size <= len(value) - at:
        raise BadValue(f"{size} bytes at byte {at} of {len(value)}")
    return at + size


def _sized(value: bytes, at: int, _depth: int, _empty: list[int]) -> int:
    size, at = _long(value, at)
    return _behind(value, at, size)


def _fixed(size: int) -> _Step:
    return lambda value, at, depth, empty: _behind(value, at, size)


def _indexed(value: bytes, at: int, count: int) -> tuple[int, int]:
    index, at = _long(value, at)
    if not 0 <= index < count:
        raise BadValue(f"there is no index {index} of {count}")
    return index, at


def _enum(count: int) -> _Step:
    return lambda value, at, depth, empty: _indexed(value, at, count)[1]


def _union(branches: list[_Step]) -> _Step:
    def step(value: bytes, at: int, depth: int, empty: list[int]) -> int:
        index, at = _indexed(value, at, len(branches))
        return branches[index](value, at, depth, empty)

    return step


def _record(fields: list[_Step]) -> _Step:
    def step(value: bytes, at: int, depth: int, empty: list[int]) -> int:
        if depth > DEPTH_MAX:
            raise BadValue(f"records within records, more than {DEPTH_MAX} deep")
        for field in fields:
            at = field(value, at, depth + 1, empty)
        return at

    return step


def _blocks(item: _Step) -> _Step:
    def step(value: bytes, at: int, depth: int, empty: list[int]) -> int:
        if depth > DEPTH_MAX:
            raise BadValue(f"arrays and maps within each other, more than {DEPTH_MAX} deep")
        while True:
            count, at = _long(value, at)
            if not count:
                return at
            if count < 0:
                count, (_, at) = -count, _long(value, at)
            for _ in range(count):
                before, at = at, item(value, at, depth + 1, empty)
                if at == before:
                    empty[0] += 1
                    if empty[0] > EMPTY_ITEMS_MAX:
                        raise BadValue(f"more than {EMPTY_ITEMS_MAX} items that take no bytes")

    return step
