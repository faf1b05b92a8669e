"""Commits that lie behind each other on a connection are one batch: in all else that can be seen as if one by one.

Two worlds that are alike are asked the same, one in runs whose requests know of the next, the other one by one.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.broker.context import Connection, RequestContext
from barnabas.broker.group import offsets
from barnabas.broker.group.ahead import WAITING_MAX
from barnabas.broker.log.types import Isolation
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import ZERO_UUID, TopicPartition
from barnabas.protocol.kafka import codec, commit_again
from barnabas.protocol.records import decode_records
from barnabas.protocol.requests.offset_commit import OffsetCommitRequest, OneCommitRequest
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


@pytest.fixture(autouse=True)
def forget() -> None:
    """The codec knows the shorter way, and no commit's bytes."""
    codec.decode_request(memoryview(b"".join(codec.encode_request(8, VERSION, 1, "client", OffsetCommitRequest())))[4:])
    for table in commit_again._tables.values():
        table.clear()


CONNECTION = Connection(1, "PLAINTEXT", "127.0.0.1", "kafka", 0)


class Asked(RequestContext):
    """A request of a run, and the answers that were made with it: its own, and those to the requests behind it."""

    def __init__(self, behind: memoryview, connection: Connection = CONNECTION) -> None:
        super().__init__(connection, 8, VERSION, "client")
        self.behind = behind
        self._ahead = False
        self.answers: list[Any] = []

    @property
    def followed(self) -> bool:
        return bool(self.behind)

    def respond(self, response: Any) -> None:
        assert not self.answers, "answered twice"
        self.answers.append(response)

    def respond_ahead(self, response: Any) -> None:
        self._ahead = True
        self.respond(response)

    def take_behind(self, read: Any) -> list[Any]:
        assert self._ahead
        found, size = read(self.behind)
        self.behind = self.behind[size:]
        self.answers += [self.answers[0] for _ in found]
        return list(found)

    def respond_instead(self, response: Any, number: int = 0) -> None:
        assert self._ahead
        self.answers[number] = response

    def close(self, reason: str) -> None:
        raise AssertionError(reason)


class Runs(Side):
    """A world that is asked in runs, or one by one."""

    def __init__(self, together: bool) -> None:
        super().__init__(True)
        self.together = together
        self.asked: list[Asked] = []
        self.number = 0

    def commit(self, group: str, who: str, topic: str, index: int) -> bytes:
        """The next commit's frame."""
        self.number += 1
        member_id, generation = self.members.get(group, ("m", -1)) if who == "member" else (who, -1)
        request = OneCommitRequest(
            group, generation, member_id, None, topic, ZERO_UUID, index, self.number, self.number % 3 - 1
        )
        return b"".join(map(bytes, codec.encode_request(8, VERSION, self.number, "client", request)))

    def run(self, some: list[tuple[Any, ...]]) -> None:
        frames = [self.commit(*one) for one in some]
        for data in [b"".join(frames)] if self.together else frames:
            self.receive(memoryview(data))
        assert not self.world.core.ahead, "who is followed by nobody leaves nothing to be written"
        self.world.settle()

    def receive(self, data: memoryview, connection: Connection = CONNECTION) -> None:
        """Serve the requests that came together."""
        while data:
            end = 4 + int.from_bytes(data[:4], "big")
            _, request = codec.decode_request(data[4:end])
            asked = Asked(data[end:], connection)
            self.asked.append(asked)
            self.world.core.handle(request, asked, self.world.now_ms)
            data = asked.behind

    @property
    def replies(self) -> list[Any]:
        return [answer for one in self.asked for answer in one.answers or [None]]

    def told(self) -> dict[str, Any]:
        """All but how records lie in batches, and what is counted of batches."""
        core = self.world.core
        seen = {"offsets", "held", "holdings", "commits", "deadline"}
        found = {name: what for name, what in self.seen().items() if name in seen}
        return found | {
            "answers": self.replies,
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
OTHER = ("simple", "", "t", 1)
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


def test_what_says_the_same_is_looked_at_once_on_its_connection_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may commit was found for the first of them; somebody else, and something else, is looked at."""
    side = Runs(True)
    side.run([SIMPLE])
    look, looked = offsets.commit_again, list[int]()

    def counted(shard: Any, by: Any, one: Any, *more: Any) -> bool:
        looked.append(one.offset)
        return look(shard, by, one, *more)

    monkeypatch.setattr("barnabas.broker.handlers.offset_commit.commit_again", counted)
    side.run([SIMPLE] * 4)
    assert looked == [2], "offset 3, 4 and 5 are the same but for that"
    side.run([SIMPLE, SIMPLE, OTHER, SIMPLE, SIMPLE, SIMPLE])
    assert looked == [2, 6, 9], "a partition that is new to the codec is read the common way"
    side.run([SIMPLE, OTHER, OTHER, SIMPLE])
    assert looked == [2, 6, 9, 12, 13, 15], "one of the other stands between them"


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
    assert [one.error_code for one in side.replies[1:]] == [0, 0, 0]
    side.do(0, ("small", 80))
    side.run([SIMPLE] * 2)
    assert [one.error_code for one in side.replies[4:]] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    (group,) = [one for one in side.world.core.groups.groups() if one.group_id == "simple"]
    assert group.offsets[TopicPartition("t", 0)].offset == 4


def test_what_no_other_commit_follows_in_the_end_is_written_before_anything_leaves() -> None:
    """A request of a run that is not handled in the same event: the connection's turn was over."""
    side = Runs(True)
    side.run([SIMPLE])
    core = side.world.core
    _, request = codec.decode_request(memoryview(side.commit(*SIMPLE))[4:])
    core.handle(request, Asked(memoryview(b"another")), side.world.now_ms)
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
    assert [one.error_code for one in side.replies[1:]] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
