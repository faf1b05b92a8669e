"""Times as Spark's options spell them: `500ms`, `30s`, `15m`, `1h`; a bare number counts as milliseconds.

Source: Spark's JavaUtils.timeStringAs.
"""

from __future__ import annotations

import re
from typing import Final

_UNITS_MS: Final = {
    "us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
}  # fmt: skip
_FORM: Final = re.compile(r"(\d{1,15})([a-z]*)")


def duration_ms(text: str) -> int:
    """Milliseconds of a time such as `15m`.

    Raises:
        ValueError: it is no such time; the text says what one looks like.
    """
    match = _FORM.fullmatch(text.strip().lower())
    if match is None or (match[2] or "ms") not in _UNITS_MS:
        raise ValueError(f"{text!r} is no time: write 500ms, 30s, 15m, 1h or 1d")
    return int(int(match[1]) * _UNITS_MS[match[2] or "ms"])
