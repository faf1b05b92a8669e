"""Protobuf through Google's `protobuf`, with types as Spark's own `from_protobuf` gives them (which needs a jar).

What differs from there: a field that proto3 gives no presence has its default value, not null, when it is not written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark_bridge.values.columns import check_mode, over_column
from barnabas.spark_bridge.values.registry import BadValue, message_start

if TYPE_CHECKING:
    from pyspark.sql import Column

NEEDS_PROTOBUF: Final = "Protobuf needs protobuf: run pip install '.[values]' in a checkout of Barnabas"
DEPTH_MAX: Final = 20
"""Messages within messages; one that holds itself has no type in Spark."""

_TIMESTAMP, _DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
# By the numbers of FieldDescriptor.TYPE_*.
_PLAIN: Final = {
    1: "double", 2: "float", 3: "bigint", 4: "decimal(20,0)", 5: "int", 6: "decimal(20,0)", 7: "bigint", 8: "boolean",
    9: "string", 12: "binary", 13: "bigint", 14: "string", 15: "int", 16: "bigint", 17: "int", 18: "bigint",
}  # fmt: skip
_ENUM: Final = 14


def from_protobuf(
    column: Column | str,
    message: Any,
    descriptors: bytes | str | Path | None = None,
    *,
    header: bool = False,
    mode: str = "FAILFAST",
    at: Sequence[Column | str] = (),
) -> Column:
    """Protobuf values as a struct.

    Args:
        column: of binary values.
        message: a generated message class, which workers need not have; or a message's full name, with `descriptors`.
        descriptors: what `protoc --include_imports --descriptor_set_out=FILE` writes: the bytes, or the file's path.
        header: values begin with a registry's header, which is passed over.
        mode: FAILFAST ends the query at a bad value, PERMISSIVE makes it null.
        at: columns that say where a value stands, such as `("topic", "partition", "offset")`: an error says it.

    Raises:
        BadValue: there is no such message, or Spark has no type for it.
        ImportError: protobuf is not installed.
    """
    if isinstance(message, str):
        if descriptors is None:
            raise BadValue(f"message {message!r}: give descriptors as well, or a generated class in place of the name")
        name, files = message, descriptors if isinstance(descriptors, bytes) else Path(descriptors).read_bytes()
    else:
        name, files = message.DESCRIPTOR.full_name, _files_of(message.DESCRIPTOR.file)
    nulls = check_mode(mode)
    result = spark_type(name, files)
    return over_column(column, result, partial(_reader, name, files, header), nulls=nulls, at=at)


def spark_type(name: str, files: bytes) -> str:
    """The type of a message in Spark's words, as its SchemaConverters have it.

    Raises:
        BadValue: there is no such message, or Spark has no type for it.
    """
    return _struct(_message(name, files).DESCRIPTOR, 0)


def _files_of(file: Any) -> bytes:
    """A message's file and all that it imports, as `protoc` would write them."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

    found: dict[str, Any] = {}

    def add(each: Any) -> None:
        if each.name not in found:
            for other in each.dependencies:
                add(other)
            proto = FileDescriptorProto()
            each.CopyToProto(proto)
            found[each.name] = proto

    add(file)
    written: bytes = FileDescriptorSet(file=found.values()).SerializeToString(deterministic=True)
    return written


@lru_cache(maxsize=100)
def _message(name: str, files: bytes) -> Any:
    """The class of a message, in a pool of its own: another schema may use the same names."""
    try:
        from google.protobuf import message, message_factory
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.descriptor_pool import DescriptorPool
    except ImportError as error:
        raise ImportError(NEEDS_PROTOBUF) from error
    pool = DescriptorPool()
    try:
        for file in FileDescriptorSet.FromString(files).file:
            pool.Add(file)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except (KeyError, TypeError, message.DecodeError) as error:
        raise BadValue(
            f"message {name!r} is not in the descriptors (were they written with --include_imports?): {error}"
        ) from error


def _struct(descriptor: Any, depth: int) -> str:
    if descriptor.full_name == _TIMESTAMP:
        return "timestamp"
    if descriptor.full_name == _DURATION:
        return "interval day to second"
    if depth == DEPTH_MAX:
        raise BadValue(f"the message {descriptor.full_name} holds itself: Spark has no such type")
    parts = (f"`{field.name}`: {_field(field, depth + 1)}" for field in descriptor.fields)
    return f"struct<{', '.join(parts)}>"


def _field(field: Any, depth: int) -> str:
    if _is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return f"map<{_one(key, depth)}, {_one(value, depth)}>"
    return f"array<{_one(field, depth)}>" if _repeated(field) else _one(field, depth)


def _one(field: Any, depth: int) -> str:
    return _struct(field.message_type, depth) if field.message_type is not None else _PLAIN[field.type]


def _repeated(field: Any) -> bool:
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == 3)  # before protobuf 6.31


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _reader(name: str, files: bytes, header: bool) -> Callable[[bytes], Any]:
    """Called in the worker: what reads one value."""
    from google.protobuf.message import DecodeError

    kind = _message(name, files)

    def read(value: bytes) -> Any:
        try:
            return _plain(kind.FromString(value[message_start(value) :] if header else value))
        except DecodeError as error:
            raise BadValue(f"no value of {name} ({error}): {value[:16].hex(' ')}, {len(value)} bytes") from error

    return read


def _plain(found: Any) -> Any:
    """What Arrow takes for Spark's types."""
    descriptor = found.DESCRIPTOR
    if descriptor.full_name == _TIMESTAMP:
        return found.seconds * 1_000_000 + found.nanos // 1000  # Arrow counts microseconds, whatever the year
    if descriptor.full_name == _DURATION:
        return found.seconds * 1_000_000 + int(found.nanos / 1000)
    return {field.name: _value(found, field) for field in descriptor.fields}


def _value(found: Any, field: Any) -> Any:
    if _is_map(field):
        kind = field.message_type.fields_by_name["value"]
        return [(key, _scalar(kind, value)) for key, value in getattr(found, field.name).items()]
    if _repeated(field):
        return [_scalar(field, value) for value in getattr(found, field.name)]
    if field.has_presence and not found.HasField(field.name):
        return None
    return _scalar(field, getattr(found, field.name))


def _scalar(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _plain(value)
    if field.type == _ENUM:
        named = field.enum_type.values_by_number.get(value)
        return str(value) if named is None else named.name
    return value
