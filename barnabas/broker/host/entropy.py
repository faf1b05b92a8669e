"""Randomness from the operating system: the only source there is below this floor."""

from __future__ import annotations

import os

_RESERVED_MAX = 100
"""Kafka keeps the uuids with 0 in the upper half and up to this in the lower for itself (`Uuid.RESERVED`)."""


class SystemEntropy:
    """`ports.Entropy` from the operating system."""

    __slots__ = ()

    def uuid(self) -> bytes:
        """16 random bytes in the form of a version 4 uuid (RFC 9562).

        Kafka's text form must not begin with a dash, which command lines take for an option (`Uuid.randomUuid`).
        """
        while True:
            raw = bytearray(os.urandom(16))
            raw[6] = raw[6] & 0x0F | 0x40
            raw[8] = raw[8] & 0x3F | 0x80
            if raw[0] >> 2 != 62 and int.from_bytes(raw) > _RESERVED_MAX:  # 62 is "-" in URL-safe base64
                return bytes(raw)

    def below(self, bound: int) -> int:
        """A number in [0, bound), `bound` at least 1."""
        assert bound > 0, "there is no number below"
        bits = bound.bit_length()
        size = (bits + 7) // 8
        while True:  # at least every second number of so many bits is below
            number = int.from_bytes(os.urandom(size)) >> size * 8 - bits
            if number < bound:
                return number
