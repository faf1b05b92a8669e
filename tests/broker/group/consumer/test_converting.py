"""A large classic group is converted in steps: those who come meanwhile wait, and nothing is half converted."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.group.consumer import heartbeats, preparing, upgrading
from barnabas.broker.group.consumer.embedded import wants_of
from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.consumer.identifying import identify
from barnabas.broker.group.group import Group
from barnabas.broker.group.state import Status
from barnabas.broker.group.values import GroupRecord, StoredGroup, StoredMember
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.kafka.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from barnabas.protocol.requests.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.broker.group.consumer.world import ConsumerWorld

MEMBERS = 250


@pytest.fixture
def world() -> ConsumerWorld:
    """A stable classic group of 250 members with a partition each, in a broker whose jobs wait."""
    world = ConsumerWorld(group_initial_rebalance_delay_ms=0, group_consumer_assignment_interval_ms=1000)
    world.topics.have("t", MEMBERS)
    said = encode_subscription(ConsumerProtocolSubscription(["t"]))
    members = [
        StoredMember(f"m{at}", None, "c", "/10.0.0.1", 300_000, 300_000, said, assigned(at)) for at in range(MEMBERS)
    ]
    world.shard.write([GroupRecord("g", StoredGroup("consumer", 7, "range", "m0", 0, tuple(members)))], world.now_ms)
    world.restart()
    world.commit({3: 5}, member_id="m3", generation=7)
    world.holds_jobs = True
    return world


def assigned(at: int) -> bytes:
    return encode_assignment(ConsumerProtocolAssignment([TopicPartition("t", [at])]))


def comes(world: ConsumerWorld, member_id: str, **options: Any) -> list[ConsumerGroupHeartbeatResponse]:
    """A newcomer's heartbeat; where its answer will be, for it may have to wait."""
    return world.beats(member_id, **options).answers


def as_it_is(world: ConsumerWorld) -> dict[str, Any]:
    group = world.consumers()
    left_out = ("checked", "changes", "tried_at_ms", "members", "address")
    said = {name: getattr(group, name) for name in ConsumerGroup.__slots__ if name not in left_out}
    members = {one.member_id: (one.subscription, one.current, one.size) for one in group.members.values()}
    return said | {"members": members, "held": world.shard.shared.holdings.total}


