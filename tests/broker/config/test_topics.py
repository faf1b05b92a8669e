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


@pytest.mark.parametrize("text", ["a b", "a:b", "a:1:2", "a{", "a{x}", "a{=1}", "a,a", "a:0", "ä", "a;b"])
def test_what_does_not_parse(text: str) -> None:
    with pytest.raises(ConfigError, match=r"barnabas\.topics"):
        parse_topics(text)
