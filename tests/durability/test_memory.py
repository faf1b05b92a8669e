"""Stories on the in-memory disk: a core that is killed, loses its power, meets damaged files and a full disk."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from barnabas.broker.log import staging
from tests.durability.model import Broken
from tests.durability.stories import KINDS, play

SEEDS = range(3)
DEEDS = dict.fromkeys(KINDS["memory"], 60) | {"kills": 120, "power": 150, "tails": 150, "cleaning": 25, "closing": 15}
"""A deed of the last two writes to a hundred logs, or flips ten bits and lets the cleaner work."""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("profile", KINDS["memory"])
def test_what_a_fault_may_not_take_is_there_and_nothing_corrupt_is_served(profile: str, seed: int) -> None:
    run = play(f"memory/{profile}/{seed}", DEEDS[profile])
    assert run.deeds >= DEEDS[profile]
    assert run.lives > 1


def test_stories_of_large_batches_end_them_within_their_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begun, put in place, and not: killed or without power between a piece and the next, or before the name."""
    counted: Counter[str] = Counter()

    def counting(name: str) -> Any:
        real = getattr(staging, name)

        def wrapped(*arguments: Any) -> Any:
            counted[name] += 1
            return real(*arguments)

        return wrapped

    monkeypatch.setattr(staging, "put_in_place", counting("put_in_place"))
    monkeypatch.setattr("barnabas.broker.replica.late.stage", counting("stage"))
    run = play("memory/staged/1", DEEDS["staged"])
    assert counted["put_in_place"] > 50
    assert counted["stage"] - counted["put_in_place"] > 10
    assert run.done["kill_in_burst"] > 0
    assert run.done["power_loss_in_burst"] > 0


def test_a_story_that_nobody_played_before_holds() -> None:
    profile = random.choice(KINDS["memory"])
    story = f"memory/{profile}/{random.randrange(10**9)}"
    print(f"repeat it: ./dev soak --seed {story}")
    try:
        play(story, DEEDS[profile])
    except Broken as error:
        raise Broken(f"{error}\nrepeat it: ./dev soak --seed {story}") from error
