"""The tables agree with each other, and with the list of Kafka's names."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from barnabas import broker
from barnabas.broker.config import (
    BrokerConfig,
    ConfigError,
    Kind,
    TopicConfig,
    Update,
    descriptions,
    keys_of,
    topic_config,
)
from barnabas.broker.config.group_config import UNUSED_GROUP_KEYS, GroupConfig
from barnabas.broker.config.known import KAFKA_BROKER_KEYS
from barnabas.broker.config.sources import WITHOUT_EFFECT
from barnabas.broker.config.topic_config import SYNONYMS, UNUSED_TOPIC_KEYS, stored_topic_config


def test_every_broker_setting_is_kafkas_or_ours() -> None:
    for name in keys_of(BrokerConfig):
        assert name in KAFKA_BROKER_KEYS or name.startswith("barnabas."), name


def test_every_topic_setting_takes_its_default_from_a_broker_setting_of_its_kind() -> None:
    topic, whole = keys_of(TopicConfig), keys_of(BrokerConfig)
    assert set(SYNONYMS) == set(topic)
    for name, synonym in SYNONYMS.items():
        assert topic[name].kind is whole[synonym].kind, name
        assert whole[synonym].update is Update.CLUSTER_WIDE, name


def test_the_defaults_of_a_topic_are_those_of_a_default_broker() -> None:
    assert topic_config(BrokerConfig()) == TopicConfig()


@pytest.mark.parametrize("table", [BrokerConfig, TopicConfig])
def test_every_default_has_its_text_and_back(table: type) -> None:
    for key in keys_of(table).values():
        text = key.text(key.default)
        if text is not None and key.kind is not Kind.STRING:
            assert key.parse(text) == key.default, key.name


def test_overrides_win_and_unknown_ones_are_refused() -> None:
    broker = BrokerConfig(log_retention_hours=1, message_max_bytes=5)
    config = topic_config(broker, {"retention.bytes": "7", "cleanup.policy": "compact,delete"})
    assert (config.retention_ms, config.max_message_bytes, config.retention_bytes) == (3_600_000, 5, 7)
    assert config.cleanup_policy == ("compact", "delete")
    assert topic_config(broker, {"local.retention.ms": "1"}) == topic_config(broker)
    with pytest.raises(ConfigError, match="Unknown topic config name"):
        topic_config(broker, {"log.retention.ms": "1"})


@pytest.mark.parametrize(
    ("settings", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log_retention_hours": 2}, 7_200_000),
        ({"log_retention_hours": 2, "log_retention_minutes": 3}, 180_000),
        ({"log_retention_minutes": 3, "log_retention_ms": 4}, 4),
        ({"log_retention_hours": -1}, -1),
        ({"log_retention_ms": -5}, -1),
    ],
)
def test_the_finer_unit_wins(settings: dict[str, int], retention_ms: int) -> None:
    assert BrokerConfig(**settings).retention_ms == retention_ms  # type: ignore[arg-type]


def test_every_setting_is_used_somewhere_or_said_to_be_without_effect() -> None:
    tables = {"broker_config.py", "descriptions.py", "known.py", "settings.py", "sources.py", "topic_config.py"}
    # The broker's rooms alone: clients have settings of the same names.
    rooms = [path for path in Path(broker.__file__).parent.rglob("*.py") if path.name not in tables]
    read = set(re.findall(r"\w+", " ".join(path.read_text() for path in rooms)))
    properties = inspect.getsource(BrokerConfig).partition("@property")[2]
    for name, key in keys_of(BrokerConfig).items():
        topics = [topic for topic, whose in SYNONYMS.items() if whose == name]
        used = key.attribute in read or f"self.{key.attribute}" in properties
        used = used or any(keys_of(TopicConfig)[topic].attribute in read for topic in topics)
        assert used != (name in WITHOUT_EFFECT), name


def test_every_setting_is_described_in_a_sentence_and_nothing_else_is() -> None:
    assert set(descriptions.TOPIC) == {*keys_of(TopicConfig), *UNUSED_TOPIC_KEYS}
    assert set(descriptions.GROUP) == {*keys_of(GroupConfig), *UNUSED_GROUP_KEYS}
    assert set(descriptions.BROKER) == set(keys_of(BrokerConfig))
    for text in (*descriptions.TOPIC.values(), *descriptions.GROUP.values(), *descriptions.BROKER.values()):
        assert re.fullmatch(r"[A-Za-z].{10,150}\.", text), text


def test_what_has_no_effect_is_described_so() -> None:
    silent = {name for name, text in descriptions.BROKER.items() if text == descriptions.NO_EFFECT}
    assert silent == WITHOUT_EFFECT
    assert descriptions.TOPIC["preallocate"] == descriptions.TOPIC["remote.storage.enable"] == descriptions.NO_EFFECT
    assert descriptions.BROKER["log.roll.ms"].endswith(descriptions.TOPIC["segment.ms"])


def test_a_word_that_comes_more_than_once_counts_once() -> None:
    """Of 32 KB there were 4,600, in memory for each topic, gone through by whoever asks whether a log is compacted.

    Apache Kafka says it so, too (`ConfigDef`): "Duplicates will be removed."
    """
    text = ",".join(["delete"] * 2000 + ["compact", "delete"])
    assert topic_config(BrokerConfig(), {"cleanup.policy": text}).cleanup_policy == ("delete", "compact")
    assert keys_of(BrokerConfig)["log.cleanup.policy"].shown(text) == "delete,compact"


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_number_may_have_any_count_of_digits(sign: str) -> None:
    """Of more than 4,300 Python made an error that ended the whole request: UNKNOWN_SERVER_ERROR, and a traceback."""
    key = keys_of(TopicConfig)["retention.bytes"]
    assert key.parse(sign + "0" * 5000 + "7") == int(f"{sign}7")
    assert key.parse(sign + "0" * 5000) == 0
    with pytest.raises(ConfigError, match="too large"):
        key.parse(sign + "1" * 5000)


def test_what_has_no_effect_is_not_read_again() -> None:
    """A list of replicas of 32 KB takes a ms, and twenty topics are put in force in one step."""

    class Unread(str):
        __slots__ = ()

        def strip(self, *args: object) -> str:
            raise AssertionError("it is read")

    stored = {"leader.replication.throttled.replicas": Unread("1:1"), "retention.bytes": "7"}
    assert stored_topic_config(BrokerConfig(), stored).retention_bytes == 7
