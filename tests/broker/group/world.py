"""One shard on a log of lists, under a virtual clock, and members that remember what they were told."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from barnabas.broker.config import BrokerConfig
from barnabas.broker.context import Connection, RequestContext
from barnabas.broker.group.consumer.hashing import topic_hash
from barnabas.broker.group.counts import Counts
from barnabas.broker.group.group import Group
from barnabas.broker.group.joining import join
from barnabas.broker.group.loading import activate
from barnabas.broker.group.offsets import commit
from barnabas.broker.group.rebalance import DELAY_MS_MIN
from barnabas.broker.group.records import decode
from barnabas.broker.group.reply import Reply
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.shared import Shared
from barnabas.broker.group.state import GroupState, Status
from barnabas.broker.group.syncing import heartbeat, leave, sync
from barnabas.broker.group.values import Commit, Committer, CoordinatorRecord, StoredGroup
from barnabas.broker.jobs import Job
from barnabas.explain.stage import CountingEntropy
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import Buffer, TopicPartition
from barnabas.protocol.records import decode_records
from barnabas.protocol.requests.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.requests.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.protocol.requests.leave_group import MemberIdentity
from barnabas.protocol.requests.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

START_WALL_MS = 1_700_000_000_000
OFFSETS = TopicPartition("__consumer_offsets", 0)


class Told:
    """What became of one request."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    @property
    def waits(self) -> bool:
        return not self.answers

    @property
    def response(self) -> Any:
        assert len(self.answers) == 1, f"answered {len(self.answers)} times"
        return self.answers[0]

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.response.error_code)


class _Context(RequestContext):
    def __init__(self, connection: Connection, api_key: int, version: int, client_id: str, told: Told) -> None:
        super().__init__(connection, api_key, version, client_id)
        self._told = told

    def respond(self, response: Any) -> None:
        self._told.answers.append(response)
        assert len(self._told.answers) == 1, "answered twice"

    def close(self, reason: str) -> None:
        raise AssertionError(reason)


class Journal:
    """A log of lists; `fault` refuses what is written, `lags` keeps the high watermark where it is."""

    def __init__(self) -> None:
        self.records: list[tuple[Buffer | None, Buffer | None]] = []
        self.batches = 0
        self.high_watermark = 0
        self.batch_bytes_max = 1_048_588
        self.fault: ErrorCode | None = None
        self.lags = False
        self.listens = False

    @property
    def commits_at_once(self) -> bool:
        return not self.lags

    def write(self, batch: Buffer, wall_ms: int, now_ms: int) -> int:
        if self.fault is not None:
            raise KafkaError(self.fault, "as the test wants it")
        if len(batch) > self.batch_bytes_max:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "too large")
        self.records += [(record.key, record.value) for record in decode_records(batch)]
        self.batches += 1
        if not self.lags:
            self.high_watermark = len(self.records)
        return len(self.records)

    def listen(self, listens: bool) -> None:
        """A test says itself that the high watermark rose."""
        self.listens = listens

    def give_up(self, offset: int) -> bool:
        """There is no other replica."""
        return False

    def decoded(self) -> list[CoordinatorRecord]:
        return [decode(key, value) for key, value in self.records]


class FakeTopics:
    """Topics by name; `have` makes one, or lets it grow."""

    def __init__(self) -> None:
        self.version = 0
        self._topics: dict[str, tuple[bytes, int]] = {}

    def have(self, name: str, partitions: int) -> bytes:
        self.version += 1
        topic_id = f"{name}-{self.version}".encode().ljust(16, b".")[:16]
        topic_id, _ = self._topics.get(name, (topic_id, 0))
        self._topics[name] = (topic_id, partitions)
        return topic_id

    def changed(self) -> None:
        self.version += 1

    def lose(self, name: str) -> None:
        self.version += 1
        del self._topics[name]

    def get(self, name: str) -> tuple[bytes, int] | None:
        return self._topics.get(name)

    def name_of(self, topic_id: bytes) -> str | None:
        return next((name for name, (one, _) in self._topics.items() if one == topic_id), None)

    def names(self) -> Iterable[str]:
        return self._topics

    def hash_of(self, name: str) -> int:
        topic_id, partitions = self._topics[name]
        return topic_hash(name, topic_id, partitions)


