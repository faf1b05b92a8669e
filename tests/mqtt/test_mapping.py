"""Rules: the first that matches counts, what it makes, and what it refuses."""

from __future__ import annotations

import msgpack
import pytest

from barnabas.mqtt import mapping
from barnabas.mqtt.mapping import Message, Refused, Rule, Rules, headers_of, value_of
from barnabas.protocol.errors import ConfigError


def rules(*made: Rule, default: Rule | None = None, topics_max: int = 100) -> Rules:
    return Rules(made, default, topics_max)


def test_the_first_rule_that_matches_counts_and_the_default_comes_last() -> None:
    found = rules(
        Rule("1", "special", filter="s/a/+"),
        Rule("2", "s", filter="s/#", key="$1"),
        Rule("3", "never", filter="s/b"),
        default=Rule("d", "rest", key="{topic}"),
    )
    assert [found.route(topic).topic for topic in ("s/a/x", "s/b", "s", "t/u")] == ["special", "s", "s", "rest"]
    assert found.route("s").key == b""
    assert found.route("t/u").key == b"t/u"
    with pytest.raises(Refused, match=r"no rule takes it, and there is no \[default\]"):
        rules(Rule("1", "t", filter="a")).route("b")


def test_filters_and_expressions_are_tried_in_their_order() -> None:
    found = rules(
        Rule("1", "first", regex="a/[x-z]"),
        Rule("2", "second", filter="a/+"),
        Rule("3", "third", regex="b/.*"),
        Rule("4", "fourth", filter="b/c"),
        Rule("5", "fifth", filter="+/+"),
    )
    told = {topic: found.route(topic).topic for topic in ("a/x", "a/a", "b/c", "c/c")}
    assert told == {"a/x": "first", "a/a": "second", "b/c": "third", "c/c": "fifth"}


def test_of_thousands_of_filters_a_new_topic_asks_those_that_match() -> None:
    found, asked = rules(*(Rule(str(number), "t", filter=f"site{number}/+") for number in range(3000))), []
    for rule in found.rules:
        rule.match = lambda topic, match=rule.match, place=rule.place: asked.append(place) or match(topic)  # type: ignore[misc,func-returns-value]
    assert found.route("site2999/x").rule.place == "2999"
    with pytest.raises(Refused):
        found.route("site3000/x")
    assert asked == ["2999"]


def test_templates_take_wildcards_named_groups_and_the_topic() -> None:
    rule = Rule(
        "r",
        "by-${kind}",
        regex=r"site/(?P<site>[^/]+)/(?P<kind>\w+)",
        key="$site:$2",
        headers={"from": "$$ {{{topic}}} $1"},
    )
    route = rules(rule).route("site/north/heat")
    assert (route.topic, route.key) == ("by-heat", b"north:heat")
    assert route.headers == (("from", b"$ {site/north/heat} north"), ("mqtt.topic", b"site/north/heat"))


def test_levels_become_dots_in_a_topic_and_what_kafka_has_no_name_for_is_refused() -> None:
    found = rules(Rule("file:3", "mqtt.{topic}", filter="#"))
    assert found.route("a/b/c").topic == "mqtt.a.b.c"
    with pytest.raises(Refused, match=r"file:3: 'mqtt.a b' is no name of a topic"):
        found.route("a b")
    with pytest.raises(Refused, match="1 to 249 letters"):
        found.route("x" * 250)


def test_devices_cannot_make_topics_without_end() -> None:
    found = rules(Rule("r", "$1", filter="+"), topics_max=2)
    assert [found.route(each).topic for each in ("a", "b", "a")] == ["a", "b", "a"]
    with pytest.raises(Refused, match=r"topic c would be one more than topics_max \(2\) allows"):
        found.route("c")
    assert found.route("b").topic == "b"


def test_a_topic_that_a_rule_names_whole_takes_what_comes_however_many_devices_have_made() -> None:
    found = rules(Rule("r", "$1", filter="d/+"), Rule("a", "alarms", filter="alarms"), topics_max=1)
    assert found.route("d/a").topic == "a"
    with pytest.raises(Refused, match="topics_max"):
        found.route("d/b")
    assert found.route("alarms").topic == "alarms"


