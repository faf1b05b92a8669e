"""Tests with drawn examples (Hypothesis): no slow machine makes one red, and `./dev test` draws the same each time."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[2]


def test_no_example_is_timed() -> None:
    for profile in (settings.get_profile("random"), settings.get_profile("same")):
        assert profile.deadline is None
        assert HealthCheck.too_slow in profile.suppress_health_check
    own = {each.name for each in (ROOT / "tests").rglob("*.py") if "deadline=None" in each.read_text()}
    assert own == {"conftest.py", Path(__file__).name}, "the profiles say it for all"


def test_the_same_examples_are_drawn_where_a_change_is_judged() -> None:
    assert settings.get_profile("same").derandomize
    assert "pytest --hypothesis-profile=same" in (ROOT / "dev").read_text()