def test_it_takes_steps_of_a_few_members_each(world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 members were one step of 40 to 90 ms."""
    done = 0

    def counted(*given: Any) -> Any:
        nonlocal done
        done += 1
        return wants_of(*given)

    monkeypatch.setattr(preparing, "wants_of", counted)
    answers = comes(world, "new")
    at_once = []
    while not answers:
        before = done
        world.step_job()
        at_once.append(done - before)
    assert max(at_once) <= 100
    assert sum(at_once) == MEMBERS
    assert len(at_once) > 6
    (told,) = answers
    assert (told.error_code, told.member_epoch) == (0, 8)


def test_it_is_what_the_log_says(world: ConsumerWorld) -> None:
    comes(world, "new")
    batches = world.journal.batches
    world.end_jobs()
    assert world.journal.batches == batches + 1, "all of it is one batch"
    group = world.consumers()
    assert (len(group.members), group.classics, group.epoch) == (MEMBERS + 1, MEMBERS, 8)
    assert world.has("m3") == {"t": [3]}
    assert {key.partition: one.offset for key, one in group.offsets.items()} == {3: 5}
    live = as_it_is(world)
    world.restart()
    assert as_it_is(world) == live


def test_all_who_come_meanwhile_wait_and_are_let_in(world: ConsumerWorld) -> None:
    first, second = comes(world, "new"), comes(world, "newer")
    world.step_job()
    third = comes(world, "newest")
    assert not first + second + third
    world.end_jobs()
    assert [one.error_code for one in first + second + third] == [0, 0, 0]
    assert len(world.consumers().members) == MEMBERS + 3


def test_the_others_are_told_to_join_again_from_its_beginning_on(world: ConsumerWorld) -> None:
    waits = world.join("m0", protocol_type="consumer", protocols=world.group.members["m0"].protocols)
    assert waits.waits
    comes(world, "new")
    assert world.join("m1", protocol_type="consumer").error == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.sync("m1", 7).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat("m1", 7) == ErrorCode.REBALANCE_IN_PROGRESS
    world.end_jobs()
    assert waits.error == ErrorCode.REBALANCE_IN_PROGRESS


def test_those_who_wait_in_a_large_group_are_told_in_steps(world: ConsumerWorld) -> None:
    protocols = world.group.members["m0"].protocols
    joins = [world.join(f"m{at}", protocol_type="consumer", protocols=protocols) for at in range(MEMBERS - 1)]
    answers = comes(world, "new")
    while not answers:
        world.step_job()
    assert 0 < sum(not one.waits for one in joins) <= 100
    world.end_jobs()
    assert {one.error for one in joins} == {ErrorCode.REBALANCE_IN_PROGRESS}


def test_it_begins_anew_when_a_member_has_gone(world: ConsumerWorld) -> None:
    answers = comes(world, "new")
    world.step_job()
    assert world.leave("m3") == [0]
    world.end_jobs()
    assert [one.error_code for one in answers] == [0]
    assert "m3" not in world.consumers().members
    live = as_it_is(world)
    world.restart()
    assert as_it_is(world) == live


def test_topics_that_come_meanwhile_count(world: ConsumerWorld) -> None:
    comes(world, "new")
    world.step_job()
    world.topics.lose("t")
    world.topics.have("t", 2)
    world.end_jobs()
    assert world.has("m0") == {"t": [0]}
    assert world.has("m3") == {}


def test_who_comes_to_members_that_change_all_the_time_is_to_come_again(world: ConsumerWorld) -> None:
    """A round for each change for ever would be as good as none."""
    answers = comes(world, "new")
    leaving = iter(range(100, 200))
    while not answers:
        world.step_job()
        world.leave(f"m{next(leaving)}")
    (told,) = answers
    assert told.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.group.newcomers is None
    again = comes(world, "new")
    world.end_jobs()
    assert [one.error_code for one in again] == [0]


def test_a_group_that_is_empty_meanwhile_is_begun_anew(world: ConsumerWorld) -> None:
    answers = comes(world, "new")
    world.step_job()
    world.leave(*world.group.members)
    world.advance(300_000)
    assert world.group.is_empty
    world.end_jobs()
    assert [one.error_code for one in answers] == [0]
    assert list(world.consumers().members) == ["new"]


def test_a_fault_of_one_newcomer_is_not_that_of_the_next(world: ConsumerWorld) -> None:
    first, second = comes(world, "new", topics=[], pattern="("), comes(world, "newer")
    world.end_jobs()
    assert [one.error_code for one in first] == [ErrorCode.INVALID_REGULAR_EXPRESSION]
    assert [one.error_code for one in second] == [0]
    assert "new" not in world.consumers().members


@pytest.mark.parametrize("fault", [ErrorCode.KAFKA_STORAGE_ERROR, None])
def test_all_who_wait_are_told_when_it_comes_to_nothing(world: ConsumerWorld, fault: ErrorCode | None) -> None:
    waiting = [comes(world, "new"), comes(world, "newer")]
    if fault is None:
        world.shard.status = Status.FAILED
    else:
        world.journal.fault = fault
    world.end_jobs()
    assert [one.error_code for each in waiting for one in each] == [ErrorCode.NOT_COORDINATOR] * 2
    assert isinstance(world.shard.groups["g"], Group)
    assert world.group.newcomers is None


def test_who_waits_for_a_shard_that_is_led_elsewhere_meanwhile_makes_no_group_in_it(world: ConsumerWorld) -> None:
    """The second was let into a new group, whose records went into the log behind those of the next leader."""
    first, second = comes(world, "new"), comes(world, "newer")
    while not first:
        world.step_job()
    world.shard.status = Status.FAILED
    world.shard.groups.clear()
    batches = world.journal.batches
    world.end_jobs()
    assert [one.error_code for one in first + second] == [0, ErrorCode.NOT_COORDINATOR]
    assert (world.journal.batches, world.shard.groups) == (batches, {})


def test_a_defect_leaves_nobody_waiting(world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Job[Any]:
        yield None
        raise RuntimeError("as the test wants it")

    monkeypatch.setattr(upgrading, "prepare", broken)
    waiting = [comes(world, "new"), comes(world, "newer")]
    world.end_jobs()
    assert [one.error_code for each in waiting for one in each] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert world.group.newcomers is None


def test_a_defect_in_the_step_of_one_leaves_those_behind_it_unharmed(
    world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The job ended there: that one, and all behind it, were never answered."""

    def broken(group: ConsumerGroup, member_id: str, *given: Any) -> Any:
        if member_id == "new":
            raise RuntimeError("as the test wants it")
        return identify(group, member_id, *given)

    monkeypatch.setattr(heartbeats, "identify", broken)
    waiting = [comes(world, name) for name in ("new", "newer", "newest")]
    world.end_jobs()
    codes = [one.error_code for each in waiting for one in each]
    assert codes == [ErrorCode.UNKNOWN_SERVER_ERROR, 0, 0]
    assert len(world.consumers().members) == MEMBERS + 2
    assert "member 'new' cannot join group 'g'" in caplog.text


def test_what_cannot_be_converted_is_said_to_all(world: ConsumerWorld) -> None:
    world.group.members["m200"].protocols = (("range", b"\0\0\xff"),)
    waiting = [comes(world, "new"), comes(world, "newer")]
    world.end_jobs()
    assert [one.error_code for each in waiting for one in each] == [ErrorCode.GROUP_ID_NOT_FOUND] * 2
    assert world.heartbeat("m0", 7) == 0
