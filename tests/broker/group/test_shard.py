"""A shard and its log: what is written, what a refused append leaves, what answers wait for, what a restart finds."""

from __future__ import annotations

import pytest

from barnabas.broker.group import loading
from barnabas.broker.group.alarms import SPENT_MAX, Alarm, Alarms
from barnabas.broker.group.placement import java_hash, partition_of
from barnabas.broker.group.records import OtherRecord, decode, encode
from barnabas.broker.group.state import GroupState
from barnabas.broker.group.unloading import unload
from barnabas.broker.group.values import (
    CommittedOffset,
    CoordinatorRecord,
    GroupRecord,
    OffsetRecord,
    StoredGroup,
    StoredMember,
)
from barnabas.broker.jobs import at_once
from barnabas.protocol.batch import read_header
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.ids import Buffer, TopicPartition
from tests.broker.group.world import World, durable

REFUSALS = {
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorCode.INVALID_PRODUCER_EPOCH,
}


# Where a group belongs


@pytest.mark.parametrize(
    ("group", "partition"), [("group", 47), ("my-group", 12), ("test-consumer-group", 31), ("g1", 42), ("", 0)]
)
def test_a_group_belongs_to_the_partition_that_java_says(group: str, partition: int) -> None:
    assert partition_of(group, 50) == partition


def test_hashes_are_javas() -> None:
    assert java_hash("polygenelubricants") == -(2**31)
    assert partition_of("polygenelubricants", 50) == 0
    assert java_hash("ä") == 228
    assert java_hash("\U0001f600") == 0xD83D * 31 + 0xDE00


# Appends that are refused


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda code: code.name)
def test_a_group_whose_first_record_is_refused_is_not_there(refusal: ErrorCode) -> None:
    world = World()
    world.journal.fault = refusal
    assert world.join().error == REFUSALS[refusal]
    assert world.shard.groups == {}
    assert world.shard.shared.holdings.total == 0
    world.journal.fault = None
    assert world.join().error == ErrorCode.MEMBER_ID_REQUIRED


def test_an_assignment_that_is_refused_is_told_to_all_and_all_join_again() -> None:
    world = World()
    joins = [world.join_twice() for _ in range(2)]
    world.until(joins[0][1])
    (leader, _), (follower, _) = joins
    waits = world.sync(follower, 1)
    before = durable(world.shard)
    world.journal.fault = ErrorCode.KAFKA_STORAGE_ERROR
    told = world.sync(leader, 1, {leader: b"L", follower: b"F"})
    assert told.error == waits.error == ErrorCode.NOT_COORDINATOR
    assert world.state is GroupState.PREPARING
    assert {one.assignment for one in world.group.members.values()} == {b""}
    world.journal.fault = None
    world.restart()
    assert world.group.members == {}, "a restart finds what was written: the group as it was made"
    assert before["g"][0].generation == 1


def test_a_static_member_whose_new_id_is_refused_keeps_the_old_one() -> None:
    world = World()
    told = world.join(instance="a", session_ms=30_000)
    world.until(told)
    a = told.response.member_id
    world.sync(a, 1, {a: b"A"}, instance="a")
    before = durable(world.shard)
    world.journal.fault = ErrorCode.NOT_ENOUGH_REPLICAS
    refused = world.join(instance="a", protocols=(("range", b"changed"),))
    assert refused.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert durable(world.shard) == before
    assert world.heartbeat(a, 1, instance="a") == ErrorCode.NONE


def test_a_commit_that_is_refused_is_not_there() -> None:
    world = World()
    world.journal.fault = ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError) as fault:
        world.commit({0: 5})
    assert fault.value.code == ErrorCode.NOT_COORDINATOR
    assert world.shard.groups == {}


def test_the_last_member_is_gone_though_that_cannot_be_written() -> None:
    world = World()
    (leader,), _ = world.stable(1)
    world.journal.fault = ErrorCode.KAFKA_STORAGE_ERROR
    world.leave(leader)
    assert (world.state, world.group.members) == (GroupState.EMPTY, {})
    world.journal.fault = None
    world.restart()
    assert list(world.group.members) == [leader], "the next leader finds it, and puts it out after its session"
    world.advance(10_000)
    assert world.state is GroupState.EMPTY


# Answers that wait for the high watermark


