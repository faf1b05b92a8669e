"""Java's regular expressions on topic names: Java itself says what each matches."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from barnabas.client.async_admin import AsyncAdmin
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.metadata import MetadataResponse, MetadataResponseTopic
from barnabas.spark_bridge.brokers import Brokers
from barnabas.spark_bridge.errors import OptionError
from barnabas.spark_bridge.options import read_options
from barnabas.spark_bridge.topic_pattern import TopicPattern
from tests.spark.conftest import Cluster

pytestmark = pytest.mark.spark

NAMES = [
    "orders", "orders.eu", "orders-eu", "ordersXeu", "Orders", "ORDERS", "orders_1", "orders_12", "a", "aa", "aab",
    "ab", "abc", "b", "b-b", "x.y.z", "__internal", "2013-01-01", "q", "aQ", "tmp", "tmp1tmp1", "E",
]  # fmt: skip
PATTERNS = [
    "orders", "orders.*", "orders.eu", r"orders\.eu", r"\Qorders.eu\E", r"\Qorders.\E(eu|us)", r"\Qorders.eu",
    r"\Q\Ea", "(?i)orders", "ord(?i)ERS", "(?i:ORD)ers", r"orders_\d{1,2}", r"orders_\d++", "a*+a", "a++b",
    "(?>a|ab)c", "(?>aa?)b", "[a-z&&[^b]]+", r"[\w&&[^\d_]]+", "[[a-c][x-z]]+", "[^a-z]+", "[a-c-]+", r"\p{Alpha}+",
    r"\p{Lower}+", r"\p{Upper}.*", r"\P{Digit}+", r"\p{L}+", r"\p{IsAlphabetic}+", r"\p{Punct}+.*", r"\p{Alnum}+\z",
    r"\p{javaLowerCase}+", r"\p{javaUpperCase}+", r"\p{XDigit}+", r"(?<part>[a-z]+\d)\k<part>", r"(a)\1", r"^orders$",
    r"\Aorders\Z", r"\h*a", r"(?!__).*", r"(?<!x)\w+", r"(?=.*\d).*", r"x\x2Ey\u002ez", r"\x41?a.*",
    "(?x) a b c # a comment", "a{2}", "a{1,}?b", r"tmp|orders", "|a", r"[.]*", r"[\-]*", r"(?s).*", r"(?-i)ORDERS",
    r"\w+\.\w+\.\w", r"\S+\R*", r"[\Qab\E]+",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_matches_what_java_matches(spark: Any, pattern: str) -> None:
    java = spark._jvm.java.util.regex.Pattern
    ours = TopicPattern(pattern)
    expected = [name for name in NAMES if java.matches(pattern, name)]
    assert [name for name in NAMES if ours.matches(name)] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" ", "subscribePattern is empty"),
        ("(", r"'\(' is no regular expression \(Java's\): missing \)"),
        ("a{2", None),
        (r"\p{Nothing}", r"is no regular expression \(Java's\): unknown property"),
    ],
)
def test_what_is_no_pattern_is_refused(text: str, message: str | None) -> None:
    if message is None:
        assert TopicPattern(text).matches(text)  # Java refuses it; here the brace stands for itself
        return
    with pytest.raises(OptionError, match=message):
        TopicPattern(text)


def test_a_pattern_without_an_end_is_given_up() -> None:
    pattern = TopicPattern("a+")

    class Endless:
        def fullmatch(self, topic: str, *, timeout: float) -> None:
            raise TimeoutError(f"after {timeout} s")

    pattern._compiled = Endless()
    with pytest.raises(OptionError, match=r"'a\+' takes more than 5 s for the topic b: it repeats something"):
        pattern.matches("b")


def test_without_the_package_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "regex", None)
    with pytest.raises(OptionError, match="subscribePattern needs the package regex: run pip install regex"):
        TopicPattern("a")


def test_a_look_by_pattern_is_one_question_and_matches_what_is_new(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand topics are told of once a look, not twice, and their names are matched once."""
    asked: list[str] = []
    matches = TopicPattern.matches

    def counted(self: TopicPattern, topic: str) -> bool:
        asked.append(topic)
        return matches(self, topic)

    monkeypatch.setattr(TopicPattern, "matches", counted)
    cluster.admin.create_topic("look-a", partitions=2)
    brokers = Brokers(
        read_options({"kafka.bootstrap.servers": cluster.servers, "subscribePattern": "look-.*"}, "stream")
    )
    found = [TopicPartition("look-a", 0), TopicPartition("look-a", 1)]
    assert brokers.partitions() == found
    asked.clear()
    cluster.admin.create_topic("look-b", partitions=1)
    before = brokers.admin.metrics()["admin-client-metrics"]["request-total"]
    assert brokers.partitions() == [*found, TopicPartition("look-b", 0)]
    assert asked == ["look-b"]
    assert brokers.partitions() == [*found, TopicPartition("look-b", 0)]
    after = brokers.admin.metrics()["admin-client-metrics"]["request-total"]
    assert after - before == 3, "two looks, and the cluster's id, for its topics changed"
    cluster.admin.delete_topic("look-a")
    assert brokers.partitions() == [TopicPartition("look-b", 0)]
    brokers.close()


async def test_a_topic_in_error_is_told_if_it_is_among_those_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left out, a batch would go without it, and nobody would know."""

    async def answer(*_: Any) -> MetadataResponse:
        bad = MetadataResponseTopic(ErrorCode.LEADER_NOT_AVAILABLE, "look-bad")
        return MetadataResponse(topics=[bad, MetadataResponseTopic(0, "look-good"), MetadataResponseTopic(0, "other")])

    monkeypatch.setattr(AsyncAdmin, "_to_any", answer)
    admin = object.__new__(AsyncAdmin)
    assert list(await admin.describe_all_topics(among=lambda names: [name for name in names if "good" in name])) == [
        "look-good"
    ]
    for among in (None, TopicPattern("look-.*").among):
        with pytest.raises(KafkaError, match="look-bad"):
            await admin.describe_all_topics(among=among)
