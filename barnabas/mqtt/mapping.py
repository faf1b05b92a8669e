"""Which record becomes of a message: ordered rules, of which the first that matches counts, and a default.

A route (topic, key, device, headers) hangs on the MQTT topic alone and is kept for the topics seen last; the value is
made of each message. Whatever cannot become a record is `Refused`, with the reason, and goes to the dead letters.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn

import msgpack

from barnabas.broker.config.topics import INTERNAL_TOPICS
from barnabas.mqtt import filters, templates
from barnabas.protocol.errors import BarnabasError, ConfigError

PAYLOADS: Final = ("raw", "json", "msgpack")
ROUTES_KEPT: Final = 16_384
ROUTE_BYTES_KEPT: Final = 2048
"""A larger one is made each time: topics and templates of 60 kB would fill gigabytes."""
_KAFKA_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")

Headers = tuple[tuple[str, bytes], ...]
DUP: Final = ("mqtt.dup", b"1")
"""The mark of a record that may be a second one of its message."""


class Refused(BarnabasError):
    """What came cannot become a record; the text is the reason."""


class Message(NamedTuple):
    """What came by MQTT. `mid` is its packet id there (0 with QoS 0), `more` what becomes of its properties."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False
    mid: int = 0
    more: Headers = ()


class Route(NamedTuple):
    """Where messages of one MQTT topic go. `device` chooses the partition when the key must not."""

    rule: Rule
    topic: str
    key: bytes | None
    device: bytes | None
    headers: Headers

    def size(self, topic: str) -> int:
        """About so many bytes it keeps."""
        texts = sum(len(name) + len(data) for name, data in self.headers)
        return len(topic) + len(self.topic) + len(self.key or b"") + len(self.device or b"") + texts


