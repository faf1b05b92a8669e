"""The target of a large group is computed and written in steps, while members come, go and are heard of."""

from __future__ import annotations

import pytest

from barnabas.broker.group.consumer import assigning
from barnabas.broker.group.consumer.values import TargetEpochRecord, TargetRecord
from barnabas.broker.group.state import Status
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.kafka.consumer_protocol import decode_assignment
from tests.broker.group.consumer.world import ConsumerWorld, Partitions


@pytest.fixture
def world() -> ConsumerWorld:
    world = ConsumerWorld()
    world.holds_jobs = True
    return world


@pytest.fixture
def large(world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch) -> ConsumerWorld:
    """Every group is large, and each batch takes the target of one member. Two members want `t`, in epoch 3."""
    world.holds_jobs = False
    world.comes("a")
    world.comes("b")
    world.settled("a", "b")
    monkeypatch.setattr(assigning, "WORK_AT_ONCE", 0)
    monkeypatch.setattr(assigning, "WORK_PER_BATCH", 1)
    world.holds_jobs = True
    return world


def targets(world: ConsumerWorld) -> dict[str, Partitions]:
    """What all are to have."""
    return {
        member_id: {world.topics.name_of(topic_id) or "?": sorted(numbers) for topic_id, numbers in target.items()}
        for member_id, target in world.consumers().targets.items()
    }


def shared_out(world: ConsumerWorld, topic: str = "t") -> list[int]:
    """The partitions of a topic in all targets."""
    return sorted(number for target in targets(world).values() for number in target.get(topic, ()))


def test_many_partitions_are_not_shared_out_within_a_heartbeat(world: ConsumerWorld) -> None:
    """Neither 5,000 partitions, nor as many members as take as long."""
    world.topics.have("big", 5_001)
    told = world.beat("a", topics=["big"])
    assert (told.error_code, told.member_epoch, world.given(told)) == (0, 1, {})
    assert world.end_jobs() > 1
    told = world.beat("a", 1)
    assert (told.member_epoch, world.given(told)) == (2, {"big": list(range(5_001))})
    world.comes("b", group="small")
    assert not world.jobs


def test_many_topics_are_not_shared_out_within_the_first_heartbeat_of_a_group(world: ConsumerWorld) -> None:
    """A thousand of ten partitions each were a step of 15 to 30 ms, for nobody had wanted them before."""
    wanted = [f"topic-{number}" for number in range(900)]
    for name in wanted:
        world.topics.have(name, 2)
    told = world.beat("a", topics=wanted)
    assert (told.error_code, told.member_epoch, world.given(told)) == (0, 1, {})
    assert world.end_jobs() > 1
    assert world.given(world.beat("a", 1)) == {name: [0, 1] for name in wanted}


def test_many_members_are_not_assigned_within_a_heartbeat() -> None:
    """700 members come in one second: the first has its target at once, and a job serves all others."""
    world = ConsumerWorld(group_consumer_assignment_interval_ms=1000)
    world.holds_jobs = True
    for number in range(700):
        assert world.beat(f"m{number}").error_code == 0
    assert not world.jobs
    world.advance(1000)
    batches = world.journal.batches
    world.beat("m0", 2)
    assert len(world.jobs) == 1
    assert world.journal.batches == batches, "nothing is written within the heartbeat"
    assert world.end_jobs() > 2
    assert world.journal.batches > batches + 1
    assert world.consumers().target_epoch == world.consumers().epoch
    assert shared_out(world) == [0, 1, 2, 3]


