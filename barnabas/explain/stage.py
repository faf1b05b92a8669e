"""A real broker's core in memory, under a clock that only the walk moves; other brokers are rows of its metadata.

Followers are what they are to a leader: Fetch requests that carry a replica id.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from barnabas.broker.cluster.records import Partition, PartitionChange, RegisterBroker, RemoveTopic, Topic
from barnabas.broker.config import BrokerConfig, Endpoint
from barnabas.broker.context import Connection, RequestContext
from barnabas.broker.delayed import DelayedOperation
from barnabas.broker.log import Log
from barnabas.broker.memory_disk import MemoryDisk
from barnabas.broker.node.core import Core
from barnabas.protocol.api import key_of
from barnabas.protocol.errors import error_name
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import BatchBuilder
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.requests.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPIC: Final = "t"
WALL_MS: Final = 1_700_000_000_000
_TOPIC_ID: Final = b"a topic of walks"
_WAIT_MS: Final = 500
_STEPS_MAX: Final = 100_000


Placed = Mapping[int, tuple[int, ...]]


class Asked(RequestContext):
    """A request that was sent, and what became of it."""

    __slots__ = ("response",)

    def __init__(self, connection: Connection, api_key: int, version: int) -> None:
        super().__init__(connection, api_key, version, "walk")
        self.response: Any = None

    def respond(self, response: Any) -> None:
        """Keep the answer."""
        self.response = response

    def close(self, reason: str) -> None:
        """No request of a walk is closed upon."""
        raise AssertionError(reason)

    @property
    def answered(self) -> bool:
        """Whether the answer has left."""
        return self.response is not None

    def told(self) -> str:
        """The answer in some words: `waits`, or each partition's error or what it was given."""
        if self.response is None:
            return "waits"
        found = []
        for topic in self.response.responses:
            for part in topic.partitions if hasattr(topic, "partitions") else topic.partition_responses:
                number = part.partition_index if hasattr(part, "partition_index") else part.index
                found.append(f"P{number} {_outcome(part)}")
        return "answered: " + (", ".join(found) or "nothing was asked")


def _outcome(part: Any) -> str:
    if getattr(part, "diverging_epoch", None) is not None:
        return f"epoch {part.diverging_epoch.epoch} ended at {part.diverging_epoch.end_offset}"
    if part.error_code:
        return error_name(part.error_code)
    if hasattr(part, "records"):
        return f"{len(part.records)} bytes"
    return f"written at {part.base_offset}"


class CountingEntropy:
    """Ids in order: every walk is the same."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def uuid(self) -> bytes:
        """The next number, in the form of a version 4 uuid."""
        return next(self._numbers).to_bytes(8, "big") + bytes([0x40, 0, 0, 0, 0x80, 0, 0, 1])

    def below(self, bound: int) -> int:
        """The next number, modulo `bound`."""
        return next(self._numbers) % bound


class _Wall:
    """Time of day that goes with the stage's."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def now_ms(self) -> int:
        return WALL_MS + self._stage.now_ms