def test_routes_are_kept_as_far_as_they_are_small_and_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "ROUTES_KEPT", 100)
    found = rules(Rule("r", "t", filter="#", key="{topic}", headers={"big": "{topic}" * 10}))
    assert found.route("a") is found.route("a")
    long = "x" * (mapping.ROUTE_BYTES_KEPT // 10)
    assert found.route(long) is not found.route(long)
    assert found.route(long) == found.route(long)
    first = found.route("a")
    for number in range(1000):
        found.route(f"n/{number}")
    assert found.route("a") == first
    assert len(found._routes) <= 100


def test_the_device_is_the_key_unless_there_is_one_and_chooses_the_partition_then() -> None:
    alone = rules(Rule("r", "t", filter="d/+/+", device="$1")).route("d/7/x")
    assert (alone.key, alone.device) == (b"7", None)
    both = rules(Rule("r", "t", filter="d/+/+", device="$1", key="$2")).route("d/7/x")
    assert (both.key, both.device) == (b"x", b"7")


def test_payloads_as_they_are_as_json_and_in_an_envelope() -> None:
    message = Message("a", b'{"x": 1}', 1, retain=True)
    assert value_of(Rule("r", "t", filter="a"), message, 5) == message.payload
    assert value_of(Rule("r", "t", filter="a", payload="json"), message, 5) == message.payload
    packed = value_of(Rule("r", "t", filter="a", payload="msgpack"), message, 5)
    assert msgpack.unpackb(packed) == {"topic": "a", "qos": 1, "retain": True, "time": 5, "payload": b'{"x": 1}'}


UTF_16, SURROGATE = '{"a": 1}'.encode("utf-16"), b'"\xed\xa0\x80"'


@pytest.mark.parametrize(
    "payload", [b"", b"{", b"NaN", b"[" * 100_000, b"\xff", b'{"a":1} x', UTF_16, UTF_16[2:], SURROGATE]
)
def test_what_is_no_json_is_refused_with_the_rule(payload: bytes) -> None:
    with pytest.raises(Refused, match="file:9: the payload is no JSON"):
        value_of(Rule("file:9", "t", filter="a", payload="json"), Message("a", payload), 0)


def test_headers_tell_where_it_came_from_and_mark_what_may_be_a_duplicate() -> None:
    route = rules(Rule("r", "t", filter="a", headers={"h": "v"})).route("a")
    told = headers_of(route, Message("a", b"", 1, retain=True, dup=True, mid=3))
    assert told == (
        ("h", b"v"),
        ("mqtt.topic", b"a"),
        ("mqtt.qos", b"1"),
        ("mqtt.retain", b"1"),
        ("mqtt.dup", b"1"),
    )
    assert dict(headers_of(route, Message("a", b""))) == {"h": b"v", "mqtt.topic": b"a", "mqtt.qos": b"0"}


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"topic": "t", "filter": "a/#/b"}, "filter: a/#/b: # stands alone"),
        ({"topic": "t", "regex": "("}, r"regex: '\(': missing \)"),
        ({"topic": "t", "regex": r"(?=a)"}, "RE2's syntax"),
        ({"topic": "$2", "filter": "+"}, r"topic: '\$2': there is no \$2; the filter catches 1"),
        ({"topic": "t", "filter": "a", "key": "$1"}, r"key: '\$1': there is no \$1; nothing is caught here"),
        ({"topic": "t", "regex": "(?P<a>.)", "key": "$b"}, r"key: '\$b': there is no \$b; there is \$a"),
        ({"topic": "t", "filter": "a", "headers": {"h": "{x}"}}, r"headers.h: '\{x\}': there is no \{x\}"),
        ({"topic": "t", "filter": "a", "key": "5 $ a"}, r"a lone \$ stands for nothing; write \$\$"),
        ({"topic": "no topic", "filter": "a"}, "topic: 'no topic' is no name of a topic"),
        ({"topic": "t", "filter": "a", "payload": "xml"}, "payload: 'xml' is none of raw, json, msgpack"),
    ],
)
def test_a_bad_rule_says_which_key_and_why(rule: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Rule("place", **rule)  # type: ignore[arg-type]
