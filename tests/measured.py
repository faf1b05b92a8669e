"""Tests that measure a real process: one that took too much is played again, for what others on the machine did.

A defect is there each time. Marked `measured`, a test is played up to three times as long as what it raises is
`TooMuch`; the least counts. It must bear being called again with the same fixtures.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

GOES = 3


class TooMuch(AssertionError):
    """More time or memory than may be taken."""


def again(play: Callable[..., Any]) -> Callable[..., Any]:
    """The same test, played again where it raises `TooMuch`."""

    @wraps(play)
    def played(*arguments: Any, **fixtures: Any) -> Any:
        for _ in range(GOES - 1):
            try:
                return play(*arguments, **fixtures)
            except TooMuch as error:
                print(f"played again: {error}")
        return play(*arguments, **fixtures)

    return played
