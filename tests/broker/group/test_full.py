"""What the log says of groups that are full is bounded, however many groups are."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from barnabas.broker.group.full import AGAIN_MS, GROUPS_MAX, Full


def test_so_many_groups_have_lines_and_others_once_these_are_old(caplog: pytest.LogCaptureFixture) -> None:
    wall = [0]
    full = Full(SimpleNamespace(now_ms=lambda: wall[0]))
    for _ in range(2):
        for number in range(GROUPS_MAX + 5):
            full.refused(f"g{number}", "group.max.size", 1)
    assert len(caplog.messages) == GROUPS_MAX
    wall[0] = AGAIN_MS
    full.refused("other", "group.max.size", 1)
    assert caplog.messages[GROUPS_MAX:] == ["group other is full, a member is refused: group.max.size=1"]
