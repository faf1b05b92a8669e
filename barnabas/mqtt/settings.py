"""The settings of a bridge: a TOML file (configs/mqtt.toml explains all of them), checked before anything begins."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from barnabas.mqtt import filters, templates
from barnabas.mqtt.mapping import PAYLOADS, Refused, Rule, Rules, kafka_topic
from barnabas.mqtt.tables import File, Table
from barnabas.net.config import ClientConfig
from barnabas.protocol.errors import ConfigError

VERSIONS: Final = ("5", "3.1.1")
RETAINED: Final = ("once", "start", "never")
SECOND_MAX: Final = 0xFFFFFFFF
OUT_BRACES: Final = ("topic", "key", "partition", "offset")
_FILE_BYTES_MAX: Final = 4 * 1024 * 1024
_FIVE_ONLY: Final = {
    "share": "shared subscriptions",
    "receive_maximum": "the receive maximum",
    "session_expiry_s": "the session expiry interval",
}
_CLIENT: Final = frozenset(each.name for each in fields(ClientConfig))


@dataclass(slots=True)
class Tls:
    """TLS to the MQTT broker; files in PEM. Without `ca_file` the system's authorities are trusted."""

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    verify: bool = True


@dataclass(slots=True)
class Mqtt:
    """The MQTT side. `retained`: once (MQTT 5), at each start, or never; `fresh`: end an earlier session first."""

    host: str = "localhost"
    port: int = 1883
    client_id: str = ""
    version: str = "5"
    username: str = ""
    password: str = ""
    keepalive_s: int = 30
    session_expiry_s: int = 7 * 24 * 3600
    receive_maximum: int = 1000
    payload_bytes_max: int = 1024 * 1024
    qos: int = 1
    share: str = ""
    subscribe: tuple[str, ...] = ()
    retained: str = "once"
    tls: Tls | None = None
    fresh: bool = False

    @property
    def five(self) -> bool:
        """Whether MQTT 5 is spoken."""
        return self.version == "5"


@dataclass(slots=True, eq=False)
class OutRule:
    """Records of one topic as messages. `from_mqtt`: those that a bridge brought from MQTT, too."""

    place: str
    topic: str
    to: str
    qos: int = 1
    retain: bool = False
    from_mqtt: bool = False
    count: int = 0
    make: templates.Template = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the template.

        Raises:
            ConfigError: it names what there is not, or a wildcard.
        """
        if re.search(r"[+#]", self.to):
            raise ConfigError(f"to: {self.to!r}: messages are published to a topic; + and # stand in filters alone")
        try:
            self.make = templates.compiled(self.to, 0, (), OUT_BRACES)
        except ConfigError as error:
            raise ConfigError(f"to: {error}") from None


@dataclass(slots=True)
class Settings:
    """All of a bridge."""

    place: str
    mqtt: Mqtt
    kafka: dict[str, Any]
    rules: Rules
    out: tuple[OutRule, ...] = ()
    group: str = "barnabas-mqtt"
    dead_letter: str = "mqtt.dead-letter"
    listen: str = "127.0.0.1:9095"
    hosts: tuple[str, ...] = ()

    def producer(self) -> dict[str, Any]:
        """The producer's settings."""
        return {
            "client.id": f"barnabas-mqtt-{self.mqtt.client_id}",
            "linger.ms": 5,
            "max.block.ms": 10_000,
        } | self.kafka

    def consumer(self) -> dict[str, Any]:
        """The consumer's, for records that go out: what it shares with the producer, and a group."""
        shared = {key: value for key, value in self.kafka.items() if key.replace(".", "_") in _CLIENT}
        name = re.sub(r"[^A-Za-z0-9._-]", "-", f"barnabas-mqtt-{self.mqtt.client_id}-out")
        # A static member (KIP-345): a bridge that was killed goes on at once, and not when its session is over.
        own = {"group.id": self.group, "group.instance.id": name, "enable.auto.commit": False}
        return {"client.id": name, "auto.offset.reset": "earliest"} | shared | own


