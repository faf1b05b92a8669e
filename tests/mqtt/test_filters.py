"""Filters against the specification's own matching, level by level."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barnabas.mqtt import filters
from barnabas.protocol.errors import ConfigError

LEVEL = st.sampled_from(["", "a", "b", "$S"])
TOPIC = st.lists(LEVEL, min_size=1, max_size=4).map("/".join)
FILTER = st.builds(
    lambda levels, last: "/".join([*levels, *last]),
    st.lists(st.sampled_from(["", "a", "b", "+", "$S"]), min_size=1, max_size=3),
    st.sampled_from([[], ["#"]]),
).filter(bool) | st.just("#")


def matches(text: str, topic: str) -> bool:
    """MQTT 5.0, 4.7.1 and 4.7.2, as they are written."""
    wanted, levels = text.split("/"), topic.split("/")
    if levels[0].startswith("$") and wanted[0] in ("+", "#"):
        return False
    for at, level in enumerate(wanted):
        if level == "#":
            return True
        if at >= len(levels) or level not in ("+", levels[at]):
            return False
    return len(wanted) == len(levels)


def covers(wide: str, narrow: str) -> bool:
    tree = filters.Tree()
    tree.add(wide, 0)
    return tree.covering(narrow) == [0]


@given(FILTER, TOPIC)
@example("a/#", "a")
@example("#", "$S/a")
@example("+/a", "$S/a")
def test_a_pattern_matches_what_the_filter_does(text: str, topic: str) -> None:
    assert (filters.pattern(text).fullmatch(topic) is not None) is covers(text, topic) is matches(text, topic)


@given(st.lists(FILTER, max_size=12), FILTER | TOPIC)
def test_a_tree_of_many_finds_what_each_alone_says(many: list[str], narrow: str) -> None:
    tree = filters.Tree()
    for number, one in enumerate(many):
        tree.add(one, number)
    wanted = {many.index(one) for one in many if covers(one, narrow)}
    assert sorted(tree.covering(narrow)) == sorted(wanted)
    assert set(filters.fewest(many)) == {one for one in many if not any(covers(x, one) for x in many if x != one)}


@given(FILTER, FILTER, st.lists(TOPIC, max_size=30))
@example("#", "a/+", [])
@example("a/#", "a", ["a"])
@example("#", "$S", ["$S"])
def test_what_covers_and_meets_says_so_of_every_topic(one: str, other: str, topics: list[str]) -> None:
    both = [topic for topic in topics if matches(one, topic) and matches(other, topic)]
    assert filters.meet(one, other) or not both
    assert filters.meet(one, other) == filters.meet(other, one)
    if covers(one, other):
        assert all(matches(one, topic) for topic in topics if matches(other, topic))
        assert filters.meet(one, other)


@pytest.mark.parametrize(
    ("one", "other", "met"),
    [
        ("a/+/c", "a/b/#", True),
        ("a/#", "a", True),
        ("+/b", "a/+", True),
        ("a/b", "a/c", False),
        ("a", "a/+", False),
        ("#", "$SYS/#", False),
        ("$SYS/+", "$SYS/#", True),
    ],
)
def test_two_filters_meet(one: str, other: str, met: bool) -> None:
    assert filters.meet(one, other) is filters.meet(other, one) is met


def test_what_others_cover_is_not_subscribed_to_twice() -> None:
    assert filters.fewest(["a/b", "a/#", "a/+", "b", "b", "$SYS/#", "c/+/d"]) == ("a/#", "b", "$SYS/#", "c/+/d")
    assert filters.fewest(["#", "$SYS/a"]) == ("#", "$SYS/a")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "cannot be empty"),
        ("a/b+", "+ stands for a whole level"),
        ("a/#/b", "# stands alone in the last level"),
        ("a#", "# stands alone in the last level"),
        ("a\0", "no NUL"),
        ("$share/g/a", "the group as share"),
    ],
)
def test_what_is_no_filter_is_named(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why.replace("+", r"\+")):
        filters.pattern(text)


def test_wildcards_are_groups_and_the_levels_of_the_last_may_be_none() -> None:
    caught = filters.pattern("a/+/b/#").fullmatch
    assert caught("a/x/b/y/z").groups() == ("x", "y/z")  # type: ignore[union-attr]
    assert caught("a/x/b").groups() == ("x", None)  # type: ignore[union-attr]
