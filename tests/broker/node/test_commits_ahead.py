"""Commits that lie behind each other on a connection are one batch: in all else that can be seen as if one by one.

Two worlds that are alike are asked the same, one in runs whose requests know of the next, the other one by one.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.broker.context import Connection, RequestContext
from barnabas.broker.group.ahead import WAITING_MAX
from barnabas.broker.log.types import Isolation
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import ZERO_UUID, TopicPartition
from barnabas.protocol.records import decode_records
from barnabas.protocol.requests.offset_commit import OneCommitRequest
from tests.broker.node.test_commit_two_ways import NEVER, Side
from tests.broker.node.world import World

VERSION = 9
ONE_COMMIT = 130
"""Two such commits are larger than this, one is not."""

commits = st.lists(
    st.tuples(
        st.sampled_from(["simple", "simple", "classic", "modern", "nobody's"]),
        st.sampled_from(["", "member", "member", "member", "stranger"]),
        st.sampled_from(["t", "t", "t", "forbidden", "none"]),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=9,
)
steps = st.lists(
    st.one_of(
        commits,
        commits,
        commits,
        st.tuples(st.just("sync"), st.sampled_from([1, NEVER])),
        st.tuples(st.just("codec"), st.sampled_from([0, 1])),
        st.tuples(st.just("small"), st.sampled_from([80, ONE_COMMIT, 1_048_588])),
        st.tuples(st.just("full"), st.sampled_from([0, 1 << 40])),
        st.tuples(st.just("resign")),
        st.tuples(st.just("again")),
        st.tuples(st.just("advance"), st.sampled_from([1, 6000])),
    ),
    max_size=8,
)


class Asked(RequestContext):
    """A request of a run, and its answer."""

    def __init__(self, followed: bool) -> None:
        super().__init__(Connection(1, "PLAINTEXT", "127.0.0.1", "kafka", 0), 8, VERSION, "client")
        self._followed = followed
        self._ahead = False
        self.answer: Any = None

    @property
    def followed(self) -> bool:
        return self._followed

    def respond(self, response: Any) -> None:
        assert self.answer is None, "answered twice"
        self.answer = response

    def respond_ahead(self, response: Any) -> None:
        self._ahead = True
        self.respond(response)

    def respond_instead(self, response: Any) -> None:
        assert self._ahead
        self.answer = response

    def close(self, reason: str) -> None:
        raise AssertionError(reason)


class Runs(Side):
    """A world that is asked in runs, or one by one."""

    def __init__(self, together: bool) -> None:
        super().__init__(True)
        self.together = together
        self.asked: list[Asked] = []
        self.number = 0

    def run(self, some: list[tuple[Any, ...]]) -> None:
        core = self.world.core
        for count, (group, who, topic, index) in enumerate(some, 1):
            self.number += 1
            member_id, generation = self.members.get(group, ("m", -1)) if who == "member" else (who, -1)
            request = OneCommitRequest(
                group, generation, member_id, None, topic, ZERO_UUID, index, self.number, self.number % 3 - 1
            )
            asked = Asked(self.together and count < len(some))
            self.asked.append(asked)
            core.handle(request, asked, self.world.now_ms)
        assert not core.ahead, "who is followed by nobody leaves nothing to be written"
        self.world.settle()

    def told(self) -> dict[str, Any]:
        """All but how records lie in batches, and what is counted of batches."""
        core = self.world.core
        seen = {"offsets", "held", "holdings", "commits", "deadline"}
        found = {name: what for name, what in self.seen().items() if name in seen}
        return found | {
            "answers": [one.answer for one in self.asked],
            "records": {
                key.partition: [
                    (
                        record.offset,
                        record.timestamp,
                        record.key and bytes(record.key),
                        record.value and bytes(record.value),
                    )
                    for record in decode_records(log.read(0, 1 << 20, Isolation.LOG_END).records)
                ]
                for key, log in core.logs.logs.items()
                if key.topic == "__consumer_offsets" and log.log_end_offset
            },
        }


def batches_of(world: World) -> int:
    """How often something was appended for the coordinator."""
    partition = world.core.replicas.partition(TopicPartition("__consumer_offsets", 0))
    assert partition is not None
    return partition.stats.total_produces.count  # one for all of a topic


SIMPLE = ("simple", "", "t", 0)
TWO_SHARDS = [SIMPLE, ("classic", "member", "t", 1), SIMPLE, SIMPLE, ("classic", "member", "t", 2)]
REFUSED: list[Any] = [
    [SIMPLE, ("classic", "member", "t", 1)],
    TWO_SHARDS,
    ("full", 0),
    TWO_SHARDS,
]
TOO_LARGE: list[Any] = [[SIMPLE], ("small", ONE_COMMIT), [SIMPLE] * 3, ("small", 80), [SIMPLE] * 3]
LED_ELSEWHERE: list[Any] = [[SIMPLE], [SIMPLE, ("none", "", "t", 0), SIMPLE], ("resign",), [SIMPLE] * 2]
IN_DOUBT: list[Any] = [[SIMPLE], ("sync", 1), [SIMPLE] * 4, ("advance", 6000), ("sync", NEVER), [SIMPLE] * 2]


@given(steps)
@example(REFUSED)
@example(TOO_LARGE)
@example(LED_ELSEWHERE)
@example(IN_DOUBT)
@settings(max_examples=30)
def test_a_run_is_as_its_commits_one_by_one(taken: list[Any]) -> None:
    together, apart = Runs(True), Runs(False)
    for number, step in enumerate(taken):
        for side in (together, apart):
            if isinstance(step, list):
                side.run(step)
            else:
                side.do(number, step)
        assert together.told() == apart.told(), step


def test_a_run_is_one_batch_for_each_of_its_shards() -> None:
    side = Runs(True)
    side.run([SIMPLE])
    before = batches_of(side.world)
    side.run([SIMPLE] * 8)
    assert batches_of(side.world) == before + 1
    side.run([SIMPLE] * (2 * WAITING_MAX))
    assert batches_of(side.world) == before + 3


def test_a_run_that_the_log_refuses_as_one_is_tried_one_by_one() -> None:
    side = Runs(True)
    side.run([SIMPLE])
    side.do(0, ("small", ONE_COMMIT))
    side.run([SIMPLE] * 3)
    assert [one.answer.error_code for one in side.asked[1:]] == [0, 0, 0]
    side.do(0, ("small", 80))
    side.run([SIMPLE] * 2)
    assert [one.answer.error_code for one in side.asked[4:]] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    (group,) = [one for one in side.world.core.groups.groups() if one.group_id == "simple"]
    assert group.offsets[TopicPartition("t", 0)].offset == 4


def test_what_no_other_commit_follows_in_the_end_is_written_before_anything_leaves() -> None:
    """A request of a run that is not handled in the same event: the connection's turn was over."""
    side = Runs(True)
    side.run([SIMPLE])
    core = side.world.core
    asked = Asked(True)
    core.handle(OneCommitRequest("simple", -1, "", None, "t", ZERO_UUID, 0, 77, 0), asked, side.world.now_ms)
    assert len(core.ahead) == 1
    before = batches_of(side.world)
    core.wake(side.world.now_ms)
    assert (len(core.ahead), batches_of(side.world)) == (0, before + 1)


@pytest.mark.parametrize("fault", [OSError("the device is gone"), RuntimeError("a defect")])
def test_a_defect_ends_no_other_answer(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    side = Runs(True)
    side.run([SIMPLE])
    shard = side.world.core.groups.shard_of("simple")

    def fails(*given: Any) -> bool:
        raise fault

    monkeypatch.setattr(type(shard), "append", fails)
    monkeypatch.setattr(type(shard), "write_replayed", lambda *given: False)
    side.run([SIMPLE] * 2)
    assert [one.answer.error_code for one in side.asked[1:]] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
