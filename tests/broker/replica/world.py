"""One broker's replica room on a memory disk, with a cluster and a controller that the test plays itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from barnabas.broker.config import BrokerConfig, TopicConfig
from barnabas.broker.context import Connection
from barnabas.broker.log import Isolation, LogManager
from barnabas.broker.memory_disk import MemoryDisk
from barnabas.broker.metrics import MetricsRegistry
from barnabas.broker.ports import IsrAnswer, IsrProposal
from barnabas.broker.replica import FetchInfo, FetchParams, ReplicaManager
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import BatchBuilder

WALL_MS = 1_700_000_000_000
ME = 1


def batch(count: int = 1, value: bytes = b"v", timestamp_ms: int = WALL_MS) -> bytearray:
    """A client's batch of `count` records."""
    builder = BatchBuilder(1 << 24)
    for _ in range(count):
        assert builder.try_append(timestamp_ms, b"k", value)
    return bytearray(builder.build())


def P(number: int) -> TopicPartition:
    return TopicPartition("t", number)


@dataclass(frozen=True)
class State:
    topic_id: bytes = b"t" * 16
    leader: int = ME
    leader_epoch: int = 1
    partition_epoch: int = 0
    replicas: tuple[int, ...] = (ME,)
    isr: tuple[int, ...] = (ME,)
    adding: tuple[int, ...] = ()
    moves: bool = False
    elr: tuple[int, ...] = ()
    recovering: bool = False


class Clock:
    def now_ms(self) -> int:
        return WALL_MS


class Cluster:
    """Brokers and partitions the metadata knows."""

    def __init__(self) -> None:
        self.partitions: set[TopicPartition] = set()
        self.dead: set[int] = set()
        self.epochs: dict[int, int] = {}

    def contains(self, partition: TopicPartition) -> bool:
        return partition in self.partitions

    def is_alive(self, broker_id: int) -> bool:
        return broker_id not in self.dead

    def broker_epoch(self, broker_id: int) -> int:
        return self.epochs.get(broker_id, -1)

    def rack(self, broker_id: int, listener: str) -> str | None:
        return None

    def topic_overrides(self, topic: str) -> dict[str, str]:
        return {}

    def isr_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        return broker_id not in self.dead and broker_epoch in (-1, self.epochs.get(broker_id, broker_epoch))


class SlowController:
    """Keeps proposals until the test answers them."""

    def __init__(self) -> None:
        self.pending: list[tuple[IsrProposal, Any]] = []

    def alter_partition(self, proposal: IsrProposal, done: Any) -> None:
        self.pending.append((proposal, done))

    def take(self) -> tuple[IsrProposal, Any]:
        assert len(self.pending) == 1, self.pending
        return self.pending.pop()


class Answer:
    """Collects what a `respond` was called with; exactly once is asserted."""

    def __init__(self) -> None:
        self.results: dict[TopicPartition, Any] | None = None

    def __call__(self, results: dict[TopicPartition, Any], now_ms: int = -1) -> None:
        assert self.results is None, "answered twice"
        self.results = dict(results)

    @property
    def there(self) -> bool:
        return self.results is not None

    @property
    def codes(self) -> list[int]:
        assert self.results is not None, "not answered yet"
        return [int(result.error_code) for result in self.results.values()]

    @property
    def one(self) -> Any:
        assert self.results is not None, "not answered yet"
        (result,) = self.results.values()
        return result


