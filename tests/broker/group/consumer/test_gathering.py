"""Members that come to a group at the same time begin it together, and have their share in their first answer."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from barnabas.broker.group import holdings
from barnabas.broker.group.consumer import assigning, beginning, gathering
from barnabas.broker.group.consumer.gathering import WAITS_MAX
from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.consumer.values import CurrentRecord, MemberRecord, TargetEpochRecord, TargetRecord
from barnabas.broker.group.state import Status
from barnabas.broker.group.unloading import unload
from barnabas.broker.jobs import at_once
from barnabas.protocol.errors import ErrorCode, KafkaError
from tests.broker.group.consumer.world import ConsumerWorld, Partitions
from tests.broker.group.world import Told

NAMES = ("a", "b", "c", "d")


class Gatherings(ConsumerWorld):
    """As in Apache Kafka a second lies between two targets, and those who come within a ms are gathered."""

    def __init__(self, **settings: Any) -> None:
        apart = {"barnabas_group_gather_ms": 1, "group_consumer_assignment_interval_ms": 1000}
        super().__init__(**apart | settings)

    def come(self, *names: str, **options: Any) -> list[Told]:
        """They come at the same time, and their answers may have to wait."""
        return [self.beats(name, **options) for name in names]

    def shares(self, told: list[Told]) -> list[Partitions | None]:
        return [self.given(one.response) for one in told]


@pytest.fixture
def world() -> Gatherings:
    return Gatherings()


def test_all_have_their_share_in_the_first_answer(world: Gatherings) -> None:
    told = world.come(*NAMES)
    assert all(one.waits for one in told)
    world.advance(2)
    assert sorted(numbers for share in world.shares(told) for numbers in (share or {})["t"]) == [0, 1, 2, 3]
    assert {one.response.member_epoch for one in told} == {5}, "as if they had come one by one"
    assert [one.response.member_id for one in told] == list(NAMES)
    assert {one.response.heartbeat_interval_ms for one in told} == {5000}
    assert world.consumers().state.value == "Stable"
    assert world.journal.batches == 1


def test_it_is_what_apache_kafka_comes_to_after_a_second(world: Gatherings) -> None:
    """The same group one by one: shares, epochs, and what the log says of each."""
    world.come(*NAMES)
    world.advance(2)
    slow = Gatherings(barnabas_group_gather_ms=0)
    for name in NAMES:
        slow.comes(name)
    slow.advance(1000)
    slow.settled(*NAMES)
    for one in (world, slow):
        assert (one.consumers().epoch, one.consumers().target_epoch) == (5, 5)
        assert [len(one.has(name)["t"]) for name in NAMES] == [1, 1, 1, 1]
    assert world.consumers().metadata_hash == slow.consumers().metadata_hash
    assert [one.subscription for one in world.consumers().members.values()] == [
        one.subscription for one in slow.consumers().members.values()
    ]


def test_the_log_has_all_of_it(world: Gatherings) -> None:
    world.come(*NAMES, host="10.0.0.9")
    world.advance(2)
    kinds = [type(one) for one in world.journal.decoded()]
    assert kinds.count(TargetEpochRecord) == 1
    assert kinds.count(MemberRecord) == kinds.count(TargetRecord) == kinds.count(CurrentRecord) == 4
    before = {name: (world.member(name).subscription, world.member(name).current) for name in NAMES}
    held = world.shard.shared.holdings
    assert held.by_address == {"10.0.0.9": held.total}, "whoever brought them"
    total = held.total
    world.restart()
    assert {name: (world.member(name).subscription, world.member(name).current) for name in NAMES} == before
    assert world.shard.shared.holdings.total == total


def test_who_comes_meanwhile_adds_as_much_again_up_to_a_bound(world: Gatherings) -> None:
    told = world.come("first")
    for number in range(WAITS_MAX):
        assert told[0].waits
        told += world.come(f"m{number}")
        world.advance(1)
    assert not any(one.waits for one in told)
    assert len(world.consumers().members) == WAITS_MAX + 1


def test_many_are_given_longer_to_come(world: Gatherings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "AT_ONCE", 3)
    told = world.come(*"abcdef")
    world.advance(1)
    world.advance(2)
    told += world.come("g")
    assert all(one.waits for one in told), "three ms, for six are there"
    world.advance(1)
    world.advance(2)
    assert all(one.waits for one in told), "one has come"
    world.advance(1)
    assert not any(one.waits for one in told)


def test_so_many_at_most_begin_together(world: Gatherings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "GATHERED_MAX", 9)
    told = world.come(*(f"m{number}" for number in range(9)))
    assert not any(one.waits for one in told), "at once"
    assert world.consumers().target_epoch == world.consumers().epoch == 10
    late = world.beats("late")
    assert world.given(late.response) == {}
    assert late.response.member_epoch == 10, "that of the last target, the next is a second away"


@pytest.fixture
def many(world: Gatherings, monkeypatch: pytest.MonkeyPatch) -> list[Told]:
    """Three, more than are let in at once, about to begin a group as a job that has a step for each of them."""
    monkeypatch.setattr(gathering, "AT_ONCE", 2)
    monkeypatch.setattr(gathering, "SERVED_PER_STEP", 1)
    monkeypatch.setattr(beginning, "WORK_PER_STEP", 1)
    world.holds_jobs = True
    told = world.come("a", "b", "c")
    world.advance(1)
    world.advance(9)
    assert all(one.waits for one in told)
    return told


def test_many_begin_in_bounded_steps_and_in_one_batch(world: Gatherings, many: list[Told]) -> None:
    assert world.end_jobs() > 9, "each record is a step of its own, and each answer"
    assert world.journal.batches == 1
    assert sorted(numbers for share in world.shares(many) for numbers in (share or {})["t"]) == [0, 1, 2, 3]
    assert {one.response.member_epoch for one in many} == {4}
    assert world.consumers().state.value == "Stable"
    world.advance(45_000)
    assert not world.consumers().members, "each has a session"


@pytest.mark.parametrize("late", [False, True])
def test_no_step_serves_many_who_want_much_one_by_one(
    world: Gatherings, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where their records do not fit into a batch: fifty who named a thousand topics each were a step of 65 ms."""
    monkeypatch.setattr(gathering, "AT_ONCE", 2)
    monkeypatch.setattr(gathering, "_write", _has_no_room)
    world.holds_jobs = True
    wanted = [f"name-{number}" for number in range(1000)]
    told = world.come(*(f"m{number}" for number in range(3 if late else 8)), topics=wanted)
    world.advance(1)
    world.advance(9)
    if late:
        world.step_job()
        told += world.come(*(f"late{number}" for number in range(8)), topics=wanted)
    assert all(one.waits for one in told)
    served = [0]
    while world.jobs:
        world.step_job()
        served.append(sum(not one.waits for one in told))
    assert served[-1] == len(told)
    assert max(after - before for before, after in pairwise(served)) <= 3
    assert not world.shard.gatherings


