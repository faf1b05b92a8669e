"""Points in time as a person writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

FORMS: Final = "a time such as 2026-11-22T09:30:00 (UTC unless it names a zone), or milliseconds since 1970"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX: Final = 2**63 - 1
_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1_000)
_DURATION: Final = re.compile(
    r"(?:P(?=[0-9T]))?(?:([0-9]{1,9})D)?(?:T(?=[0-9]))?(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9})S)?", re.I
)


def number(text: str) -> int | None:
    """A whole number below 2^63; None for anything else."""
    digits = text[:20]
    return int(digits) if text.isascii() and text.isdigit() and int(digits) <= _MAX and len(text) <= 20 else None


def iso_ms(text: str) -> int | None:
    """A time in ISO 8601 as ms since the epoch; one without a zone is UTC, as in Kafka's tools. None: it is none."""
    try:
        time = datetime.fromisoformat(text)
        since = (time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH
    except (ValueError, OverflowError):
        return None
    return None if since < timedelta(0) else since // timedelta(milliseconds=1)


def time_ms(text: str) -> int | None:
    """Milliseconds since the epoch, or a time; None: it is neither."""
    found = number(text)
    return iso_ms(text) if found is None else found


def duration_ms(text: str) -> int | None:
    """How long `1h30m`, `7d` or, as Kafka's tools take it, `PT1H30M` is (ms); None: it is none."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    return sum(int(count or 0) * unit for count, unit in zip(found.groups(), _UNITS_MS, strict=True))
