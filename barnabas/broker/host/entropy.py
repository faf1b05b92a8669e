"""Randomness from the operating system: the only source there is below this floor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

_FORM: Final = 0x4000_8000_0000_0000_0000
"""Version 4, and the variant of RFC 9562: what is set of a uuid's bits."""
_CHANCE: Final = ~0xF000_C000_0000_0000_0000
"""Those that are left to chance, or to what is set."""
_DASH: Final = 62
"""In URL-safe base64: the first six bits of a uuid."""
_AT_ONCE: Final = 32
"""Uuids that are drawn together: each member of a group needs one, and to ask the system takes most of its time."""


class SystemEntropy:
    """`ports.Entropy` from the operating system. Whoever forks has one of its own for each process."""

    __slots__ = ("_uuids",)

    def __init__(self) -> None:
        self._uuids = _drawn()

    def uuid(self) -> bytes:
        """16 random bytes in the form of a version 4 uuid (RFC 9562): so none that Kafka keeps for itself.

        Kafka's text form must not begin with a dash, which command lines take for an option (`Uuid.randomUuid`).
        """
        return next(self._uuids)

    def below(self, bound: int) -> int:
        """A number in [0, bound), `bound` at least 1."""
        assert bound > 0, "there is no number below"
        bits = bound.bit_length()
        size = (bits + 7) // 8
        while True:  # at least every second number of so many bits is below
            number = int.from_bytes(os.urandom(size)) >> size * 8 - bits
            if number < bound:
                return number


def _drawn() -> Iterator[bytes]:
    while True:
        drawn = os.urandom(16 * _AT_ONCE)
        for at in range(0, len(drawn), 16):
            if drawn[at] >> 2 != _DASH:
                yield (int.from_bytes(drawn[at : at + 16]) & _CHANCE | _FORM).to_bytes(16)
