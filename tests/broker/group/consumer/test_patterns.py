"""Patterns of members: whole names, RE2's syntax, Kafka's words for what is wrong, and bounds."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import pytest

from barnabas.broker.group.consumer import patterns
from barnabas.broker.group.consumer.patterns import (
    CLASSES_MAX,
    LENGTH_MAX,
    MEMORY_MAX,
    PROGRAM_MAX,
    REPEATS_MAX,
    WORK_PER_STEP,
    compile_pattern,
)
from barnabas.protocol.errors import ErrorCode, KafkaError

FAULTS = {
    "(": "missing closing )",
    "[": "missing closing ]",
    "*": "missing argument to repetition operator",
    "a**": "invalid nested repetition operator",
    "a{1001}": "invalid repeat count",
    "a{2,1}": "invalid repeat count",
    "(?!a)": "invalid or unsupported Perl syntax",
    "\\": "trailing backslash at end of expression",
    "\\q": "invalid escape sequence",
    "\\C": "invalid escape sequence",
    "(?P<n": "invalid named capture",
    "(?P<a>x)(?<a>y)": "duplicate capture group name",
    "[b-a]": "invalid character class range",
    "[[:foo:]]": "invalid character class range",
    "\\pX": "invalid character class range",
    "a)": "unexpected )",  # Kafka says "regexp/syntax: internal error"
}
"""What Apache Kafka 4.3.0 says of them, but for the last."""


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    job = compile_pattern(pattern).matching(names)
    while True:
        try:
            next(job)
        except StopIteration as end:
            found: list[str] = end.value
            return found


def refused(pattern: str) -> str:
    with pytest.raises(KafkaError) as caught:
        compile_pattern(pattern)
    assert caught.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    return caught.value.detail


def test_a_name_matches_as_a_whole() -> None:
    names = ["orders", "orders-eu", "my-orders", "ORDERS"]
    assert matching("orders.*", names) == ["orders", "orders-eu"]
    assert matching("orders", names) == ["orders"]
    assert matching("a|orders", names) == ["orders"]
    assert matching("(?i)orders", names) == ["orders", "ORDERS"]
    assert matching("", names) == []
    assert matching(r"(?P<a>orders)|(?P<b>x)|\(?<a>|\\C", names) == ["orders"]


def test_internal_topics_are_not_left_out() -> None:
    """As in Apache Kafka 4.3, where the client leaves them out if it wants to."""
    assert matching(".*", ["t", "__consumer_offsets"]) == ["t", "__consumer_offsets"]


@pytest.mark.parametrize("pattern", FAULTS)
def test_what_is_wrong_is_said_in_kafkas_words(pattern: str) -> None:
    assert refused(pattern) == f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {FAULTS[pattern]}."


def test_a_pattern_is_bounded() -> None:
    compile_pattern("x" * LENGTH_MAX)
    assert refused("x" * (LENGTH_MAX + 1)) == (
        f"SubscribedTopicRegex has {LENGTH_MAX + 1} characters; write {LENGTH_MAX} at most, or subscribe by names."
    )


def test_so_is_what_it_compiles_to() -> None:
    """A few characters may stand for millions of instructions."""
    assert f"{PROGRAM_MAX} is the most" in refused("((a{0,31}){0,31})" * 5)
    assert "too large" in refused("((a{0,31}){0,31})" * 16)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("x{0,1000}" * 8, f"what it repeats adds up to 8000 times, {REPEATS_MAX} is the most"),
        ("x{0,1000}" * 400, f"what it repeats adds up to 400000 times, {REPEATS_MAX} is the most"),
        ("(x{900}y{5,}){99}", f"what it repeats adds up to 1004 times, {REPEATS_MAX} is the most"),
        ("\\PL" * 1300, f"it has 1300 classes of Unicode, {CLASSES_MAX} is the most"),
        ("[\\pL\\P{Greek}]" * 40, f"it has 80 classes of Unicode, {CLASSES_MAX} is the most"),
    ],
)
def test_what_takes_long_to_read_is_refused_unread(pattern: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them held the loop for 140 ms until now, with one heartbeat."""
    monkeypatch.setattr(patterns, "_re2", None)
    assert refused(pattern).endswith(f"is not a valid regular expression: {reason}.")


def test_what_takes_long_to_compile_is_given_up_early() -> None:
    """Who has room for less is done earlier: 120,000 instructions are tried with room for 8,192."""
    re2, narrow, wide = patterns._re2()
    assert (narrow.max_mem, wide.max_mem) == (16 * PROGRAM_MAX, MEMORY_MAX)
    re2.compile(b"\\PL" * 50, wide)
    with pytest.raises(re2.error, match="too large"):
        re2.compile(b"\\PL" * 50, narrow)
    assert "too large" in refused("\\PL" * 50)


def test_a_large_pattern_that_is_not_dear_is_taken() -> None:
    compile_pattern("|".join("n" * 254 for _ in range(16)))
    compile_pattern("[a-z]{1,249}" * 4)
    compile_pattern("\\p{Greek}" * CLASSES_MAX)


def test_no_pattern_makes_a_name_slow() -> None:
    """Python's own would take years for this one; a step looks at so many names that it stays short."""
    name = "a" * 249
    pattern = compile_pattern("(a+)+b")
    assert not pattern.matches(name)
    large = compile_pattern("(x?y?){1000}")
    steps = sum(1 for _ in large.matching([name] * 10))
    assert steps == 10
    assert sum(1 for _ in pattern.matching([name] * 10)) == 1
    assert WORK_PER_STEP < 1000 * 2 * 249 * 10


def test_without_the_package_names_can_still_be_subscribed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    patterns._re2.cache_clear()
    assert refused("a") == (
        "this broker has no regular expressions: the package google-re2 cannot be imported. Install it where the "
        "broker runs (pip install google-re2) and start that anew, or subscribe by names."
    )


def test_a_pattern_is_not_kept() -> None:
    """The package would keep the last 128 that were compiled, of up to a megabyte each."""
    import re2

    re2.purge()
    compile_pattern("x{1,500}")
    assert re2._Regexp._make.cache_info().currsize == 0
