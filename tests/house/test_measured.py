from __future__ import annotations

import pytest

from tests.measured import GOES, TooMuch, again


def test_a_measure_that_is_too_much_is_taken_again_and_the_least_counts() -> None:
    measures = [9, 1]

    @again
    def play(most: int) -> int:
        measure = measures.pop(0)
        if measure > most:
            raise TooMuch(f"{measure}")
        return measure

    assert play(most=5) == 1
    assert not measures


def test_what_is_too_much_each_time_is_a_failure() -> None:
    goes: list[int] = []

    @again
    def play() -> None:
        goes.append(len(goes))
        raise TooMuch(f"{goes[-1]}")

    with pytest.raises(TooMuch, match=f"^{GOES - 1}$"):
        play()
    assert len(goes) == GOES


def test_any_other_failure_is_one_at_once() -> None:
    goes: list[int] = []

    @again
    def play() -> None:
        goes.append(1)
        raise AssertionError("lost")

    with pytest.raises(AssertionError, match="lost"):
        play()
    assert len(goes) == 1