def load(path: str, environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a file. `BARNABAS_MQTT_PASSWORD` in the environment wins over the file's password.

    Raises:
        ConfigError: it cannot be read, or something in it is wrong: the text has file, line, table and key.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(_FILE_BYTES_MAX + 1)
        text = data.decode()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}; configs/mqtt.toml is an example") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: it is no UTF-8 text") from None
    if len(data) > _FILE_BYTES_MAX:
        raise ConfigError(f"{path}: it has more than {_FILE_BYTES_MAX} bytes")
    return read(File(path, text), environment)


def read(file: File, environment: Mapping[str, str]) -> Settings:
    """The settings of what was read; errors as `load`."""
    bridge = file.table("bridge") or Table(f"{file.name} [bridge]", {})
    topics_max = bridge.number("topics_max", 1000, 1, 100_000)
    dead_letter = bridge.text("dead_letter", "mqtt.dead-letter")
    try:
        kafka_topic(dead_letter)
    except Refused as refused:
        raise bridge.fault("dead_letter", str(refused)) from None
    rules = [_rule(table, True) for table in file.tables("rules")]
    fallback = file.table("default")
    mapping = Rules(rules, None if fallback is None else _rule(fallback, False), topics_max)
    out = tuple(_out(table, dead_letter) for table in file.tables("out"))
    if not mapping.all_rules and not out:
        raise ConfigError(f"{file.name}: it has no [[rules]], no [default] and no [[out]]: nothing would be done")
    web = file.table("web") or Table(f"{file.name} [web]", {})
    settings = Settings(
        place=file.name,
        mqtt=_mqtt(file, mapping, environment),
        kafka=_kafka(file),
        rules=mapping,
        out=out,
        group=bridge.text("group", "barnabas-mqtt"),
        dead_letter=dead_letter,
        listen=web.text("listen", "127.0.0.1:9095"),
        hosts=web.texts("hosts"),
    )
    for table in (bridge, web, file):
        table.end()
    return settings


def _rule(table: Table, matches: bool) -> Rule:
    headers = table.table("headers")
    given = {} if headers is None else headers.plain()
    filter_, regex = (table.text("filter"), table.text("regex")) if matches else ("", "")
    if matches and bool(filter_) == bool(regex):
        raise ConfigError(f"{table.place}: give it a filter or a regex, one of both")
    if not all(isinstance(text, str) for text in given.values()):
        raise table.fault("headers", "values are texts")
    if any(name.startswith("mqtt.") for name in given):
        raise table.fault("headers", "names that begin with mqtt. are the bridge's own")
    try:
        rule = Rule(
            place=table.place,
            topic=table.text("topic", needed="the Kafka topic that records go to"),
            filter=filter_,
            regex=regex,
            key=table.text("key"),
            device=table.text("device"),
            headers=given,
            payload=table.choice("payload", PAYLOADS, "raw"),
        )
    except ConfigError as error:
        if str(error).startswith(table.place):
            raise
        raise ConfigError(f"{table.place}: {error}") from None
    table.end()
    return rule


def _out(table: Table, dead_letter: str) -> OutRule:
    try:
        rule = OutRule(
            place=table.place,
            topic=kafka_topic(table.text("topic", needed="the Kafka topic that is read")),
            to=table.text("to", needed="the MQTT topic that is published to"),
            qos=table.number("qos", 1, 0, 1),
            retain=table.flag("retain", False),
            from_mqtt=table.flag("from_mqtt", False),
        )
    except (ConfigError, Refused) as error:
        if str(error).startswith(table.place):
            raise
        raise ConfigError(f"{table.place}: {error}") from None
    if rule.topic == dead_letter:
        raise table.fault("topic", f"{dead_letter} has the dead letters; what cannot go out would go round in it")
    table.end()
    return rule


