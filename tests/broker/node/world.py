"""A world for one core: a virtual clock, a disk in memory, and requests that remember their answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from barnabas.broker.config import BrokerConfig, Endpoint
from barnabas.broker.config.listeners import LOCAL
from barnabas.broker.context import Connection, RequestContext
from barnabas.broker.memory_disk import MemoryDisk
from barnabas.broker.node.core import Core
from barnabas.broker.ports import Controller
from barnabas.explain.stage import CountingEntropy
from barnabas.protocol.api import REQUESTS, ApiKey, key_of
from barnabas.protocol.batch import batches, read_header
from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.records import BatchBuilder, Record, decode_records
from barnabas.protocol.requests import (
    create_topics,
    delete_topics,
    init_producer_id,
    list_offsets,
    metadata,
)
from barnabas.protocol.requests import fetch as fetches
from barnabas.protocol.requests import produce as produces
from barnabas.protocol.requests.api_versions import ApiVersionsRequest
from barnabas.protocol.requests.offset_commit import OffsetCommitRequest

START_WALL_MS = 1_700_000_000_000


class Answer:
    """What became of one request: `response` once it came, and when (`at_ms`)."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.count = 0
        self.response: Any = None
        self.at_ms = -1
        self.closed: str | None = None

    def respond(self, response: Any) -> None:
        self.count += 1
        assert self.count == 1, "answered twice"
        self.response = response
        self.at_ms = self._world.now_ms - self._world.started_ms

    def close(self, reason: str) -> None:
        self.closed = reason

    @property
    def done(self) -> bool:
        return self.count > 0


class _Context(RequestContext):
    """Hands the answer to an `Answer`."""

    def __init__(self, connection: Connection, api_key: int, version: int, client_id: str, answer: Answer) -> None:
        super().__init__(connection, api_key, version, client_id)
        self._answer = answer

    def respond(self, response: Any) -> None:
        self._answer.respond(response)

    def close(self, reason: str) -> None:
        self._answer.close(reason)


def _key_of(request: Any) -> int:
    for kind in (produces.ProduceRequest, OffsetCommitRequest):  # they may be laid flat
        if isinstance(request, kind):
            return key_of(kind)
    return key_of(type(request))


