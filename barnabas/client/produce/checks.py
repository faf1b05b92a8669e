"""What is handed to `send` is checked there, off the fast way: name, value, remedy. What passes can be written."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import Any, Final

from barnabas.client.arguments import checked_topic, shown
from barnabas.client.errors import InvalidRecord
from barnabas.client.produce.records import Headers, ProducerRecord
from barnabas.net.errors import ConfigError

_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1


def check_topic(topic: Any) -> None:
    """Refuse what is no topic's name.

    Raises:
        InvalidRecord: an address, a mapping, anything else that is no name.
    """
    try:
        checked_topic(topic, "send")
    except ConfigError as error:
        raise InvalidRecord(str(error)) from None


def checked_partition(partition: Any) -> int:
    """A partition's number.

    Raises:
        InvalidRecord: no whole number from 0 on.
    """
    number = _whole(partition)
    if number is None:
        raise InvalidRecord(f"partition: {shown(partition)} is no whole number; leave it out, or give int(...)")
    if not 0 <= number <= _INT32_MAX:
        what = "is negative" if number < 0 else "is above 2^31 - 1"
        raise InvalidRecord(f"partition {number} {what}; leave it out to have one chosen")
    return number


def checked_timestamp(timestamp_ms: Any) -> int:
    """A record's time.

    Raises:
        InvalidRecord: no whole number of milliseconds since the epoch.
    """
    number = _whole(timestamp_ms)
    if number is None or not 0 <= number <= _INT64_MAX:
        raise InvalidRecord(
            f"timestamp_ms: {shown(timestamp_ms)} is no time in whole milliseconds since the epoch; "
            "give int(1000 * seconds), or leave it out"
        )
    return number


def checked_headers(headers: Any) -> Headers:
    """Headers as pairs; None stands for none.

    Raises:
        InvalidRecord: something else than pairs of a string and bytes (or None).
    """
    if headers is None:
        return ()
    if isinstance(headers, Mapping):
        raise InvalidRecord("headers: a mapping, but keys may repeat and have an order; give list(headers.items())")
    try:
        pairs = [(name, value) for name, value in headers]
    except (TypeError, ValueError):
        raise InvalidRecord(f"headers: {shown(headers)} are no pairs; give [(name, value), ...]") from None
    for name, value in pairs:
        if not isinstance(name, str):
            raise InvalidRecord(f"headers: the name {shown(name)} is no string; decode it first")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InvalidRecord(f"headers: the name {shown(name)} cannot be written as UTF-8") from None
        if value is not None and not isinstance(value, bytes):
            raise InvalidRecord(f"headers: the value {shown(value)} of {name!r} is no bytes; encode it first")
    return pairs


def check_record(record: ProducerRecord) -> None:
    """Refuse what cannot be written, besides key and value; partition, timestamp and headers are as `send` needs them.

    Raises:
        InvalidRecord: topic, partition, timestamp or headers are none.
    """
    check_topic(record.topic)
    if record.partition is not None:
        record.partition = checked_partition(record.partition)
    if record.timestamp_ms is not None:
        record.timestamp_ms = checked_timestamp(record.timestamp_ms)
    if record.headers != ():
        record.headers = checked_headers(record.headers)


def check_callback(on_delivery: Any) -> None:
    """Refuse what cannot be called.

    Raises:
        InvalidRecord: it is no function, nor None.
    """
    if on_delivery is not None and not callable(on_delivery):
        raise InvalidRecord(
            f"on_delivery: {shown(on_delivery)} is no function; give one that takes (metadata, error), or leave it out"
        )


def _whole(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        return index(value)
    except TypeError:
        return None
