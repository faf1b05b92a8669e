"""Delivery callbacks, which a batch keeps for its records: each is told its own outcome, once, in order."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from typing import Any

import pytest

from barnabas.client.produce.batch import ProducerBatch
from barnabas.client.produce.placing import place
from barnabas.client.produce.records import RecordMetadata
from barnabas.client.produce.result import BatchResult
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from tests.client.world import Bench, World

WHERE = TopicPartition("t", 0)


class Told:
    """What one callback was told."""

    def __init__(self) -> None:
        self.metadata: list[Any] = []
        self.errors: list[Any] = []

    def __call__(self, metadata: Any, error: Any) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.metadata.append(tuple(metadata))


def filled(callbacks: list[Any], stamps: list[int] | None = None) -> ProducerBatch:
    """A batch with a record for each callback (or None)."""
    batch = ProducerBatch(WHERE, bytearray(10_000), 0)
    for index, call in enumerate(callbacks):
        stamp = stamps[index] if stamps else 5
        assert batch.try_append(stamp, None, b"x", ()) == index
        batch.result.deliver_to(index, stamp, call)
    return batch


def finish(batch: ProducerBatch, *outcome: Any) -> None:
    for call in batch.finish(*outcome):
        call()


def test_each_record_is_told_its_own_place_and_time() -> None:
    a, b = Told(), Told()
    finish(filled([None, a, a, None, b, a], [1, 2, 3, 4, 5, 5]), 100, -1, None)
    assert a.metadata == [("t", 0, 101, 2), ("t", 0, 102, 3), ("t", 0, 105, 5)]
    assert b.metadata == [("t", 0, 104, 5)]


def test_a_method_is_one_callback_though_it_is_made_at_each_mention() -> None:
    class Program:
        def __init__(self) -> None:
            self.offsets: list[int] = []

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

        def told(self, metadata: Any, error: Any) -> None:
            self.offsets.append(metadata.offset)

    one, other = Program(), Program()
    batch = filled([one.told, one.told, one.told, other.told])
    assert len(batch.result.deliveries) == 3 * 2
    finish(batch, 0, -1, None)
    assert (one.offsets, other.offsets) == ([0, 1, 2], [3])


def test_a_method_stays_one_callback_from_one_millisecond_to_the_next() -> None:
    class Program:
        def told(self, metadata: Any, error: Any) -> None:
            offsets.append((metadata.offset, metadata.timestamp))

    offsets: list[tuple[int, int]] = []
    program = Program()
    batch = filled([program.told for _ in range(3)], [5, 6, 7])
    assert len({id(call) for call in batch.result.deliveries[2::3]}) == 1
    finish(batch, 0, -1, None)
    assert offsets == [(0, 5), (1, 6), (2, 7)]


def test_each_record_may_have_a_callback_of_its_own() -> None:
    told: list[tuple[int, int, int]] = []
    calls = [partial(lambda name, metadata, error: told.append((name, *metadata[2:])), name) for name in range(4)]
    finish(filled([None, *calls], [1, 2, 3, 4, 5]), 10, -1, None)
    assert told == [(0, 11, 2), (1, 12, 3), (2, 13, 4), (3, 14, 5)]


def test_what_a_callback_is_told_is_metadata_like_any_other() -> None:
    told: list[RecordMetadata] = []
    finish(filled([lambda metadata, error: told.append(metadata)]), 100, -1, None)
    (metadata,) = told
    plain = RecordMetadata("t", 0, 100, 5)
    assert isinstance(metadata, RecordMetadata)
    assert (metadata, hash(metadata), repr(metadata)) == (plain, hash(plain), repr(plain))
    assert metadata._asdict() == plain._asdict()
    for copied in (pickle.loads(pickle.dumps(metadata)), copy.copy(metadata), copy.deepcopy(metadata)):
        assert (type(copied), copied) == (RecordMetadata, plain)


def test_the_time_of_the_log_and_no_offset_are_told_as_they_are() -> None:
    told = Told()
    finish(filled([told, told]), 7, 999, None)
    finish(filled([told, told]), -1, -1, None)
    assert told.metadata == [("t", 0, 7, 999), ("t", 0, 8, 999), ("t", 0, -1, 5), ("t", 0, -1, 5)]


def test_an_error_is_each_record_s_own() -> None:
    told = Told()
    batch = filled([told, None, told])
    batch.result.record_errors = {2: "too old"}
    finish(batch, -1, -1, KafkaError(ErrorCode.INVALID_RECORD, "t-0"))
    assert ["another record" in str(error) for error in told.errors] == [True, False]
    assert "too old" in str(told.errors[1])


def test_a_second_outcome_is_nobody_s() -> None:
    told = Told()
    batch = filled([told])
    finish(batch, 1, -1, None)
    finish(batch, 2, -1, None)
    assert told.metadata == [("t", 0, 1, 5)]


def test_one_that_raises_keeps_nothing_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    told = Told()

    def fails(metadata: Any, error: Any) -> None:
        raise ValueError("mine")

    def leaves(metadata: Any, error: Any) -> None:
        raise SystemExit(metadata.offset)

    with pytest.raises(SystemExit) as left:
        finish(filled([fails, leaves, told, leaves, told]), 0, -1, None)
    assert left.value.code == 1
    assert [each[2] for each in told.metadata] == [2, 4]
    assert [record.getMessage() for record in caplog.records] == ["a delivery callback failed"]


@pytest.mark.parametrize("parts", [1, 2])
def test_the_parts_of_a_batch_that_was_too_large_tell_of_their_own(parts: int) -> None:
    world = World(topics={"t": [1]})
    bench = Bench(world)
    bench.learn()
    limit = 8 // parts

    def refuse(where: TopicPartition, data: bytes) -> int:
        count = int.from_bytes(data[57:61], "big")
        return ErrorCode.MESSAGE_TOO_LARGE if count > limit else 0

    world.handlers[ApiKey.PRODUCE] = lambda node, request: world.produce(request, refuse)
    told = Told()
    for number in range(8):
        call = told if number % 3 else None
        step = place(bench.core, "t", 0, None, b"%d" % number, (), 50 + number, world.now_ms, 0, call)
        with pytest.raises(StopIteration):
            next(step)
    bench.settle()
    assert told.metadata == [("t", 0, number, 50 + number) for number in range(8) if number % 3]


def test_a_record_that_finds_no_place_is_told_by_nobody_else() -> None:
    world = World(topics={"t": [1]})
    bench = Bench(world)
    told = Told()
    step = place(bench.core, "nowhere", 0, None, b"x", (), 5, world.now_ms, 0, told)
    with pytest.raises(StopIteration) as end:
        next(step)
    ((result, _, _), placed), wakes = end.value.value
    assert isinstance(result, BatchResult)
    assert (wakes, placed, told.errors) == (False, False, [])
