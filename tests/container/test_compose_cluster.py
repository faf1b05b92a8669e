"""The compose file's cluster: three containers, killed, paused and cut off under load; nothing acknowledged is lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any, Final

import pytest

from barnabas.client.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.protocol.ids import TopicPartition
from tests.cli.process import run
from tests.container.test_container import (
    BOUND_S,
    REASON,
    docker,
    image,  # noqa: F401 - the fixture
    in_use,
)

PROJECT: Final = "barnabas-cluster-test"
PORTS: Final = (9192, 9292, 9392)
SERVERS: Final = ",".join(f"localhost:{port}" for port in PORTS)
TOPIC, PARTITIONS = "events", 6  # made at the start of the cluster
NODES: Final = ("broker-1", "broker-2", "broker-3")
pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.skipif(REASON is not None, reason=str(REASON))]


@pytest.fixture(scope="module")
def compose(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:  # noqa: F811
    """The three brokers as the compose file has them, healthy (their image under the tests' own name)."""
    if any(map(in_use, PORTS)):
        pytest.skip(f"one of the ports {PORTS} of this machine is in use")
    override = tmp_path_factory.mktemp("compose") / "override.yml"
    services = "".join(f"  {name}:\n    image: {image}\n" for name in (*NODES, "cluster-secret"))
    override.write_text(f"services:\n{services}")
    call = ["compose", "-p", PROJECT, "-f", "docker-compose.yml", "-f", str(override), "--profile", "cluster"]
    try:
        docker(*call, "up", "--detach", "--wait", "--no-build", *NODES)
        yield call
    finally:
        docker(*call, "down", "--volumes", "--timeout", "5")


class Load:
    """A producer with acks=all in a thread: rounds of a record to each partition, and what was acknowledged of them."""

    def __init__(self) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self._rounds = 0
        self._done = threading.Condition()
        self._over = False
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with Producer(SERVERS, acks="all", linger_ms=0, delivery_timeout_ms=BOUND_S * 1000) as producer:
                while not self._over:
                    self._round(producer)
        except Exception as failure:
            self._failure = failure
        with self._done:
            self._over = True
            self._done.notify_all()

    def _round(self, producer: Producer) -> None:
        values = [b"%d-%d" % (self._rounds, partition) for partition in range(PARTITIONS)]
        sent = [producer.send(TOPIC, value, partition=number) for number, value in enumerate(values)]
        for value, future in zip(values, sent, strict=True):
            told = future.result(BOUND_S)
            self.acknowledged[told.partition, told.offset] = value
        with self._done:
            self._rounds += 1
            self._done.notify_all()

    def goes_on(self, rounds: int = 20) -> None:
        """So many more rounds are acknowledged."""
        with self._done:
            goal = self._rounds + rounds
            assert self._done.wait_for(lambda: self._rounds >= goal or self._over, BOUND_S), "nothing is acknowledged"
        assert self._failure is None, self._failure

    def end(self) -> None:
        self._over = True
        self._thread.join(BOUND_S)
        assert self._failure is None, self._failure


def all_in_sync() -> None:
    """Until `cluster status` finds nothing missing."""
    for _ in range(120):
        status = run("cluster", "status", "-b", SERVERS)
        if not status.returncode:
            return
    raise AssertionError(status.stdout + status.stderr)


def controller() -> int:
    """Who leads the quorum, once somebody does."""
    for _ in range(60):
        told = run("cluster", "-b", SERVERS, "--json")
        if not told.returncode:
            return int(json.loads(told.stdout)["quorum"]["leader_id"])
    raise AssertionError(told.stdout + told.stderr)


def name_of(compose: list[str], service: str) -> str:
    return docker(*compose, "ps", "--all", "--format", "{{.Name}}", service)


def records() -> dict[tuple[int, int], bytes]:
    """All there is in the topic."""
    found: dict[tuple[int, int], bytes] = {}
    keys = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    with Consumer(bootstrap_servers=SERVERS, auto_offset_reset="earliest") as consumer:
        consumer.assign(keys)
        ends = consumer.end_offsets(keys)
        while len(found) < sum(ends.values()):
            told: Any = consumer.poll(60)
            assert told, f"{len(found)} of {sum(ends.values())} are there"
            found |= {(one.partition, one.offset): bytes(one.value) for one in told}
    return found


def test_the_host_and_another_container_reach_all_three(compose: list[str], image: str) -> None:  # noqa: F811
    with Admin(SERVERS) as admin:
        assert sorted(one[1:] for one in admin.describe_cluster().brokers) == [("localhost", port) for port in PORTS]
        partitions = admin.describe_topics(TOPIC)[TOPIC].partitions
        assert len(partitions) == PARTITIONS
        assert sorted(one.leader for one in partitions) == [1, 1, 2, 2, 3, 3]
        assert all(sorted(one.replicas) == [1, 2, 3] for one in partitions)
        admin.create_topic("both-sides", partitions=3)
        assert admin.describe_configs("both-sides")["min.insync.replicas"] == "2"
    with Producer(SERVERS, acks="all") as producer:
        for number in range(3):
            producer.send("both-sides", b"host %d" % number, partition=number).result(60)
    inside = ["run", "--rm", "-i", "--network", f"{PROJECT}_default", image]
    docker(*inside, "produce", "--server", "broker-2:9092", "both-sides", text="a container\n")
    read = docker(*inside, "consume", "--server", "broker-3:9092", "--exit", "both-sides")
    assert sorted(read.splitlines()) == ["a container", "host 0", "host 1", "host 2"]


def test_the_secret_is_nobodys_but_the_brokers(compose: list[str]) -> None:
    mode = docker(*compose, "exec", "broker-1", "stat", "-c", "%a %u", "/run/cluster/secret")
    assert mode == "600 10001"
    secret = docker(*compose, "exec", "broker-1", "cat", "/run/cluster/secret")
    assert len(secret) == 64
    assert secret not in docker(*compose, "logs")
    assert secret not in docker("inspect", name_of(compose, "broker-1"))


def test_killed_paused_and_cut_off_under_load_nothing_acknowledged_is_lost(compose: list[str]) -> None:
    network = f"{PROJECT}_default"
    load = Load()
    try:
        load.goes_on()
        second = name_of(compose, "broker-2")
        docker("kill", second)
        load.goes_on()
        docker("start", second)
        all_in_sync()
        third = name_of(compose, "broker-3")
        docker("pause", third)
        load.goes_on()
        docker("unpause", third)
        all_in_sync()
        docker("network", "disconnect", network, second)
        load.goes_on()
        docker("network", "connect", "--alias", "broker-2", network, second)
        all_in_sync()
        active = name_of(compose, NODES[controller() - 1])
        docker("kill", active)
        load.goes_on()
        assert NODES[controller() - 1] not in active, "another one decides"
        docker("start", active)
        all_in_sync()
        docker("restart", "--time", "10", name_of(compose, "broker-1"))
        load.goes_on()
        all_in_sync()
    finally:
        load.end()
    found = records()
    lost = {at: value for at, value in load.acknowledged.items() if found.get(at) != value}
    assert not lost, f"{len(lost)} of {len(load.acknowledged)} are lost: {json.dumps(str(list(lost.items())[:3]))}"
    assert len(load.acknowledged) >= 100 * PARTITIONS
    values = [value for value in found.values() if b"-" in value]
    assert len(set(values)) == len(values), "each is there once"