class Stage:
    """A topic `t` whose partitions lie on `replicas`; the first of these is this broker, which leads them.

    Attributes:
        now_ms: the time, monotonic; the walk's own zero is `ms`.
    """

    def __init__(
        self, partitions: Iterable[int], replicas: tuple[int, ...], *, placed: Placed | None = None, **settings: Any
    ) -> None:
        """`placed` names the replicas of partitions that lie elsewhere than on `replicas`, whose first leads."""
        me = replicas[0]
        others = sorted({*replicas, *(one for each in (placed or {}).values() for one in each)} - {me})
        self.now_ms = 0
        self.disk = MemoryDisk()
        self.core = Core(
            BrokerConfig(node_id=me, **settings), disk=self.disk, clock=_Wall(self), entropy=CountingEntropy()
        )
        self.core.set_endpoints([Endpoint("PLAINTEXT", "localhost", 9092 + me)])
        self._connections = itertools.count(1)
        self._names: dict[DelayedOperation, str] = {}
        self._ticking = False
        self.core.start(0)
        self._settle()
        records: list[Any] = [
            RegisterBroker(broker, 0, bytes([broker]) * 16, (("PLAINTEXT", "localhost", 9092 + broker),), None, False)
            for broker in others
        ]
        records.append(Topic(_TOPIC_ID, TOPIC))
        for number in partitions:
            where = (placed or {}).get(number, replicas)
            records.append(Partition(_TOPIC_ID, number, where, where, where[0]))
        self.core.controller.write(records, lambda _: None)
        self._settle()
        assert self.core.ready, self.core.fault
        self._begun_ms = self.now_ms

    # -- time

    @property
    def ms(self) -> int:
        """Since the stage was made."""
        return self.now_ms - self._begun_ms

    def _settle(self) -> None:
        """Let the disk answer, and all that is due run, until nothing is left to do at this time."""
        for _ in range(_STEPS_MAX):
            worked = self.core.run_job_step(self.now_ms)
            if self.disk.deliver():
                worked = True
                self.core.wake(self.now_ms)
            due_ms = self.core.next_deadline_ms()
            if due_ms is not None and due_ms <= self.now_ms:
                worked = True
                self.core.tick(self.now_ms)
            if not worked:
                return
        raise AssertionError("the core never comes to rest")

    def advance(self, ms: int) -> None:
        """Let time pass, stopping wherever the core has something to do."""
        end_ms = self.now_ms + ms
        while (due_ms := self.core.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.core.tick(self.now_ms)
            self._settle()
        self.now_ms = end_ms
        self._settle()

    # -- requests

    def send(self, request: Any, version: int, name: str = "", peer: int = -1) -> Asked:
        """Send a request, as a client or as the broker `peer`; if it is parked, the lists show it under this name."""
        connection = Connection(next(self._connections), "PLAINTEXT", "127.0.0.1", "kafka", self.now_ms, peer=peer)
        asked = Asked(connection, key_of(type(request)), version)
        before = set(self._parked())
        handle = self.core.handle if peer < 0 else self.core.handle_peer
        handle(request, asked, self.now_ms)
        self._settle()
        for operation in self._parked():
            if operation not in before:
                self._names[operation] = name
        return asked

    def handle(self, request: Any, context: RequestContext) -> None:
        """Serve a request whose answer goes elsewhere."""
        self.core.handle(request, context, self.now_ms)
        self._settle()

    def produce(self, *numbers: int, name: str = "", acks: int = -1, timeout_ms: int = 30_000) -> Asked:
        """One record to each of the partitions."""
        parts = [PartitionProduceData(number, one_record()) for number in numbers]
        return self.send(
            ProduceRequest(None, acks, timeout_ms, [TopicProduceData(TOPIC, partition_data=parts)]), 9, name
        )

    def fetch(
        self,
        offsets: dict[int, int],
        *,
        name: str = "",
        replica: int = -1,
        min_bytes: int = 1,
        wait_ms: int = _WAIT_MS,
        leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
    ) -> Asked:
        """Fetch partitions from offsets; with a replica id, as that follower."""
        start = -1 if replica < 0 else 0
        most = 2**31 - 1
        parts = [
            FetchPartition(number, leader_epoch, offset, last_fetched_epoch, start, most)
            for number, offset in offsets.items()
        ]
        topics = [FetchTopic(TOPIC, partitions=parts)] if parts else []
        request = FetchRequest(None, replica, None, wait_ms, min_bytes, most, topics=topics)
        return self.send(request, 12, name, replica)

    def change(self, number: int, *, leader: int | None = None, isr: tuple[int, ...] | None = None) -> None:
        """Have the metadata say otherwise who leads a partition, or who is in sync."""
        self.core.controller.write([PartitionChange(_TOPIC_ID, number, isr, leader)], lambda _: None)
        self._settle()

    def remove_topic(self) -> None:
        """Delete the topic."""
        self.core.controller.write([RemoveTopic(_TOPIC_ID)], lambda _: None)
        self._settle()

    def fail_disk(self, number: int) -> None:
        """From now on what is written to a partition cannot be made durable."""
        self.disk.faults.bad_syncs.add(self._log(number).active.file.path)

    def roll(self, number: int) -> None:
        """Begin a new segment."""
        self._log(number).roll(self.now_ms)

    def truncate(self, number: int, offset: int) -> None:
        """Cut a log, as a new leader's follower does, and look at who waits for it."""
        self._log(number).truncate_to(offset)
        self.core.replicas.shared.check_all(TopicPartition(TOPIC, number), self.now_ms)
        self._settle()

    def _log(self, number: int) -> Log:
        return self.core.logs.logs[TopicPartition(TOPIC, number)]

    # -- what is looked at

    def purgatories(self) -> tuple[Any, Any]:
        """That of produce and that of fetch."""
        shared = self.core.replicas.shared
        return shared.produce, shared.fetch

    def _parked(self) -> list[DelayedOperation]:
        found: dict[DelayedOperation, None] = {}
        for purgatory in self.purgatories():
            for operations in purgatory.lists().values():
                found.update(dict.fromkeys(operations))
        return list(found)

    def lists(self) -> dict[str, list[str]]:
        """Who watches which partition, of both purgatories in the order of arrival; `*`: completed, not purged yet."""
        both = [purgatory.lists() for purgatory in self.purgatories()]
        return {
            f"P{key.partition}": [
                self._names[one] + ("*" if one.completed else "")
                for one in by_arrival([lists.get(key, ()) for lists in both], list(self._names))
            ]
            for key in sorted({key for lists in both for key in lists})
        }

    def logs(self) -> dict[str, str]:
        """Each partition's log end offset, high watermark and ISR."""
        told = {}
        for key, log in sorted(self.core.logs.logs.items()):
            partition = self.core.replicas.partition(key)
            if key.topic == TOPIC and partition is not None:
                isr = ",".join(map(str, partition.isr.committed))
                told[f"P{key.partition}"] = f"LEO {log.log_end_offset}  HW {log.high_watermark}  ISR {isr}"
        return told

    def counts(self) -> dict[str, str]:
        """What the metrics say of each purgatory that holds anything."""
        told = {}
        for name in ("Produce", "Fetch"):
            tags = {"delayedOperation": name}
            watched, delayed = (
                int((self.core.registry.read("DelayedOperationPurgatory", metric, tags) or {"value": 0})["value"])
                for metric in ("PurgatorySize", "NumDelayedOperations")
            )
            if watched or delayed:
                told[name] = f"{watched} entries watched, {delayed} operations delayed"
        return told


def by_arrival(
    lists: Iterable[Sequence[DelayedOperation]], arrived: Sequence[DelayedOperation]
) -> Iterator[DelayedOperation]:
    """Several lists as one: between lists by arrival, within each as it stands."""
    return heapq.merge(*lists, key=arrived.index)


def one_record() -> bytearray:
    """A batch of one record; all of a walk are equally long."""
    builder = BatchBuilder(1 << 20)
    builder.try_append(WALL_MS, b"k", b"v")
    return builder.build()
