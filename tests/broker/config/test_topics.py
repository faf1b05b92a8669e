from __future__ import annotations

import pytest

from barnabas.broker.config import ConfigError, StartTopic, parse_topics


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("", ()),
        (" , ", ()),
        ("notes", (StartTopic("notes"),)),
        ("flights:4,weather:1", (StartTopic("flights", 4), StartTopic("weather", 1))),
        (
            " a.b-c_d : 2 { retention.ms = 1 ; cleanup.policy=compact,delete } , e ",
            (StartTopic("a.b-c_d", 2, {"retention.ms": "1", "cleanup.policy": "compact,delete"}), StartTopic("e")),
        ),
        ("t{}", (StartTopic("t"),)),
    ],
)
def test_topics_in_order(text: str, topics: tuple[StartTopic, ...]) -> None:
    assert parse_topics(text) == topics


@pytest.mark.parametrize("text", ["a b", "a:b", "a:1:2", "a{", "a{x}", "a{=1}", "a,a", "a:0", "ä", "a;b", "a:10001"])
def test_what_does_not_parse(text: str) -> None:
    with pytest.raises(ConfigError, match=r"barnabas\.topics"):
        parse_topics(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("..", r"\.\. cannot be a topic's name"),
        ("__cluster_metadata:1", "__cluster_metadata cannot be a topic's name"),
        ("a" * 250, "cannot be a topic's name; write another, of up to 249 characters"),
        ("a.b, a_b", r"a_b differs from a\.b in \. and _ alone"),
        ("a:2000000", "a has 2000000 partitions; write 1 to 10000"),
    ],
)
def test_what_could_not_be_created_is_refused_before_anything_starts(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_topics(text)
