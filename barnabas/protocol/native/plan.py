"""Messages as plain maps and back, derived from the dataclasses: there is no code per API.

A dataclass becomes a map from field name to value, without the fields that hold their default. Records become
`[position, size]` within the payload that follows the map; their bytes are never copied into it. Names nobody knows are
ignored, absent ones have their default: both sides can grow.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Generator
from functools import cache
from typing import Any, Final

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.ids import Buffer, Bytes

_INT_MIN: Final = -(1 << 63)
_INT_MAX: Final = (1 << 63) - 1
_UUID_SIZE: Final = 16


class Payloads:
    """The record batches of a message on its way out, by reference, and their place in the payload."""

    __slots__ = ("buffers", "size")

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.size = 0

    def add(self, records: Buffer | list[Buffer]) -> list[int]:
        """Take records along; their position and size in bytes."""
        position = self.size
        if isinstance(records, list):
            self.buffers += records
            self.size += sum(map(len, records))
        else:
            self.buffers.append(records)
            self.size += len(records)
        return [position, self.size - position]


SHOWN_MAX: Final = 60
PACKED_PER_STEP: Final = 250
"""Elements that are written in one step, where a message is written in steps: one to two ms."""
BYTES_PER_STEP: Final = 1024 * 1024
"""Bytes, likewise: they are copied."""

Writer = Callable[[Any, Payloads], Any]
Reader = Callable[[Any, "Source"], Any]
"""(plain value, what it is read from) to the field's value."""
_StepsPlan = list[tuple[str, Any, Writer | None, "Any", Writer | None]]


@cache
def writer(kind: Any) -> Writer | None:
    """How values of a type become plain; None where they already are."""
    options = _options(kind)
    if options is _RECORDS:
        return lambda value, payloads: payloads.add(value)
    if options is not None:
        return _optional_writer(writer(options))
    if typing.get_origin(kind) is list:
        return _list_writer(writer(typing.get_args(kind)[0]))
    if dataclasses.is_dataclass(kind):
        return _struct_writer(kind)
    return None


def _optional_writer(inner: Writer | None) -> Writer | None:
    if inner is None:
        return None
    write = inner
    return lambda value, payloads: None if value is None else write(value, payloads)


def _list_writer(inner: Writer | None) -> Writer | None:
    if inner is None:
        return None
    write = inner
    return lambda value, payloads: [write(element, payloads) for element in value]


def _struct_writer(cls: Any) -> Writer:
    hints = _hints(cls)
    plan = [(field.name, _default(field)(), writer(hints[field.name])) for field in dataclasses.fields(cls)]

    def write(message: Any, payloads: Payloads) -> dict[str, Any]:
        plain = {}
        for name, default, inner in plan:
            value = getattr(message, name)
            if value != default:
                plain[name] = value if inner is None else inner(value, payloads)
        return plain

    return write


def pack_in_steps(cls: Any, message: Any, payloads: Payloads, packer: Any) -> Generator[None, None, list[bytes]]:
    """Write as `writer` and msgpack would, in steps of `PACKED_PER_STEP` elements or `BYTES_PER_STEP`; the pieces.

    Raises:
        TypeError, ValueError, OverflowError: it holds what msgpack cannot carry.
    """
    pieces: list[bytes] = []
    for _ in _pack(_steps_plan(cls), message, payloads, packer, [PACKED_PER_STEP]):
        pieces.append(packer.bytes())
        packer.reset()
        yield None
    return [*pieces, packer.bytes()]


def _pack(
    plan: _StepsPlan, message: Any, payloads: Payloads, packer: Any, left: list[int]
) -> Generator[None, None, None]:
    fields = [one for one in plan if getattr(message, one[0]) != one[1]]
    packer.pack_map_header(len(fields))
    for name, _, write, inner, whole in fields:
        packer.pack(name)
        value = getattr(message, name)
        if inner is None or value is None:
            packer.pack(value if write is None else write(value, payloads))
            continue
        packer.pack_array_header(len(value))
        for element in value:
            if whole is not None:
                packer.pack(whole(element, payloads))
            else:
                yield from _pack(inner, element, payloads, packer, left)
            left[0] -= 1
            if left[0] <= 0 or packer.getbuffer().nbytes > BYTES_PER_STEP:
                left[0] = PACKED_PER_STEP
                yield None


@cache
def _steps_plan(cls: Any) -> _StepsPlan:
    """Of each field: name, default, how it becomes plain.

    Of a list of messages the plan of these as well, and how each becomes plain as a whole where it has no such list.
    """
    hints = _hints(cls)
    plan: _StepsPlan = []
    for field in dataclasses.fields(cls):
        kind = hints[field.name]
        options = _options(kind)
        listed = kind if options is None or options is _RECORDS else options
        of = typing.get_args(listed)[0] if typing.get_origin(listed) is list else None
        inner = _steps_plan(of) if isinstance(of, type) and dataclasses.is_dataclass(of) else None
        deep = inner is not None and any(one[3] is not None for one in inner)
        plan.append(
            (field.name, _default(field)(), writer(kind), inner, writer(of) if inner is not None and not deep else None)
        )
    return plan


