"""A later commit of one partition has a shorter way through the broker: in all that can be seen it is the longer one.

Two worlds that are alike are asked the same, one as the wire's shorter way decodes it, the other as anything else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.broker.group import offsets
from barnabas.broker.log.types import Isolation
from barnabas.protocol.api import ApiKey
from barnabas.protocol.ids import ZERO_UUID, TopicPartition
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.requests.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OneCommitRequest,
)
from tests.broker.node.group_world import PARTITIONS, heartbeat, join, member, world_with_coordinator
from tests.broker.node.world import Answer

NEVER = 2**63 - 1
GROUPS = ("simple", "classic", "modern", "nobody's", "forbidden group", "")
TOPICS = ("t", "forbidden", "none")

commits = st.tuples(
    st.just("commit"),
    st.sampled_from([*GROUPS, "simple", "classic", "modern"]),
    st.sampled_from(["", "member", "member", "stranger"]),
    st.sampled_from([-1, 0, 0, 0, 1, -2]),
    st.sampled_from([*TOPICS, "t", "t"]),
    st.sampled_from([0, 0, 1, 7]),
    st.sampled_from(["", "", "", "said"]),
    st.integers(6, 10),
)
"""Group, member, generation beside that of the member, topic, partition, metadata, version."""
steps = st.lists(
    st.one_of(
        commits,
        commits,
        commits,
        commits,
        st.tuples(st.just("rejoin")),
        st.tuples(st.just("beat")),
        st.tuples(st.just("again")),
        st.tuples(st.just("sync"), st.sampled_from([1, NEVER])),
        st.tuples(st.just("codec"), st.sampled_from([0, 1])),
        st.tuples(st.just("small"), st.sampled_from([80, 1_048_588])),
        st.tuples(st.just("full"), st.sampled_from([0, 1 << 40])),
        st.tuples(st.just("resign")),
        st.tuples(st.just("advance"), st.sampled_from([1, 6000, 100_000])),
    ),
    max_size=16,
)


class Side:
    """One of the two worlds, and all that was answered in it."""

    def __init__(self, flat: bool) -> None:
        self.flat = flat
        self.world = world_with_coordinator()
        self.world.create("forbidden", 1)
        self.answers: list[tuple[int, Answer]] = []
        self.beats: list[int] = []
        self.members = {"classic": member(self.world, "classic")}
        first = ConsumerGroupHeartbeatRequest("modern", "modern-member", 0, rebalance_timeout_ms=60_000)
        first.topic_partitions, first.subscribed_topic_names = [], ["t"]
        self.members["modern"] = "modern-member", self.world.ask(first, 1).member_epoch
        self.world.core.services.authorise = lambda principal, operation, resource: "forbidden" not in resource.name

    def do(self, number: int, step: tuple[Any, ...]) -> None:
        kind, *what = step
        world = self.world
        logs = [world.core.logs.logs[TopicPartition("__consumer_offsets", index)] for index in range(PARTITIONS)]
        if kind == "commit":
            self._commit(number, *what)
        elif kind == "rejoin":
            join(world, self.members["classic"][0], "classic")
        elif kind == "beat":
            self.beats.append(heartbeat(world, *self.members["classic"], "classic"))
        elif kind == "again":
            world.disk.capacity = None
            world.delete("t")
            world.create("t", 3)
        elif kind == "sync":
            for log in logs:
                log.configure(replace(log.config, flush_messages=what[0]))
        elif kind == "small":
            for log in logs:
                log.configure(replace(log.config, max_message_bytes=what[0]))
        elif kind == "codec":
            world.core.config.offsets_topic_compression_codec = what[0]
        elif kind == "resign":
            for index in range(PARTITIONS):
                world.core.groups.resigned(index)
        elif kind == "full":
            world.disk.capacity = world.disk.used + what[0]
        else:
            world.advance(what[0])

    def _commit(
        self, number: int, group: str, who: str, beside: int, topic: str, index: int, metadata: str, version: int
    ) -> None:
        member_id, generation = self.members.get(group, ("m", -1)) if who == "member" else (who, -1)
        known = self.world.core.image.topics.get(topic)
        topic_id = ZERO_UUID if version < 10 else b"\x01" * 16 if known is None else known.topic_id
        name = topic if version < 10 else ""
        part = OffsetCommitRequestPartition(index, number, number % 3 - 1, metadata)
        asked: Any = OffsetCommitRequest(
            group, generation + beside, member_id, None, -1, [OffsetCommitRequestTopic(name, topic_id, [part])]
        )
        if self.flat and not metadata:
            flat = OneCommitRequest(
                group, generation + beside, member_id, None, name, topic_id, index, number, number % 3 - 1
            )
            assert flat == asked
            asked = flat
        self.answers.append((version, self.world.send(asked, version)))

    def seen(self) -> dict[str, Any]:
        """All that can be seen of this world from outside and from within."""
        core = self.world.core
        return {
            "answers": [(one.count, one.response, one.at_ms, one.closed) for _, one in self.answers],
            "frames": [self._frame(version, one) for version, one in self.answers],
            "beats": self.beats,
            "offsets": {group.group_id: dict(group.offsets) for group in core.groups.groups()},
            "held": {index: shard.held for index, shard in core.groups.shards.items()},
            "holdings": (core.groups.shared.holdings.total, core.groups.shared.holdings.by_address),
            "commits": core.groups.shared.counts.commits,
            "snapshot": core.snapshot(self.world.now_ms),
            "deadline": core.next_deadline_ms(),
            "metrics": list(core.registry.collect(self.world.now_ms)),
            "logs": {
                str(key): bytes(log.read(log.log_start_offset, 1 << 20, Isolation.LOG_END).records)
                for key, log in core.logs.logs.items()
                if log.log_end_offset > log.log_start_offset
            },
        }

    @staticmethod
    def _frame(version: int, answer: Answer) -> bytes | None:
        """The answer as bytes, which laid flat and written out say the same."""
        told = answer.response
        if told is None:
            return None
        frame = b"".join(codec.encode_response(ApiKey.OFFSET_COMMIT, version, 9, told))
        nested = OffsetCommitResponse(told.throttle_time_ms, list(told.topics))
        assert b"".join(codec.encode_response(ApiKey.OFFSET_COMMIT, version, 9, nested)) == frame
        return frame


def both(taken: list[tuple[Any, ...]]) -> tuple[Side, Side]:
    flat, nested = Side(True), Side(False)
    for number, step in enumerate(taken):
        flat.do(number, step)
        nested.do(number, step)
        assert flat.seen() == nested.seen(), step
    return flat, nested


def test_every_commit_alone_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of commit twice: the second finds an offset, and goes the shorter way where there is one."""
    short: list[bool] = []
    again = offsets.commit_again

    def counted(*given: Any) -> bool:
        short.append(again(*given))
        return short[-1]

    monkeypatch.setattr("barnabas.broker.handlers.offset_commit.commit_again", counted)
    taken: list[tuple[Any, ...]] = []
    for version in range(6, 11):
        for group in GROUPS:
            for topic in TOPICS:
                for who, beside in (("member", 0), ("", 0), ("member", 1), ("member", -1), ("stranger", 0)):
                    taken += [("commit", group, who, beside, topic, 1, "", version)] * 2
                taken += [("commit", group, "member", 0, topic, 1, metadata, version) for metadata in ("said", "")]
    flat, nested = Side(True), Side(False)
    for number, step in enumerate(taken):
        flat.do(number, step)
        nested.do(number, step)
        answers = flat.answers[-1][1].response, nested.answers[-1][1].response
        assert answers[0] == answers[1], step
    assert flat.seen() == nested.seen()
    assert short.count(True) > 20


IN_DOUBT: list[tuple[Any, ...]] = [
    *[("commit", "simple", "", 0, "t", 0, "", 8)] * 2,
    ("sync", 1),
    *[("commit", "simple", "", 0, "t", 0, "", 8)] * 3,
    ("advance", 6000),
]
"""Answers wait for the disk."""
REFUSED: list[tuple[Any, ...]] = [
    *[("commit", "classic", "member", 0, "t", 0, "", 9)] * 2,
    ("small", 80),
    ("commit", "classic", "member", 0, "t", 0, "", 9),
    ("small", 1_048_588),
    ("full", 0),
    *[("commit", "classic", "member", 0, "t", 0, "", 9)] * 2,
]


@given(steps)
@example(IN_DOUBT)
@example(REFUSED)
@settings(max_examples=40)
def test_what_comes_in_any_order(taken: list[tuple[Any, ...]]) -> None:
    flat, nested = both(taken)
    for side in (flat, nested):
        side.do(0, ("full", 1 << 40))
        side.do(0, ("advance", 40_000))
    assert flat.seen() == nested.seen()
