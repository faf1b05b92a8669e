"""The header that a schema registry's serializers write before a value, and the registry's two questions.

    00 | schema id (4 bytes, big endian) | message indexes (Protobuf only) | the value itself

Message indexes say which message of the schema's file it is: their count and each of them as a zigzag varint, where a
single 00 stands for the first message. Source: Confluent's wire format, which others speak as well.
"""

from __future__ import annotations

import json
import struct
from functools import lru_cache
from typing import Final
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from barnabas.protocol.errors import BarnabasError

HEADER_BYTES: Final = 5
ANSWER_S: Final = 10
SCHEMA_BYTES_MAX: Final = 1 << 20
_ID = struct.Struct(">bI")  # magic, schema id


class BadValue(BarnabasError, ValueError):
    """A value is not what its schema says, or its schema cannot be had or used."""


def schema_id(value: bytes) -> int:
    """The id in a value's header.

    Raises:
        BadValue: it has none.
    """
    if len(value) < HEADER_BYTES or value[0] != 0:
        raise BadValue(
            f"the value begins with {value[:HEADER_BYTES].hex(' ')}, not with a registry's header (00 and an id); "
            "leave out registry and header if it was written without"
        )
    found: int = _ID.unpack_from(value)[1]
    return found


def message_start(value: bytes) -> int:
    """Where a Protobuf value with a header begins, behind its message indexes.

    Raises:
        BadValue: the header is cut off, or there is none.
    """
    schema_id(value)
    count, at = _zigzag(value, HEADER_BYTES)
    for _ in range(max(count, 0)):
        _, at = _zigzag(value, at)
    return at


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(value) and shift < 35:
        byte = value[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise BadValue("the value's header is cut off behind its schema's id")


@lru_cache(maxsize=1000)
def schema_by_id(registry: str, number: int) -> str:
    """The text of a schema, asked for once in a process.

    Raises:
        BadValue: the registry cannot be reached, or has no such schema.
    """
    return _ask(registry, f"schemas/ids/{number}")


def latest_schema(registry: str, subject: str) -> str:
    """The text of a subject's latest schema: `orders-value` for the values of the topic orders.

    Raises:
        BadValue: the registry cannot be reached, or has no such subject.
    """
    return _ask(registry, f"subjects/{quote(subject, safe='')}/versions/latest")


def _ask(registry: str, path: str) -> str:
    url = f"{registry.rstrip('/')}/{path}"
    if not url.startswith(("http://", "https://")):
        raise BadValue(f"registry: {registry!r} is no address of a schema registry; write http://host:port")
    try:
        with urlopen(Request(url, headers={"Accept": "application/json"}), timeout=ANSWER_S) as answer:  # noqa: S310
            return str(json.loads(answer.read(SCHEMA_BYTES_MAX))["schema"])
    except URLError as error:  # of which an HTTP error is one
        raise BadValue(f"the registry at {url} gives no schema: {error}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadValue(f"the registry at {url} answered with no schema: {error!r}") from error
