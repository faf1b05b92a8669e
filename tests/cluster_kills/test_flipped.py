"""A bit of a leader's file is turned: every client is given every record in the end, and nothing is started anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from barnabas import Admin, Consumer, Producer
from barnabas.protocol.ids import TopicPartition
from tests.cli.process import BOUND_S
from tests.cli.test_cluster_up import all_in_sync
from tests.cluster_kills.brokers import Brokers
from tests.wire.conftest import until
from tests.wire.test_kcat import KCAT, kcat

COUNT = 100
VALUES = [b"record %d, to be read as it was written" % number for number in range(COUNT)]

Reads = Callable[[str, str], list[bytes]]


def bundled(servers: str, topic: str) -> list[bytes]:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found: list[bytes] = []
        while len(found) < COUNT:
            some = consumer.poll(BOUND_S)
            assert some, f"nothing comes after {len(found)}"
            found += [bytes(one.value) for one in some]
    return found


def confluent(servers: str, topic: str) -> list[bytes]:
    kafka = pytest.importorskip("confluent_kafka")
    consumer = kafka.Consumer({"bootstrap.servers": servers, "group.id": topic, "log_level": 0})
    consumer.assign([kafka.TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    try:
        while len(found) < COUNT:
            one = consumer.poll(BOUND_S)
            assert one is not None, f"nothing comes after {len(found)}"
            assert one.error() is None, one.error()
            found.append(one.value())
    finally:
        consumer.close()
    return found


def by_kcat(servers: str, topic: str) -> list[bytes]:
    if KCAT is None:
        pytest.skip("kcat is not installed: ./dev tools installs it")
    out = kcat(servers, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-c", str(COUNT), "-q")
    return [line.encode() for line in out.splitlines()]


CLIENTS: dict[str, Reads] = {"bundled": bundled, "confluent": confluent, "kcat": by_kcat}


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    brokers = Brokers(tmp_path_factory.mktemp("flipped") / "three", small_disk=False)
    try:
        yield brokers
    finally:
        brokers.end(orderly=False)


def leader(admin: Admin, topic: str) -> int:
    return admin.describe_topics(topic)[topic].partitions[0].leader


def flip(three: Brokers, node_id: int, topic: str) -> None:
    """Turn a bit of a value in the midst."""
    (file,) = (three.data(node_id) / f"{topic}-0").glob("*.log")
    with open(file, "r+b") as log:
        at = log.read().index(b"record 50,")
        log.seek(at)
        log.write(b"q")


def mended(three: Brokers, node_id: int, topic: str) -> bool:
    """Whether a broker's file has what was written."""
    (file,) = (three.data(node_id) / f"{topic}-0").glob("*.log")
    return b"record 50," in file.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [False, True], ids=["while it runs", "after a clean stop"])
@pytest.mark.parametrize("name", list(CLIENTS))
def test_every_record_is_read_without_a_restart(three: Brokers, name: str, stopped: bool) -> None:
    topic = f"{name}-{'stopped' if stopped else 'running'}"
    with Admin(bootstrap_servers=three.servers) as admin:
        admin.create_topic(topic, partitions=1, replication_factor=3, config={"min.insync.replicas": 2})
        with Producer(bootstrap_servers=three.servers, acks="all", linger_ms=0) as producer:
            for value in VALUES:
                producer.send(topic, value, partition=0).result(BOUND_S)
        bad = leader(admin, topic)
        if stopped:
            three.stop(bad)
            flip(three, bad, topic)
            three.start(bad)
            all_in_sync(three.servers, topic)
            admin.elect_leaders(TopicPartition(topic, 0))
            until(lambda: leader(admin, topic) == bad, lambda: None)
        else:
            flip(three, bad, topic)
        assert CLIENTS[name](three.servers, topic) == VALUES
        all_in_sync(three.servers, topic)
        assert mended(three, bad, topic), "it has it from another"
