"""The PyPI package kio as an oracle: rich random messages of its classes, the same in our vocabulary, its bytes."""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import types
import typing
from functools import cache
from random import Random
from typing import Any
from uuid import UUID

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from barnabas.protocol.ids import ZERO_UUID

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
STRINGS = ["", "t", "topic-ü", "日本", "x" * 126, "y" * 127, "z" * 128, "n" * 300]
BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
TIMES = {"timedelta_i32": 31, "timedelta_i64": 45}
"""Bits of a time in ms that Python's own type can hold."""
ERRORS = sorted(ErrorCode, key=lambda code: code.value)


@cache
def kio_class(key: int, version: int, *, response: bool) -> Any:
    return (load_response_schema if response else load_request_schema)(key, version)


def write(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def read(cls: Any, data: bytes) -> Any:
    entity, size = entity_reader(cls)(data, 0)
    assert size == len(data)
    return entity


def _number(random: Random, bits: int) -> int:
    edge = 1 << bits
    return random.choice([0, 1, -1, edge - 1, -edge, random.randrange(-edge, edge)])


def _primitive(random: Random, kind: str) -> Any:
    if kind in BITS:
        return _number(random, BITS[kind])
    if kind == "uint16":
        return random.choice([0, 1, 9092, 65535])
    if kind == "float64":
        return random.choice([0.0, -1.5, 1e300, random.random()])
    if kind == "bool":
        return random.random() < 0.5
    if kind == "string":
        return random.choice(STRINGS)
    if kind == "uuid":
        return UUID(bytes=random.randbytes(16))
    if kind in ("records", "bytes"):
        return random.randbytes(random.choice([0, 1, 126, 127, 500]))
    if kind == "error_code":
        return random.choice(ERRORS)
    if kind in TIMES:
        return dt.timedelta(milliseconds=_number(random, TIMES[kind]))
    assert kind == "datetime_i64", kind
    return EPOCH + dt.timedelta(milliseconds=random.randrange(0, 1 << 41))


def _shape(hint: Any) -> tuple[bool, bool, Any]:
    """(nullable, array, element type)."""
    nullable = array = False
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        nullable, hint = True, options[0]
    if typing.get_origin(hint) is tuple:
        array, hint = True, typing.get_args(hint)[0]
    return nullable, array, hint


def generate(random: Random, cls: Any, *, nulls: bool = True) -> Any:
    """A message with values at the edges. Tagged fields get a value other than their default."""
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        nullable, array, hint = _shape(hints[field.name])
        kind = field.metadata.get("kafka_type")
        tagged = "tag" in field.metadata

        def one(hint: Any = hint, kind: Any = kind) -> Any:
            return generate(random, hint, nulls=nulls) if kind is None else _primitive(random, kind)

        if nullable and nulls and not tagged and kind not in ("uuid", "datetime_i64") and random.random() < 0.25:
            values[field.name] = None
            continue
        while True:
            value = tuple(one() for _ in range(random.choice([0, 1, 2, 3]))) if array else one()
            # Kafka elides tagged fields that hold their default; the oracle writes some of them.
            if not tagged or value != field.default:
                break
        values[field.name] = value
    return cls(**values)


def plain(value: Any) -> Any:
    """A value of the oracle in our terms."""
    if isinstance(value, ErrorCode):
        return value.value
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(milliseconds=1)
    if isinstance(value, dt.datetime):
        return (value - EPOCH) // dt.timedelta(milliseconds=1)
    return value


def ours(entity: Any, cls: Any) -> Any:
    """The same message in our vocabulary."""
    hints = typing.get_type_hints(cls)
    message = cls()
    kinds = {field.name: field for field in dataclasses.fields(entity)}
    for name, field in kinds.items():
        value = getattr(entity, name)
        mine = name if name in hints else f"{name}_ms"
        assert mine in hints, f"{cls.__name__} lacks {name}"
        inner = _shape_of_ours(hints[mine])
        converted: Any
        if value is None:
            kind = field.metadata.get("kafka_type")
            converted = ZERO_UUID if kind == "uuid" else -1 if kind == "datetime_i64" else None
        elif isinstance(value, tuple):
            converted = [
                ours(element, inner) if dataclasses.is_dataclass(element) else plain(element) for element in value
            ]
        elif dataclasses.is_dataclass(value):
            converted = None if "tag" in field.metadata and _is_default(value, field.default) else ours(value, inner)
        else:
            converted = plain(value)
        setattr(message, mine, converted)
    return message


def _is_default(value: Any, default: Any) -> bool:
    """Whether a tagged struct is not written; the oracle gives no default where those of all its fields are zero."""
    return not any(dataclasses.astuple(value)) if default is dataclasses.MISSING else bool(value == default)


def _shape_of_ours(hint: Any) -> Any:
    if isinstance(hint, types.UnionType):
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        hint = options[0]
    return typing.get_args(hint)[0] if typing.get_origin(hint) is list else hint
