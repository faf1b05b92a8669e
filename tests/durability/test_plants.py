"""The tester finds what it is for: defects that the broker had, put back into the real process one at a time."""

from __future__ import annotations

import pytest

from tests.durability.model import Broken
from tests.durability.plants import Change, TargetMoved
from tests.durability.plants.known import PLANTS
from tests.durability.stories import play


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PLANTS))
def test_a_planted_defect_is_found_and_its_story_holds_without_it(name: str) -> None:
    plant = PLANTS[name]
    with pytest.raises(Broken) as found:
        play(plant.story, plant.deeds, [name])
    assert TargetMoved.__name__ not in str(found.value)
    play(plant.story, plant.deeds)


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
