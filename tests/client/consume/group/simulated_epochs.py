"""A coordinator of one group of the consumer protocol (KIP-848) in a few lines, for the cluster in `simulated.py`.

It follows Kafka's: a member keeps its epoch until what it must give up is not among what it says it owns; what is free
goes to whose it is; a member that gives up nothing within its rebalance timeout is removed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from barnabas.client.consume.group.assignors import Member as Sharer
from barnabas.client.consume.group.assignors.sticky import sticky_share
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests import offset_commit, offset_fetch
from barnabas.protocol.requests.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

Parts = frozenset[TopicPartition]
NONE: Parts = frozenset()


@dataclass
class Enrolled:
    """A member as the coordinator knows it. Times are absolute ms."""

    id: str
    instance: str | None
    epoch: int = 0
    before: int = -1  # the epoch before this one
    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: Parts = NONE
    revoking: Parts = NONE
    rebalance_ms: int = 0
    expires_ms: int = 0
    gives_up_by_ms: int | None = None
    wanted: frozenset[str] = field(default_factory=frozenset)


class SimulatedEpochs:
    """The coordinator of one group."""

    def __init__(self, topics: dict[str, int], *, heartbeat_ms: int = 50, session_ms: int = 500) -> None:
        self.topics = topics
        self.ids = {name: bytes([number + 1] * 16) for number, name in enumerate(topics)}
        self.heartbeat_ms = heartbeat_ms
        self.session_ms = session_ms
        self.members: dict[str, Enrolled] = {}
        self.generation = 0
        self.offsets: dict[TopicPartition, int] = {}
        self.heard: list[ConsumerGroupHeartbeatRequest] = []
        self.target: dict[str, Parts] = {}
        self._counted: dict[str, int] = {}

    @property
    def state(self) -> str:
        stable = all(
            each.epoch == self.generation and each.assigned == self.target[each.id] for each in self.members.values()
        )
        return "Stable" if stable else "Reconciling"

    def id_of(self, name: str) -> bytes:
        return self.ids.setdefault(name, bytes([len(self.ids) + 1] * 16))

    def name_of(self, topic_id: bytes) -> str:
        return next((name for name, each in self.ids.items() if each == topic_id), "gone")

    # ---- heartbeats -----------------------------------------------------------------------------------------------

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> ConsumerGroupHeartbeatResponse:
        self.heard.append(request)
        if request.member_epoch < 0:
            return self._leave(request, now_ms)
        code = self._enrol(request) if request.member_epoch == 0 else self._code(request)
        if code:
            return ConsumerGroupHeartbeatResponse(error_code=code, error_message="so it is")
        member = self.members[request.member_id]
        member.expires_ms = now_ms + self.session_ms
        if request.rebalance_timeout_ms >= 0:
            member.rebalance_ms = request.rebalance_timeout_ms
        before = (member.topics, member.pattern)
        if request.subscribed_topic_names is not None:
            member.topics = tuple(request.subscribed_topic_names)
        if request.subscribed_topic_regex is not None:
            member.pattern = request.subscribed_topic_regex
        if request.member_epoch == 0 or before != (member.topics, member.pattern) or self._counted != self.topics:
            self.generation += 1
            self._share_out()
        assigned = member.assigned
        self._reconcile(member, request, now_ms)
        full = request.topic_partitions is not None and request.subscribed_topic_names is not None
        share = self._listed(member.assigned) if full or member.assigned != assigned else None
        return ConsumerGroupHeartbeatResponse(
            member_id=member.id, member_epoch=member.epoch, heartbeat_interval_ms=self.heartbeat_ms, assignment=share
        )

    def _enrol(self, request: ConsumerGroupHeartbeatRequest) -> int:
        assert request.rebalance_timeout_ms > 0
        assert request.topic_partitions == []
        assert request.subscribed_topic_names is not None
        same = [each for each in self.members.values() if each.instance == request.instance_id is not None]
        for old in same:
            if old.id != request.member_id and old.epoch != -2:
                return ErrorCode.UNRELEASED_INSTANCE_ID
            del self.members[old.id]
            self.members[request.member_id] = Enrolled(
                request.member_id, request.instance_id, self.generation, assigned=old.assigned
            )
        self.members.setdefault(request.member_id, Enrolled(request.member_id, request.instance_id))
        return 0

    def _code(self, request: ConsumerGroupHeartbeatRequest) -> int:
        member = self.members.get(request.member_id)
        if member is None:
            fenced = any(each.instance == request.instance_id is not None for each in self.members.values())
            return ErrorCode.FENCED_INSTANCE_ID if fenced else ErrorCode.UNKNOWN_MEMBER_ID
        if request.member_epoch == member.epoch:
            return 0
        owned = self._owned(request)
        if request.member_epoch == member.before and owned is not None and owned <= member.assigned:
            return 0
        return ErrorCode.FENCED_MEMBER_EPOCH

    def _leave(self, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> ConsumerGroupHeartbeatResponse:
        member = self.members.get(request.member_id)
        if member is not None and request.member_epoch == -2:
            member.epoch, member.expires_ms = -2, now_ms + self.session_ms
        elif member is not None:
            self._remove(member)
        return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

    def _owned(self, request: ConsumerGroupHeartbeatRequest) -> Parts | None:
        if request.topic_partitions is None:
            return None
        return frozenset(
            TopicPartition(self.name_of(each.topic_id), number)
            for each in request.topic_partitions
            for number in each.partitions
        )

    def _listed(self, parts: Parts) -> Assignment:
        names = sorted({where.topic for where in parts})
        return Assignment(
            [
                TopicPartitions(self.id_of(name), sorted(each.partition for each in parts if each.topic == name))
                for name in names
            ]
        )

    # ---- the share ------------------------------------------------------------------------------------------------

    def _share_out(self) -> None:
        self._counted = dict(self.topics)
        sharers = []
        for each in self.members.values():
            matched = [name for name in self.topics if each.pattern and re.fullmatch(each.pattern, name)]
            wanted = frozenset((*each.topics, *matched)) & self.topics.keys()
            sharers.append(Sharer(each.id, wanted, each.instance, tuple(sorted(self.target.get(each.id, NONE))), 1))
        self.target = {name: frozenset(share) for name, share in sticky_share(self.topics, sharers).items()}

    def _reconcile(self, member: Enrolled, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> None:
        owned = self._owned(request)
        if member.revoking and (owned is None or owned & member.revoking):
            return
        member.revoking, member.gives_up_by_ms = NONE, None
        target = self.target[member.id]
        gone = member.assigned - target
        if gone:
            member.assigned -= gone
            member.revoking, member.gives_up_by_ms = gone, now_ms + member.rebalance_ms
            return
        if member.epoch != self.generation:
            member.before, member.epoch = member.epoch, self.generation
        taken = [each.assigned | each.revoking for each in self.members.values() if each is not member]
        member.assigned |= target - NONE.union(*taken)

    def _remove(self, member: Enrolled) -> None:
        del self.members[member.id]
        self.generation += 1
        self._share_out()

    def tick(self, now_ms: int) -> None:
        for member in list(self.members.values()):
            late = member.gives_up_by_ms is not None and member.gives_up_by_ms <= now_ms
            if member.expires_ms <= now_ms or late:
                self._remove(member)

    # ---- offsets --------------------------------------------------------------------------------------------------

    def commit(self, request: offset_commit.OffsetCommitRequest, *_: Any) -> offset_commit.OffsetCommitResponse:
        epoch, member = request.generation_id_or_member_epoch, self.members.get(request.member_id)
        code = 0
        if epoch < 0:
            code = ErrorCode.UNKNOWN_MEMBER_ID if self.members else 0
        elif member is None:
            code = ErrorCode.UNKNOWN_MEMBER_ID
        elif epoch != member.epoch:
            code = ErrorCode.STALE_MEMBER_EPOCH
        topics = []
        for topic in request.topics:
            name = topic.name or self.name_of(topic.topic_id)
            parts = [offset_commit.OffsetCommitResponsePartition(p.partition_index, code) for p in topic.partitions]
            topics.append(offset_commit.OffsetCommitResponseTopic(topic.name, topic.topic_id, parts))
            if not code:
                for p in topic.partitions:
                    self.offsets[TopicPartition(name, p.partition_index)] = p.committed_offset
        return offset_commit.OffsetCommitResponse(topics=topics)

    def fetch(self, request: offset_fetch.OffsetFetchRequest, *_: Any) -> offset_fetch.OffsetFetchResponse:
        topics = []
        for topic in request.groups[0].topics or ():
            name = topic.name or self.name_of(topic.topic_id)
            parts = [
                offset_fetch.OffsetFetchResponsePartitions(n, self.offsets.get(TopicPartition(name, n), -1))
                for n in topic.partition_indexes
            ]
            topics.append(offset_fetch.OffsetFetchResponseTopics(topic.name, topic.topic_id, parts))
        return offset_fetch.OffsetFetchResponse(groups=[offset_fetch.OffsetFetchResponseGroup("g", topics)])