def test_one_target_is_computed_at_a_time(large: ConsumerWorld) -> None:
    large.comes("c")
    large.step_job()
    large.comes("d")
    assert len(large.jobs) == 1
    large.end_jobs()
    assert large.consumers().target_epoch == 4, "that of the epoch in which it was begun"
    assert large.consumers().epoch == 5
    assert targets(large)["c"] != {}
    assert "d" not in targets(large), "who came meanwhile is in the next one"
    large.beat("a", 3, owned=large.has("a"))
    large.end_jobs()
    assert large.consumers().target_epoch == 5
    large.holds_jobs = False
    large.settled("a", "b", "c", "d")
    assert [len(large.has(one)["t"]) for one in "abcd"] == [1, 1, 1, 1]
    assert shared_out(large) == [0, 1, 2, 3]


def test_nobody_goes_by_a_target_before_its_epoch_is_written(large: ConsumerWorld) -> None:
    large.comes("c")
    before = targets(large)
    while targets(large) == before:
        large.step_job()
    assert large.consumers().target_epoch == 3
    for member_id in ("a", "b"):
        told = large.beat(member_id, 3, owned=large.has(member_id))
        assert (told.member_epoch, told.error_code) == (3, 0)
    large.end_jobs()
    written = [one for one in large.journal.decoded() if isinstance(one, TargetRecord | TargetEpochRecord)]
    assert isinstance(written[-1], TargetEpochRecord)
    assert large.consumers().target_epoch == 4


def test_a_target_of_which_a_part_is_written_is_computed_anew_after_a_crash(large: ConsumerWorld) -> None:
    large.comes("c")
    before = targets(large)
    while targets(large) == before:
        large.step_job()
    large.restart()
    assert large.consumers().target_epoch == 3
    large.holds_jobs = False
    large.settled("a", "b", "c")
    assert large.consumers().target_epoch == 4
    assert shared_out(large) == [0, 1, 2, 3]


def test_who_left_meanwhile_has_no_target(large: ConsumerWorld) -> None:
    large.comes("c")
    large.step_job()
    large.beat("b", -1)
    large.end_jobs()
    assert targets(large).keys() == {"a", "c"}
    large.holds_jobs = False
    large.settled("a", "c")
    assert shared_out(large) == [0, 1, 2, 3]


def test_a_static_member_that_is_back_under_another_id_has_its_target(large: ConsumerWorld) -> None:
    large.comes("s-0", instance="s")
    large.step_job()
    large.beat("s-0", -2, instance="s")
    large.comes("s-1", instance="s")
    large.end_jobs()
    assert targets(large).keys() == {"a", "b", "s-1"}
    assert targets(large)["s-1"] != {}
    assert shared_out(large) == [0, 1, 2, 3]


def test_what_the_log_does_not_take_is_tried_again(large: ConsumerWorld, caplog: pytest.LogCaptureFixture) -> None:
    large.comes("c")
    large.journal.fault = ErrorCode.KAFKA_STORAGE_ERROR
    large.end_jobs()
    assert "its target cannot be written yet" in caplog.text
    large.journal.fault = None
    assert large.consumers().target_epoch == 3
    large.beat("c", 3)
    large.end_jobs()
    assert large.consumers().target_epoch == 4


def test_nothing_is_written_for_a_group_that_is_led_elsewhere(large: ConsumerWorld) -> None:
    large.comes("c")
    large.step_job()
    large.shard.status = Status.FAILED
    written = large.journal.batches
    large.end_jobs()
    assert large.journal.batches == written


def test_a_classic_group_has_no_partition_twice_where_a_part_of_a_target_was_written(world: ConsumerWorld) -> None:
    """Its members have what they were to have: of the one the new target, of the other that before."""
    world.holds_jobs = False
    world.comes("a")
    first, second = world.classic_member(version=3), world.classic_member(version=3)
    group = world.consumers()
    assert group.targets[second]
    everything = {world.id_of("t"): frozenset(range(4))}
    world.shard.write([TargetRecord("g", first, everything)], world.now_ms)
    world.beat("a", -1)
    given = [decode_assignment(world.group.members[one].assignment) for one in (first, second)]
    numbers = [number for one in given for part in one.assigned_partitions for number in part.partitions]
    assert sorted(numbers) == [0, 1, 2, 3]
