"""The curve of a broker's memory over hours of extreme requests, and a brake that leaves the machine to others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MB = 1_000_000
LINES = 24
"""Points of a curve, however long it is; but no two of them within a quarter of a minute."""
STEP_S_MIN = 15.0
GROWTH_BYTES_MAX = 40 * MB
"""From the second quarter of the time to the last, on average: what a leak adds, and caches that fill do not."""
POINTS_MIN = 8
"""Fewer say nothing of growth."""


class Point(NamedTuple):
    """The broker after so many seconds: resident memory, and what its account holds."""

    after_s: float
    resident: int
    held: int

    def __str__(self) -> str:
        return f"{self.after_s:6.0f} s  {self.resident / MB:5.0f} MB  {self.held / MB:4.1f} MB held"


class Curve:
    """Points of a run that takes `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.step_s = max(seconds / LINES, STEP_S_MIN)
        self.points: list[Point] = []

    def is_due(self, after_s: float) -> bool:
        """Whether the next point is to be taken."""
        return after_s >= self.step_s * (1 + len(self.points))

    def growth(self) -> int | None:
        """Bytes by which the last quarter's mean lies above the second's; None where there are too few points."""
        quarter = len(self.points) // 4
        if len(self.points) < POINTS_MIN:
            return None
        return _mean(self.points[-quarter:]) - _mean(self.points[quarter : 2 * quarter])


def _mean(points: Sequence[Point]) -> int:
    return sum(one.resident for one in points) // len(points)


def rest_s(worked_s: float, passed_s: float, share: float) -> float:
    """How long to rest so that the time worked is no more than a share of the time passed."""
    return max(worked_s / share - passed_s, 0.0)
