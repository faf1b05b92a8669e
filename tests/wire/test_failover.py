"""Clients that live on through a dead bootstrap address, a killed leader and a rolling restart of three brokers.

Each has an idempotent producer and a member of a group, a topic of its own, and both go on. Sessions last an hour, so
nothing but the end of its process says that a broker is gone. In the end each acknowledged record is in the log once,
in order, and the group has read it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

import pytest

from barnabas import Admin, Consumer, NewTopic
from barnabas.protocol.ids import TopicPartition
from tests.cli.process import BOUND_S
from tests.cli.test_cluster_clients import AN_HOUR, DEAD, steer
from tests.cli.test_cluster_up import PARTITIONS, Up, all_in_sync
from tests.wire.conftest import until
from tests.wire.joining import poll
from tests.wire.matrix import records
from tests.wire.programs import ClientUnavailable, Program
from tests.wire.test_kcat import KCAT, kcat
from tests.wire.tried import FRANZ_GO, JAVA, KAFKAJS, SARAMA

COUNT = 10
"""Records of each partition in each stretch of work."""


class Client(Protocol):
    """One client with its topic, as the test drives it."""

    def send(self, values: list[tuple[int, bytes]]) -> None:
        """Produce these (partition, value), and return once all are acknowledged."""

    def read(self) -> list[bytes]:
        """What the group was given within a moment; it is committed then."""

    def close(self) -> None:
        """Let go of everything."""


class Confluent:
    def __init__(self, servers: str, topic: str) -> None:
        kafka = pytest.importorskip("confluent_kafka")
        common = {"bootstrap.servers": servers, "log_level": 0}
        self._topic = topic
        self._producer = kafka.Producer({**common, "enable.idempotence": True})
        self._member = kafka.Consumer({**common, "group.id": topic, "auto.offset.reset": "earliest"})
        self._member.subscribe([topic])
        self._left = 0

    def send(self, values: list[tuple[int, bytes]]) -> None:
        for partition, value in values:
            self._left += 1
            self._producer.produce(self._topic, value, partition=partition, on_delivery=self._told)
        until(lambda: not self._left, lambda: self._producer.poll(0.1), lambda: f"{self._left} are open")

    def _told(self, error: Any, _message: Any) -> None:
        assert error is None, error
        self._left -= 1

    def read(self) -> list[bytes]:
        return [one.value() for one in self._member.consume(500, 0.5) if one.error() is None]

    def close(self) -> None:
        self._member.close()


class KafkaPython:
    def __init__(self, servers: str, topic: str) -> None:
        kafka = pytest.importorskip("kafka")
        at = servers.split(",")
        self._topic = topic
        self._producer = kafka.KafkaProducer(bootstrap_servers=at, acks="all", enable_idempotence=True)
        self._member = kafka.KafkaConsumer(topic, bootstrap_servers=at, group_id=topic, auto_offset_reset="earliest")

    def send(self, values: list[tuple[int, bytes]]) -> None:
        sent = [self._producer.send(self._topic, value, partition=partition) for partition, value in values]
        for one in sent:
            one.get(BOUND_S)

    def read(self) -> list[bytes]:
        return [one.value for some in poll(self._member, 500).values() for one in some]

    def close(self) -> None:
        self._member.close()
        self._producer.close()


class Aiokafka:
    """On a loop of its own, where its heartbeats go on between the test's steps."""

    def __init__(self, servers: str, topic: str) -> None:
        self._aiokafka = pytest.importorskip("aiokafka")
        self._servers, self._topic = servers, topic
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._start())

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(BOUND_S)

    async def _start(self) -> None:
        kafka, at = self._aiokafka, self._servers
        self._producer = kafka.AIOKafkaProducer(bootstrap_servers=at, enable_idempotence=True)
        self._member = kafka.AIOKafkaConsumer(
            self._topic, bootstrap_servers=at, group_id=self._topic, auto_offset_reset="earliest"
        )
        await self._producer.start()
        await self._member.start()

    def send(self, values: list[tuple[int, bytes]]) -> None:
        self._run(self._send(values))

    async def _send(self, values: list[tuple[int, bytes]]) -> None:
        sent = [await self._producer.send(self._topic, value, partition=partition) for partition, value in values]
        await asyncio.gather(*sent)

    def read(self) -> list[bytes]:
        some = self._run(self._member.getmany(timeout_ms=500))
        return [one.value for part in some.values() for one in part]

    def close(self) -> None:
        self._run(self._member.stop())
        self._run(self._producer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(BOUND_S)
        self._loop.close()


class Kcat:
    """A process for each stretch: what it knows it learns from whoever answers first. It reads without a group."""

    def __init__(self, servers: str, topic: str) -> None:
        if KCAT is None:
            pytest.skip("kcat is not installed: ./dev tools installs it")
        self._servers, self._topic = servers, topic

    def send(self, values: list[tuple[int, bytes]]) -> None:
        for number in range(PARTITIONS):
            text = "".join(f"{value.decode()}\n" for partition, value in values if partition == number)
            where = ("-P", "-t", self._topic, "-p", str(number), "-X", "enable.idempotence=true")
            kcat(self._servers, *where, text=text)

    def read(self) -> list[bytes]:
        return kcat(self._servers, "-C", "-t", self._topic, "-o", "beginning", "-e", "-q").encode().splitlines()

    def close(self) -> None:
        """Nothing is open."""


class Living:
    """A client in another language, whose program keeps its producer and its member from question to question."""

    def __init__(self, folder: str, servers: str, topic: str) -> None:
        try:
            self._program = Program(folder, servers).__enter__()
        except ClientUnavailable as missing:
            pytest.skip(str(missing))
        self._topic = topic

    def send(self, values: list[tuple[int, bytes]]) -> None:
        partitions, told = [partition for partition, _ in values], [value.decode() for _, value in values]
        self._program.ask("live send", topic=self._topic, partitions=partitions, values=told)

    def read(self) -> list[bytes]:
        return [value.encode() for value in self._program.ask("live read", topic=self._topic)["values"]]

    def close(self) -> None:
        self._program.__exit__(None, None, None)


CLIENTS: dict[str, Callable[[str, str], Client]] = {
    "confluent-kafka": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
    "kcat": Kcat,
    "franz-go": partial(Living, FRANZ_GO.folder),
    "java": partial(Living, JAVA.folder),
    "sarama": partial(Living, SARAMA.folder),
    "kafkajs": partial(Living, KAFKAJS.folder),
}


class Work:
    """A client, what it has sent, and what its group was given."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.sent: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        self.read: set[bytes] = set()

    def go_on(self) -> None:
        """So many records more are acknowledged, and read."""
        before = sum(map(len, self.sent.values()))
        values = [(number % PARTITIONS, b"%d" % (before + number)) for number in range(COUNT * PARTITIONS)]
        self.client.send(values)
        for partition, value in values:
            self.sent[partition].append(value)
        count = before + len(values)
        until(lambda: len(self.read) == count, self._take, lambda: f"{len(self.read)} of {count} were read")

    def _take(self) -> None:
        self.read.update(self.client.read())


@pytest.fixture(scope="module", autouse=True)
def what_kafka_python_left() -> Iterator[None]:
    """Sockets that were refused: it keeps them as long as the process lives, which the last collection would tell."""
    before = {id(one) for one in _sockets()}
    yield
    for one in _sockets():
        if id(one) not in before:
            one.close()


def _sockets() -> list[socket.socket]:
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, socket.socket)]


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    up = Up(tmp_path_factory.mktemp("failover") / "trio", "--brokers", "3", "--port", "0", settings=AN_HOUR)
    try:
        yield up
    finally:
        up.end()


def stored(servers: str, topic: str, count: int) -> dict[int, list[bytes]]:
    """All that the log of each partition holds, in its order; at least so many in all."""
    found: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in found])
        while sum(map(len, found.values())) < count:
            records = consumer.poll(BOUND_S)
            assert records, f"{found} of {count}"
            for one in records:
                found[one.partition].append(bytes(one.value))
    return found


PROGRAMS = (FRANZ_GO, JAVA, KAFKAJS, SARAMA)


def say_who_was_not_tried(names: Iterable[str]) -> None:
    """The others were, and all is well with them; strict mode wants each."""
    if missing := ", ".join(names):
        pytest.skip(f"not here: {missing} (./dev tools brings and builds them)")


@pytest.mark.slow
def test_programs_in_other_languages_find_their_way_while_a_broker_is_away(trio: Up) -> None:
    """Their topics are led by it, and by others after it; Java's is told of a dead address first, the rest of one."""
    topics = {one.folder: f"of-{one.folder}" for one in PROGRAMS}
    with Admin(bootstrap_servers=trio.servers) as admin:
        admin.create_topics(*(NewTopic(name, 1, 3) for name in topics.values()))
        with Consumer(*topics.values(), bootstrap_servers=trio.servers, group_id="first") as consumer:
            internal = lambda: admin.describe_all_topics(internal=True)  # noqa: E731
            until(lambda: "__consumer_offsets" in internal(), lambda: consumer.poll(0.1))  # not made with one away
    first = trio.servers.partition(",")[0]

    def tried(folder: str) -> dict[str, Any] | None:
        address = f"{DEAD},{trio.servers}" if folder == JAVA.folder else first
        try:
            program = Program(folder, address)
        except ClientUnavailable:
            return None
        with program:
            return program.ask("idempotent", topic=topics[folder], count=500)

    steer(trio.directory, "kill", 3)
    with ThreadPoolExecutor(len(topics)) as at_once:
        found = dict(zip(topics, at_once.map(tried, topics), strict=True))
    steer(trio.directory, "start", 3)
    all_in_sync(trio.servers)
    for folder, told in found.items():
        assert told is None or told["offsets"] == list(range(500)), folder
        assert told is None or told["records"] == records(500), folder
    say_who_was_not_tried(folder for folder, told in found.items() if told is None)


@pytest.mark.slow
def test_every_client_goes_on_and_each_record_is_there_once(trio: Up) -> None:
    servers = f"{DEAD},{trio.servers}"
    with Admin(bootstrap_servers=trio.servers) as admin:
        admin.create_topics(*(NewTopic(name, PARTITIONS, 3) for name in CLIENTS))
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(len(CLIENTS)) as at_once:
        works: dict[str, Work] = {}
        for name, make in CLIENTS.items():
            with contextlib.suppress(pytest.skip.Exception):
                works[name] = Work(make(servers, name))
                stack.callback(works[name].client.close)

        def go_on() -> None:
            for one in [at_once.submit(work.go_on) for work in works.values()]:
                one.result()

        go_on()
        steer(trio.directory, "kill", 3)
        go_on()
        steer(trio.directory, "start", 3)
        all_in_sync(trio.servers)
        for node_id in (2, 3, 1):
            steer(trio.directory, "stop", node_id)
            go_on()
            steer(trio.directory, "start", node_id)
            all_in_sync(trio.servers)
        go_on()
    for name, work in works.items():
        assert stored(trio.servers, name, sum(map(len, work.sent.values()))) == work.sent, name
    say_who_was_not_tried(name for name in CLIENTS if name not in works)
