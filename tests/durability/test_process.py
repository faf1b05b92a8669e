"""Stories in a real process: killed under load, while it starts, while it stops, and while it is asked for changes."""

from __future__ import annotations

import itertools
import time
from collections import Counter

import pytest

from tests.durability.stories import play

PLAYED_S = 60
"""So long stories are played, one after the other; `./dev soak` goes on for hours."""
STORIES_MAX = 60
"""A slow machine plays on until all of them have come that must."""
MUST_HAVE_COME = (
    *("kill", "kill_in_burst", "kill_in_change", "kill_in_start", "kill_in_stop", "stop", "burst"),
    *("create", "delete", "anew", "grow", "alter", "delete_records", "retry"),
)


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_whenever_the_process_is_killed() -> None:
    came: Counter[str] = Counter()
    until_s = time.monotonic() + PLAYED_S
    missing = list(MUST_HAVE_COME)
    for number in itertools.count():
        if time.monotonic() >= until_s and (not missing or number >= STORIES_MAX):
            break
        came += play(f"process/kills/{number}", 40).done
        missing = [deed for deed in MUST_HAVE_COME if not came[deed]]
    assert not missing, came