def test_an_answer_leaves_when_what_it_tells_is_committed() -> None:
    world = World()
    (leader,), generation = world.stable(1)
    world.journal.lags = True
    world.commit({0: 5}, member_id=leader, generation=generation)
    told = world.join(leader)
    assert told.waits, "the join phase is over, but it was computed from state that is not committed"
    world.journal.high_watermark = len(world.journal.records)
    world.shard.committed()
    assert told.response.generation_id == generation + 1
    assert world.shard.held == 0


def test_an_answer_that_waits_too_long_says_so() -> None:
    world = World(offsets_commit_timeout_ms=5000)
    world.journal.lags = True
    told = world.join()
    world.advance(4999)
    assert told.waits
    world.advance(1)
    assert told.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.shard.committed()


def test_answers_that_wait_leave_in_their_order_each_at_its_end() -> None:
    world = World()
    world.journal.lags = True
    first = world.join(group="a")
    end = len(world.journal.records)
    second = world.join(group="b")
    world.journal.high_watermark = end
    world.shard.committed()
    assert not first.waits
    assert second.waits


def test_a_shard_listens_while_somebody_waits_and_no_longer() -> None:
    """Each append told it of the high watermark at the end of its step, which nobody waited for."""
    world = World(offsets_commit_timeout_ms=5000)
    world.join(group="a")
    assert not world.journal.listens
    world.journal.lags = True
    first = world.join(group="b")
    end = len(world.journal.records)
    second = world.join(group="c")
    assert world.journal.listens
    world.journal.high_watermark = end
    world.shard.committed()
    assert (first.waits, second.waits) == (False, True)
    assert world.journal.listens
    world.advance(5000)
    assert not second.waits
    assert not world.journal.listens, "its time was over"
    third = world.join(group="d")
    assert world.journal.listens
    world.journal.high_watermark = len(world.journal.records)
    world.shard.committed()
    assert not third.waits
    assert not world.journal.listens


def test_a_shard_that_ends_refuses_what_waits() -> None:
    world = World()
    world.journal.lags = True
    told = world.join()
    at_once(unload(world.shard))
    assert told.error == ErrorCode.NOT_COORDINATOR
    assert not world.journal.listens
    world.advance(60_000)


# What a restart finds