def _hints(cls: Any) -> dict[str, Any]:
    """The types of a message's fields; `Bytes` stays apart from a uuid."""
    return typing.get_type_hints(cls, include_extras=True)


def _default(field: dataclasses.Field[Any]) -> Callable[[], Any]:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    return lambda: field.default


_RECORDS: Final = object()


def _options(kind: Any) -> Any:
    """What an optional type is when it is not None; `_RECORDS` for record batches; None for other types."""
    if typing.get_origin(kind) not in (types.UnionType, typing.Union):
        return None
    options = [option for option in typing.get_args(kind) if option is not type(None)]
    return _RECORDS if memoryview in options else options[0]


class Source:
    """What a message is read from: where its records lie, and how many elements of arrays it may still have."""

    __slots__ = ("left", "payload")

    def __init__(self, payload: memoryview, elements_max: int) -> None:
        self.payload = payload
        self.left = elements_max


class TooMany(Exception):
    """A message has more elements in its arrays, at any depth, than it may have."""


class _Misfit(Exception):
    """A plain value is no value of its field's type; each message on the way out puts its field before `path`."""

    def __init__(self, value: Any, wanted: str) -> None:
        self.path = ""
        self.what = f"{shown(value)}, which is not {wanted}"


def read_message(cls: Any, value: Any, source: Source) -> Any:
    """A message of a class from its plain form.

    Raises:
        ProtocolError: a value does not fit its field; says which.
        TooMany: see there.
    """
    try:
        return _reader(cls)(value, source)
    except _Misfit as fault:
        raise ProtocolError(f"{cls.__name__}{fault.path} is {fault.what}") from None


@cache
def _reader(kind: Any) -> Reader:
    """How plain values become values of a type; raises `_Misfit` for what does not fit."""
    options = _options(kind)
    if options is _RECORDS:
        return _read_records
    if options is not None:
        inner = _reader(options)
        return lambda value, source: None if value is None else inner(value, source)
    if typing.get_origin(kind) is list:
        return _list_reader(_reader(typing.get_args(kind)[0]))
    if dataclasses.is_dataclass(kind):
        return _struct_reader(kind)
    return _READERS[kind]


def _struct_reader(cls: Any) -> Reader:
    hints = _hints(cls)
    plan = {field.name: _reader(hints[field.name]) for field in dataclasses.fields(cls)}

    def read(value: Any, source: Source) -> Any:
        if type(value) is not dict:
            raise _Misfit(value, "a map")
        message = cls()
        name = ""
        try:
            for name, plain in value.items():
                inner = plan.get(name)
                if inner is not None:
                    setattr(message, name, inner(plain, source))
        except _Misfit as fault:
            fault.path = f".{name}{fault.path}"
            raise
        return message

    return read


def _list_reader(inner: Reader) -> Reader:
    def read(value: Any, source: Source) -> list[Any]:
        if type(value) is not list:
            raise _Misfit(value, "an array")
        source.left -= len(value)
        if source.left < 0:
            raise TooMany
        return [inner(element, source) for element in value]

    return read


def _read_records(value: Any, source: Source) -> memoryview | None:
    if value is None:
        return None
    if type(value) is not list or len(value) != 2 or type(value[0]) is not int or type(value[1]) is not int:
        raise _Misfit(value, "an array of position and size")
    (position, size), payload = value, source.payload
    if position < 0 or size < 0 or position + size > len(payload):
        raise _Misfit(value, f"within the payload of {len(payload)} bytes")
    return payload[position : position + size]


def _read_int(value: Any, source: Source) -> int:
    if type(value) is not int or not _INT_MIN <= value <= _INT_MAX:
        raise _Misfit(value, "a signed integer of 64 bits")
    return value


def _read_uuid(value: Any, source: Source) -> bytes:
    if type(value) is not bytes or len(value) != _UUID_SIZE:
        raise _Misfit(value, "a uuid of 16 bytes")
    return value


def _read_bytes(value: Any, source: Source) -> bytes:
    if type(value) is not bytes:
        raise _Misfit(value, "bytes")
    return value


def _read_bool(value: Any, source: Source) -> bool:
    if type(value) is not bool:
        raise _Misfit(value, "a boolean")
    return value


def _read_float(value: Any, source: Source) -> float:
    if type(value) is not float:
        raise _Misfit(value, "a float")
    return value


def _read_str(value: Any, source: Source) -> str:
    if type(value) is not str:
        raise _Misfit(value, "a string")
    return value


_READERS: Final[dict[Any, Reader]] = {
    int: _read_int,
    str: _read_str,
    bool: _read_bool,
    float: _read_float,
    bytes: _read_uuid,
    Bytes: _read_bytes,
}


def shown(value: Any) -> str:
    """A value in a message: its beginning, for it may be as long as a request."""
    if isinstance(value, str | bytes):
        return repr(value[:SHOWN_MAX])
    if isinstance(value, list | dict):
        return f"{'an array' if isinstance(value, list) else 'a map'} of {len(value)}"
    return repr(value)
