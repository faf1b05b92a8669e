"""The file: what it means, and that every fault is told with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.mqtt.reading import load, read
from barnabas.mqtt.settings import address
from barnabas.mqtt.tables import File
from barnabas.protocol.errors import ConfigError

EXAMPLE = Path(__file__).parents[2] / "configs/mqtt.toml"
GOOD = """
[mqtt]
client_id = "one"

[[rules]]
filter = "a/#"
topic = "t"
"""


def of(text: str, **environment: str):
    return read(File("bridge.toml", text), environment)


def test_the_example_is_good_and_holds_every_key() -> None:
    settings = load(str(EXAMPLE), {})
    assert [rule.topic for rule in settings.rules.rules] == ["temperature", "sensors"]
    assert settings.mqtt.subscribe == ("sensors/#",)
    assert settings.consumer()["group.id"] == "barnabas-mqtt"
    assert settings.producer()["acks"] == "all"
    text = EXAMPLE.read_text()
    keys = "host port client_id version username password_file keepalive_s session_expiry_s receive_maximum qos share"
    keys += " payload_bytes_max subscribe retained dead_letter topics_max group listen"
    keys += " ca_file cert_file key_file device"
    assert [key for key in keys.split() if key not in text] == []


def test_without_subscriptions_the_filters_of_the_rules_are_subscribed_to() -> None:
    rule = '[[rules]]\nfilter = "{}"\ntopic = "t"\n'
    narrow = GOOD.replace("[[rules]]", rule.format("a/b") + "[[rules]]")
    assert of(narrow + rule.format("c")).mqtt.subscribe == ("a/#", "c")


def test_the_password_comes_from_the_environment_a_file_or_the_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from the file\n")
    text = GOOD.replace("[[rules]]", f'username = "u"\npassword_file = "{secret}"\n[[rules]]', 1)
    assert of(text).mqtt.password == "from the file"
    assert of(text, BARNABAS_MQTT_PASSWORD="better").mqtt.password == "better"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x", "bridge.toml: it is no TOML"),
        ("", r"it has no \[\[rules\]\]"),
        (GOOD.replace("one", ""), r"bridge.toml:2 \[mqtt\]: client_id: it is missing"),
        (GOOD + '[[rules]]\nfilter = "a/+b"\ntopic = "t"', r"bridge.toml:8 \[\[rules\]\] 2: filter: a/\+b: \+ stands"),
        (GOOD + '[[rules]]\ntopic = "t"', r"\[\[rules\]\] 2: give it a filter or a regex, one of both"),
        (GOOD + 'filte = "x"', r"bridge.toml:5 \[\[rules\]\] 1: filte: there is no such key; did you mean filter"),
        (GOOD + "key = 3", r"\[\[rules\]\] 1: key: 3 is no text"),
        (GOOD + 'payload = "xml"', "payload: 'xml' is none of raw, json, msgpack"),
        (GOOD + '[rules.headers]\n"mqtt.topic" = "x"', "names that begin with mqtt. are the bridge's own"),
        (GOOD + "[bridges]", r"bridge.toml:8: bridges: there is no such key; did you mean bridge\?"),
        (GOOD + '[default]\ntopic = "t"', r"subscribe: it is missing; bridge.toml:8 \[default\] has no filter"),
        (GOOD + "[kafka]\nacks = 1", r"\[kafka\]: acks: 1: a message is acknowledged .* write all"),
        (GOOD + '[kafka]\n"linger.m" = 1', r"bridge.toml:8 \[kafka\]: .*linger"),
        (GOOD + '[kafka]\n"value.serializer" = "json"', "the bridge makes keys"),
        (GOOD + '[[out]]\ntopic = "t"\nto = "a/+"', r"\[\[out\]\] 1: to: 'a/\+': .* stand in filters alone"),
        (
            GOOD + '[[out]]\ntopic = "t"\nto = "a/{kye}"',
            r"\[\[out\]\] 1: to: .*no \{kye\}; there is \{topic\}, \{key\}",
        ),
        (GOOD + '[[out]]\ntopic = "t/"\nto = "a b"\nqos = 2', "qos: 2 is not between 0 and 1"),
        (GOOD + '[[out]]\ntopic = "mqtt.dead-letter"\nto = "x"', r"topic: mqtt.dead-letter has the dead letters"),
        (GOOD + '[bridge]\ndead_letter = "no topic"', r"\[bridge\]: dead_letter: 'no topic' is no name"),
        (GOOD + '[bridge]\ndead_letter = "__consumer_offsets"', r"'__consumer_offsets' is a topic of Kafka"),
        (GOOD.replace('"t"', '"__transaction_state"'), r"1: topic: '__transaction_state' is a topic of Kafka's own"),
        (GOOD.replace("[[rules]]", "qos = 2\n[[rules]]"), "qos: 2 would be acknowledged before the record is"),
        (GOOD.replace("[[rules]]", 'subscribe = ["b"]\n[[rules]]'), "a/# meets nothing of what"),
        (GOOD.replace("[[rules]]", 'subscribe = ["b+"]\n[[rules]]'), r"subscribe: b\+: \+ stands"),
        (
            GOOD.replace("[[rules]]", "payload_bytes_max = 1048577\n[[rules]]"),
            r"payload_bytes_max: 1048577 is more than the producer sends \(max.request.size = 1048576\); write a",
        ),
        (GOOD.replace("[[rules]]", "receive_maximum = 0\n[[rules]]"), "0 is not between 1 and 65535"),
        (GOOD.replace("[[rules]]", 'share = "a/b"\n[[rules]]'), "share: 'a/b': the name of a group"),
        (GOOD.replace("[[rules]]", '[mqtt.tls]\nca_file = "none"\n[[rules]]'), "ca_file: none is no file"),
        (GOOD.replace("[[rules]]", 'password = "x"\n[[rules]]'), "password: it needs a username"),
        (GOOD.replace('"t"', '"{{ topic }}"'), r"as here x: '\{ topic \}' is no name of a topic"),
        (
            GOOD.replace('"t"', '"a b.$1"'),
            r"'a b.\$1': whatever stands in its gaps, as here x: 'a b.x' is no name",
        ),
        (
            GOOD + '[[rules]]\nfilter = "a/b/+"\ntopic = "t"',
            r"toml:8 \[\[rules\]\] 2: filter: no message reaches a/b/\+: bridge.toml:5 \[\[rules\]\] 1 \(a/#\) takes",
        ),
        (GOOD + "[rules.headers]\nroom = 1", r"\[\[rules\]\] 1: headers.room: 1 is no text \(write it in quotes\)"),
        (GOOD.replace("[[rules]]", "[rules]"), r"bridge.toml:5: rules: .* is no list of tables; write \[\[rules\]\]"),
        (GOOD + "[metrics]\nx = 1", r"bridge.toml:8: metrics: there is no such key"),
        (GOOD + '[web]\nlisten = "9095"', r"bridge.toml:8 \[web\]: listen: '9095': write HOST:PORT"),
        (GOOD + '[web]\nlisten = "127.0.0.1:99999"', "listen: '127.0.0.1:99999': write HOST:PORT"),
        (GOOD + '[web]\nhosts = "x"', r"hosts: 'x' is no list; write \[\"...\", \"...\"\]"),
        (GOOD + '[web]\nhosts = ["x", 1]', r"hosts: 1 is no text \(write it in quotes\)"),
        (GOOD + '[[out]]\ntopic = "t u"\nto = "a"', r"\[\[out\]\] 1: topic: 't u' is no name of a topic"),
        (GOOD + '[kafka]\n"enable.idempotence" = false', "enable.idempotence: without it records may be there twice"),
        (
            GOOD.replace("[[rules]]", 'host = "mqtt://x"\n[[rules]]'),
            "host: 'mqtt://x': write the name or address",
        ),
        (GOOD.replace("[[rules]]", 'host = "x:1883"\n[[rules]]'), "host: 'x:1883': write the name or address alone"),
        (GOOD.replace("[[rules]]", 'host = ""\n[[rules]]'), "host: '': write the name or address alone"),
        (GOOD.replace('"one"', '"o\\u0000"'), "client_id: at most 65000 bytes, and no NUL among them"),
        (
            GOOD.replace("[[rules]]", 'username = "u"\npassword_file = "/dev/null"\n[[rules]]'),
            "password_file: /dev/null: it is empty; write the password into it",
        ),
        (
            GOOD.replace("[[rules]]", f'[mqtt.tls]\nca_file = "{EXAMPLE}"\n[[rules]]'),
            r"\[mqtt\].tls: ca_file: .*mqtt.toml: .*; it should hold certificates in PEM",
        ),
        (
            GOOD.replace("[[rules]]", f'[mqtt.tls]\ncert_file = "{EXAMPLE}"\n[[rules]]'),
            r"\[mqtt\].tls: cert_file: .*mqtt.toml: .*; they should hold a certificate and its key in PEM",
        ),
    ],
)
def test_a_fault_is_told_with_file_line_table_and_key(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        of(text)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('share = "g"', "shared subscriptions"),
        ("receive_maximum = 5", "the receive maximum"),
        ("session_expiry_s = 5", "the session expiry interval"),
        ('retained = "once"', "retain handling"),
    ],
)
def test_what_needs_mqtt_5_is_refused_by_name_with_3_1_1(line: str, what: str) -> None:
    old = GOOD.replace("[[rules]]", 'version = "3.1.1"\n[[rules]]', 1)
    assert of(old).mqtt.retained == "start"
    with pytest.raises(ConfigError, match=f"{what} came with MQTT 5"):
        of(old.replace("[[rules]]", f"{line}\n[[rules]]", 1))


def test_settings_of_the_producer_are_taken_with_and_without_quotes() -> None:
    kafka = of(GOOD + '[kafka]\nbootstrap.servers = "x:1"\nmax.block.ms = 5\n"linger.ms" = 7').kafka
    assert kafka == {"bootstrap.servers": "x:1", "max.block.ms": 5, "linger.ms": 7, "acks": "all"}


@pytest.mark.parametrize("host", ["::1", "fe80::1%eth0", "10.0.0.1", "mqtt.example", "eclipse_mosquitto-1"])
def test_names_and_addresses_are_hosts(host: str) -> None:
    assert of(GOOD.replace("[[rules]]", f'host = "{host}"\n[[rules]]')).mqtt.host == host


@pytest.mark.parametrize(
    ("listen", "found"),
    [("[::1]:9095", ("::1", 9095)), (":9095", ("", 9095)), ("", ("", 0)), ("localhost:0", ("localhost", 0))],
)
def test_where_the_pages_are(listen: str, found: tuple[str, int]) -> None:
    assert address(of(GOOD + f'[web]\nlisten = "{listen}"').listen) == found


def test_levels_are_parts_between_dots_in_the_names_of_kafka_topics_everywhere() -> None:
    found = of(GOOD + '[[out]]\ntopic = "to/devices"\nto = "a"\n[bridge]\ndead_letter = "dead/letters"')
    assert (found.dead_letter, found.out[0].topic) == ("dead.letters", "to.devices")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none.toml: No such file or directory; configs/mqtt.toml is an example"):
        load(str(tmp_path / "none.toml"))


@pytest.mark.parametrize(
    ("mqtt", "kafka", "most"),
    [
        ("payload_bytes_max = 2097152", "max.request.size = 2200000", 2_097_152),
        ("", "max.request.size = 50000", 1_048_576),  # as Kafka's own settings are: nothing was asked for
    ],
)
def test_payloads_as_large_as_the_producer_sends_may_be_asked_for(mqtt: str, kafka: str, most: int) -> None:
    found = of(GOOD.replace("[[rules]]", f"{mqtt}\n[[rules]]") + f"[kafka]\n{kafka}\n")
    assert found.mqtt.payload_bytes_max == most
