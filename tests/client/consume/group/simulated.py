"""A cluster and its group coordinator in a few lines, and members of a group on it: real cores, no sockets, no clock.

The coordinator follows Kafka's classic protocol (join, sync, heartbeat, leave; generations; session and rebalance
timeouts). Every request takes a while that chance decides; those on one
connection are answered in order. A test moves the
time, lets members poll, stops them, makes them lose their connection, and looks at who was given what.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.consume.core import ConsumerCore
from barnabas.client.consume.group.group import Group
from barnabas.client.consume.group.subscription import Listener, Subscription
from barnabas.client.consume.record import ConsumerRecord
from barnabas.net.errors import Disconnected
from barnabas.net.metadata import NEVER, Metadata
from barnabas.net.network import APART, PerVersion
from barnabas.net.topology import Node
from barnabas.protocol.api import VERSIONS
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import ZERO_UUID, TopicPartition
from barnabas.protocol.requests import (
    fetch,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    sync_group,
)
from tests.client.consume.group.simulated_epochs import SimulatedEpochs
from tests.client.consume.test_fetcher import batch

GROUP = "g"
Answer = Callable[[Any], None]


@dataclass
class Joined:
    """A member as the coordinator knows it. Times are absolute ms."""

    id: str
    instance: str | None
    session_ms: int
    rebalance_ms: int
    expires_ms: int
    protocols: dict[str, bytes] = field(default_factory=dict)
    parked: Answer | None = None  # of JoinGroup or SyncGroup
    joined: bool = False


class SimulatedGroup:
    """The coordinator of one group."""

    def __init__(self) -> None:
        self.state = "Empty"
        self.generation = 0
        self.members: dict[str, Joined] = {}
        self.leader = ""
        self.way = ""
        self.shares: dict[str, bytes] = {}
        self.pending: set[str] = set()
        self.offsets: dict[TopicPartition, int] = {}
        self.deadline_ms = 0
        self.ids = count(1)

    # ---- requests: each returns its answer, or None to answer later -----------------------------------------------

    def join(self, request: join_group.JoinGroupRequest, now_ms: int, answer: Answer) -> Any:
        name = request.member_id
        if not name and request.group_instance_id is None:
            name = f"m{next(self.ids)}"
            self.pending.add(name)
            return join_group.JoinGroupResponse(
                error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=name, protocol_name=None
            )
        if request.group_instance_id is not None:
            for old in [each for each in self.members.values() if each.instance == request.group_instance_id]:
                if name and old.id != name:
                    return join_group.JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID, protocol_name=None)
                if not name:
                    del self.members[old.id]
            name = name or f"{request.group_instance_id}-{next(self.ids)}"
        elif name not in self.members and name not in self.pending:
            return join_group.JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, protocol_name=None)
        self.pending.discard(name)
        member = self.members.setdefault(name, Joined(name, request.group_instance_id, 0, 0, 0))
        member.session_ms, member.rebalance_ms = request.session_timeout_ms, request.rebalance_timeout_ms
        member.protocols = {each.name: bytes(each.metadata) for each in request.protocols}
        member.joined, member.parked = True, answer
        self._prepare(now_ms)
        self._complete_if_all(now_ms)
        return None

    def sync(self, request: sync_group.SyncGroupRequest, now_ms: int, answer: Answer) -> Any:
        code = self._code(request.member_id, request.group_instance_id, request.generation_id)
        if not code and self.state == "PreparingRebalance":
            code = ErrorCode.REBALANCE_IN_PROGRESS
        if code:
            return sync_group.SyncGroupResponse(error_code=code)
        if self.state == "Stable":
            return sync_group.SyncGroupResponse(assignment=self.shares.get(request.member_id, b""))
        self.members[request.member_id].parked = answer
        if request.member_id == self.leader:
            self.shares = {each.member_id: bytes(each.assignment) for each in request.assignments}
            self.state = "Stable"
            for member in self.members.values():
                self._keep(member, now_ms)
                self._reply(member, sync_group.SyncGroupResponse(assignment=self.shares.get(member.id, b"")))
        return None

    def heartbeat(self, request: heartbeat.HeartbeatRequest, now_ms: int, _: Answer) -> Any:
        code = self._code(request.member_id, request.group_instance_id, request.generation_id)
        if not code:
            self._keep(self.members[request.member_id], now_ms)
            code = ErrorCode.REBALANCE_IN_PROGRESS if self.state == "PreparingRebalance" else 0
        return heartbeat.HeartbeatResponse(error_code=code)

    def leave(self, request: leave_group.LeaveGroupRequest, now_ms: int, _: Answer) -> Any:
        for each in request.members:
            self._remove(each.member_id, now_ms)
        return leave_group.LeaveGroupResponse()

    def commit(self, request: offset_commit.OffsetCommitRequest, now_ms: int, _: Answer) -> Any:
        generation = request.generation_id_or_member_epoch
        code = self._code(request.member_id, request.group_instance_id, generation)
        if generation < 0 and not self.members:
            code = 0
        elif not code and self.state == "CompletingRebalance":
            code = ErrorCode.REBALANCE_IN_PROGRESS
        topics = []
        for topic in request.topics:
            parts = [offset_commit.OffsetCommitResponsePartition(p.partition_index, code) for p in topic.partitions]
            topics.append(offset_commit.OffsetCommitResponseTopic(topic.name, partitions=parts))
            if not code:
                for p in topic.partitions:
                    self.offsets[TopicPartition(topic.name, p.partition_index)] = p.committed_offset
        return offset_commit.OffsetCommitResponse(topics=topics)

    def fetch(self, request: offset_fetch.OffsetFetchRequest, now_ms: int, _: Answer) -> Any:
        topics = []
        for topic in request.groups[0].topics or ():
            parts = [
                offset_fetch.OffsetFetchResponsePartitions(n, self.offsets.get(TopicPartition(topic.name, n), -1))
                for n in topic.partition_indexes
            ]
            topics.append(offset_fetch.OffsetFetchResponseTopics(topic.name, partitions=parts))
        return offset_fetch.OffsetFetchResponse(groups=[offset_fetch.OffsetFetchResponseGroup(GROUP, topics)])

    # ---- states ---------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        for member in [each for each in self.members.values() if each.parked is None and each.expires_ms <= now_ms]:
            if self.state in ("Stable", "CompletingRebalance", "PreparingRebalance") and not member.joined:
                self._remove(member.id, now_ms)
        if self.state == "PreparingRebalance" and self.deadline_ms <= now_ms:
            for member in [each for each in self.members.values() if not each.joined]:
                del self.members[member.id]
            self._complete_if_all(now_ms)

    def _code(self, name: str, instance: str | None, generation: int) -> int:
        if instance is not None:
            here = [each.id for each in self.members.values() if each.instance == instance]
            if here and here != [name]:
                return ErrorCode.FENCED_INSTANCE_ID
        if name not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return 0 if generation == self.generation else ErrorCode.ILLEGAL_GENERATION

    def _keep(self, member: Joined, now_ms: int) -> None:
        member.expires_ms = now_ms + member.session_ms

    def _reply(self, member: Joined, response: Any) -> None:
        parked, member.parked = member.parked, None
        if parked is not None:
            parked(response)

    def _prepare(self, now_ms: int) -> None:
        if self.state == "PreparingRebalance":
            return
        if self.state == "CompletingRebalance":
            for member in self.members.values():
                if not member.joined:
                    self._reply(member, sync_group.SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        self.state = "PreparingRebalance"
        self.deadline_ms = now_ms + max(each.rebalance_ms for each in self.members.values())

    def _remove(self, name: str, now_ms: int) -> None:
        self.pending.discard(name)
        if self.members.pop(name, None) is None:
            return
        if self.members:
            self._prepare(now_ms)
            self._complete_if_all(now_ms)
        else:
            self.state, self.generation = "Empty", self.generation + 1

    def _complete_if_all(self, now_ms: int) -> None:
        if not all(each.joined for each in self.members.values()):
            return
        if not self.members:
            self.state = "Empty"
            return
        self.generation += 1
        self.state = "CompletingRebalance"
        self.leader = self.leader if self.leader in self.members else next(iter(self.members))
        common = set.intersection(*(set(each.protocols) for each in self.members.values()))
        self.way = next(name for name in self.members[self.leader].protocols if name in common)
        everyone = [
            join_group.JoinGroupResponseMember(each.id, each.instance, each.protocols[self.way])
            for each in self.members.values()
        ]
        for member in self.members.values():
            member.joined = False
            self._keep(member, now_ms)
            told = everyone if member.id == self.leader else []
            response = join_group.JoinGroupResponse(
                0, 0, self.generation, "consumer", self.way, self.leader, False, member.id, told
            )
            self._reply(member, response)


class Cluster:
    """One broker: topics with so many partitions of so many records each, one group, virtual time."""

    def __init__(self, topics: dict[str, int], *, records: int = 0, seed: int = 1, by_epochs: bool = False) -> None:
        self.now_ms = 1000
        self.topics = topics
        self.records = records
        self.chance = random.Random(seed)
        self.group: Any = SimulatedEpochs(topics) if by_epochs else SimulatedGroup()
        self.protocol = {"group.protocol": "consumer"} if by_epochs else {}
        self.refuse: dict[type, Callable[[Any], Any]] = {}
        self.members: list[Member] = []
        self.handed_out: dict[TopicPartition, list[int]] = defaultdict(list)
        self.slow_ms = 5
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    def id_of(self, name: str) -> bytes:
        """Groups of the consumer protocol name topics by their ids; the others do without."""
        return self.group.id_of(name) if isinstance(self.group, SimulatedEpochs) else ZERO_UUID

    def later(self, delay_ms: int, call: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + delay_ms, next(self._order), call))

    def member(self, *topics: str, **more: Any) -> Member:
        """Another consumer; it polls when a test says so."""
        made = Member(self, topics or tuple(self.topics), **more)
        self.members.append(made)
        return made

    def run(self, ms: int, polling: Iterable[Member] = ()) -> None:
        """Let so much time pass; these members ask for records all the while."""
        until, polling = self.now_ms + ms, tuple(polling)
        due = self.now_ms + 1
        while self.now_ms < until:
            soonest = self._events[0][0] if self._events else until
            self.now_ms = max(self.now_ms + 1, min(until, due, soonest, self.now_ms + 100))
            while self._events and self._events[0][0] <= self.now_ms:
                heapq.heappop(self._events)[2]()
            self.group.tick(self.now_ms)
            due = min((each.drive() for each in self.members), default=until)
            for each in polling:
                each.poll()

    def settle(self, *members: Member, ms: int = 20_000) -> None:
        """Until these members are stable, agree on the generation, and have what their coordinator gave them."""
        for _ in range(ms // 10):
            self.run(10, members)
            states = {each.group.membership.state.value for each in members}
            generations = {each.group.membership.identity.generation for each in members}
            rejoin = any(each.group.membership.rejoin for each in members)
            gone = self.group.members.keys() - {each.group.membership.member_id for each in members}
            heard = not self.protocol or all(
                each.owned() == self.group.members[each.group.membership.member_id].assigned
                for each in members
                if each.group.membership.member_id in self.group.members
            )
            if (
                not gone
                and heard
                and self.group.state == "Stable"
                and states == {"stable"}
                and generations == {self.group.generation}
                and not rejoin
            ):
                return
        raise AssertionError([each.group.membership.state for each in members])

    # ---- answers --------------------------------------------------------------------------------------------------

    def handle(self, request: Any, answer: Answer) -> None:
        special = self.refuse.get(type(request))
        said = special(request) if special is not None else None
        if said is None:
            said = getattr(self, f"on_{type(request).__name__}")(request, answer)
        if said is not None:
            answer(said)

    def on_FindCoordinatorRequest(self, request: Any, _: Answer) -> Any:
        return find_coordinator.FindCoordinatorResponse(
            coordinators=[find_coordinator.Coordinator(GROUP, 1, "node1", 9092)]
        )

    def on_ConsumerGroupHeartbeatRequest(self, request: Any, _: Answer) -> Any:
        return self.group.heartbeat(request, self.now_ms)

    def on_JoinGroupRequest(self, request: Any, answer: Answer) -> Any:
        return self.group.join(request, self.now_ms, answer)

    def on_SyncGroupRequest(self, request: Any, answer: Answer) -> Any:
        return self.group.sync(request, self.now_ms, answer)

    def on_HeartbeatRequest(self, request: Any, answer: Answer) -> Any:
        return self.group.heartbeat(request, self.now_ms, answer)

    def on_LeaveGroupRequest(self, request: Any, answer: Answer) -> Any:
        return self.group.leave(request, self.now_ms, answer)

    def on_OffsetCommitRequest(self, request: Any, answer: Answer) -> Any:
        return self.group.commit(request, self.now_ms, answer)

    def on_OffsetFetchRequest(self, request: Any, answer: Answer) -> Any:
        return self.group.fetch(request, self.now_ms, answer)

    def on_ListOffsetsRequest(self, request: Any, _: Answer) -> Any:
        topics = []
        for topic in request.topics:
            parts = [
                list_offsets.ListOffsetsPartitionResponse(p.partition_index, 0, -1, 0 if p.timestamp == -2 else 10**6)
                for p in topic.partitions
            ]
            topics.append(list_offsets.ListOffsetsTopicResponse(topic.name, parts))
        return list_offsets.ListOffsetsResponse(topics=topics)

    def on_FetchRequest(self, request: Any, _: Answer) -> Any:
        topics = []
        for topic in request.topics:
            parts = [self._records(topic.topic, p.partition, p.fetch_offset) for p in topic.partitions]
            topics.append(fetch.FetchableTopicResponse(topic.topic, topic.topic_id, parts))
        return fetch.FetchResponse(responses=topics)

    def _records(self, topic: str, number: int, offset: int) -> fetch.PartitionData:
        some = min(self.records - offset, self.chance.randrange(1, 6))
        data = batch(offset, some) if some > 0 else b""
        return fetch.PartitionData(number, 0, self.records, self.records, 0, records=memoryview(data))


class Member:
    """One consumer's core; a network that answers after a while, and an application that polls."""

    def __init__(
        self, cluster: Cluster, topics: tuple[str, ...], *, pattern: str | None = None, **settings: Any
    ) -> None:
        self.cluster = cluster
        self.told: list[tuple[str, list[TopicPartition]]] = []
        self.during: dict[str, Callable[[list[TopicPartition]], None]] = {}
        self.sent: list[Any] = []
        self.config = ConsumerConfig.of(
            {
                "bootstrap.servers": "h:1",
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                **cluster.protocol,
                **settings,
            }
        )
        self.metadata = Metadata(self.config, cluster.chance.random)
        self.connections = self  # of the network that this is
        self.versions: dict[int, tuple[int, int]] = {}
        self.core = ConsumerCore(self.config, self, cluster.chance.random, lambda: None)  # type: ignore[arg-type]
        group = self.core.group
        assert group is not None
        self.group: Group = group
        self.group.recall = self.recall
        self.group.ahead = lambda: len(self.ahead)
        self.ahead: deque[ConsumerRecord] = deque()
        self.stopped = False
        self._busy_until: dict[int, int] = {}
        self._open: dict[int, Any] = {}
        self._lines: dict[int, list[Callable[[], None]]] = {}  # by connection: what is not answered, in order
        self._life = 0  # of the connections
        self._numbers = count()
        listener = Listener(*(self._listener(name) for name in ("assigned", "revoked", "lost")))
        by_epochs = bool(cluster.protocol)
        self.core.subscribe(Subscription.of(() if pattern else topics, pattern, listener, broker_matches=by_epochs))
        self.metadata.add_topics(() if pattern else topics, cluster.now_ms)
        self.group.coordinator.wanted = True  # as a shell says once it is connected
        self.learn()

    def _listener(self, name: str) -> Callable[[list[TopicPartition]], None]:
        def tell(partitions: list[TopicPartition]) -> None:
            self.told.append((name, partitions))
            if name in self.during:
                self.during[name](partitions)

        return tell

    def learn(self) -> None:
        """Metadata comes, as the cluster is now."""
        wanted = self.cluster.topics if self.metadata.all_topics else self.metadata.topics
        topics = []
        for name in wanted:
            parts = [
                metadata.MetadataResponsePartition(partition_index=n, leader_id=1, leader_epoch=0)
                for n in range(self.cluster.topics.get(name, 0))
            ]
            code = 0 if name in self.cluster.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topic = metadata.MetadataResponseTopic(code, name, self.cluster.id_of(name), name.startswith("__"), parts)
            topics.append(topic)
        _, wish, partial = self.metadata.next_request(self.cluster.now_ms)
        brokers = [metadata.MetadataResponseBroker(1, "node1", 9092)]
        self.metadata.update(wish, metadata.MetadataResponse(0, brokers, "c", 1, topics), partial, self.cluster.now_ms)
        self.core.on_metadata()

    # ---- the network ----------------------------------------------------------------------------------------------

    def of(self, node_id: int) -> Member:
        return self

    def api_version(self, node_id: int, key: int) -> int | None:
        return None

    def ready(self, node_id: int, now_ms: int) -> bool:
        return True

    def poll_delay_ms(self, node_id: int, now_ms: int) -> int:
        return 1

    def least_loaded_node(self, now_ms: int) -> Node:
        return Node(1, "node1", 9092)

    def keep_apart(self, node: Node, now_ms: int) -> int:
        return APART - node.id

    def send(self, node_id: int, request: Any, now_ms: int, on_done: Any, **options: Any) -> None:
        if isinstance(request, PerVersion):
            highest = VERSIONS[request.key][1]
            request = request.make(min(highest, options.get("max_version") or highest))
        self.sent.append(request)
        wait, life = self._wait(), self._life
        number = next(self._numbers)
        self._open[number] = on_done
        line = self._lines.setdefault(node_id, [])

        def answered(response: Any) -> None:
            if life == self._life and not self.stopped:
                self.cluster.later(self._wait(), lambda: done(response))
                line.pop(0)
                if line:  # a broker answers what comes on one connection in order
                    line[0]()

        def done(response: Any) -> None:
            if number in self._open and not self.stopped:
                self._open.pop(number)(response, None, self.cluster.now_ms)

        def handle() -> None:
            self.cluster.handle(request, answered)

        def arrived() -> None:
            if life == self._life and not self.stopped:
                line.append(handle)
                if len(line) == 1:
                    handle()

        self._busy_until[node_id] = max(self.cluster.now_ms + wait, self._busy_until.get(node_id, 0))
        self.cluster.later(self._busy_until[node_id] - self.cluster.now_ms, arrived)

    def _wait(self) -> int:
        return self.cluster.chance.randrange(1, self.cluster.slow_ms + 1)

    enqueue = send

    def cut(self) -> None:
        """The connections break; what was under way is not answered."""
        broken, self._open = self._open, {}
        self._lines.clear()
        self._life += 1
        for on_done in broken.values():
            on_done(None, Disconnected("cut"), self.cluster.now_ms)

    # ---- the application ------------------------------------------------------------------------------------------

    def drive(self) -> int:
        if self.stopped:
            return NEVER
        if self.metadata.update_requested:
            self.learn()
        due = self.core.fetcher.drive(self.cluster.now_ms)
        return min(due, self.group.drive(self.cluster.now_ms))

    def recall(self) -> None:
        records = tuple(self.ahead)
        self.ahead.clear()
        self.core.give_records_back(records)

    def turn(self) -> None:
        """What the shells do before they give anything."""
        while (call := self.group.turn(self.cluster.now_ms)) is not None:
            try:
                call.run()
            finally:
                self.group.called(self.cluster.now_ms)

    def poll(self, count_max: int = 3) -> list[TopicPartition]:
        """Ask for records, and be done with them at once."""
        self.recall()
        self.turn()
        return [self._handed_out(record) for record in self.core.records_now(count_max)]

    def iterate(self) -> None:
        """Ask for the next one, as an iteration does."""
        if not self.ahead:
            self.turn()
            self.ahead.extend(self.core.records_now(5))
        if self.ahead:
            self._handed_out(self.ahead.popleft())

    def _handed_out(self, record: ConsumerRecord) -> TopicPartition:
        where = TopicPartition(record.topic, record.partition)
        self.cluster.handed_out[where].append(record.offset)
        return where

    def owned(self) -> set[TopicPartition]:
        return set(self.core.assignment())

    def commit(self) -> None:
        """Commit what was handed out, and do not wait."""
        self.recall()
        self.group.commit(self.group.positions(), self.cluster.now_ms, lambda *_: None, self.cluster.now_ms + 5000)

    def close(self, *, commit: bool = True) -> None:
        """Leave as `close` does, to the end."""
        self.recall()
        self.group.depart("it was closed", self.cluster.now_ms + 30_000, commit=commit)
        for _ in range(30_000):
            self.turn()
            if self.group.gone:
                self.stopped = True
                return
            self.cluster.run(1)
        raise AssertionError("it does not leave")