def _has_no_room(*_: Any) -> None:
    raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, "no room")


def test_a_large_target_is_theirs_from_the_beginning(
    world: Gatherings, many: list[Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assigning, "WORK_AT_ONCE", 1)
    world.end_jobs()
    assert world.consumers().target_epoch == world.consumers().epoch == 4


def test_who_comes_while_they_begin_is_served_after_them(world: Gatherings, many: list[Told]) -> None:
    world.step_job()
    late = [world.beats("late"), world.beats("a")]
    assert all(one.waits for one in late)
    assert not world.shard.groups
    world.end_jobs()
    assert [one.error for one in many + late] == [0] * 5
    assert world.given(late[0].response) == {}
    assert world.given(late[1].response) == world.shares(many)[0], "it is a member already"
    assert set(world.consumers().members) == {"a", "b", "c", "late"}
    assert not world.shard.gatherings


def test_where_another_has_begun_it_meanwhile_each_joins_that(world: Gatherings, many: list[Told]) -> None:
    world.step_job()
    other = world.beats("other", pattern="t.*")
    assert not other.waits
    world.end_jobs()
    assert [one.error for one in many] == [0, 0, 0]
    assert set(world.consumers().members) == {"other", "a", "b", "c"}


def test_an_empty_group_that_has_come_further_meanwhile_is_not_set_back(
    world: Gatherings, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.config.group_consumer_assignment_interval_ms = 0
    world.come("a")
    world.advance(1)
    world.beat("a", -1)
    monkeypatch.setattr(gathering, "AT_ONCE", 2)
    monkeypatch.setattr(beginning, "WORK_PER_STEP", 1)
    world.holds_jobs = True
    told = world.come("a", "b", "c")
    world.advance(1)
    world.advance(9)
    world.step_job()
    world.beats("other", instance="i")
    world.beat("other", -1, instance="i")
    epoch = world.consumers().epoch
    world.end_jobs()
    assert not any(one.waits for one in told)
    assert world.consumers().epoch == epoch + 3


def test_a_coordinator_that_resigns_while_they_begin_answers_all_once(
    world: Gatherings, many: list[Told], caplog: pytest.LogCaptureFixture
) -> None:
    world.step_job()
    late = world.beats("late")
    at_once(unload(world.shard))
    assert [one.error for one in [*many, late]] == [ErrorCode.NOT_COORDINATOR] * 4
    world.end_jobs()
    assert not world.shard.groups
    assert not world.journal.batches
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


def test_a_coordinator_that_resigns_while_they_are_told_tells_the_others_so(
    world: Gatherings, many: list[Told]
) -> None:
    while many[0].waits:
        world.step_job()
    late = world.beats("late")
    assert not late.waits, "the group is there"
    world.shard.status = Status.FAILED
    world.end_jobs()
    assert [one.error for one in many] == [0, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR]


def test_a_defect_while_many_are_told_leaves_nobody_waiting(
    world: Gatherings, many: list[Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    def defect(*_: Any) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(gathering, "keep_alive", defect)
    world.end_jobs()
    assert [one.error for one in many] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 3
    assert not world.shard.gatherings


def test_who_comes_alone_is_answered_as_by_apache_kafka(world: Gatherings) -> None:
    told = world.beats("a")
    assert told.waits
    world.advance(1)
    assert world.given(told.response) == {"t": [0, 1, 2, 3]}
    assert told.response.member_epoch == 2
    second = world.beats("b")
    assert not second.waits, "the group has begun"
    assert world.given(second.response) == {}


def test_a_group_that_all_have_left_begins_again_after_its_epoch_and_with_its_offsets(world: Gatherings) -> None:
    world.come("a", "b")
    world.advance(2)
    world.commit({0: 7}, member_id="a", generation=3)
    for name in ("a", "b"):
        world.beat(name, -1)
    world.advance(1000)
    epoch = world.consumers().epoch
    told = world.come("c", "d")
    world.advance(2)
    assert [one.response.member_epoch for one in told] == [epoch + 2] * 2
    assert sorted(world.has("c")["t"] + world.has("d")["t"]) == [0, 1, 2, 3]
    assert [one.offset for one in world.consumers().offsets.values()] == [7]
    world.restart()
    assert [one.offset for one in world.consumers().offsets.values()] == [7]
    assert world.consumers().epoch == epoch + 2


def test_a_second_has_to_lie_between_two_targets_there_too(world: Gatherings) -> None:
    world.come("a", "b")
    world.advance(2)
    for name in ("a", "b"):
        world.beat(name, -1)
    assert not world.beats("c").waits


@pytest.mark.parametrize("options", [{"instance": "i"}, {"pattern": "t.*"}, {"topics": []}])
def test_who_says_other_things_than_most_does_not_wait(world: Gatherings, options: dict[str, Any]) -> None:
    first = world.beats("a")
    assert not world.beats("b", **options).waits
    world.advance(1)
    assert not first.waits
    assert set(world.consumers().members) == {"a", "b"}


def test_who_asks_again_over_another_connection_ends_the_waiting(world: Gatherings) -> None:
    told = [*world.come("a", "b"), world.beats("a")]
    assert not any(one.waits for one in told)
    assert {one.response.error_code for one in told} == {0}
    assert set(world.consumers().members) == {"a", "b"}


def test_a_coordinator_that_resigns_answers_those_who_wait(world: Gatherings) -> None:
    told = world.come("a", "b")
    at_once(unload(world.shard))
    assert [one.error for one in told] == [ErrorCode.NOT_COORDINATOR] * 2
    world.advance(100)
    assert not world.shard.groups


def test_where_the_log_takes_nothing_each_is_told_and_nothing_has_changed(world: Gatherings) -> None:
    told = world.come("a", "b")
    world.journal.fault = ErrorCode.KAFKA_STORAGE_ERROR
    world.advance(2)
    assert [one.error for one in told] == [ErrorCode.NOT_COORDINATOR] * 2
    assert not world.shard.groups
    assert not world.shard.shared.holdings.total
    world.journal.fault = None
    again = world.come("a", "b")
    world.advance(2)
    assert [one.error for one in again] == [0, 0]


def test_answers_wait_until_all_is_committed(world: Gatherings) -> None:
    world.journal.lags = True
    told = world.come("a", "b")
    world.advance(2)
    assert all(one.waits for one in told)
    world.journal.high_watermark = len(world.journal.records)
    world.shard.committed()
    assert [one.error for one in told] == [0, 0]


def too_many(world: Gatherings) -> None:
    world.config.group_consumer_max_size = 1


def no_memory(world: Gatherings) -> None:
    world.shard.shared.holdings.take("10.0.0.1", holdings.ADDRESS_BYTES_MAX - 2 * holdings.MEMBER_BYTES - 2000)


def no_room(world: Gatherings) -> None:
    world.journal.batch_bytes_max = 350


@pytest.mark.parametrize("why", [too_many, no_memory, no_room])
def test_where_something_is_in_the_way_each_goes_the_common_way(
    world: Gatherings, why: Callable[[Gatherings], None]
) -> None:
    told = world.come("a", "b")
    why(world)
    world.advance(2)
    assert not any(one.waits for one in told)
    assert told[0].error == 0
    assert world.given(told[0].response) == {"t": [0, 1, 2, 3]}, "the first has all"


def test_a_defect_in_beginning_together_is_no_members(world: Gatherings, monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(*_: Any) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(beginning, "reconcile", defect)
    told = world.come("a", "b")
    world.advance(2)
    assert [one.error for one in told] == [0, 0]


def test_a_classic_group_that_began_meanwhile_is_converted(world: Gatherings) -> None:
    told = world.come("a", "b")
    classic = world.classic().response.member_id
    parked = world.classic(classic)
    world.advance(2)
    assert [one.error for one in told] == [0, 0]
    assert parked.error == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(world.consumers().members) == {"a", "b", classic}


def test_the_target_of_a_large_group_is_a_job(world: Gatherings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assigning, "WORK_AT_ONCE", 10)
    world.holds_jobs = True
    told = world.come("a", "b")
    world.advance(2)
    assert world.shares(told) == [{}, {}]
    assert {one.response.member_epoch for one in told} == {1}
    world.end_jobs()
    assert world.consumers().target_epoch == world.consumers().epoch == 3
    world.settled("a", "b")
    assert sorted(world.has("a")["t"] + world.has("b")["t"]) == [0, 1, 2, 3]


def test_groups_do_not_wait_for_each_other(world: Gatherings) -> None:
    told = [*world.come("a", "b", group="g"), *world.come("a", "b", group="h")]
    world.advance(2)
    assert not any(one.waits for one in told)
    assert all(isinstance(group, ConsumerGroup) and len(group.members) == 2 for group in world.shard.groups.values())
