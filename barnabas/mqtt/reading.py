"""A bridge's file (TOML; configs/mqtt.toml explains all of it), checked before anything begins."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from barnabas.mqtt import filters, tls
from barnabas.mqtt.mapping import PAYLOADS, Refused, Rule, Rules, kafka_topic, written_topic
from barnabas.mqtt.settings import Mqtt, OutRule, Settings, Tls, address
from barnabas.mqtt.tables import File, Table
from barnabas.protocol.errors import ConfigError

VERSIONS: Final = ("5", "3.1.1")
RETAINED: Final = ("once", "start", "never")
SECOND_MAX: Final = 0xFFFFFFFF
_FILE_BYTES_MAX: Final = 4 * 1024 * 1024
_TEXT_BYTES_MAX: Final = 65_000
_FIVE_ONLY: Final = {
    "share": "shared subscriptions",
    "receive_maximum": "the receive maximum",
    "session_expiry_s": "the session expiry interval",
}


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
    open_bytes_max = bridge.number("open_bytes_max", 64 * 1024 * 1024, 1024 * 1024, 1 << 40)
    try:
        dead_letter = written_topic(bridge.text("dead_letter", "mqtt.dead-letter"))
    except Refused as refused:
        raise bridge.fault("dead_letter", str(refused)) from None
    rules = [_rule(table, True) for table in file.tables("rules")]
    _all_reached(rules)
    fallback = file.table("default")
    mapping = Rules(rules, None if fallback is None else _rule(fallback, False), topics_max)
    out = tuple(_out(table, dead_letter) for table in file.tables("out"))
    if not mapping.all_rules and not out:
        raise ConfigError(f"{file.name}: it has no [[rules]], no [default] and no [[out]]: nothing would be done")
    web = file.table("web") or Table(f"{file.name} [web]", {})
    listen = web.text("listen", "127.0.0.1:9095")
    try:
        address(listen)
    except ConfigError as error:
        raise web.fault("listen", str(error)) from None
    kafka = _kafka(file)
    settings = Settings(
        place=file.name,
        mqtt=_mqtt(file, mapping, kafka, environment),
        kafka=kafka,
        rules=mapping,
        out=out,
        group=bridge.text("group", "barnabas-mqtt") or "barnabas-mqtt",
        dead_letter=dead_letter,
        open_bytes_max=open_bytes_max,
        listen=listen,
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
    for name, text in given.items():
        if not isinstance(text, str):
            raise table.fault(f"headers.{name}", f"{text!r} is no text (write it in quotes)")
        if name.startswith("mqtt."):
            raise table.fault(f"headers.{name}", "names that begin with mqtt. are the bridge's own; write another")
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


def _all_reached(rules: Sequence[Rule]) -> None:
    """Refuse a rule that no message reaches, for one before it takes all of them."""
    tree = filters.Tree()
    for number, rule in enumerate(rules):
        if not rule.filter:
            continue
        if before := tree.covering(rule.filter):
            earlier = rules[min(before)]
            raise ConfigError(
                f"{rule.place}: filter: no message reaches {rule.filter}: {earlier.place} ({earlier.filter}) takes "
                "them all; write the narrower rule first"
            )
        tree.add(rule.filter, number)


def _out(table: Table, dead_letter: str) -> OutRule:
    try:
        topic = kafka_topic(table.text("topic", needed="the Kafka topic that is read"))
    except Refused as refused:
        raise table.fault("topic", str(refused)) from None
    if topic == dead_letter:
        raise table.fault("topic", f"{dead_letter} has the dead letters; what cannot go out would go round in it")
    try:
        rule = OutRule(
            place=table.place,
            topic=topic,
            to=table.text("to", needed="the MQTT topic that is published to"),
            qos=table.number("qos", 1, 0, 1),
            retain=table.flag("retain", False),
            from_mqtt=table.flag("from_mqtt", False),
        )
    except ConfigError as error:
        if str(error).startswith(table.place):
            raise
        raise ConfigError(f"{table.place}: {error}") from None
    table.end()
    return rule


def _mqtt(file: File, rules: Rules, kafka: Mapping[str, Any], environment: Mapping[str, str]) -> Mqtt:
    table = file.table("mqtt") or Table(f"{file.name} [mqtt]", {})
    version = table.choice("version", VERSIONS, "5")
    five = version == "5"
    for key, what in _FIVE_ONLY.items():
        if not five and key in table.values:
            raise table.fault(key, f'{what} came with MQTT 5; leave it out, or write version = "5"')
    retained = table.choice("retained", RETAINED, "once" if five else "start")
    if retained == "once" and not five:
        raise table.fault("retained", 'retain handling came with MQTT 5; write "start" or "never", or version = "5"')
    security = table.table("tls")
    password = _password(table, environment)
    made = Mqtt(
        host=table.text("host", "localhost"),
        port=table.number("port", 1883 if security is None else 8883, 1, 65_535),
        client_id=table.text("client_id", needed="the MQTT broker knows a bridge, and keeps its messages, by it"),
        version=version,
        username=table.text("username"),
        password=password,
        keepalive_s=table.number("keepalive_s", 30, 5, 65_535),
        session_expiry_s=table.number("session_expiry_s", 7 * 24 * 3600, 0, SECOND_MAX),
        receive_maximum=table.number("receive_maximum", 1000, 1, 65_535),
        payload_bytes_max=_payload_bytes_max(table, kafka),
        qos=_qos(table),
        share=table.text("share"),
        subscribe=table.texts("subscribe"),
        retained=retained,
        tls=None if security is None else _tls(security),
    )
    if not re.fullmatch(r"[\w.:%-]+", made.host) or made.host.count(":") == 1:
        raise table.fault("host", f'{made.host!r}: write the name or address alone, such as "localhost"; port is a key')
    for name in ("client_id", "username", "password"):
        text = getattr(made, name)
        if "\0" in text or len(text.encode()) > _TEXT_BYTES_MAX:
            raise table.fault(name, f"at most {_TEXT_BYTES_MAX} bytes, and no NUL among them, may stand in it")
    if made.password and not made.username:
        raise table.fault("password", "it needs a username")
    if re.search(r"[/+#]", made.share):
        raise table.fault("share", f"{made.share!r}: the name of a group has none of / + #")
    made.subscribe = _subscriptions(table, made, rules)
    table.end()
    return made


def _payload_bytes_max(table: Table, kafka: Mapping[str, Any]) -> int:
    """What is written must fit into a record: the payloads between the two would be dropped, each with a reason."""
    from barnabas.client.produce.config import ProducerConfig

    written = "payload_bytes_max" in table.values
    most, limit = table.number("payload_bytes_max", 1024 * 1024, 1024, 256 * 1024 * 1024), "max.request.size"
    if written and most > (record := ProducerConfig.of(kafka).max_request_size):
        told = f"{most} is more than the producer sends ({limit} = {record}); write a larger {limit} into [kafka], too"
        raise table.fault("payload_bytes_max", told)
    return most


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
        except OSError as error:
            raise table.fault("password_file", f"{path}: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise table.fault("password_file", f"{path}: it is no UTF-8 text") from None
        if not password:
            raise table.fault("password_file", f"{path}: it is empty; write the password into it")
    return environment.get("BARNABAS_MQTT_PASSWORD", password)


def _tls(table: Table) -> Tls:
    made = Tls(table.text("ca_file"), table.text("cert_file"), table.text("key_file"), table.flag("verify", True))
    if made.key_file and not made.cert_file:
        raise table.fault("key_file", "it needs the cert_file that it belongs to")
    for name in ("ca_file", "cert_file", "key_file"):
        path = getattr(made, name)
        if path and not Path(path).is_file():
            raise table.fault(name, f"{path} is no file")
    table.end()
    try:
        tls.context(made)
    except ConfigError as error:
        raise ConfigError(f"{table.place}: {error}") from None
    return made


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


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by their names, written in quotes or not: of bare names with dots TOML makes tables."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= {f"{key}.{name}": each for name, each in _flat(value).items()}
        else:
            found[key] = value
    return found


def _kafka(file: File) -> dict[str, Any]:
    from barnabas.client.produce.config import ProducerConfig

    table = file.table("kafka")
    if table is None:
        return {"bootstrap.servers": "localhost:9092", "acks": "all"}
    given = {key.replace("_", "."): value for key, value in _flat(table.plain()).items()}
    acks = given.setdefault("acks", "all")
    if str(acks) not in ("all", "-1"):
        raise table.fault("acks", f"{acks!r}: a message is acknowledged for a record that all replicas have; write all")
    if str(given.get("enable.idempotence", True)).lower() != "true":
        raise table.fault("enable.idempotence", "without it records may be there twice, unmarked; leave it out")
    for key in ("key.serializer", "value.serializer", "interceptor.classes", "partitioner.ignore.keys"):
        if key in given:
            raise table.fault(key, "the bridge makes keys, values and partitions by its rules; leave it out")
    given.setdefault("bootstrap.servers", "localhost:9092")
    try:
        ProducerConfig.of(given)
    except ConfigError as error:
        raise ConfigError(f"{table.place}: {error}") from None
    return given
