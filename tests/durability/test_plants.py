"""The tester finds what it is for: defects that the broker had, put back into the real process one at a time."""

from __future__ import annotations

import pytest

from tests.durability.model import Broken
from tests.durability.plants import Change, Plant, TargetMoved
from tests.durability.plants.known import PLANTS
from tests.durability.stories import play

TRIES = 24
"""A process keeps its own time: a story may miss the moment that a defect needs, and then the next seeds are played."""


def stories_of(plant: Plant) -> list[str]:
    profile, _, number = plant.story.rpartition("/")
    return [f"{profile}/{int(number) + more}" for more in range(TRIES)]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PLANTS))
def test_a_planted_defect_is_found_and_its_story_holds_without_it(name: str) -> None:
    plant = PLANTS[name]
    for story in stories_of(plant):
        try:
            play(story, plant.deeds, [name])
        except Broken as broken:
            found = str(broken)
            break
    else:
        pytest.fail(f"{name} is not found in {stories_of(plant)}")
    assert TargetMoved.__name__ not in found
    play(story, plant.deeds)


@pytest.mark.parametrize(
    ("place", "old"),
    [
        ("barnabas.broker.log.log:Log.no_such_method", "pass"),
        ("barnabas.broker.log.log:Log.roll", "a piece that is not in it"),
        ("barnabas.broker.log.log:Log.roll", "e"),
    ],
)
def test_a_plant_whose_target_has_moved_says_so(place: str, old: str) -> None:
    with pytest.raises(TargetMoved):
        Change(place, old, "").make()
