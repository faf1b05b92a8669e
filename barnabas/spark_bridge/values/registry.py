"""The header that a schema registry's serializers write before a value, and the registry's two questions.

    00 | schema id (4 bytes, big endian) | message indexes (Protobuf only) | the value itself

Message indexes say which message of the schema's file it is: their count and each of them as a zigzag varint, where a
single 00 stands for the first message. Source: Confluent's wire format, which others speak as well.
"""

from __future__ import annotations

import json
import struct
import time
from functools import lru_cache
from http.client import HTTPException
from typing import Final
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from barnabas.protocol.errors import BarnabasError

HEADER_BYTES: Final = 5
ANSWER_S: Final = 10
TRIES: Final = 3
"""So often a registry is asked that does not answer, or says that it cannot."""
PAUSE_S: Final = 1
"""Between two tries."""
SCHEMA_BYTES_MAX: Final = 1 << 20
_ID = struct.Struct(">bI")  # magic, schema id


class BadValue(BarnabasError, ValueError):
    """A value is not what its schema says, or its schema is not known or cannot be used."""


class RegistryAway(BarnabasError):
    """A registry does not say whether it has a schema: nothing is known of the value, so no mode makes it null."""


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


def check_address(registry: str) -> None:
    """That it can be asked at all.

    Raises:
        BadValue: it is no address.
    """
    if not registry.startswith(("http://", "https://")):
        raise BadValue(f"registry: {registry!r} is no address of a schema registry; write http://host:port")


@lru_cache(maxsize=1000)
def schema_by_id(registry: str, number: int) -> str:
    """The text of a schema, asked for once in a process.

    Raises:
        BadValue: the registry has no such schema.
        RegistryAway: it gives no answer.
    """
    return _ask(registry, f"schemas/ids/{number}")


def latest_schema(registry: str, subject: str) -> str:
    """The text of a subject's latest schema: `orders-value` for the values of the topic orders.

    Raises:
        BadValue: the registry has no such subject, or its address is none.
        RegistryAway: it gives no answer.
    """
    check_address(registry)
    return _ask(registry, f"subjects/{quote(subject, safe='')}/versions/latest")


def _ask(registry: str, path: str) -> str:
    url = f"{registry.rstrip('/')}/{path}"
    tries = 0
    while True:
        tries += 1
        try:
            with urlopen(Request(url, headers={"Accept": "application/json"}), timeout=ANSWER_S) as answer:  # noqa: S310
                return str(json.loads(answer.read(SCHEMA_BYTES_MAX))["schema"])
        except HTTPError as error:
            with error:  # it has the connection
                unknown = _is_unknown(error)
            if unknown:
                raise BadValue(f"the registry at {url} gives no schema: {error}") from error
            why: Exception = error
            again = error.code >= 500 or error.code == 429
        except (OSError, HTTPException) as error:  # no connection, none in time, or one that broke
            why, again = error, True
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            why, again = error, False
        if not again or tries == TRIES:
            often = "once" if tries == 1 else f"{tries} times"
            raise RegistryAway(
                f"the schema registry {registry} gives no answer to /{path} (asked {often}): {_shown(why)}; "
                "mend it or its address, and start the query again"
            ) from why
        time.sleep(PAUSE_S)


def _is_unknown(error: HTTPError) -> bool:
    """Whether it is a registry's own word that it has no such schema, subject or version: error codes 404xx.

    A 404 without such a code comes from whatever else is at that address.
    """
    if error.code != 404:
        return False
    try:
        return int(json.loads(error.read(SCHEMA_BYTES_MAX))["error_code"]) // 100 == 404
    except (OSError, HTTPException, ValueError, KeyError, TypeError, RecursionError):
        return False


def _shown(error: Exception) -> str:
    return str(error) if isinstance(error, OSError) else f"its answer holds no schema ({error!r})"