class World:
    """One core on a memory disk under a virtual clock, which only `advance` moves."""

    def __init__(
        self,
        *,
        disk: MemoryDisk | None = None,
        controller: Controller | None = None,
        start: bool = True,
        now_ms: int = 1_000_000,
        flat: bool = True,
        **settings: Any,
    ) -> None:
        """`flat`: requests of one batch come as the wire's shorter way decodes them, else as any other."""
        self.flat = flat
        self.now_ms = self.started_ms = now_ms
        self.wall_offset_ms = START_WALL_MS - now_ms
        self.disk = disk if disk is not None else MemoryDisk()
        self.settings = {"barnabas_group_gather_ms": 0} | settings
        self.controller = controller
        self.entropy = CountingEntropy()
        self._connections = itertools.count(1)
        self._jobs_came = False
        self.core = self._new_core()
        if start:
            self.start()

    # The wall clock of the core.
    class _Wall:
        def __init__(self, world: World) -> None:
            self._world = world

        def now_ms(self) -> int:
            return self._world.now_ms + self._world.wall_offset_ms

    @property
    def wall_ms(self) -> int:
        return self.now_ms + self.wall_offset_ms

    def _new_core(self) -> Core:
        core = Core(
            BrokerConfig(**self.settings),
            disk=self.disk,
            clock=World._Wall(self),
            entropy=self.entropy,
            controller=self.controller,
        )
        core.set_endpoints([Endpoint("PLAINTEXT", "localhost", 9092)])
        core.on_jobs = self._told_of_jobs
        return core

    def _told_of_jobs(self) -> None:
        self._jobs_came = True

    def start(self) -> None:
        self.core.start(self.now_ms)
        self.settle()
        assert self.core.fault is None, self.core.fault
        assert self.core.ready

    def settle(self) -> None:
        """Let the disk answer and all jobs run, until nothing is left to do at this time."""
        for _ in range(100_000):
            if not self.step():
                return
        raise AssertionError("the core never comes to rest")

    def step(self) -> bool:
        """Let the disk answer once, a job take a step, and what is due happen. Returns whether there was anything."""
        self._jobs_came = False
        worked = self.core.run_job_step(self.now_ms)
        if self.disk.deliver():
            worked = True
            self.core.wake(self.now_ms)
        due_ms = self.core.next_deadline_ms()
        if due_ms is not None and due_ms <= self.now_ms:
            self.core.tick(self.now_ms)
            worked = True
        return worked or self._jobs_came

    def advance(self, ms: int) -> None:
        """Let time pass, stopping at every deadline of the core."""
        end_ms = self.now_ms + ms
        while True:
            self.settle()
            due_ms = self.core.next_deadline_ms()
            if due_ms is None or due_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            self.core.tick(self.now_ms)
        self.now_ms = end_ms
        self.settle()

    def advance_to(self, at_ms: int) -> None:
        """Let time pass until `at_ms` after the start of the world."""
        self.advance(self.started_ms + at_ms - self.now_ms)

    def stop(self) -> MemoryDisk:
        """Stop the core in good order; its disk."""
        ended: list[bool] = []
        self.core.stop(self.now_ms, lambda: ended.append(True))
        while not ended:
            worked = self.core.run_job_step(self.now_ms)
            if not worked and not ended:
                assert self.disk.deliver(), "the core never ends"
                self.core.wake(self.now_ms)
        return self.disk

    def restart(self, *, clean: bool = True, keep: Callable[[str, int], int] = lambda path, size: size) -> None:
        """Stop the core in good order, or kill it, and start another on the same disk.

        `keep(path, size)` says how many bytes of a file are left where it is killed, of what was not synced.
        """
        if clean:
            self.stop()
        else:
            self.disk.crash(lambda path, synced, size: keep(path, size))
        self.core = self._new_core()
        self.start()

    # Requests

    def send(self, request: Any, version: int, client_id: str = "test", connection: Connection | None = None) -> Answer:
        """Send a request; the answer may be there already, or come later."""
        answer = Answer(self)
        connection = connection or Connection(next(self._connections), "PLAINTEXT", "127.0.0.1", "kafka", self.now_ms)
        context = _Context(connection, _key_of(request), version, client_id, answer)
        self.serve(request, context)
        return answer

    def serve(self, request: Any, context: RequestContext) -> None:
        """Hand a request to the core; what that says of the next deadline must hold."""
        due_ms = self.core.next_deadline_ms()
        handle = self.core.handle if context.connection.peer < 0 else self.core.handle_peer
        handle(request, context, self.now_ms)
        if not self.core.rescheduled:
            assert self.core.next_deadline_ms() == due_ms, "the host would not ask"

    def administrator(self) -> Connection:
        """A connection over the local socket."""
        return Connection(next(self._connections), LOCAL, "local", "kafka", self.now_ms)

    def ask(self, request: Any, version: int, client_id: str = "test") -> Any:
        """Send a request and let this moment come to rest; the response."""
        answer = self.send(request, version, client_id)
        self.settle()
        assert answer.done, "no answer yet"
        return answer.response

    def create(self, name: str = "t", partitions: int = 1, rf: int = 1, **settings: Any) -> bytes:
        """Create a topic; its id."""
        configs = [
            create_topics.CreatableTopicConfig(key.replace("_", "."), str(value)) for key, value in settings.items()
        ]
        topic = create_topics.CreatableTopic(name, partitions, rf, configs=configs)
        result = self.ask(create_topics.CreateTopicsRequest([topic]), 7).topics[0]
        assert result.error_code == 0, (result.error_code, result.error_message)
        return bytes(result.topic_id)

    def delete(self, name: str = "t") -> int:
        states = [delete_topics.DeleteTopicState(name)]
        return int(self.ask(delete_topics.DeleteTopicsRequest(states), 6).responses[0].error_code)

    def produce(
        self,
        batches_by_key: dict[tuple[str, int], Any],
        *,
        acks: int = 1,
        timeout_ms: int = 30_000,
        version: int = 9,
        client_id: str = "test",
        connection: Connection | None = None,
    ) -> Answer:
        """Produce one batch to each of the partitions."""
        topics: dict[str, produces.TopicProduceData] = {}
        for (name, partition), records in batches_by_key.items():
            data = topics.setdefault(name, produces.TopicProduceData(name))
            data.partition_data.append(produces.PartitionProduceData(partition, records))
        if version >= 13:
            for name, data in topics.items():
                known = self.core.image.topics.get(name)
                data.topic_id = known.topic_id if known else b"\x01" * 16
                data.name = ""
        request = produces.ProduceRequest(None, acks, timeout_ms, list(topics.values()))
        if self.flat and len(batches_by_key) == 1:
            ((_, partition), records), (data,) = *batches_by_key.items(), topics.values()
            if records is not None:
                flat = produces.OneBatchRequest(acks, timeout_ms, data.name, data.topic_id, partition, records)
                assert flat == request
                request = flat
        return self.send(request, version, client_id, connection)

    def put(
        self, records: Any, topic: str = "t", partition: int = 0, **options: Any
    ) -> produces.PartitionProduceResponse:
        """Produce one batch and wait for its answer."""
        answer = self.produce({(topic, partition): records}, **options)
        self.settle()
        assert answer.done, "no answer yet"
        part: produces.PartitionProduceResponse = answer.response.responses[0].partition_responses[0]
        return part

    def put_internal(self, records: Any, topic: str, partition: int = 0) -> produces.PartitionProduceResponse:
        """As `put`, as the administrator, who may write to internal topics."""
        return self.put(records, topic, partition, client_id="__admin_client", connection=self.administrator())

    def fetch(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 2**31 - 1,
        partition_max_bytes: int = 2**31 - 1,
        version: int = 12,
        session: tuple[int, int] = (0, -1),
        replica_id: int = -1,
        leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        forget: dict[tuple[str, bytes], list[int]] | None = None,
        isolation: int = 0,
        connection: Connection | None = None,
    ) -> Answer:
        """Fetch the partitions from their offsets."""
        topics: dict[str, fetches.FetchTopic] = {}
        for (name, partition), offset in offsets.items():
            topic = topics.setdefault(name, fetches.FetchTopic(name, self._id_of(name, version)))
            if version >= 13:
                topic.topic = ""
            topic.partitions.append(
                fetches.FetchPartition(
                    partition,
                    leader_epoch,
                    offset,
                    last_fetched_epoch,
                    -1 if replica_id < 0 else 0,
                    partition_max_bytes,
                )
            )
        forgotten = [
            fetches.ForgottenTopic(*((name, ZERO_UUID) if version < 13 else ("", topic_id)), partitions)
            for (name, topic_id), partitions in (forget or {}).items()
        ]
        request = fetches.FetchRequest(
            None,
            replica_id,
            fetches.ReplicaState(replica_id, -1) if version >= 15 else None,
            wait_ms,
            min_bytes,
            max_bytes,
            isolation,
            *session,
            list(topics.values()),
            forgotten,
        )
        if replica_id >= 0 and connection is None:
            connection = self.peer(replica_id)
        return self.send(request, version, connection=connection)

    def peer(self, broker_id: int) -> Connection:
        """A connection from another broker, over the listener between brokers."""
        number, principal = next(self._connections), f"Broker:{broker_id}"
        return Connection(number, "BROKERS", "127.0.0.1", "kafka", self.now_ms, principal, peer=broker_id)

    def _id_of(self, name: str, version: int) -> bytes:
        known = self.core.image.topics.get(name)
        if version < 13:
            return ZERO_UUID
        return known.topic_id if known else b"\xee" * 16

    def offsets(self, timestamp: int, topic: str = "t", partition: int = 0, version: int = 7) -> Any:
        """ListOffsets of one partition."""
        part = list_offsets.ListOffsetsPartition(partition, -1, timestamp)
        request = list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic(topic, [part])])
        return self.ask(request, version).topics[0].partitions[0]

    def describe(self, *names: str, version: int = 9, create: bool = False) -> metadata.MetadataResponse:
        """Metadata of topics (all of them when none is named)."""
        topics = [metadata.MetadataRequestTopic(name=name) for name in names] if names else None
        response: metadata.MetadataResponse = self.ask(metadata.MetadataRequest(topics, create), version)
        return response

    def producer_id(self) -> int:
        """A fresh producer id."""
        response = self.ask(init_producer_id.InitProducerIdRequest(None), 4)
        assert response.error_code == 0
        return int(response.producer_id)


