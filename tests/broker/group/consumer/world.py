"""Groups of the consumer protocol on the shard of `tests/broker/group/world.py`, under its virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.broker.group.consumer.group import ConsumerGroup, ConsumerMember
from barnabas.broker.group.consumer.heartbeats import heartbeat, refused
from barnabas.broker.jobs import Job
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.kafka.consumer_protocol import (
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    encode_subscription,
)
from barnabas.protocol.requests.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.broker.group.world import Told, World

Partitions = dict[str, list[int]]


class ConsumerWorld(World):
    """A world with one topic of four partitions, whose groups are assigned anew at every change; nobody is gathered."""

    def __init__(self, **settings: Any) -> None:
        self.holds_jobs = False
        """Whether jobs wait for `step_job`; else they end at once."""
        self.jobs: list[tuple[Job[None], Callable[[Exception | None], None]]] = []
        apart = {"group_consumer_assignment_interval_ms": 0, "barnabas_group_gather_ms": 0}
        super().__init__(**apart | settings)
        self.topics.have("t", 4)

    def _run(self, job: Job[None], ended: Callable[[Exception | None], None]) -> None:
        self.jobs.append((job, ended))
        if not self.holds_jobs:
            self.end_jobs()

    def restart(self) -> None:
        self.jobs.clear()
        super().restart()

    def step_job(self) -> bool:
        """One step of the first job; whether it goes on."""
        job, ended = self.jobs[0]
        try:
            next(job)
        except StopIteration:
            del self.jobs[0]
            ended(None)
            return False
        except Exception as fault:
            del self.jobs[0]
            ended(fault)
            return False
        return True

    def end_jobs(self) -> int:
        """All steps of all jobs; how many they were."""
        steps = 0
        while self.jobs:
            self.step_job()
            steps += 1
        return steps

    def beat(self, member_id: str, epoch: int = 0, **options: Any) -> ConsumerGroupHeartbeatResponse:
        """One heartbeat as a member sends it; a refusal comes as the answer that the handler makes of it."""
        told = self.beats(member_id, epoch, **options)
        while told.waits:  # a group is being converted
            self.step_job()
        response: ConsumerGroupHeartbeatResponse = told.response
        return response

    def beats(
        self,
        member_id: str,
        epoch: int = 0,
        *,
        group: str = "g",
        topics: list[str] | None = None,
        pattern: str | None = None,
        owned: Partitions | None = None,
        instance: str | None = None,
        rack: str | None = None,
        assignor: str | None = None,
        rebalance_ms: int = -1,
        client: str = "c",
        host: str = "10.0.0.1",
    ) -> Told:
        """The same; what becomes of it, for it may have to wait."""
        if epoch == 0:
            owned = {} if owned is None else owned
            rebalance_ms = 30_000 if rebalance_ms == -1 else rebalance_ms
            topics = ["t"] if topics is None and pattern is None else topics
        told, reply = self._reply(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, _failure, client, host)
        parts = None
        if owned is not None:
            parts = [TopicPartitions(self.id_of(name), numbers) for name, numbers in owned.items()]
        request = ConsumerGroupHeartbeatRequest(
            group, member_id, epoch, instance, rack, rebalance_ms, topics, pattern, assignor, parts
        )
        try:
            heartbeat(self.shard, request, reply, self.now_ms)
        except KafkaError as fault:
            reply.send(refused(fault))
        self.settle()
        return told

    def id_of(self, name: str) -> bytes:
        known = self.topics.get(name)
        return name.encode().ljust(16, b"?") if known is None else known[0]

    def given(self, response: ConsumerGroupHeartbeatResponse) -> Partitions | None:
        """What a heartbeat was told to have; None if nothing was said."""
        assert response.error_code == 0, (ErrorCode(response.error_code), response.error_message)
        if response.assignment is None:
            return None
        names = {one.topic_id: self.topics.name_of(one.topic_id) for one in response.assignment.topic_partitions}
        return {names[one.topic_id] or "?": one.partitions for one in response.assignment.topic_partitions}

    def comes(self, member_id: str, **options: Any) -> Partitions | None:
        """A member's first heartbeat; what it was given."""
        return self.given(self.beat(member_id, **options))

    # Members that speak the classic protocol

    def classic(self, member_id: str = "", owned: Partitions | None = None, **options: Any) -> Told:
        """A JoinGroup of a member that wants `t`, and says what it owns."""
        parts = [TopicPartition(name, numbers) for name, numbers in (owned or {}).items()]
        said = encode_subscription(ConsumerProtocolSubscription(["t"], None, parts))
        names = options.pop("names", ("range",))
        protocols = tuple((name, said) for name in names)
        return self.join(member_id, protocols=protocols, protocol_type="consumer", **options)

    def classic_member(self, member_id: str = "", **options: Any) -> str:
        """One that has joined and synced as often as it takes; its id."""
        told = self.classic(member_id, **options)
        if told.error == ErrorCode.MEMBER_ID_REQUIRED:
            told = self.classic(told.response.member_id, **options)
        self.until(told)
        assert told.error == 0
        return str(told.response.member_id)

    def synced(self, member_id: str, generation: int, **options: Any) -> Partitions:
        """What a SyncGroup is told."""
        told = self.sync(member_id, generation, **options)
        assert told.error == 0, told.error
        assignment = decode_assignment(told.response.assignment)
        return {part.topic: part.partitions for part in assignment.assigned_partitions}

    def consumers(self, group: str = "g") -> ConsumerGroup:
        found = self.shard.groups[group]
        assert isinstance(found, ConsumerGroup)
        return found

    def has(self, member_id: str, group: str = "g") -> Partitions:
        """What a member has by the coordinator's account."""
        assigned = self.member(member_id, group).current.assigned
        return {self.topics.name_of(topic_id) or "?": sorted(numbers) for topic_id, numbers in assigned.items()}

    def member(self, member_id: str, group: str = "g") -> ConsumerMember:
        return self.consumers(group).members[member_id]

    def settled(self, *member_ids: str, group: str = "g") -> None:
        """Heartbeats of obedient members until all have what they are to have."""
        for _ in range(10):
            for member_id in member_ids:
                epoch = self.member(member_id, group).current.epoch
                owned = self.has(member_id, group)
                self.beat(member_id, epoch, owned=owned, group=group)
        states = {one: self.member(one, group).current for one in member_ids}
        target = self.consumers(group).target_epoch
        assert all(one.epoch == target and one.state == 0 for one in states.values()), states


def _failure(code: int) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code)
