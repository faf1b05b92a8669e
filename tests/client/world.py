"""A cluster without a network under virtual time: scripted brokers behind the real network core.

`World` carries out what the network core decides, and its brokers keep real (if small) logs with Kafka's idempotence
rules. A test changes one thing (an answer, a closed connection, a delay) and looks at what the client does, and when.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from barnabas.client.produce.config import ProducerConfig
from barnabas.client.produce.core import NeedMemory, NeedMetadata, Placed, ProducerCore
from barnabas.client.produce.result import BatchResult
from barnabas.net.metadata import NEVER, Metadata
from barnabas.net.network import APART, Connect, Disconnect, NetworkClient
from barnabas.net.step import Step
from barnabas.protocol.api import ApiKey
from barnabas.protocol.batch import HEADER_SIZE, add_sequence, read_header
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.kafka import codec
from barnabas.protocol.records import Record, decode_records
from barnabas.protocol.requests.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.protocol.requests.init_producer_id import InitProducerIdResponse
from barnabas.protocol.requests.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.protocol.requests.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

CLOSE = object()
"""A handler's answer: close the connection instead."""
SILENCE = object()
"""A handler's answer: never answer."""


@dataclass
class Asked:
    """One request as a broker saw it."""

    at_ms: int
    node: int
    key: int
    version: int
    request: Any


@dataclass
class Delayed:
    """A handler's answer that takes its time."""

    response: Any
    delay_ms: int


@dataclass
class PartitionLog:
    """Records and the sequences that wrote them: (pid, epoch, first, last, offset)."""

    records: list[Record] = field(default_factory=list)
    batches: list[tuple[int, int, int, int, int]] = field(default_factory=list)

    def append(self, data: bytes) -> tuple[int, int]:
        """Error code and base offset, by Kafka's rules for idempotent producers."""
        header = read_header(data)
        pid, epoch, first = header.producer_id, header.producer_epoch, header.base_sequence
        if pid >= 0:
            for old in self.batches[-5:]:
                if old[:4] == (pid, epoch, first, header.last_sequence):
                    return 0, old[4]
            mine = [old for old in self.batches if old[0] == pid]
            if mine and epoch < mine[-1][1]:
                return 47, -1
            expected = 0 if not mine or mine[-1][1] != epoch else add_sequence(mine[-1][3], 1)
            if mine and first != expected:
                return 45, -1
        offset = len(self.records)
        self.records += decode_records(data)
        self.batches.append((pid, epoch, first, header.last_sequence, offset))
        return 0, offset


