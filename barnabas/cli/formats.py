"""Records as text and back: a format string in the manner of kcat, or a JSON object in a line.

JSON carries every byte: what is UTF-8 is a string, what is not is {"base64": "..."}, and null is null.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.protocol.errors import ConfigError

if TYPE_CHECKING:
    from barnabas.client.consume.record import ConsumerRecord

Headers = Sequence[tuple[str, bytes | None]]
Formatted = Callable[["ConsumerRecord"], bytes]
"""A record as bytes, with what follows it."""

TOKENS: Final = {
    "t": "topic",
    "p": "partition",
    "o": "offset",
    "T": "timestamp (ms since 1970)",
    "k": "key",
    "K": "length of the key (-1: null)",
    "s": "value",
    "S": "length of the value (-1: null)",
    "R": "the same as 4 bytes, big-endian",
    "h": "headers (n=v,n=v; one that is null: n)",
}
_ESCAPED: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|.?)", re.DOTALL)
_PLAIN: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_PASSED_OVER: Final = ("topic", "offset", "timestamp_type")
_KNOWN: Final = ("key", "value", "headers", "partition", "timestamp_ms")
_TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")


class BadInput(ConfigError):
    """Something that was to become a record and is none."""


# ---- format strings --------------------------------------------------------------------------------------------------


def escaped(text: str) -> bytes:
    r"""Text with \n, \r, \t, \0, \\ and \xNN as bytes."""
    parts, at = [], 0
    for found in _ESCAPED.finditer(text):
        parts.append(text[at : found.start()].encode())
        what = found[1]
        if len(what) == 3:
            parts.append(bytes.fromhex(what[1:]))
        elif what in _PLAIN:
            parts.append(_PLAIN[what])
        else:
            raise argparse.ArgumentTypeError(rf"\{what} stands for nothing: write \n, \r, \t, \0, \\ or \xNN")
        at = found.end()
    return b"".join([*parts, text[at:].encode()])


def compiled(text: str, null: bytes) -> Formatted:
    """A format string; `null` stands for a key or a value that is null."""
    makers = _makers(null)
    parts: list[bytes | Formatted] = []
    literals = re.split(r"%(.?)", text, flags=re.DOTALL)
    for at, part in enumerate(literals):
        if at % 2 == 0:
            parts.append(escaped(part))
        elif part == "%":
            parts.append(b"%")
        elif part in makers:
            parts.append(makers[part])
        else:
            known = ", ".join(f"%{token} {what}" for token, what in TOKENS.items())
            raise argparse.ArgumentTypeError(f"%{part} stands for nothing; there are {known}, and %% for %")
    return lambda record: b"".join([part if isinstance(part, bytes) else part(record) for part in parts])


def _makers(null: bytes) -> dict[str, Formatted]:
    return {
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "T": lambda record: b"%d" % record.timestamp,
        "k": lambda record: null if record.key is None else record.key,
        "K": lambda record: b"%d" % _length(record.key),
        "s": lambda record: null if record.value is None else record.value,
        "S": lambda record: b"%d" % _length(record.value),
        "R": lambda record: _length(record.value).to_bytes(4, "big", signed=True),
        "h": lambda record: b",".join(map(_header, record.headers)),
    }


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _header(header: tuple[str, bytes | None]) -> bytes:
    name, value = _name(header[0]), header[1]
    return name if value is None else b"%b=%b" % (name, value)


def header(text: str) -> tuple[str, bytes | None]:
    """`NAME=VALUE`, or `NAME` for one whose value is null."""
    name, equals, value = text.partition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text}: write NAME=VALUE, or NAME for one that is null")
    return name, value.encode() if equals else None


# ---- JSON ------------------------------------------------------------------------------------------------------------


def as_json(record: ConsumerRecord) -> bytes:
    """A record as a line of JSON."""
    told = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "timestamp_type": _TIMESTAMP_TYPES[record.timestamp_type],
        "key": json_text(record.key),
        "value": json_text(record.value),
        "headers": [[json_text(_name(name)), json_text(value)] for name, value in record.headers],
    }
    return json.dumps(told, ensure_ascii=False).encode() + b"\n"


def _name(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")  # bytes that are no UTF-8 come so


def json_text(data: bytes | None) -> str | dict[str, str] | None:
    """Bytes as JSON has them."""
    if data is None:
        return None
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


class Given(NamedTuple):
    """A record that is to be sent; what is None is left to the producer, but a `value` or `key` is null."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def of_json(line: bytes) -> Given:
    """A record from a line of JSON, such as `as_json` makes.

    Raises:
        BadInput: it is none.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"it is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadInput('it is no JSON object: write {"key": ..., "value": ...}, or leave --json out')
    unknown = [name for name in found if name not in _KNOWN and name not in _PASSED_OVER]
    if unknown:
        raise BadInput(f"{unknown[0]!r} is nothing a record has; it has {', '.join(_KNOWN)}")
    if "value" not in found:
        raise BadInput('it has no value; write "value": null for a tombstone')
    return Given(
        _meant(found["value"], "value"),
        _meant(found.get("key"), "key"),
        _headers(found.get("headers")),
        _number(found, "partition"),
        _number(found, "timestamp_ms"),
    )


def _meant(told: Any, what: str) -> bytes | None:
    if told is None:
        return None
    if isinstance(told, str):
        try:
            return told.encode()
        except UnicodeEncodeError:
            raise BadInput(f'{what} holds half of a character; write bytes as {{"base64": "..."}}') from None
    if isinstance(told, dict) and list(told) == ["base64"] and isinstance(told["base64"], str):
        try:
            return base64.b64decode(told["base64"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadInput(f"{what} is no base64: {error}") from None
    raise BadInput(f'{what} is a JSON {type(told).__name__}: write a string, null or {{"base64": "..."}}')


def _headers(told: Any) -> Headers:
    pairs = list(told.items()) if isinstance(told, dict) and "base64" not in told else [] if told is None else told
    if not isinstance(pairs, list):
        raise BadInput('headers: write [["name", "value"], ...]')
    made = []
    for each in pairs:
        if not (isinstance(each, list | tuple) and len(each) == 2):
            raise BadInput('headers: write [["name", "value"], ...]')
        name = _meant(each[0], "a header's name")
        if name is None:
            raise BadInput("a header's name cannot be null")
        made.append((name.decode("utf-8", "surrogateescape"), _meant(each[1], f"header {each[0]}")))
    return made


def _number(found: dict[str, Any], name: str) -> int | None:
    told = found.get(name)
    if told is not None and (not isinstance(told, int) or isinstance(told, bool)):
        raise BadInput(f"{name} is {told!r}, and no whole number")
    return None if told == -1 else told
