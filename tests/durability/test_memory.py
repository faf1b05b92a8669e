"""Stories on the in-memory disk: a core that is killed, loses its power, meets damaged files and a full disk."""

from __future__ import annotations

import pytest

from tests.durability.stories import play


@pytest.mark.parametrize("number", [4, 5, 6, 7])
def test_nothing_acknowledged_is_lost_whenever_the_process_dies(number: int) -> None:
    run = play(f"memory/kills/{number}")
    assert run.lives > 20


@pytest.mark.parametrize("story", ["power/0", "bits/0"])
def test_what_a_fault_may_not_take_is_there_and_nothing_corrupt_is_served(story: str) -> None:
    assert play(f"memory/{story}").lives > 5
