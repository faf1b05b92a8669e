"""Stories without end: `./dev soak --only durability`."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

from tests.durability.model import Broken
from tests.durability.stories import KINDS, play

MEMORY_STORIES = 20
"""In memory they take a second each, in a process half a minute."""


def stories(seed: int) -> Iterator[str]:
    """Names of stories: every kind and profile in turn."""
    for number in itertools.count(seed):
        for profile in KINDS["memory"]:
            yield from (f"memory/{profile}/{number}.{again}" for again in range(MEMORY_STORIES))
        profiles = KINDS["process"]
        yield f"process/{profiles[number % len(profiles)]}/{number}"


def soak(seconds: float, seed: str) -> int:
    """Play for so long, or one story if the seed is the name of one; the number of broken promises."""
    deadline = time.monotonic() + seconds
    broken = played = deeds = lives = 0
    for story in [seed] if "/" in seed else stories(int(seed)):
        if time.monotonic() >= deadline and "/" not in seed:
            break
        try:
            run = play(story)
        except Broken as error:
            broken += 1
            print(f"{error}\nrepeat it: ./dev soak --seed {story}\n", flush=True)
            continue
        played += 1
        deeds += run.deeds
        lives += run.lives
    print(f"durability: {played} stories held, {broken} broke a promise; {deeds} deeds, {lives} starts")
    return broken
