"""What the curve of a long run says of growth, and how the brake is pulled."""

from __future__ import annotations

import pytest

from tests.hostile.curve import GROWTH_BYTES_MAX, LINES, MB, POINTS_MIN, STEP_S_MIN, Curve, Point, rest_s


def curve(*megabytes: float) -> Curve:
    made = Curve(3600)
    made.points = [Point(150.0 * number, int(at * MB), 0) for number, at in enumerate(megabytes)]
    return made


def test_a_leak_is_growth_and_caches_that_fill_are_not() -> None:
    leak = curve(*(40 + 5 * number for number in range(24))).growth()
    assert leak == 60 * MB > GROWTH_BYTES_MAX
    assert curve(*([40, 60, 80, 90, 95, 95] + [96, 110] * 9)).growth() == 0
    assert curve(90, 90, *[120, 80] * 11).growth() == 0


def test_few_points_say_nothing() -> None:
    assert curve(*[40] * (POINTS_MIN - 1)).growth() is None
    assert curve(*[40] * POINTS_MIN).growth() == 0


def test_points_are_taken_so_often_however_long_it_is() -> None:
    hours = Curve(LINES * 600.0)
    assert not hours.is_due(599)
    assert hours.is_due(600)
    hours.points.append(Point(600, 1, 0))
    assert not hours.is_due(1199)
    assert not Curve(60).is_due(STEP_S_MIN - 1)


@pytest.mark.parametrize(
    ("worked_s", "passed_s", "share", "rests_s"), [(1, 10, 0.15, 0), (3, 10, 0.15, 10), (3, 10, 1, 0), (30, 10, 1, 20)]
)
def test_the_work_is_a_share_of_the_time(worked_s: float, passed_s: float, share: float, rests_s: float) -> None:
    assert rest_s(worked_s, passed_s, share) == pytest.approx(rests_s)
