"""What a user of the format did, and should do instead."""

from __future__ import annotations

from barnabas.protocol.errors import BarnabasError


class OptionError(BarnabasError, ValueError):
    """An option that is missing, malformed, refused, or at odds with another."""