class World:
    """One active shard. `now_ms` is moved by `advance` alone; the time of day was set forward by `set_ms`.

    Where there is no initial delay a request takes as long as one has at least: who comes alone is answered at once.
    """

    def __init__(self, **settings: Any) -> None:
        self.now_ms = 1_000_000
        self.set_ms = 0
        self.config = BrokerConfig(**settings)
        self.step_ms = 0 if self.config.group_initial_rebalance_delay_ms else DELAY_MS_MIN
        self.journal = Journal()
        self.topics = FakeTopics()
        self.group_settings: dict[str, dict[str, str]] = {}
        self.entropy = CountingEntropy()
        self.connections = itertools.count(1)
        self.waiting: list[Told] = []
        self.held_jobs: list[tuple[Job[None], Callable[[Exception | None], None]]] | None = None
        """Jobs that wait for `go_on`, where this is a list."""
        self.shard = self._new_shard()
        self.shard.status = Status.ACTIVE

    class _Wall:
        def __init__(self, world: World) -> None:
            self._world = world

        def now_ms(self) -> int:
            return self._world.wall_ms

    @property
    def wall_ms(self) -> int:
        return START_WALL_MS + self.set_ms + self.now_ms - 1_000_000

    def _overrides(self, group_id: str) -> dict[str, str]:
        return self.group_settings.get(group_id, {})

    def _run(self, job: Job[None], ended: Callable[[Exception | None], None]) -> None:
        """Jobs end at once here, unless they are held."""
        if self.held_jobs is not None:
            self.held_jobs.append((job, ended))
            return
        for _ in job:
            pass
        ended(None)

    def go_on(self) -> None:
        """End the jobs that were held."""
        held, self.held_jobs = self.held_jobs or [], None
        for one in held:
            self._run(*one)

    def _new_shard(self) -> Shard:
        shared = Shared(
            self.config, World._Wall(self), self.entropy, Counts(), self.topics, self._overrides, self._run, self.now_ms
        )
        return Shard(OFFSETS, 1, self.journal, shared)

    # Time

    def advance(self, ms: int) -> None:
        """Let time pass, alarm by alarm."""
        end = self.now_ms + ms
        alarms = self.shard.shared.alarms
        while (due := alarms.timer.next_deadline_ms()) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            alarms.advance(self.now_ms)
        self.now_ms = alarms.now_ms = end

    def until(self, *told: Told) -> None:
        """Let time pass until all of these are answered."""
        for _ in range(10_000):
            if not any(one.waits for one in told):
                return
            self.advance(100)
        raise AssertionError("they wait for ever")

    def settle(self) -> None:
        """Ring what is due, `step_ms` after what was asked."""
        self.advance(self.step_ms)

    def restart(self) -> None:
        """Another leader reads the log; nothing of this one is left."""
        self.shard = self._new_shard()
        for record in self.journal.decoded():
            self.shard.replay(record)
        self.shard.end = len(self.journal.records)
        for _ in activate(self.shard, self.now_ms):
            pass

    # Requests

    def _reply(self, key: ApiKey, version: int, failure: Any, client: str, host: str) -> tuple[Told, Reply]:
        told = Told()
        connection = Connection(next(self.connections), "PLAINTEXT", host, "kafka", self.now_ms)
        return told, Reply(_Context(connection, key, version, client, told), failure)

    def join(
        self,
        member_id: str = "",
        group: str = "g",
        *,
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (("range", b""),),
        protocol_type: str = "test",
        session_ms: int = 10_000,
        rebalance_ms: int = 30_000,
        version: int = 9,
        client: str = "c",
        host: str = "10.0.0.1",
    ) -> Told:
        told, reply = self._reply(
            ApiKey.JOIN_GROUP, version, lambda code: JoinGroupResponse(error_code=code), client, host
        )
        request = JoinGroupRequest(
            group,
            session_ms,
            rebalance_ms,
            member_id,
            instance,
            protocol_type,
            [JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols],
        )
        return self._ask(told, reply, lambda: join(self.shard, request, reply, self.now_ms))

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        group: str = "g",
        instance: str | None = None,
    ) -> Told:
        told, reply = self._reply(
            ApiKey.SYNC_GROUP, 5, lambda code: SyncGroupResponse(error_code=code), "c", "10.0.0.1"
        )
        given = [SyncGroupRequestAssignment(*each) for each in (assignments or {}).items()]
        request = SyncGroupRequest(group, generation, member_id, instance, None, None, given)
        return self._ask(told, reply, lambda: sync(self.shard, request, reply, self.now_ms))

    def heartbeat(self, member_id: str, generation: int, group: str = "g", instance: str | None = None) -> ErrorCode:
        told, reply = self._reply(ApiKey.HEARTBEAT, 4, lambda code: HeartbeatResponse(error_code=code), "c", "10.0.0.1")
        request = HeartbeatRequest(group, generation, member_id, instance)
        return self._ask(told, reply, lambda: heartbeat(self.shard, request, reply, self.now_ms)).error

    def leave(self, *members: str, group: str = "g", instance: str | None = None) -> list[int]:
        leaving = [MemberIdentity(member, instance) for member in members]
        told = leave(self.shard, group, leaving, self.now_ms)
        self.settle()
        return [one.error_code for one in told]

    def commit(
        self,
        offsets: dict[int, int],
        group: str = "g",
        member_id: str = "",
        generation: int = -1,
        *,
        version: int = 9,
        metadata: str = "",
        host: str = "10.0.0.1",
        topic: str = "t",
        retention_ms: int = -1,
    ) -> dict[int, int]:
        by = Committer(group, generation, member_id, None, host, version)
        commits = [Commit(TopicPartition(topic, number), offset, 0, metadata) for number, offset in offsets.items()]
        codes = commit(self.shard, by, commits, retention_ms, self.now_ms)
        return {key.partition: code for key, code in codes.items()}

    def _ask(self, told: Told, reply: Reply, ask: Any) -> Told:
        self.waiting.append(told)
        try:
            ask()
        except KafkaError as fault:
            reply.refuse(fault.code)
        self.settle()
        return told

    # Looking

    @property
    def group(self) -> Group:
        group = self.shard.groups["g"]
        assert isinstance(group, Group)
        return group

    @property
    def groups(self) -> list[Group]:
        """All groups, which are classic ones."""
        found = [group for group in self.shard.groups.values() if isinstance(group, Group)]
        assert len(found) == len(self.shard.groups)
        return found

    @property
    def state(self) -> GroupState:
        return self.group.state

    def join_twice(self, **options: Any) -> tuple[str, Told]:
        """A dynamic member as clients do it: the id first, then with it."""
        first = self.join(**options)
        assert first.error == ErrorCode.MEMBER_ID_REQUIRED
        member_id = first.response.member_id
        return member_id, self.join(member_id, **options)

    def stable(self, count: int, **options: Any) -> tuple[list[str], int]:
        """A stable group of so many dynamic members; their ids, the leader first, and the generation."""
        joins = [self.join_twice(**options) for _ in range(count)]
        self.until(*(told for _, told in joins))
        responses = [told.response for _, told in joins]
        generation = responses[0].generation_id
        leader = responses[0].leader
        ids = sorted((member_id for member_id, _ in joins), key=lambda one: one != leader)
        group = options.get("group", "g")
        syncs = [self.sync(one, generation, group=group) for one in ids[1:]]
        syncs.append(self.sync(leader, generation, {one: one.encode() for one in ids}, group=group))
        assert [one.error for one in syncs] == [0] * count
        return ids, generation


def durable(shard: Shard) -> dict[str, tuple[StoredGroup, dict[TopicPartition, Any]]]:
    """What of a shard's groups is in the log."""
    found = {}
    for group_id, group in shard.groups.items():
        assert isinstance(group, Group)
        assignments = {one.member_id: one.assignment for one in group.members.values()}
        found[group_id] = (group.stored(assignments, group.state_since_ms), dict(group.offsets))
    return found
