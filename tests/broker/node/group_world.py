"""What tests of groups through a whole core share: a world with a coordinator, and requests that are asked at once."""

from __future__ import annotations

from typing import Any

from barnabas.broker.group.rebalance import DELAY_MS_MIN
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.requests.heartbeat import HeartbeatRequest
from barnabas.protocol.requests.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.requests.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.requests.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from barnabas.protocol.requests.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.node.world import Answer, World

PARTITIONS = 5


def world_with_coordinator(**settings: Any) -> World:
    world = World(offsets_topic_num_partitions=PARTITIONS, group_initial_rebalance_delay_ms=0, **settings)
    world.create("t", 3)
    find(world)
    assert find(world).error_code == 0
    return world


def find(world: World, group: str = "g") -> Any:
    return world.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4).coordinators[0]


def join(world: World, member_id: str = "", group: str = "g", version: int = 5) -> Answer:
    protocols = [JoinGroupRequestProtocol("range", b"m")]
    return world.send(JoinGroupRequest(group, 10_000, 60_000, member_id, None, "test", protocols), version)


def member(world: World, group: str = "g") -> tuple[str, int]:
    """A stable group of one."""
    told = join(world, group=group, version=3)
    world.advance(DELAY_MS_MIN)
    member_id, generation = told.response.member_id, told.response.generation_id
    given = [SyncGroupRequestAssignment(member_id, b"a")]
    assert world.ask(SyncGroupRequest(group, generation, member_id, assignments=given), 3).assignment == b"a"
    return member_id, generation


def heartbeat(world: World, member_id: str, generation: int, group: str = "g") -> int:
    return int(world.ask(HeartbeatRequest(group, generation, member_id), 3).error_code)


def commit_request(offsets: dict[int, int], group: str = "g", topic: str = "t") -> OffsetCommitRequest:
    parts = [OffsetCommitRequestPartition(number, offset) for number, offset in offsets.items()]
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, partitions=parts)])


def commit(world: World, offsets: dict[int, int], group: str = "g", topic: str = "t") -> dict[int, int]:
    response = world.ask(commit_request(offsets, group, topic), 8)
    return {one.partition_index: one.error_code for one in response.topics[0].partitions}


def committed(world: World, group: str = "g", topics: list[Any] | None = None, version: int = 8) -> Any:
    """All that a group has committed, or its error."""
    told = world.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)]), version).groups[0]
    if told.error_code:
        return ErrorCode(told.error_code)
    return {(one.name, part.partition_index): part.committed_offset for one in told.topics for part in one.partitions}


def work(world: World) -> None:
    """All jobs, as far as they come without the disk."""
    while world.core.run_job_step(world.now_ms):
        pass
