"""The file: what it means, and that every fault is told with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.mqtt.settings import load, read
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
    assert of(GOOD + '[[rules]]\nfilter = "a/b"\ntopic = "t"\n[[rules]]\nfilter = "c"\ntopic = "t"').mqtt.subscribe == (
        "a/#",
        "c",
    )


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
        (GOOD + "[bridges]", r"bridge.toml: bridges: there is no such key; did you mean bridge\?"),
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
        (GOOD.replace("[[rules]]", "qos = 2\n[[rules]]"), "qos: 2 would be acknowledged before the record is"),
        (GOOD.replace("[[rules]]", 'subscribe = ["b"]\n[[rules]]'), "a/# meets nothing of what"),
        (GOOD.replace("[[rules]]", 'subscribe = ["b+"]\n[[rules]]'), r"subscribe: b\+: \+ stands"),
        (GOOD.replace("[[rules]]", "receive_maximum = 0\n[[rules]]"), "0 is not between 1 and 65535"),
        (GOOD.replace("[[rules]]", 'share = "a/b"\n[[rules]]'), "share: 'a/b': the name of a group"),
        (GOOD.replace("[[rules]]", '[mqtt.tls]\nca_file = "none"\n[[rules]]'), "ca_file: none is no file"),
        (GOOD.replace("[[rules]]", 'password = "x"\n[[rules]]'), "password: it needs a username"),
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


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none.toml: No such file or directory; configs/mqtt.toml is an example"):
        load(str(tmp_path / "none.toml"))