class World:
    """Virtual time, brokers by id, topics with their leaders."""

    def __init__(self, *, nodes: tuple[int, ...] = (1,), topics: dict[str, list[int]] | None = None, seed: int = 7):
        self.now_ms = 1000
        self.nodes: dict[int, bool | None] = dict.fromkeys(nodes, True)  # up, down, or swallowing everything
        self.topics = topics if topics is not None else {"t": [nodes[0]]}
        self.epochs: dict[TopicPartition, int] = {}
        self.topic_ids = {name: bytes([n + 1] * 16) for n, name in enumerate(self.topics)}
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.asked: list[Asked] = []
        self.handlers: dict[int, Callable[[int, Any], Any]] = {}
        self.latency_ms = 1
        self.metadata_nodes: tuple[int, ...] | None = None
        self.versions: dict[int, tuple[int, int]] = {
            ApiKey.PRODUCE: (3, 13),
            ApiKey.METADATA: (0, 13),
            ApiKey.API_VERSIONS: (0, 4),
            ApiKey.INIT_PRODUCER_ID: (0, 5),
        }
        self.random = random.Random(seed)
        self.network: NetworkClient
        self._step: Step | None = None
        self.drivers: list[Callable[[int], int]] = []
        self.connects: list[tuple[int, int]] = []
        self.hold_writes: set[int] = set()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._generation: dict[int, int] = {}
        self._next_pid = 100
        self._answers_until: dict[tuple[int, int], int] = {}

    # ---- running ----------------------------------------------------------------------------------------------------

    def at(self, delay_ms: int, call: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + delay_ms, next(self._order), call))

    def step(self) -> int:
        """Let the client act now; returns when it wants to act again."""
        if self._step is None:
            self._step = Step(self.network, self._carry_out, lambda: self.now_ms)
            self._step.drivers = self.drivers
        due = self._step.run()
        assert due is not None
        return due

    def run(self, until_ms: int | None = None, until: Callable[[], object] | None = None, steps: int = 100_000) -> None:
        """Run until the virtual time, or until the condition holds (bounded)."""
        limit = NEVER if until_ms is None else until_ms
        for _ in range(steps):
            due = self.step()
            if until is not None and until():
                return
            following = min(due, self._events[0][0] if self._events else NEVER)
            if following > limit or following >= NEVER:
                self.now_ms = max(self.now_ms, limit) if limit < NEVER else self.now_ms
                if until is not None:
                    raise AssertionError("nothing more happens, and the condition does not hold")
                self.step()
                return
            assert following > self.now_ms or self._events, "the client asks for the same moment again"
            self.now_ms = max(self.now_ms, following)
            while self._events and self._events[0][0] <= self.now_ms:
                heapq.heappop(self._events)[2]()
        raise AssertionError("too many steps")

    # ---- the wire ---------------------------------------------------------------------------------------------------

    def _node(self, node_id: int) -> int:
        if node_id > APART // 2:  # a second connection
            return APART - node_id
        return node_id if node_id >= 0 else list(self.nodes)[(-node_id - 1) % len(self.nodes)]

    def _carry_out(self, action: Any) -> None:
        node_id = action.node_id
        if isinstance(action, Connect):
            self.connects.append((self.now_ms, node_id))
            generation = self._generation[node_id] = self._generation.get(node_id, 0) + 1
            up = self.nodes.get(self._node(node_id), False)
            if up is None:  # the network swallows everything
                return
            self.at(self.latency_ms, lambda: self._opened(node_id, generation, bool(up)))
        elif isinstance(action, Disconnect):
            self._generation[node_id] = self._generation.get(node_id, 0) + 1
        else:
            self._written(node_id, b"".join(action.buffers))

    def _opened(self, node_id: int, generation: int, up: bool) -> None:
        if self._generation[node_id] != generation:
            return
        if up:
            self.network.on_connected(node_id, self.now_ms)
        else:
            self.network.on_disconnected(node_id, "connection refused", self.now_ms)

    def _written(self, node_id: int, data: bytes) -> None:
        header, request = codec.decode_request(memoryview(data)[4:])
        self.asked.append(Asked(self.now_ms, self._node(node_id), header.api_key, header.api_version, request))
        if node_id not in self.hold_writes:
            self.network.on_written(node_id, self.now_ms)
            assert self._step is not None
            self._step.run()  # from within a step: it goes on
        answer = self._answer(self._node(node_id), header, request)
        delay_ms = self.latency_ms
        if isinstance(answer, Delayed):
            answer, delay_ms = answer.response, answer.delay_ms
        generation = self._generation[node_id]
        # Answers leave in the order of the requests.
        delay_ms = max(delay_ms, self._answers_until.get((node_id, generation), 0) - self.now_ms)
        self._answers_until[node_id, generation] = self.now_ms + delay_ms
        if answer is CLOSE:
            self.at(delay_ms, lambda: self._close(node_id, generation))
        elif answer is not SILENCE and answer is not None:
            buffers = codec.encode_response(header.api_key, header.api_version, header.correlation_id, answer)
            frame = memoryview(b"".join(buffers))[4:]
            self.at(delay_ms, lambda: self._deliver(node_id, generation, frame))

    def _deliver(self, node_id: int, generation: int, frame: memoryview) -> None:
        if self._generation[node_id] == generation:
            self.network.on_received(node_id, frame, self.now_ms)

    def _close(self, node_id: int, generation: int) -> None:
        if self._generation[node_id] == generation:
            self._generation[node_id] += 1
            self.network.on_disconnected(node_id, "closed by the broker", self.now_ms)

    def cut(self, node_id: int) -> None:
        """Close the connection to a node from the broker's side, now."""
        self._close(node_id, self._generation.get(node_id, 0))

    # ---- the brokers ------------------------------------------------------------------------------------------------

    def _answer(self, node: int, header: Any, request: Any) -> Any:
        special = self.handlers.get(header.api_key)
        if special is not None:
            answer = special(node, request)
            if answer is not None:
                return answer
        if header.api_key == ApiKey.API_VERSIONS:
            keys = [ApiVersion(key, low, high) for key, (low, high) in self.versions.items()]
            return ApiVersionsResponse(api_keys=keys)
        if header.api_key == ApiKey.METADATA:
            return self.metadata(request)
        if header.api_key == ApiKey.INIT_PRODUCER_ID:
            self._next_pid += 1
            return InitProducerIdResponse(producer_id=self._next_pid, producer_epoch=0)
        return self.produce(request)

    def metadata(self, request: Any) -> MetadataResponse:
        wanted = list(self.topics) if request.topics is None else [each.name for each in request.topics]
        alive = self.metadata_nodes or tuple(self.nodes)
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node, f"node{node}", 9092) for node in alive],
            cluster_id="c",
            controller_id=alive[0],
            topics=[self._topic(name) for name in wanted],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.topics:
            return MetadataResponseTopic(error_code=3, name=name)
        partitions = [
            MetadataResponsePartition(
                partition_index=index, leader_id=leader, leader_epoch=self.epochs.get(TopicPartition(name, index), 0)
            )
            for index, leader in enumerate(self.topics[name])
        ]
        return MetadataResponseTopic(name=name, topic_id=self.topic_ids.get(name, bytes(16)), partitions=partitions)

    def produce(self, request: Any, error: Callable[[TopicPartition, bytes], int] | None = None) -> Any:
        """Append and answer; `error(where, data)` may refuse a partition with a code."""
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        topics = []
        for topic in request.topic_data:
            name = topic.name or names[topic.topic_id]
            answers = []
            for part in topic.partition_data:
                where = TopicPartition(name, part.index)
                data = join(part.records)
                code = error(where, data) if error is not None else 0
                offset = -1
                if code == 0:
                    code, offset = self.logs.setdefault(where, PartitionLog()).append(data)
                answers.append(PartitionProduceResponse(index=part.index, error_code=code, base_offset=offset))
            topics.append(TopicProduceResponse(name=name, topic_id=topic.topic_id, partition_responses=answers))
        return None if request.acks == 0 else ProduceResponse(responses=topics)

    # ---- looking ----------------------------------------------------------------------------------------------------

    def requests(self, key: int) -> list[Asked]:
        return [each for each in self.asked if each.key == key]

    def produced(self) -> list[tuple[int, list[tuple[TopicPartition, int, int]]]]:
        """Per Produce request: when, and (partition, records, base sequence) of its batches."""
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        found = []
        for each in self.requests(ApiKey.PRODUCE):
            batches = []
            for topic in each.request.topic_data:
                for part in topic.partition_data:
                    header = read_header(join(part.records))
                    where = TopicPartition(topic.name or names[topic.topic_id], part.index)
                    batches.append((where, header.record_count, header.base_sequence))
            found.append((each.at_ms, batches))
        return found

    def values(self, topic: str = "t", partition: int = 0) -> list[bytes | None]:
        log = self.logs.get(TopicPartition(topic, partition))
        return [record.value for record in log.records] if log is not None else []


