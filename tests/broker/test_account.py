"""The account of memory: sums that agree, two marks, and who is told."""

from __future__ import annotations

import pytest

from barnabas.broker.account import KEPT, PARKED, RECEIVED, Account, text_bytes


def test_sums_by_holder_and_kind_agree_with_the_total() -> None:
    account = Account()
    account.charge(1, RECEIVED, 10)
    account.charge(1, PARKED, 5)
    account.charge(2, RECEIVED, 7)
    assert account.total == sum(account.by_kind.values()) == sum(account.by_holder.values()) == 22
    assert (account.by_kind[RECEIVED], account.held_by(1), account.held_by(3)) == (17, 15, 0)
    account.release(1, RECEIVED, 10)
    account.release(1, PARKED, 5)
    assert account.by_holder == {2: 7}, "who holds nothing is forgotten"
    assert account.total == 7


def test_a_release_of_what_was_never_charged_is_a_bug() -> None:
    account = Account()
    account.charge(1, KEPT, 5)
    with pytest.raises(AssertionError, match="holder 1 gives back 1 bytes more"):
        account.release(1, KEPT, 6)


@pytest.mark.parametrize(
    ("limit", "frame", "low"),
    [(160, 100, 45), (400, 100, 225), (100, 100, 25)],
)
def test_above_the_low_mark_there_is_room_for_one_largest_frame(limit: int, frame: int, low: int) -> None:
    assert Account(limit, frame).low == low


def test_it_tells_when_memory_is_short_and_when_something_was_released() -> None:
    told: list[str] = []
    account = Account(100, 20)
    account.on_short = lambda: told.append("short")
    account.charge(1, KEPT, 60)
    assert (told, account.short) == ([], False)
    account.charge(2, KEPT, 1)
    assert (told, account.short) == (["short"], True)
    account.release(2, KEPT, 1)
    assert (told, account.short) == (["short"], False)
    account.on_released = lambda: told.append("released")
    account.release(1, KEPT, 60)
    assert told == ["short", "released"]


@pytest.mark.parametrize(
    ("text", "size"),
    [("", 49), ("a" * 10, 59), ("\u00e9" * 10, 83), ("a\u00e9", 75), ("\u20ac" * 10, 94), ("\U0001f600" * 10, 116)],
)
def test_a_text_has_one_size_under_every_python_and_whatever_was_asked_of_it(text: str, size: int) -> None:
    assert text_bytes(text) == size
    text.encode()
    assert text_bytes(text) == size
