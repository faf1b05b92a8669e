"""What a user of the format did, and should do instead."""

from __future__ import annotations

from typing import Final

from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError


class OptionError(BarnabasError, ValueError):
    """An option that is missing, malformed, refused, or at odds with another."""


REMEDIES: Final = {
    ErrorCode.CORRUPT_MESSAGE: ". Begin behind it, from a new checkpoint with startingOffsets",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ". Let this client read it, or leave it out of the option",
    ErrorCode.INVALID_TOPIC_EXCEPTION: ". A topic's name has letters, digits, '.', '_' and '-' alone, 249 at most",
}
"""What to do about refusals that a broker tells by a number alone."""


def remedy_for(error: BarnabasError) -> str:
    """What to do about an error of the client's, as the end of a sentence."""
    if not isinstance(error, KafkaError):
        return ""
    if error.code == ErrorCode.CORRUPT_MESSAGE and "checksum" in error.detail:
        return ". If only the sum is wrong, kafka.check.crcs=false reads on; else begin behind it, from a new " + (
            "checkpoint with startingOffsets"
        )
    return REMEDIES.get(error.code, "")