def join(records: Any) -> bytes:
    return b"".join(records) if isinstance(records, list) else bytes(records)


class Bench:
    """A producer core in a world, with a blocking-free `send`."""

    def __init__(self, world: World, **settings: Any) -> None:
        self.world = world
        self.config = ProducerConfig.of({"bootstrap_servers": "boot:9092"} | settings)
        chance = world.random.random
        self.metadata = Metadata(self.config, chance, topic_idle_ms=self.config.metadata_max_idle_ms)
        self.network = world.network = NetworkClient(self.config, self.metadata, chance)
        self.core = ProducerCore(self.config, self.metadata, self.network, chance, lambda *parts: parts)
        self.sender = self.core.make_sender()
        world.drivers.append(self.sender.step)

    @property
    def accumulator(self) -> Any:
        return self.core.accumulator

    @property
    def pool(self) -> Any:
        return self.core.accumulator.pool

    def learn(self, *topics: str) -> None:
        """Fetch metadata for topics, and the producer id."""
        self.metadata.add_topics(topics or tuple(self.world.topics), self.world.now_ms)
        names = topics or tuple(self.world.topics)
        state = self.core.state
        self.world.run(
            until=lambda: all(n in self.metadata.cluster.topics for n in names) and (state is None or state.has_id)
        )
        self.world.run(until_ms=self.world.now_ms + 5 * self.world.latency_ms)

    def try_send(
        self,
        value: bytes | None,
        key: bytes | None = None,
        partition: int | None = None,
        topic: str = "t",
    ) -> Placed | NeedMemory | NeedMetadata:
        return self.core.append(topic, partition, key, value, (), self.world.now_ms, self.world.now_ms)

    def send(
        self, value: bytes | None, key: bytes | None = None, partition: int | None = None, topic: str = "t"
    ) -> tuple[BatchResult, int]:
        placed = self.try_send(value, key, partition, topic)
        assert isinstance(placed, Placed), placed
        return placed.result, placed.at

    def settle(self) -> None:
        """Run until every record has its outcome and every buffer is back."""
        self.world.run(until=lambda: self.sender.idle and not self.sender.in_flight)
        assert self.pool.available_bytes == self.pool.total_bytes, "a buffer leaked"


def outcome(result: BatchResult, index: int) -> Any:
    """The record's offset, or its error."""
    part, at = result.part_of(index)
    assert part.done
    error = part.error_of(at)
    if error is not None:
        return error
    return part.base_offset + at if part.base_offset >= 0 else -1


def batch_of(size: int) -> bytes:
    """A value that fills a batch of `size` bytes exactly with one record (null key, no headers)."""
    return bytes(size - HEADER_SIZE - 10)
