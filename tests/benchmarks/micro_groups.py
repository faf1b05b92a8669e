"""What a large group costs the broker, step by step, in µs of CPU: the rows `groups` of `micro`.

A generation of a thousand members begins in one event, that of the last who joins, and is stable in another, that of
its leader's SyncGroup. Each is a step of the loop.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.group.group import Group
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.requests.heartbeat import HeartbeatRequest
from barnabas.protocol.requests.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.requests.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.benchmarks import frames

if TYPE_CHECKING:
    from tests.benchmarks.micro import Bench

MEMBERS: Final = 1000
GROUP: Final = "large"

Row = tuple[str, float]
Best = Callable[..., float]


def _frame(api_key: int, version: int, request: Any) -> bytes:
    return b"".join(map(bytes, codec.encode_request(api_key, version, 1, "bench", request)))


def _join(member_id: str) -> bytes:
    subscription = struct.pack(">hih5si", 0, 1, 5, b"small", -1)
    protocols = [JoinGroupRequestProtocol("range", subscription)]
    return _frame(11, 3, JoinGroupRequest(GROUP, 30_000, 60_000, member_id, None, "consumer", protocols))


def _us(step: Callable[[], Any]) -> float:
    start = time.thread_time_ns()
    step()
    return (time.thread_time_ns() - start) / 1000


def rows(bench: Bench, best_us: Best) -> Iterator[Row]:
    """A commit, and a heartbeat of either protocol; then the steps of a large generation."""
    bench.core.config.group_initial_rebalance_delay_ms = 0
    channel = bench.channel()
    for name in ("small", "modern", GROUP):
        bench.event(channel, frames.find_coordinator(name))
    commit = frames.offset_commit("small", "small")
    bench.event(channel, commit)
    yield "commit: event of 1", best_us(partial(bench.event, channel, commit), 500)
    yield "commit: event of 8, each", best_us(partial(bench.event, channel, commit * 8), 100, 8)
    first = ConsumerGroupHeartbeatRequest("modern", "m", 0, rebalance_timeout_ms=60_000, topic_partitions=[])
    first.subscribed_topic_names = ["small"]
    bench.event(channel, _frame(68, 1, first))
    bench.rest(channel)
    beat = _frame(68, 1, ConsumerGroupHeartbeatRequest("modern", "m", 2))
    yield "heartbeat, consumer: event", best_us(partial(bench.event, channel, beat), 500)
    yield from _generation(bench, best_us)


def _generation(bench: Bench, best_us: Best) -> Iterator[Row]:
    channels = [bench.channel() for _ in range(MEMBERS)]
    bench.event(channels[0], _join(""))
    bench.rest(channels[0])
    group = next(one for one in bench.core.groups.groups() if one.group_id == GROUP)
    assert isinstance(group, Group)
    (first,) = group.members
    bench.event(channels[0], _sync(group.generation, first, []))
    joins = [_us(partial(bench.event, channel, _join(""))) for channel in channels[1:]]
    yield f"join that waits, the last hundred of {MEMBERS:,}", sum(joins[-100:]) / 100
    yield f"last join of {MEMBERS:,}: event", _us(partial(bench.event, channels[0], _join(first)))
    for channel in channels:
        bench.rest(channel)
    syncs = [_sync(group.generation, one, []) for one in list(group.members)[1:]]
    asked = [_us(partial(bench.event, *each)) for each in zip(channels[1:], syncs, strict=True)]
    yield "sync that waits", sum(asked) / len(asked)
    shares = [SyncGroupRequestAssignment(one, bytes(24)) for one in group.members]
    leader = _sync(group.generation, first, shares)
    yield f"leader's sync of {MEMBERS:,}: event", _us(partial(bench.event, channels[0], leader))
    for channel in channels:
        bench.rest(channel)
    beat = _frame(12, 3, HeartbeatRequest(GROUP, group.generation, first))
    yield f"heartbeat, classic, one of {MEMBERS:,}: event", best_us(partial(bench.event, channels[0], beat), 500)


def _sync(generation: int, member_id: str, shares: list[SyncGroupRequestAssignment]) -> bytes:
    return _frame(14, 3, SyncGroupRequest(GROUP, generation, member_id, assignments=shares))