def batch(
    *values: bytes | None,
    keys: list[bytes | None] | None = None,
    timestamps: list[int] | None = None,
    at_ms: int = START_WALL_MS,
    pid: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    codec: int = 0,
) -> bytearray:
    """One record batch."""
    builder = BatchBuilder(2**31 - 1, codec)
    for index, value in enumerate(values):
        key = keys[index] if keys else None
        builder.try_append(timestamps[index] if timestamps else at_ms, key, value)
    return builder.build(pid, epoch, sequence)


def sized(size: int) -> bytearray:
    """A batch of one record that has exactly `size` bytes."""
    for length in range(max(size - 100, 0), size):
        data = batch(b"x" * length)
        if len(data) == size:
            return data
    raise AssertionError(f"no batch has {size} bytes")


def records_of(data: Any) -> list[Record]:
    """All records of the whole batches in `data`."""
    return [record for position, _ in batches(data) for record in decode_records(data, position)]


def bases_of(data: Any) -> list[int]:
    """Base offsets of the whole batches in `data`."""
    return [read_header(data, position).base_offset for position, _ in batches(data)]


def part_of(answer: Answer, index: int = 0, topic: int = 0) -> Any:
    """One partition of a Fetch answer."""
    assert answer.done, "no answer yet"
    return answer.response.responses[topic].partitions[index]


def api_versions(version: int) -> ApiVersionsRequest:
    return ApiVersionsRequest("test", "1.0") if version >= 3 else ApiVersionsRequest()


assert len(REQUESTS) == len(ApiKey)
