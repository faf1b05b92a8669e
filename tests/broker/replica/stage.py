"""One core with further brokers in its metadata log: followers are Fetch requests with replica ids."""

from __future__ import annotations

from typing import Any

from barnabas.broker.cluster.records import Partition, RegisterBroker, Topic
from barnabas.broker.delayed import DelayedOperation
from barnabas.broker.replica import ReplicaManager
from barnabas.broker.replica.delayed_fetch import DelayedFetch
from barnabas.explain.stage import by_arrival
from barnabas.protocol.ids import TopicPartition
from tests.broker.node.world import Answer
from tests.broker.node.world import World as CoreWorld
from tests.broker.replica.world import ME, SlowController, batch

TOPIC_ID = b"stage-topic-id-1"


def codes(answer: Answer) -> list[int]:
    """The error codes of a Produce or Fetch answer, partition by partition."""
    assert answer.done, "not answered yet"
    found = []
    for topic in answer.response.responses:
        parts = topic.partitions if hasattr(topic, "partitions") else topic.partition_responses
        found += [part.error_code for part in parts]
    return found


class Stage:
    """A topic `t` whose partitions lie on `replicas`, led here; ISR changes are the test's, or the core's own."""

    def __init__(self, partitions: list[int], replicas: tuple[int, ...], *, own_controller: bool = False) -> None:
        self.controller = SlowController()
        self.world = CoreWorld(controller=None if own_controller else self.controller, node_id=ME)
        records: list[Any] = [
            RegisterBroker(broker, 0, bytes([broker]) * 16, (("PLAINTEXT", "localhost", 9092 + broker),), None, False)
            for broker in replicas
            if broker != ME
        ]
        records.append(Topic(TOPIC_ID, "t"))
        records += [Partition(TOPIC_ID, number, replicas, replicas, ME) for number in partitions]
        written: list[Any] = []
        self.world.core.controller.write(records, written.append)
        self.world.settle()
        assert written == [None]
        self._names: dict[int, str] = {}
        self._named: list[DelayedOperation] = []  # keeps them alive, so that ids stay theirs

    @property
    def manager(self) -> ReplicaManager:
        return self.world.core.replicas

    def produce(self, *keys: TopicPartition, records: bytes | bytearray | None = None, acks: int = -1) -> Answer:
        data = {(key.topic, key.partition): bytearray(records or batch()) for key in keys}
        return self.world.produce(data, acks=acks)

    def fetch(
        self, asked: dict[TopicPartition, int], *, replica: int = -1, min_bytes: int = 1, wait_ms: int = 5000
    ) -> Answer:
        offsets = {(key.topic, key.partition): offset for key, offset in asked.items()}
        return self.world.fetch(offsets, wait_ms=wait_ms, min_bytes=min_bytes, replica_id=replica)

    def caught_up(self, replica: int, *keys: TopicPartition) -> Answer:
        """A follower's fetch from the leader's present log end."""
        ends = {key: self.world.core.logs.logs[key].log_end_offset for key in keys}
        return self.fetch(ends, replica=replica)

    def high_watermark(self, key: TopicPartition) -> int:
        return self.world.core.logs.logs[key].high_watermark

    def log_end(self, key: TopicPartition) -> int:
        return self.world.core.logs.logs[key].log_end_offset

    def tries(self, monkeypatch: Any) -> list[str]:
        """The names of fetches whose condition is asked for from now on."""
        tried: list[str] = []
        ask = DelayedFetch.try_complete

        def try_complete(operation: DelayedFetch, now_ms: int) -> bool:
            tried.append(self._names.get(id(operation), "?"))
            return ask(operation, now_ms)

        monkeypatch.setattr(DelayedFetch, "try_complete", try_complete)
        return tried

    # The watch lists

    def name(self, name: str) -> None:
        """Give the one operation that was parked since the last call its name in the lists."""
        fresh = [op for op in self._parked() if id(op) not in self._names]
        assert len(fresh) == 1, fresh
        self._names[id(fresh[0])] = name
        self._named.append(fresh[0])

    def lists(self) -> str:
        """The watch lists of produce and fetch together, in the order of arrival; x marks completed leftovers."""
        both: list[Any] = [self.manager.shared.produce.lists(), self.manager.shared.fetch.lists()]
        shown = []
        for key in sorted({key for lists in both for key in lists}):
            ordered = by_arrival([lists.get(key, ()) for lists in both], self._named)
            names = [self._names[id(op)] + ("x" if op.completed else "") for op in ordered]
            shown.append(f"P{key.partition}:[{','.join(names)}]")
        return " ".join(shown)

    def _parked(self) -> list[DelayedOperation]:
        shared = self.manager.shared
        found = {}
        for purgatory in (shared.produce, shared.fetch):
            for ops in purgatory.lists().values():
                found.update({id(op): op for op in ops})
        return list(found.values())
