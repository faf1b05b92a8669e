"""Stories in a real process: killed under load, while it starts, while it stops, and while it is asked for changes."""

from __future__ import annotations

import pytest

from tests.durability.stories import play


@pytest.mark.slow
@pytest.mark.parametrize("number", [0])
def test_nothing_acknowledged_is_lost_whenever_the_process_is_killed(number: int) -> None:
    run = play(f"process/kills/{number}", 25)
    assert run.lives > 2
