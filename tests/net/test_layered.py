"""Mappings made from another and a little more: what they hold, what they share, what is told of as new."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from barnabas.net.layered import LAYERED_FROM, Layered, news, plus


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(0, 2))
def test_it_reads_as_one_dictionary(sizes: list[int], first: int) -> None:
    known: Mapping[int, int] = {number: -number for number in range(first * LAYERED_FROM)}
    whole = dict(known)
    for size in sizes:
        before, copy = known, dict(known)
        more = {number: -number for number in range(len(whole), len(whole) + size)}
        known = plus(known, more)
        whole |= more
        assert dict(before) == copy, "what was made before does not change"
        told = news(before, known)
        assert more.items() <= told.items() <= known.items()
        assert known == whole
        assert (len(known), list(known)) == (len(whole), list(whole))
        assert (known.get(-1), known.get(-1, 7), -1 in known) == (None, 7, False)
        assert all(known[number] == known.get(number) == -number and number in known for number in whole)


def test_a_little_more_copies_a_little() -> None:
    """The recent ones alone, and now and then all: some twenty times the root of all for each."""
    known: Mapping[int, int] = dict.fromkeys(range(LAYERED_FROM), 0)
    copied = 0
    for number in range(LAYERED_FROM, 10_000):
        before, known = known, plus(known, {number: 0})
        copied += len(known.recent) if isinstance(known, Layered) else len(known)
        assert len(news(before, known)) in (1, len(known))
    assert copied < 20 * 100 * 10_000
    assert plus({}, {1: 2}) == {1: 2}
    assert isinstance(plus({}, {1: 2}), dict), "what is small is a plain dictionary"
