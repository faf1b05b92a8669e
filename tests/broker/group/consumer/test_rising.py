"""Heartbeats of one round that bring nothing but a target's epoch are one batch, and as if each had come alone."""

from __future__ import annotations

import pytest

from barnabas.broker.group.consumer import rising
from barnabas.broker.group.consumer.rising import TOGETHER_MAX
from barnabas.broker.group.consumer.values import CurrentRecord
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.state import Status
from barnabas.protocol.errors import ErrorCode
from tests.broker.group.consumer.world import ConsumerWorld
from tests.broker.group.world import Told


def waiting(count: int) -> tuple[ConsumerWorld, list[str], int]:
    """Members that have their share of a target whose epoch they have not heard of, and that epoch."""
    world = ConsumerWorld()
    world.topics.have("u", 2)
    world.topics.have("t", count)
    names = [f"m{number:03}" for number in range(count)]
    for name in names:
        world.comes(name)
    world.settled(*names)
    world.beat("other", topics=["u"])
    group = world.consumers()
    assert group.epoch == group.target_epoch
    world.holds_jobs = True
    return world, names, group.target_epoch


def told(ones: list[Told]) -> list[tuple[int, int]]:
    return [(one.response.error_code, one.response.member_epoch) for one in ones]


def test_those_who_come_in_one_round_are_one_batch() -> None:
    world, names, epoch = waiting(5)
    before = world.journal.batches
    ones = [world.beats(name, epoch - 1) for name in names]
    assert all(one.waits for one in ones)
    assert (world.journal.batches, len(world.jobs)) == (before, 1), "nothing is written, one turn is waited for"
    world.end_jobs()
    assert told(ones) == [(0, epoch)] * 5
    assert world.journal.batches == before + 1
    assert [world.member(name).current.epoch for name in names] == [epoch] * 5
    again = world.beats(names[0], epoch)
    assert told([again]) == [(0, epoch)], "who has it waits for nobody"


def test_a_step_writes_and_answers_so_many() -> None:
    world, names, epoch = waiting(TOGETHER_MAX + 3)
    before = world.journal.batches
    ones = [world.beats(name, epoch - 1) for name in names]
    world.step_job()
    assert [one.waits for one in ones] == [False] * TOGETHER_MAX + [True] * 3
    late = world.beats("m000", epoch - 1, owned={"t": [0]})
    world.end_jobs()
    assert told(ones) == [(0, epoch)] * len(names)
    assert not late.waits
    assert world.journal.batches == before + 2


def test_what_happened_since_is_seen() -> None:
    """One asks over another connection as well, one leaves, one comes to another epoch, and one is put out."""
    world, names, epoch = waiting(4)
    ones = [world.beats(name, epoch - 1) for name in names]
    twice = world.beats(names[0], epoch - 1, owned=world.has(names[0]))
    left = world.beats(names[1], -1)
    assert not left.waits
    world.end_jobs()
    assert told([twice])[0][0] in (0, ErrorCode.FENCED_MEMBER_EPOCH)
    assert ones[1].response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert [one.response.error_code for one in (ones[0], *ones[2:])] == [0] * 3


def test_one_that_asks_twice_in_a_round_is_written_once() -> None:
    world, names, epoch = waiting(2)
    ones = [world.beats(names[0], epoch - 1) for _ in range(2)]
    records = len(world.journal.records)
    world.end_jobs()
    assert told(ones)[0] == (0, epoch)
    assert not ones[1].waits
    assert len(world.journal.records) == records + 1


def test_a_log_that_takes_no_batch_is_asked_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    world, names, epoch = waiting(3)
    alone = Shard.append

    def append(shard: Shard, records: list[CurrentRecord], now_ms: int) -> int:
        if len(records) > 1:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return ErrorCode.NOT_COORDINATOR if records[0].member_id == names[1] else alone(shard, records, now_ms)

    ones = [world.beats(name, epoch - 1) for name in names]
    monkeypatch.setattr(Shard, "append", append)
    world.end_jobs()
    assert told(ones) == [(0, epoch), (ErrorCode.NOT_COORDINATOR, 0), (0, epoch)]
    assert world.member(names[1]).current.epoch == epoch - 1


def test_a_defect_keeps_nobody_from_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    world, names, epoch = waiting(3)

    def fails(*_: object) -> None:
        raise RuntimeError("a defect")

    ones = [world.beats(name, epoch - 1) for name in names]
    with monkeypatch.context() as patched:
        patched.setattr(Shard, "append", fails)
        world.end_jobs()
    assert [code for code, _ in told(ones)] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 3
    ones = [world.beats(name, epoch - 1) for name in names]
    monkeypatch.setattr(rising, "claim_member", fails)
    world.end_jobs()
    assert [code for code, _ in told(ones)] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 3


def test_who_waits_when_groups_are_led_elsewhere_is_told_so() -> None:
    world, names, epoch = waiting(2)
    ones = [world.beats(name, epoch - 1) for name in names]
    world.shard.status = Status.FAILED
    world.shard.groups.clear()
    world.end_jobs()
    assert [code for code, _ in told(ones)] == [ErrorCode.NOT_COORDINATOR] * 2