@pytest.mark.parametrize("codec", [0, 1, 4])
def test_what_is_written_is_compressed_as_the_setting_says(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(offsets_topic_compression_codec=codec)
    codecs: list[int] = []
    write = world.journal.write

    def seen(batch: Buffer, wall_ms: int, now_ms: int) -> int:
        codecs.append(read_header(batch).compression)
        return write(batch, wall_ms, now_ms)

    monkeypatch.setattr(world.journal, "write", seen)
    world.commit({0: 5, 1: 6})
    world.commit({0: 7})
    world.restart()
    assert codecs == [codec, codec]
    assert {key.partition: one.offset for key, one in world.group.offsets.items()} == {0: 7, 1: 6}


def test_a_restart_finds_the_same_state() -> None:
    world = World()
    world.stable(3)
    world.commit({0: 5, 1: 6}, "simple")
    world.commit({0: 7}, "simple", metadata="m")
    told = world.join(instance="a", group="static")
    world.until(told)
    a = told.response.member_id
    world.sync(a, 1, {a: b"A"}, group="static", instance="a")
    world.join(instance="a", group="static")
    before = durable(world.shard)
    world.restart()
    assert durable(world.shard) == before
    assert world.state is GroupState.STABLE


def test_a_shard_that_ends_while_its_members_are_counted_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    for group in "ab":
        world.stable(2, group=group)
    world.shard = world._new_shard()
    for record in world.journal.decoded():
        world.shard.replay(record)
    shard = world.shard
    monkeypatch.setattr(loading, "MEMBERS_PER_STEP", 1)
    steps = loading.activate(shard, world.now_ms)
    next(steps)
    at_once(unload(shard))
    assert list(steps) == []
    assert shard.shared.holdings.total == 0
    assert not list(shard.shared.alarms.timer.tasks())


def test_members_have_a_whole_session_after_a_restart() -> None:
    world = World()
    (leader,), generation = world.stable(1)
    world.advance(9000)
    world.restart()
    world.advance(9000)
    assert world.heartbeat(leader, generation) == ErrorCode.NONE
    world.advance(10_000)
    assert world.state is GroupState.EMPTY


def test_a_group_that_was_deleted_is_not_found_again() -> None:
    world = World()
    (leader,), _ = world.stable(1)
    world.commit({0: 5}, "other")
    world.leave(leader)
    from barnabas.broker.group.deleting import delete_group

    for group in ("g", "other"):
        for _ in delete_group(world.shard, group, world.now_ms):
            pass
    assert world.shard.groups == {}
    assert world.shard.shared.holdings.total == 0
    world.restart()
    assert world.shard.groups == {}


# Records


RECORDS: list[CoordinatorRecord] = [
    OffsetRecord("g", TopicPartition("t", 3), CommittedOffset(17, 4, "märk", 1_700_000_000_000)),
    OffsetRecord("g", TopicPartition("t", 3), CommittedOffset(17, -1, "", 1_700_000_000_000, 1_700_000_600_000)),
    OffsetRecord("g", TopicPartition("t", 3), None),
    GroupRecord("g", StoredGroup(None, 0, None, None, 1_700_000_000_000)),
    GroupRecord(
        "g",
        StoredGroup(
            "consumer", 7, "range", "a-1", 5, (StoredMember("a-1", "a", "c", "/10.0.0.1", 300, 100, b"s", b"x"),)
        ),
    ),
    GroupRecord("g", None),
]


@pytest.mark.parametrize("record", RECORDS, ids=repr)
def test_records_come_back_as_they_were(record: CoordinatorRecord) -> None:
    back = decode(*encode(record))
    if isinstance(record, OffsetRecord) and record.committed and record.committed.expires_ms > 0:
        assert isinstance(back, OffsetRecord)
        assert back.committed == record.committed
    else:
        assert back == record


def test_what_is_no_record_is_refused_by_name() -> None:
    key, value = encode(RECORDS[0])
    with pytest.raises(ProtocolError):
        decode(key, b"\x00\x09junk")
    with pytest.raises(ProtocolError):
        decode(b"\x00", value)
    with pytest.raises(ProtocolError):
        decode(None, value)
    with pytest.raises(OtherRecord):
        decode(b"\x03\xe8\x00\x01g", b"")
    with pytest.raises(OtherRecord):
        decode(b"\x00\x04\x00\x01g", None)


def test_a_generation_in_which_a_member_stands_twice_is_no_record() -> None:
    member = StoredMember("a", None, "c", "/h", 1, 1, b"", b"")
    twice = GroupRecord("g", StoredGroup("test", 1, "range", "a", 5, (member, member)))
    with pytest.raises(ProtocolError, match="twice"):
        decode(*encode(twice))
    named = member._replace(instance_id="i")
    with pytest.raises(ProtocolError, match="twice"):
        decode(
            *encode(GroupRecord("g", StoredGroup("test", 1, "range", "a", 5, (named, named._replace(member_id="b")))))
        )


def test_of_many_alarms_at_once_a_step_rings_some() -> None:
    """Whoever joins says when its session ends: 80,000 at the same time, all in one step, until now."""
    alarms = Alarms(0)
    rung: list[int] = []
    for _ in range(2 * SPENT_MAX + 1):
        alarms.set(Alarm(rung.append), 5)
    for some in (SPENT_MAX, 2 * SPENT_MAX, 2 * SPENT_MAX + 1):
        due_ms = alarms.timer.next_deadline_ms()
        assert due_ms is not None
        assert due_ms <= 5
        alarms.advance(5)
        assert rung == [5] * some
    assert alarms.timer.next_deadline_ms() is None


def test_of_many_rebalances_at_once_a_step_ends_one_large_one() -> None:
    world = World(group_max_size=SPENT_MAX)
    told = [[world.join("", name, instance=f"{name}{at}") for at in range(SPENT_MAX)] for name in ("a", "b")]
    alarms = world.shard.shared.alarms
    while all(one.waits for some in told for one in some):
        due_ms = alarms.timer.next_deadline_ms()
        assert due_ms is not None
        world.now_ms = max(world.now_ms, due_ms)
        alarms.advance(world.now_ms)
    assert sum(not one.waits for some in told for one in some) == SPENT_MAX
    alarms.advance(world.now_ms)
    assert not any(one.waits for some in told for one in some)
