"""Apache Kafka's own `kafka-reassign-partitions` against three of ours, with records written meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas import Admin, Broker, NewTopic, Producer
from barnabas.client.admin import BROKER
from barnabas.protocol.ids import TopicPartition
from tests.oracle.kafka import KafkaUnavailable, run_tool
from tests.wire.tried import SCRIPTS

TRIES = 60


@pytest.fixture(scope="module")
def three() -> Iterator[Broker]:
    with Broker(brokers=3) as three:
        yield three


def tool(three: Broker, *words: str) -> str:
    try:
        return run_tool(SCRIPTS["kafka-reassign-partitions"], "--bootstrap-server", three.bootstrap_servers, *words)
    except KafkaUnavailable as missing:
        pytest.skip(str(missing))


def plan_of(file: Path, replicas: dict[int, list[int]], topic: str) -> str:
    parts = [{"topic": topic, "partition": number, "replicas": those} for number, those in replicas.items()]
    file.write_text(json.dumps({"version": 1, "partitions": parts}))
    return str(file)


def replicas_of(admin: Admin, topic: str) -> dict[int, list[int]]:
    return {part.partition: list(part.replicas) for part in admin.describe_topics(topic)[topic].partitions}


@pytest.mark.slow
def test_it_moves_partitions_says_so_and_takes_its_throttle_away(three: Broker, tmp_path: Path) -> None:
    with Admin(bootstrap_servers=three.bootstrap_servers) as admin:
        admin.create_topics(NewTopic("t", 3, 2))
        before = replicas_of(admin, "t")
        after = {number: [6 - sum(those), those[0]] for number, those in before.items()}  # who had none, and who led
        with Producer(bootstrap_servers=three.bootstrap_servers, acks="all") as producer:
            sent = [producer.send("t", b"%d" % number) for number in range(100)]
            plan = plan_of(tmp_path / "plan.json", after, "t")
            begun = tool(three, "--reassignment-json-file", plan, "--execute", "--throttle", "50000000")
            assert "Successfully started partition reassignments for t-0,t-1,t-2" in begun
            rate = admin.describe_configs("1", kind=BROKER)["leader.replication.throttled.rate"]
            assert rate == "50000000"
            sent += [producer.send("t", b"%d" % number) for number in range(100, 200)]
            for _ in range(TRIES):
                told = tool(three, "--reassignment-json-file", plan, "--verify")
                if told.count("is completed") == 3:
                    break
            assert "Clearing broker-level throttles on brokers 1,2,3" in told
            assert "Clearing topic-level throttles on topic t" in told
            assert all(one.result(60).offset >= 0 for one in sent)
        assert replicas_of(admin, "t") == after
        assert "No partition reassignments found." in tool(three, "--list")
        ends = admin.list_offsets({TopicPartition("t", number): -1 for number in after})
        assert sum(one.offset for one in ends.values()) == 200


@pytest.mark.slow
def test_what_its_throttle_keeps_on_the_way_it_gives_up(three: Broker, tmp_path: Path) -> None:
    with Admin(bootstrap_servers=three.bootstrap_servers) as admin:
        admin.create_topics(NewTopic("u", 1, 1))
        (before,) = replicas_of(admin, "u").values()
        target = before[0] % 3 + 1
        with Producer(bootstrap_servers=three.bootstrap_servers, acks="all") as producer:
            for one in [producer.send("u", bytes(500_000)) for _ in range(8)]:
                one.result(60)
        plan = plan_of(tmp_path / "plan.json", {0: [target]}, "u")
        tool(three, "--reassignment-json-file", plan, "--execute", "--throttle", "1")
        listed = tool(three, "--list")
        assert f"u-0: replicas: {target},{before[0]}. adding: {target}. removing: {before[0]}." in listed
        said = tool(three, "--reassignment-json-file", plan, "--cancel")
        assert "Successfully cancelled partition reassignment for: u-0" in said
        assert replicas_of(admin, "u") == {0: before}
