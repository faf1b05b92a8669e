"""What groups may take: the log says when nothing more may come."""

from __future__ import annotations

import pytest

from barnabas.broker.group.holdings import ADDRESS_BYTES_MAX, Holdings


def test_that_there_is_no_room_is_said_once_and_again_after_something_was_given_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    holdings = Holdings()
    holdings.take("10.0.0.1", ADDRESS_BYTES_MAX)
    assert holdings.room_for("10.0.0.2", 1)
    assert not caplog.messages
    for _ in range(3):
        assert not holdings.room_for("10.0.0.1", 1)
    (line,) = caplog.messages
    assert "take 48.0 of 96 MiB, of which 10.0.0.1 brought 48.0 of 48" in line
    assert "GROUP_MAX_SIZE_REACHED" in line, "what its client is told"
    holdings.take("10.0.0.1", -1)
    assert not holdings.room_for("10.0.0.1", 2)
    assert len(caplog.messages) == 2
