"""The command line at a real Apache Kafka; `tests/cli` has all of it here."""

from __future__ import annotations

import json

import pytest

from barnabas import Consumer
from tests.cli.terminal import Terminal


@pytest.fixture
def at(apache_kafka: str) -> Terminal:
    return Terminal(apache_kafka)


def test_records_go_through_the_command_line_and_come_back(at: Terminal) -> None:
    topic, copy = at.name(), at.name()
    at.good("topics", "create", topic, copy, "-p", "2")
    lines = b'{"key": "k", "value": {"base64": "/w=="}, "headers": [["h", "1"]], "timestamp_ms": 1767225600000}\n'
    at.raw("produce", topic, "--json", "-z", "lz4", given=lines * 10)
    at.raw("produce", copy, "--json", given=at.raw("consume", topic, "-e", "--json"))
    assert at.raw("consume", copy, "-o", "-2", "-e", "-f", "%T %k %s %h|") == b"1767225600000 k \xff h=1|" * 2
    assert at.bad("consume", "misspelt", "-e").startswith("there is no topic misspelt")
    assert ["misspelt"] not in at.good("topics", "list")


def test_topics_settings_and_the_cluster_on_the_command_line(at: Terminal) -> None:
    topic = at.topic()
    at.good("topics", "alter", topic, "-p", "3", "--set", "segment.bytes=2000000")
    at.good("configs", "set", "topic", topic, "cleanup.policy+=compact")
    rows = at.good("configs", "get", "topic", topic)
    assert ["segment.bytes", "2000000", "topic"] in rows
    assert ["cleanup.policy", "delete,compact", "topic"] in rows
    first = "topics", "delete-records", topic, "--before", "2", "--partition", "0"
    assert at.good(*first)[1] == [f"{topic}-0", "2", "5"]
    assert ["1", at.server, "controller"] in at.good("cluster")
    at.good("topics", "delete", topic)


def test_a_group_of_the_consumer_protocol_tells_its_epochs(at: Terminal) -> None:
    topic, group = at.topic(), at.name()
    settings = {"bootstrap.servers": at.server, "group.id": group, "group.protocol": "consumer", "client.id": "me"}
    with Consumer(topic, config=settings) as consumer:
        while len(consumer.health().assignment) < 2:
            consumer.poll(0.1)
        told = json.loads(at("groups", "describe", group, "--json")[1])
        first, head, who, *_ = at.good("groups", "describe", group)
        (listed,) = [row for row in at.good("groups", "list") if row[0] == group]
    (member,) = told["members"]
    assert (told["type"], told["state"], told["assignor"]) == ("consumer", "Stable", "uniform")
    assert told["epoch"] == member["epoch"] >= 1
    assert member["partitions"] == member["target"] == [{"topic": topic, "partition": number} for number in (0, 1)]
    assert first == [group, "Stable", "consumer", "uniform", "epoch", str(told["epoch"])]
    assert head == ["member", "client", "id", "host", "partitions", "epoch", "is", "to", "have"]
    assert who[1:] == ["me", "/127.0.0.1", f"{topic}-0", f"{topic}-1", str(member["epoch"]), "-"]
    assert listed == [group, "Stable", "consumer", "consumer", "1"]


def test_a_member_goes_on_and_a_group_is_reset_and_deleted(at: Terminal) -> None:
    topic, group = at.topic(), at.name()
    consume = ("consume", topic, "--group", group, "--exit")
    first = at.good(*consume, "--count", "4")
    assert sorted(first + at.good(*consume)) == [[str(value)] for value in range(10)]
    assert at.good("groups", "lag", group)[-1] == ["total", "lag", "0"]
    assert at.good("groups", "offsets", group)[1:] == [[f"{topic}-{number}", "5", "-"] for number in (0, 1)]
    at.good("groups", "reset", group, "--to", "2", "--topic", f"{topic}:1", "--execute")
    assert at.good("groups", "lag", group)[-1] == ["total", "lag", "3"]
    at.good("groups", "offsets", group, "--delete", "--topic", f"{topic}:0")
    assert list(at.committed(group).values()) == [2]
    at.good("groups", "delete", group)
    assert at.bad("groups", "lag", group).startswith(f"there is no group {group}")
    assert at.bad("groups", "delete", group).startswith(f"there is no group {group}")