def _mqtt(file: File, rules: Rules, environment: Mapping[str, str]) -> Mqtt:
    table = file.table("mqtt") or Table(f"{file.name} [mqtt]", {})
    version = table.choice("version", VERSIONS, "5")
    five = version == "5"
    for key, what in _FIVE_ONLY.items():
        if not five and key in table.values:
            raise table.fault(key, f'{what} came with MQTT 5; leave it out, or write version = "5"')
    retained = table.choice("retained", RETAINED, "once" if five else "start")
    if retained == "once" and not five:
        raise table.fault("retained", 'retain handling came with MQTT 5; write "start" or "never", or version = "5"')
    tls = table.table("tls")
    password = _password(table, environment)
    made = Mqtt(
        host=table.text("host", "localhost"),
        port=table.number("port", 1883 if tls is None else 8883, 1, 65_535),
        client_id=table.text("client_id", needed="the MQTT broker knows a bridge, and keeps its messages, by it"),
        version=version,
        username=table.text("username"),
        password=password,
        keepalive_s=table.number("keepalive_s", 30, 5, 65_535),
        session_expiry_s=table.number("session_expiry_s", 7 * 24 * 3600, 0, SECOND_MAX),
        receive_maximum=table.number("receive_maximum", 1000, 1, 65_535),
        payload_bytes_max=table.number("payload_bytes_max", 1024 * 1024, 1024, 256 * 1024 * 1024),
        qos=_qos(table),
        share=table.text("share"),
        subscribe=table.texts("subscribe"),
        retained=retained,
        tls=None if tls is None else _tls(tls),
    )
    if made.password and not made.username:
        raise table.fault("password", "it needs a username")
    if re.search(r"[/+#]", made.share):
        raise table.fault("share", f"{made.share!r}: the name of a group has none of / + #")
    made.subscribe = _subscriptions(table, made, rules)
    table.end()
    return made


def _qos(table: Table) -> int:
    qos = table.number("qos", 1, 0, 2)
    if qos == 2:
        raise table.fault(
            "qos", "2 would be acknowledged before the record is; write 1 (publishers may use 2 all the same)"
        )
    return qos


def _password(table: Table, environment: Mapping[str, str]) -> str:
    password, path = table.text("password"), table.text("password_file")
    if password and path:
        raise table.fault("password_file", "there is a password, too; keep one of both")
    if path:
        try:
            password = Path(path).read_text().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise table.fault("password_file", f"{path} cannot be read: {error}") from None
    return environment.get("BARNABAS_MQTT_PASSWORD", password)


def _tls(table: Table) -> Tls:
    tls = Tls(table.text("ca_file"), table.text("cert_file"), table.text("key_file"), table.flag("verify", True))
    if tls.key_file and not tls.cert_file:
        raise table.fault("key_file", "it needs the cert_file that it belongs to")
    for name in ("ca_file", "cert_file", "key_file"):
        path = getattr(tls, name)
        if path and not Path(path).is_file():
            raise table.fault(name, f"{path} is no file")
    table.end()
    return tls


def _subscriptions(table: Table, mqtt: Mqtt, rules: Rules) -> tuple[str, ...]:
    """What is subscribed to: what is named, else the filters of the rules."""
    for one in mqtt.subscribe:
        try:
            filters.check(one)
        except ConfigError as error:
            raise table.fault("subscribe", str(error)) from None
    if not mqtt.subscribe:
        for rule in rules.all_rules:
            if not rule.filter:
                raise table.fault("subscribe", f"it is missing; {rule.place} has no filter to subscribe to")
        return filters.fewest(rule.filter for rule in rules.rules)
    for rule in rules.rules:
        if rule.filter and not any(filters.meet(rule.filter, one) for one in mqtt.subscribe):
            raise ConfigError(f"{rule.place}: filter: {rule.filter} meets nothing of what [mqtt] subscribes to")
    return filters.fewest(mqtt.subscribe)


def _kafka(file: File) -> dict[str, Any]:
    from barnabas.client.produce.config import ProducerConfig

    table = file.table("kafka")
    if table is None:
        return {"bootstrap.servers": "localhost:9092", "acks": "all"}
    given = {key.replace("_", "."): value for key, value in table.plain().items()}
    acks = given.setdefault("acks", "all")
    if str(acks) not in ("all", "-1"):
        raise table.fault("acks", f"{acks!r}: a message is acknowledged for a record that all replicas have; write all")
    for key in ("key.serializer", "value.serializer", "interceptor.classes", "partitioner.ignore.keys"):
        if key in given:
            raise table.fault(key, "the bridge makes keys, values and partitions by its rules; leave it out")
    given.setdefault("bootstrap.servers", "localhost:9092")
    try:
        ProducerConfig.of(given)
    except ConfigError as error:
        raise ConfigError(f"{table.place}: {error}") from None
    return given