class World:
    def __init__(self, **settings: Any) -> None:
        self.now_ms = 0
        self.disk = MemoryDisk()
        self.config = BrokerConfig(node_id=ME, **settings)
        self.topic_config = TopicConfig()
        self.cluster = Cluster()
        self.controller = SlowController()
        self.registry = MetricsRegistry()
        self.logs = LogManager(self.disk, self.config, lambda _: self.topic_config, Clock())
        self.states: dict[TopicPartition, State] = {}
        self.manager = ReplicaManager(
            ME, self.config, self.logs, self.controller, self.cluster, Clock(), self.registry, 0
        )
        self.manager.start(0)

    # Metadata

    def host(self, key: TopicPartition, **changes: Any) -> None:
        """Put a new state of the partition into force (a partition epoch newer than the last)."""
        old = self.states.get(key)
        if old is None:
            state = State(**changes)
            if "isr" not in changes:
                state = replace(state, isr=state.replicas)
        else:
            state = replace(old, partition_epoch=old.partition_epoch + 1, **changes)
        self.states[key] = state
        self.cluster.partitions.add(key)
        self.manager.apply({key: state}, [], self.now_ms)
        self.manager.drain(self.now_ms)

    def delete(self, key: TopicPartition) -> None:
        self.cluster.partitions.discard(key)
        del self.states[key]
        self.manager.apply({}, [key], self.now_ms)
        self.manager.drain(self.now_ms)

    # Requests

    def produce(
        self, *keys: TopicPartition, records: bytes | bytearray | None = None, acks: int = -1, timeout_ms: int = 30_000
    ) -> Answer:
        answer = Answer()
        entries = [(key, bytearray(batch() if records is None else records)) for key in keys]
        self.manager.append_records(entries, acks, timeout_ms, answer, self.now_ms)
        self.manager.drain(self.now_ms)
        return answer

    def fetch(
        self,
        asked: dict[TopicPartition, int],
        *,
        replica: int = -1,
        wait_ms: int = 5000,
        min_bytes: int = 1,
        max_bytes: int = 1 << 30,
        isolation: Isolation = Isolation.HIGH_WATERMARK,
        leader_only: bool = False,
        epoch: int = -1,
        connection: Connection | None = None,
        **info: Any,
    ) -> Answer:
        """A fetch of partitions from offsets; with a replica id, a follower's."""
        answer = Answer()
        if replica >= 0:
            isolation, leader_only = Isolation.LOG_END, True
            info.setdefault("log_start_offset", 0)
        params = FetchParams(replica, epoch, wait_ms, min_bytes, max_bytes, isolation, leader_only, connection)
        wanted = [(key, FetchInfo(fetch_offset=offset, **info)) for key, offset in asked.items()]
        self.manager.fetch(params, wanted, answer, self.now_ms)
        self.manager.drain(self.now_ms)
        return answer

    def caught_up(self, replica: int, *keys: TopicPartition, **options: Any) -> Answer:
        """A follower's fetch from the leader's present log end."""
        return self.fetch({key: self.end(key) for key in keys}, replica=replica, **options)

    def delete_records(self, offsets: dict[TopicPartition, int], timeout_ms: int = 1000) -> Answer:
        answer = Answer()
        self.manager.delete_records(offsets, timeout_ms, answer, self.now_ms)
        self.manager.drain(self.now_ms)
        return answer

    # Time, disk, controller

    def move(self, ms: int) -> None:
        """Let time pass, ticking at every deadline on the way."""
        target = self.now_ms + ms
        while (deadline_ms := self.manager.next_deadline_ms()) is not None and deadline_ms <= target:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.manager.tick(self.now_ms)
        self.now_ms = target
        self.manager.tick(target)

    def deliver(self) -> None:
        """Let the disk answer all that it was asked, and what follows from that."""
        while self.disk.deliver():
            self.manager.drain(self.now_ms)

    def answer_isr(
        self, error_code: int = 0, isr: tuple[int, ...] | None = None, epoch: int | None = None
    ) -> IsrProposal:
        """Answer the one pending proposal, by default as asked."""
        proposal, done = self.controller.take()
        state = self.states[proposal.partition]
        new = replace(
            state, isr=proposal.isr if isr is None else isr, partition_epoch=epoch or state.partition_epoch + 1
        )
        if error_code == 0:
            self.states[proposal.partition] = new
        done(IsrAnswer(error_code, new.leader_epoch, new.partition_epoch, new.isr))
        self.manager.drain(self.now_ms)
        return proposal

    # Looking

    def end(self, key: TopicPartition) -> int:
        return self.logs.logs[key].log_end_offset

    def high_watermark(self, key: TopicPartition) -> int:
        return self.logs.logs[key].high_watermark

    def isr(self, key: TopicPartition) -> tuple[int, ...]:
        partition = self.manager.partition(key)
        assert partition is not None
        return partition.isr.committed

    def meter(self, type_name: str, name: str, **tags: str) -> float:
        values = self.registry.read(type_name, name, tags or None)
        return 0 if values is None else values["count"]

    def gauge(self, type_name: str, name: str, **tags: str) -> float:
        values = self.registry.read(type_name, name, tags or None)
        assert values is not None, f"no gauge {name}"
        return values["value"]
