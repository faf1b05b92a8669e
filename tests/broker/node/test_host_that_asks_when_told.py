"""A host that asks what is due next only where the core says so serves everybody when one does that asks always."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from barnabas.broker.context import Connection, RequestContext
from barnabas.protocol.requests.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.requests.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.protocol.requests.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.requests.heartbeat import HeartbeatRequest
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.requests.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.requests.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.node.group_world import commit_request
from tests.broker.node.world import Answer, World, batch

_TOPIC = 2
_SETTINGS = [("retention.ms", "1000"), ("flush.ms", "200"), ("flush.messages", "1"), ("segment.ms", "1000")]


class Hosted(World):
    """Is driven as a host does it: jobs when they wait, time by one timer, armed anew when the core may be earlier."""

    asks_always = False

    def __init__(self, **settings: Any) -> None:
        self._armed_ms: int | None = None
        super().__init__(**settings)

    def _arm(self) -> None:
        if self.asks_always or self.core.rescheduled:
            due_ms = self.core.next_deadline_ms()
            if due_ms is not None and (self._armed_ms is None or due_ms < self._armed_ms):
                self._armed_ms = due_ms

    def step(self) -> bool:
        worked = self._jobs_came
        if worked:
            self._jobs_came = self.core.run_job_step(self.now_ms)
        if self.disk.deliver():
            worked = True
            self.core.wake(self.now_ms)
        self._arm()
        if self._armed_ms is not None and self._armed_ms <= self.now_ms:
            self._armed_ms = None
            self.core.tick(self.now_ms)
            self._arm()
            worked = True
        return worked or self._jobs_came

    def advance(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        self.settle()
        while self._armed_ms is not None and self._armed_ms <= end_ms:
            self.now_ms = max(self.now_ms, self._armed_ms)
            self.settle()
        self.now_ms = end_ms
        self.settle()

    def serve(self, request: Any, context: RequestContext) -> None:
        self.core.handle(request, context, self.now_ms)
        self._arm()


class AsksAlways(Hosted):
    asks_always = True


def _play(world: Hosted, seed: int) -> list[tuple[str, int, str]]:
    """What was asked, when it was answered, and with what."""
    chance = random.Random(seed)
    world.create("t", 30)
    world.create("u", 3)
    for group in ("g", "h"):
        world.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4)
    told: list[tuple[str, Answer]] = []
    member, epoch = "", 0

    def fetch(connection: Connection) -> Answer:
        offsets = {(chance.choice("tu"), number): chance.randrange(6) for number in range(chance.choice([1, 2, 3]))}
        if not chance.randrange(4):
            offsets = {("t", number): chance.randrange(6) for number in range(30)}
        return world.fetch(offsets, wait_ms=chance.choice([1, 7, 100, 500, 3000, 50_000]), connection=connection)

    def produce(connection: Connection) -> Answer:
        key = chance.choice("tu"), chance.randrange(3)
        timeout_ms = chance.choice([3, 1000, 30_000])
        return world.produce({key: batch(b"v")}, acks=chance.choice([1, -1]), timeout_ms=timeout_ms)

    def delete(connection: Connection) -> Answer:
        parts = [DeleteRecordsPartition(chance.randrange(3), chance.choice([-1, 0, 1]))]
        return world.send(DeleteRecordsRequest([DeleteRecordsTopic("t", parts)], chance.choice([50, 5000])), 2)

    def join(connection: Connection) -> Answer:
        nonlocal member
        session_ms, rebalance_ms = chance.choice([6000, 30_000]), chance.choice([1000, 60_000])
        protocols = [JoinGroupRequestProtocol("range", b"m")]
        known = chance.choice(["", member])
        answer = world.send(JoinGroupRequest("g", session_ms, rebalance_ms, known, None, "consumer", protocols), 5)
        member = answer.response.member_id if answer.done else known or member
        return answer

    def sync(connection: Connection) -> Answer:
        given = [SyncGroupRequestAssignment(member, b"a")]
        return world.send(SyncGroupRequest("g", chance.randrange(1, 4), member, assignments=given), 3)

    def beat(connection: Connection) -> Answer:
        return world.send(HeartbeatRequest("g", chance.randrange(1, 4), member), 3)

    def consume(connection: Connection) -> Answer:
        nonlocal epoch
        rebalance_ms = chance.choice([1000, 60_000])
        name = f"member-{chance.randrange(3):016}"
        asked = epoch if chance.randrange(3) else 0
        request = ConsumerGroupHeartbeatRequest("h", name, asked, None, None, rebalance_ms, ["t"], None, None, [])
        answer = world.send(request, 0)
        if answer.done:
            epoch = max(answer.response.member_epoch, 0)
        return answer

    def commit(connection: Connection) -> Answer:
        return world.send(commit_request({chance.randrange(3): chance.randrange(100)}, "k"), 8)

    def alter(connection: Connection) -> Answer:
        key, value = chance.choice(_SETTINGS)
        resource = AlterConfigsResource(_TOPIC, chance.choice("tu"), [AlterableConfig(key, 0, value)])
        return world.send(IncrementalAlterConfigsRequest([resource]), 1)

    ways = [fetch, fetch, fetch, produce, produce, produce, delete, join, sync, beat, consume, commit, alter]
    for number in range(100):
        connection = Connection(10_000 + number, "PLAINTEXT", "127.0.0.1", "kafka", world.now_ms)
        way = chance.choice(ways)
        told.append((way.__name__, way(connection)))
        if not chance.randrange(10):
            world.core.disconnected(connection)
        if chance.randrange(3):
            world.advance(chance.choice([0, 1, 5, 20, 250, 1000, 7000]))
    world.advance(400_000)
    return [(way, answer.at_ms, re.sub("0x[0-9a-f]+", "", repr(answer.response))) for way, answer in told]


@pytest.mark.parametrize("seed", [0])
def test_a_host_that_asks_when_told_serves_as_one_that_asks_always(seed: int) -> None:
    settings = {
        "offsets_topic_num_partitions": 2,
        "group_initial_rebalance_delay_ms": 300,
        "fetch_purgatory_purge_interval_requests": 2,
        "barnabas_group_gather_ms": 5,
    }
    assert _play(Hosted(**settings), seed) == _play(AsksAlways(**settings), seed)


def test_what_was_due_when_a_room_failed_is_done_after_the_next_event() -> None:
    """A tick that failed armed no other, and nothing was due earlier than what was: nobody was told the time again."""
    world = Hosted()
    world.create("t")

    class Fails:
        def tick(self, now_ms: int) -> None:
            world.core.timed.remove(self)
            raise MemoryError

        def next_deadline_ms(self) -> int | None:
            return None

    waits = world.fetch({("t", 0): 0}, wait_ms=500)
    world.core.timed.insert(0, Fails())
    with pytest.raises(MemoryError):
        world.advance(500)
    world.fetch({("t", 0): 0}, wait_ms=60_000)
    world.advance(500)
    assert waits.at_ms == 500
