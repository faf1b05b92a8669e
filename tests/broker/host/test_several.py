"""`Broker(brokers=3)`: a cluster inside a program, and the handle of each of its brokers."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

import barnabas
import barnabas.aio
from barnabas import Admin, BarnabasError, Broker, ConfigError, Consumer, NewTopic, Producer
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.registry import peer_versions
from barnabas.broker.host.several import Several
from barnabas.broker.node.core import Core
from barnabas.cli import main
from barnabas.client.admin import BROKER
from barnabas.protocol.api import ApiKey
from barnabas.testing import barnabas_cluster  # noqa: F401 - the fixture
from tests.broker.node.test_cluster_releases import OLD

WAIT_S = 60


def read(servers: str, topic: str, count: int) -> list[bytes]:
    """Values from the beginning, at least so many."""
    values: list[bytes] = []
    with Consumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        while len(values) < count:
            records = consumer.poll(WAIT_S)
            assert records, f"{len(values)} of {count} are there"
            values += [bytes(record.value) for record in records]
    return values


def test_three_brokers_keep_three_copies_and_two_are_waited_for() -> None:
    before = set(threading.enumerate())
    with Broker(brokers=3, topics={"t": 3}) as cluster:
        assert cluster.bootstrap_servers.split(",") == [f"127.0.0.1:{one.port}" for one in cluster.brokers.values()]
        assert cluster.port == cluster.brokers[1].port
        with Admin(cluster.bootstrap_servers) as admin:
            partitions = admin.describe_topics("t")["t"].partitions
            assert sorted(one.leader for one in partitions) == [1, 2, 3]
            assert all(sorted(one.replicas) == [1, 2, 3] for one in partitions)
            told = admin.describe_configs("2", kind=BROKER)
            assert {name: told[name] for name in ("min.insync.replicas", "offsets.topic.replication.factor")} == {
                "min.insync.replicas": "2",
                "offsets.topic.replication.factor": "3",
            }
        assert sorted(cluster.snapshot()["brokers"]) == [1, 2, 3]
        one = cluster.brokers[2]
        assert (one.node_id, one.is_running) == (2, True)
        assert one.bootstrap_servers == f"127.0.0.1:{one.port}"
        assert one.snapshot()["partitions"]
    assert set(threading.enumerate()) <= before
    cluster.close()


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_what_was_acknowledged_outlives_any_broker(tmp_path: Path, how: str, on_disk: bool) -> None:
    with Broker(brokers=3, topics={"t": 1}, data_dir=tmp_path if on_disk else None) as cluster:
        servers = cluster.bootstrap_servers
        with Producer(servers, acks="all") as producer:
            for node_id in (3, 1, 2):  # 1 is the controller: it is away, and all else goes on
                producer.send("t", b"before %d" % node_id).result(WAIT_S)
                one = cluster.brokers[node_id]
                getattr(one, how)()
                getattr(one, how)()
                assert not one.is_running
                with pytest.raises(BarnabasError, match=f"broker {node_id} does not serve"):
                    one.snapshot()
                assert sorted(cluster.snapshot()["brokers"]) == sorted({1, 2, 3} - {node_id})
                one.start()
                one.start()
                assert one.is_running
                producer.send("t", b"after %d" % node_id).result(WAIT_S)
        assert cluster.bootstrap_servers == servers
        expected = [b"%b %d" % (when, node_id) for node_id in (3, 1, 2) for when in (b"before", b"after")]
        assert read(servers, "t", 6) == expected


def test_a_killed_broker_is_followed_by_others_before_its_session_is_over() -> None:
    """Its session lasts an hour: what fences it is that its connections are closed, and that nobody listens there."""
    an_hour = {"broker.session.timeout.ms": "3600000", "replica.lag.time.max.ms": "3600000"}
    with Broker(brokers=3, topics={"t": 3}, config=an_hour) as cluster:
        with Producer(cluster.bootstrap_servers, acks="all") as producer:
            for node_id in (3, 2):
                cluster.brokers[node_id].kill()
                for number in range(30):
                    producer.send("t", b"%d without %d" % (number, node_id), partition=number % 3).result(WAIT_S)
                cluster.brokers[node_id].start()
        assert len(read(cluster.bootstrap_servers, "t", 60)) == 60


def test_a_cluster_that_is_stopped_warns_of_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with Broker(brokers=3, topics={"t": 3}) as cluster, Producer(cluster.bootstrap_servers, acks="all") as producer:
        for number in range(3):
            producer.send("t", b"%d" % number, partition=number).result(WAIT_S)
        caplog.clear()
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == []


def test_a_directory_has_one_for_each_broker_and_is_of_one_cluster(tmp_path: Path) -> None:
    with Broker(brokers=2, data_dir=tmp_path) as cluster, Admin(cluster.bootstrap_servers) as admin:
        admin.create_topics(NewTopic("kept", 1))
        first = admin.describe_cluster().cluster_id
        with Producer(cluster.bootstrap_servers) as producer:
            producer.send("kept", b"one").result(WAIT_S)
    assert {path.name for path in tmp_path.iterdir()} == {"broker-1", "broker-2"}
    with pytest.raises(ConfigError, match="is of 2 brokers; write brokers=2"):
        Broker(brokers=1, data_dir=tmp_path)
    with Broker(brokers=2, data_dir=tmp_path) as cluster, Admin(cluster.bootstrap_servers) as admin:
        assert admin.describe_cluster().cluster_id == first
        assert read(cluster.bootstrap_servers, "kept", 1) == [b"one"]


def test_one_controller_becomes_two_by_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def voters(cluster: Broker) -> list[int]:
        with Admin(cluster.bootstrap_servers) as admin:
            assert "t" in admin.list_topics()
            return [one.replica_id for one in admin.describe_quorum().voters]

    with Broker(brokers=2, topics={"t": 1}, data_dir=tmp_path) as cluster:
        assert voters(cluster) == [1]
    assert main(["log", "voters", str(tmp_path / "broker-1"), str(tmp_path / "broker-2")]) == 0
    assert "nodes 1, 2 are the controllers now" in capsys.readouterr().out
    with Broker(brokers=2, data_dir=tmp_path) as cluster:
        assert voters(cluster) == [1, 2]


def test_a_directory_of_one_broker_is_no_clusters(tmp_path: Path) -> None:
    Broker(data_dir=tmp_path).close()
    with pytest.raises(ConfigError, match="is one broker's; name another directory"):
        Broker(brokers=3, data_dir=tmp_path)


async def test_the_asyncio_form_has_handles_to_await() -> None:
    before = set(threading.enumerate())
    async with barnabas.aio.Broker(brokers=2, topics=["t"]) as cluster:
        await cluster.brokers[2].stop()
        assert sorted(cluster.snapshot()["brokers"]) == [1]
        await cluster.brokers[2].start()
        async with barnabas.aio.Producer(cluster.bootstrap_servers) as producer:
            await producer.send("t", b"one")
        await cluster.brokers[2].kill()
    assert set(threading.enumerate()) <= before
    with pytest.raises(BarnabasError, match="broker 2 belongs to a cluster that is closed"):
        await cluster.brokers[2].start()


async def test_brokers_that_all_ended_are_started_one_after_the_other() -> None:
    """No controller serves before a second one does: who starts the first does not wait for that."""
    async with barnabas.aio.Broker(brokers=3, topics=["t"]) as cluster:
        async with barnabas.aio.Producer(cluster.bootstrap_servers) as producer:
            await producer.send("t", b"one")
        brokers = cluster.brokers.values()
        for one in brokers:
            await one.kill()
        for one in brokers:
            await asyncio.wait_for(one.start(), WAIT_S)
        assert [one.is_running for one in brokers] == [True, True, True]
        assert await asyncio.to_thread(read, cluster.bootstrap_servers, "t", 1) == [b"one"]


async def test_a_broker_that_waits_for_others_can_be_ended() -> None:
    before = set(threading.enumerate())
    async with barnabas.aio.Broker(brokers=3) as cluster:
        for one in cluster.brokers.values():
            await one.kill()
        await asyncio.wait_for(cluster.brokers[2].start(), WAIT_S)
        assert not cluster.brokers[2].is_running
        await cluster.brokers[2].kill()
        await asyncio.wait_for(cluster.brokers[3].start(), WAIT_S)
        both = asyncio.ensure_future(cluster.brokers[1].start())
        await asyncio.sleep(0)
        await cluster.brokers[1].stop()
        with pytest.raises(BarnabasError, match="broker 1 was ended before it served"):
            await both
        await asyncio.wait_for(cluster.close(), WAIT_S)
    assert set(threading.enumerate()) <= before


def test_what_is_asked_of_a_handle_whose_cluster_is_closed() -> None:
    cluster = Broker(brokers=1)
    (one,) = cluster.brokers.values()
    cluster.close()
    for ask in (one.start, one.stop, one.kill, one.snapshot):
        with pytest.raises(BarnabasError, match="the cluster is closed"):
            ask()


def test_each_may_stand_in_a_rack_of_its_own_and_readers_are_sent_to_theirs() -> None:
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with Broker(brokers=3, broker_rack="a,b,c", replica_selector_class=selector, topics={"t": 1}) as cluster:
        servers = cluster.bootstrap_servers
        with Admin(servers) as admin:
            (part,) = admin.describe_topics("t")["t"].partitions
        other = part.leader % 3 + 1
        with Producer(servers, acks="all") as producer:
            producer.send("t", b"one").result(WAIT_S)
        with Consumer(
            "t", bootstrap_servers=servers, auto_offset_reset="earliest", client_rack="abc"[other - 1]
        ) as consumer:
            assert [bytes(one.value) for one in consumer.poll(WAIT_S)] == [b"one"]
            assert cluster.brokers[other].snapshot()["fetch_sessions"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"brokers": 0}, "brokers=0: write a number from 1 to 16"),
        ({"brokers": 17}, "brokers=17: write a number from 1 to 16"),
        ({"brokers": True}, "brokers=True: write a number from 1 to 16"),
        ({"brokers": 3, "node_id": 4}, "node.id is set for each broker by brokers=3"),
        ({"brokers": 3, "broker_rack": "a,b"}, "broker.rack=a,b: write one rack for all, or one for each of brokers=3"),
        ({"brokers": 2, "broker_rack": "a,"}, "broker.rack=a,: write one rack for all"),
        ({"brokers": 3, "listeners": "PLAINTEXT://:0"}, "listeners is set for each broker by brokers=3"),
    ],
)
def test_what_makes_no_cluster_is_refused(settings: dict[str, int], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Broker(**settings)  # type: ignore[arg-type]


def test_a_broker_that_stands_alone_has_no_handles() -> None:
    with Broker() as broker, pytest.raises(BarnabasError, match="this broker stands alone; brokers=3 makes a cluster"):
        _ = broker.brokers


def test_what_cannot_be_put_together_holds_nothing() -> None:
    before = set(threading.enumerate())
    with Broker(brokers=1) as taken, pytest.raises(BarnabasError, match="is in use by another program"):
        Several(2, {}, None, None, taken.port - 1)
    assert set(threading.enumerate()) <= before


def test_the_fixture_is_a_cluster(barnabas_cluster: Broker) -> None:  # noqa: F811
    assert sorted(barnabas_cluster.brokers) == [1, 2, 3]


def test_brokers_that_serve_earlier_versions_are_asked_in_those(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over sockets; a whole upgrade is in `node/test_cluster_releases.py`."""
    asked: set[tuple[int, int]] = set()
    handle_peer = Core.handle_peer

    def handled(core: Core, request: Any, context: RequestContext, now_ms: int) -> None:
        asked.add((context.api_key, context.api_version))
        handle_peer(core, request, context, now_ms)

    monkeypatch.setattr(Core, "handle_peer", handled)
    monkeypatch.setattr("barnabas.broker.node.core.peer_versions", lambda: {**peer_versions(), **OLD})
    with Broker(brokers=3, topics={"t": 3}) as cluster, Producer(cluster.bootstrap_servers, acks="all") as producer:
        for number in range(6):
            producer.send("t", b"%d" % number, partition=number % 3).result(WAIT_S)
    assert {key for key, _ in asked} >= {ApiKey.FETCH, ApiKey.VOTE, ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT}
    assert [(key, at) for key, at in asked if key in OLD and at > OLD[key][1]] == []
