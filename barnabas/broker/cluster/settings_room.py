"""How much the settings of topics and brokers may take: all of them are in memory, and in every snapshot.

Kafka has no bound but that of a request. Here one value, one resource and all resources together have one: what is too
much is INVALID_CONFIG. What an older release stored beyond it stays, and may be made smaller.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import getsizeof
from typing import Final

from barnabas.protocol.errors import ErrorCode, KafkaError

VALUE_BYTES_MAX: Final = 32_767
"""Of one value: what the oldest requests can carry."""
RESOURCE_BYTES_MAX: Final = 128 * 1024
"""Of one topic, or broker; two lists of the longest fit."""
ALL_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of all: ten settings of 16,000 topics."""
_ENTRY_BYTES: Final = 64


def bytes_of(settings: Mapping[str, str]) -> int:
    """What they take in memory, names and places in the map included."""
    return sum(entry_bytes(name, value) for name, value in settings.items())


def entry_bytes(name: str, value: str | None) -> int:
    """What one of them takes; nothing when it is not set."""
    return 0 if value is None else getsizeof(name) + getsizeof(value) + _ENTRY_BYTES


class SettingsRoom:
    """What the settings that one operation stores may still take. `held_bytes` is what all there are take."""

    __slots__ = ("_left",)

    def __init__(self, held_bytes: int) -> None:
        self._left = ALL_BYTES_MAX - held_bytes

    def take(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Count a resource's settings, which become `after`.

        Raises:
            KafkaError: INVALID_CONFIG, they take too much; nothing was counted.
        """
        for name, value in after.items():
            size = len(value.encode())
            if size > VALUE_BYTES_MAX and value != before.get(name):
                _refuse(f"{name} has a value of {size} bytes; write {VALUE_BYTES_MAX} at most")
        size = bytes_of(after)
        more = size - bytes_of(before)
        if more > 0 and size > RESOURCE_BYTES_MAX:
            _refuse(f"Its settings would take {size} bytes; {RESOURCE_BYTES_MAX} is the most, so delete some first")
        if more > 0 and more > self._left:
            _refuse(
                f"The settings of all topics and brokers would take {ALL_BYTES_MAX - self._left + more} bytes; "
                f"{ALL_BYTES_MAX} is the most, so delete some first"
            )
        self._left -= more


def _refuse(problem: str) -> None:
    raise KafkaError(ErrorCode.INVALID_CONFIG, problem)
