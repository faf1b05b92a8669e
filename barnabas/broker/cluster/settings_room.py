"""How much the settings of topics, groups and brokers may take: all of them are in memory, and in every snapshot.

Kafka has no bound but that of a request. Here one value, one resource and all resources together have one: what is too
much is INVALID_CONFIG. What an older release stored beyond it stays, and may be made smaller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.broker.account import text_bytes
from barnabas.protocol.errors import ErrorCode, KafkaError

VALUE_BYTES_MAX: Final = 32_767
"""Of one value: what the oldest requests can carry."""
RESOURCE_BYTES_MAX: Final = 128 * 1024
"""Of one topic, or broker; two lists of the longest fit."""
ALL_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of all: ten settings of 16,000 topics."""
_ENTRY_BYTES: Final = 64
_OWNER_BYTES: Final = 400
"""A group's place among all, and its map."""


def bytes_of(settings: Mapping[str, str], owner: str = "") -> int:
    """What they take in memory, names and places in the map included.

    `owner` is the group whose they are: unlike topics and brokers it need not exist, so its name is here alone.
    """
    size = sum(entry_bytes(name, value) for name, value in settings.items())
    return size + owner_bytes(owner) if settings else size


def entry_bytes(name: str, value: str | None) -> int:
    """What one of them takes; nothing when it is not set."""
    return 0 if value is None else text_bytes(name) + text_bytes(value) + _ENTRY_BYTES


def owner_bytes(group_id: str) -> int:
    """What a group with settings takes beside them; nothing for "", which is none."""
    return text_bytes(group_id) + _OWNER_BYTES if group_id else 0


def check_values(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Refuse a value that is too long, before it is read: the native dialect carries longer ones, and lists grow.

    Raises:
        KafkaError: INVALID_CONFIG.
    """
    for name, value in after.items():
        size = len(value.encode())
        if size > VALUE_BYTES_MAX and value != before.get(name):
            _refuse(f"{name} has a value of {size} bytes; write {VALUE_BYTES_MAX} at most")


class SettingsRoom:
    """What the settings that one operation stores may still take. `held_bytes` is what all there are take."""

    __slots__ = ("_left",)

    def __init__(self, held_bytes: int) -> None:
        self._left = ALL_BYTES_MAX - held_bytes

    def take(self, before: Mapping[str, str], after: Mapping[str, str], owner: str = "") -> None:
        """Count a resource's settings, which become `after`; `owner` as `bytes_of` has it.

        Raises:
            KafkaError: INVALID_CONFIG, they take too much; nothing was counted.
        """
        size = bytes_of(after, owner)
        more = size - bytes_of(before, owner)
        if more > 0 and size > RESOURCE_BYTES_MAX:
            _refuse(f"Its settings would take {size} bytes; {RESOURCE_BYTES_MAX} is the most, so delete some first")
        if more > 0 and more > self._left:
            _refuse(
                f"The settings of all topics, groups and brokers would take {ALL_BYTES_MAX - self._left + more} bytes; "
                f"{ALL_BYTES_MAX} is the most, so delete some first"
            )
        self._left -= more


def _refuse(problem: str) -> None:
    raise KafkaError(ErrorCode.INVALID_CONFIG, problem)
