"""Keys and values to bytes and back: bytes, string, JSON, msgpack, or any function.

A serializer is named in the settings (`value.serializer="json"`) or given as a function of the value. None stays None:
a null key chooses no partition, a null value is a tombstone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from barnabas.client.errors import SerializationFailed
from barnabas.net.errors import ConfigError

Serializer = Callable[[Any], bytes | None]
Deserializer = Callable[[Any], Any]

_OTHERS: Final = "another serializer (bytes, string, json, msgpack, a function)"


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"bytes wanted, not {type(value).__name__}; set a serializer (string, json, msgpack, a function)")


def _string(value: Any) -> bytes | None:
    if value is None:
        return None
    try:
        return str.encode(value)
    except TypeError:
        raise TypeError(f"a string wanted, not {type(value).__name__}; give str(value), or set {_OTHERS}") from None


def _json(value: Any) -> bytes | None:
    if value is None:
        return None
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    except TypeError as error:
        raise TypeError(f"{error}; give what JSON can write, or set {_OTHERS}") from None


def _msgpack(value: Any) -> bytes | None:
    if value is None:
        return None
    import msgpack  # loaded by those who use it: start-up is counted in milliseconds

    try:
        packed: bytes = msgpack.packb(value)
    except TypeError as error:
        raise TypeError(f"{error}; give what msgpack can write, or set {_OTHERS}") from None
    return packed


def _read_msgpack(data: Any) -> Any:
    import msgpack

    return msgpack.unpackb(data)


SERIALIZERS: Final[dict[str, Serializer]] = {"bytes": _bytes, "string": _string, "json": _json, "msgpack": _msgpack}

DESERIALIZERS: Final[dict[str, Deserializer]] = {
    "bytes": bytes,
    "string": lambda data: str(data, "utf-8"),
    "json": lambda data: json.loads(bytes(data)),
    "msgpack": _read_msgpack,
}


def serializer(setting: Any, key: str) -> Serializer:
    """The function behind a setting: one of the four names, a function, or an object with `serialize`.

    Raises:
        ConfigError: neither.
    """
    found: Serializer = _find(setting, key, SERIALIZERS, "serialize")
    return found


def deserializer(setting: Any, key: str) -> Deserializer:
    """The function behind a consumer's setting; it is never called with None.

    Raises:
        ConfigError: neither a known name nor a function.
    """
    found: Deserializer = _find(setting, key, DESERIALIZERS, "deserialize")
    return found


def plain_bytes(*functions: Serializer) -> bool:
    """Whether all of these only pass bytes through."""
    return all(function is _bytes for function in functions)


def keeps_octets(function: Serializer) -> bool:
    """Whether bytes, and text as UTF-8, are what it makes of them anyway."""
    return function is _bytes or function is _string


def _find(setting: Any, key: str, named: dict[str, Any], method: str) -> Any:
    if setting is None:
        return named["bytes"]
    if isinstance(setting, str):
        if setting not in named:
            raise ConfigError(f"{key}: {setting!r} is none of {', '.join(named)}, nor a function")
        return named[setting]
    found = getattr(setting, method, setting)
    if not callable(found):
        raise ConfigError(f"{key}: {setting!r} is neither a function nor one of {', '.join(named)}")
    return found


def serialize(function: Serializer, what: str, value: Any) -> bytes | None:
    """Call a serializer; what it returns must be bytes or None.

    Raises:
        SerializationFailed: it raised, or returned something else.
    """
    try:
        data = function(value)
    except Exception as error:
        raise SerializationFailed(f"{what}: {error}") from error
    if data is not None and not isinstance(data, bytes):
        raise SerializationFailed(f"{what}: the serializer returned {type(data).__name__}, not bytes")
    return data