@dataclass(slots=True, eq=False)
class Rule:
    """One rule; `place` is where it stands in the file, `count` how many messages it has taken.

    Without `filter` and `regex` it is the default, which matches everything.
    """

    place: str
    topic: str
    filter: str = ""
    regex: str = ""
    key: str = ""
    device: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    payload: str = "raw"
    count: int = 0
    fixed: bool = field(init=False, repr=False)
    match: Callable[[str], templates.Values | None] = field(init=False, repr=False)
    make_topic: templates.Template = field(init=False, repr=False)
    make_key: templates.Template | None = field(init=False, repr=False)
    make_device: templates.Template | None = field(init=False, repr=False)
    make_headers: tuple[tuple[str, templates.Template], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check it, and make of texts what makes texts.

        Raises:
            ConfigError: what is wrong, with the name of the key.
        """
        self.match, groups, names = _named("regex" if self.regex else "filter", lambda: _matcher(self))

        def template(name: str, text: str) -> templates.Template:
            made: templates.Template = _named(name, lambda: templates.compiled(text, groups, names))
            return made

        self.make_topic = template("topic", self.topic)
        self.fixed = not re.search(r"[${]", self.topic)
        _named("topic", self._check_topic)
        self.make_key = template("key", self.key) if self.key else None
        self.make_device = template("device", self.device) if self.device else None
        self.make_headers = tuple((name, template(f"headers.{name}", text)) for name, text in self.headers.items())
        if self.payload not in PAYLOADS:
            raise ConfigError(f"payload: {self.payload!r} is none of {', '.join(PAYLOADS)}")

    def _check_topic(self) -> None:
        try:
            written_topic(self.make_topic(defaultdict(lambda: "x")))
        except Refused as refused:
            why = refused if self.fixed else f"{self.topic!r}: whatever stands in its gaps, as here x: {refused}"
            raise ConfigError(str(why)) from None

    @property
    def told(self) -> str:
        """What it takes, in a few words."""
        return f"filter {self.filter}" if self.filter else f"regex {self.regex}" if self.regex else "default"


def _named(name: str, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except (ConfigError, Refused) as error:
        raise ConfigError(f"{name}: {error}") from None


def _matcher(rule: Rule) -> tuple[Callable[[str], templates.Values | None], int, Sequence[str]]:
    """What matches, how many groups it catches, and their names."""
    if rule.regex:
        compiled = _expression(rule.regex)
        names = tuple(compiled.groupindex)
    elif rule.filter:
        compiled, names = filters.pattern(rule.filter), ()
    else:
        return lambda topic: {"topic": topic}, 0, ()
    groups = compiled.groups

    def match(topic: str) -> templates.Values | None:
        found = compiled.fullmatch(topic)
        if found is None:
            return None
        values = {str(number): found[number] or "" for number in range(1, groups + 1)}
        return values | {name: found[name] or "" for name in names} | {"topic": topic}

    return match, groups, names


def _expression(text: str) -> Any:
    """The expression, by RE2: no topic that a device thinks of makes it slow."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        told = error.args[0] if error.args else "it does not compile"
        raise ConfigError(f"{text!r}: {told.decode() if isinstance(told, bytes) else told} (RE2's syntax)") from None


def kafka_topic(text: str) -> str:
    """The name of a Kafka topic; the levels of an MQTT topic in it become parts between dots.

    Raises:
        Refused: Kafka has no such names.
    """
    name = text.replace("/", ".")
    if not _KAFKA_TOPIC.fullmatch(name) or name in (".", ".."):
        raise Refused(f"{name!r} is no name of a topic: 1 to 249 letters, digits, dots, underscores and dashes")
    return name


def written_topic(text: str) -> str:
    """As `kafka_topic`, of a topic that is to be written to.

    Raises:
        Refused: Kafka has no such names, or keeps the topic to itself.
    """
    name = kafka_topic(text)
    if name in INTERNAL_TOPICS:
        raise Refused(f"{name!r} is a topic of Kafka's own, which takes nobody's records")
    return name


class Rules:
    """All rules of a bridge, in their order, and the topics they led to.

    Args:
        topics_max: how many Kafka topics may come of what devices write into MQTT topics; further ones are refused.
            Those that a rule names whole do not count.
    """

    def __init__(self, rules: Sequence[Rule], default: Rule | None, topics_max: int) -> None:
        self.rules = tuple(rules)
        self.default = default
        self.topics_max = topics_max
        self._topics: set[str] = set()
        self._routes: dict[str, Route] = {}
        self._filters = filters.Tree()
        for number, rule in enumerate(self.rules):
            if rule.filter:
                self._filters.add(rule.filter, number)
        self._others = [number for number, rule in enumerate(self.all_rules) if not rule.filter]

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        """The rules, and the default behind them."""
        return self.rules if self.default is None else (*self.rules, self.default)

    def route(self, topic: str) -> Route:
        """Where messages of this MQTT topic go.

        Raises:
            Refused: no rule takes it, or what the rule makes of it is nothing that Kafka takes.
        """
        found = self._routes.get(topic)
        if found is None:
            found = self._find(topic)
            if found.size(topic) <= ROUTE_BYTES_KEPT:
                if len(self._routes) >= ROUTES_KEPT:
                    self._routes.clear()
                self._routes[topic] = found
        return found

    def _find(self, topic: str) -> Route:
        rules = self.all_rules
        for number in sorted([*self._filters.covering(topic), *self._others]):
            rule = rules[number]
            values = rule.match(topic)
            if values is not None:
                break
        else:
            raise Refused("no rule takes it, and there is no [default]")
        try:
            return self._made(rule, values, topic)
        except Refused as refused:
            raise Refused(f"{rule.place}: {refused}") from None

    def _made(self, rule: Rule, values: templates.Values, topic: str) -> Route:
        name = written_topic(rule.make_topic(values))
        if not rule.fixed and name not in self._topics:
            if len(self._topics) >= self.topics_max:
                raise Refused(f"topic {name} would be one more than topics_max ({self.topics_max}) allows")
            self._topics.add(name)
        device = rule.make_device(values).encode() if rule.make_device else None
        key = rule.make_key(values).encode() if rule.make_key else device
        made = tuple((header, make(values).encode()) for header, make in rule.make_headers)
        headers = (*made, ("mqtt.topic", topic.encode()))
        return Route(rule, name, key, None if device == key else device, headers)


def value_of(rule: Rule, message: Message, now_ms: int) -> bytes:
    """The record's value.

    Raises:
        Refused: the rule asks for JSON, and the payload is none.
    """
    if rule.payload == "json":
        try:
            json.loads(message.payload.decode(), parse_constant=_no_json)  # bytes may be UTF-16, too, which no JSON is
        except (ValueError, RecursionError) as error:
            raise Refused(f"{rule.place}: the payload is no JSON: {str(error)[:200]}") from None
    elif rule.payload == "msgpack":
        envelope = {
            "topic": message.topic,
            "qos": message.qos,
            "retain": message.retain,
            "time": now_ms,
            "payload": message.payload,
        }
        packed: bytes = msgpack.packb(envelope)
        return packed
    return message.payload


def headers_of(route: Route, message: Message) -> Headers:
    """The record's headers: properties, the rule's, `mqtt.topic`, `mqtt.qos`, where it is so `mqtt.retain`, `mqtt.dup`.

    The last of one name is what most consumers look at: no device says what a rule says.
    """
    headers = (*message.more, *route.headers, _QOS[message.qos])
    if message.retain:
        headers = (*headers, ("mqtt.retain", b"1"))
    if message.dup:
        headers = (*headers, DUP)
    return headers


_QOS: Final = tuple(("mqtt.qos", b"%d" % qos) for qos in range(3))


def _no_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")
