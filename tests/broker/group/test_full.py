"""What the log says of groups that are full is bounded, however many groups are, and however long a name is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.group.full import AGAIN_MS, GROUPS_MAX, NAME_CHARS_MAX, Full


def asks(client_id: str | None) -> Any:
    return SimpleNamespace(client_id=client_id, connection=SimpleNamespace(client_host="10.0.0.9"))


def test_so_many_groups_have_lines_and_others_once_these_are_old(caplog: pytest.LogCaptureFixture) -> None:
    wall = [0]
    full = Full(SimpleNamespace(now_ms=lambda: wall[0]))
    for _ in range(2):
        for number in range(GROUPS_MAX + 5):
            full.refused(f"g{number}", "group.max.size", 1, asks("c"))
    assert len(caplog.messages) == GROUPS_MAX
    wall[0] = AGAIN_MS
    full.refused("other", "group.max.size", 1, asks("c"))
    assert caplog.messages[GROUPS_MAX:] == [
        "group other is full, a member is refused: group.max.size=1; client c at 10.0.0.9"
    ]


def test_who_is_refused_is_told_whatever_the_names_are(caplog: pytest.LogCaptureFixture) -> None:
    """Each may have 32 KB, and the log cuts a line after 2,000 characters."""
    full = Full(SimpleNamespace(now_ms=lambda: 0))
    full.refused("g" * 30_000, "group.max.size", 1, asks("c" * 30_000))
    (line,) = caplog.messages
    assert "c" * NAME_CHARS_MAX + " at 10.0.0.9" in line
    assert len(line) < 1000
    full.refused("nameless", "group.max.size", 1, asks(None))
    assert caplog.messages[1].endswith("; client without a name at 10.0.0.9")
