"""A record that must wait for its place: what it holds meanwhile comes back however the wait ends."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any

import pytest

from barnabas.client.errors import BufferExhausted
from barnabas.client.produce.placing import Memory, Topic, Wait, drain, know, place
from barnabas.net.errors import ClientClosed, ClientTimeout
from barnabas.protocol.errors import ErrorCode, KafkaError
from tests.client.world import Bench, World

SIZE = 16384


def bench(buffers: int = 2, **settings: Any) -> Bench:
    made = Bench(World(), buffer_memory=buffers * SIZE, batch_size=SIZE, **settings)
    made.learn()
    return made


def fill(made: Bench) -> None:
    for _ in range(made.pool.total_bytes // SIZE):
        made.send(bytes(SIZE - 92))  # with all that a record may need besides
    assert made.pool.available_bytes == 0


def placing(made: Bench, topic: str = "t", **fields: Any) -> Generator[Wait, int, tuple[tuple[Any, bool], bool]]:
    asked = {"partition": None, "key": None, "value": bytes(1000), "headers": (), **fields}
    return place(made.core, topic, stamp_ms=0, now_ms=made.world.now_ms, wait_ms=1000, **asked)


def end_of(generator: Generator[Wait, int, tuple[tuple[Any, bool], bool]], now_ms: int) -> Any:
    with pytest.raises(StopIteration) as end:
        generator.send(now_ms)
    (future, _), _ = end.value.value
    return future


def all_back(made: Bench) -> None:
    made.settle()
    assert made.pool.available_bytes == made.pool.total_bytes
    assert not made.pool.waiters


def test_a_record_waits_in_line_for_memory_and_is_placed_in_it() -> None:
    made = bench()
    fill(made)
    waiting = placing(made)
    wait = next(waiting)
    assert isinstance(wait, Memory)
    woken: list[int] = []
    wait.waiter.wake = lambda: woken.append(made.world.now_ms)
    made.world.run(until=lambda: woken)
    result, at, _ = end_of(waiting, made.world.now_ms)
    all_back(made)
    assert (result.error, at) == (None, 0)


def test_a_wait_for_memory_in_vain_leaves_the_line() -> None:
    made = bench()
    fill(made)
    waiting = placing(made)
    next(waiting)
    result, _, _ = end_of(waiting, made.world.now_ms + 1000)
    assert isinstance(result.error, BufferExhausted)
    all_back(made)


@pytest.mark.parametrize("served", [False, True])
def test_a_close_while_a_record_waits_gives_back_what_it_holds(served: bool) -> None:
    made = bench()
    fill(made)
    waiting = placing(made)
    wait = next(waiting)
    assert isinstance(wait, Memory)
    if served:
        made.world.run(until=lambda: wait.waiter.buffer is not None)
    made.core.closed = "the producer is closed"
    with pytest.raises(ClientClosed, match="the producer is closed"):
        waiting.send(made.world.now_ms)
    all_back(made)


@pytest.mark.parametrize("served", [False, True])
def test_an_interrupt_gives_back_what_it_holds(served: bool) -> None:
    made = bench()
    fill(made)
    waiting = placing(made)
    wait = next(waiting)
    assert isinstance(wait, Memory)
    if served:
        made.world.run(until=lambda: wait.waiter.buffer is not None)
    waiting.close()
    all_back(made)


def test_a_topic_that_is_refused_while_its_record_waits_for_memory_costs_none() -> None:
    made = bench()
    fill(made)
    waiting = placing(made)
    wait = next(waiting)
    assert isinstance(wait, Memory)
    made.world.run(until=lambda: wait.waiter.buffer is not None)
    made.metadata.topic_errors["t"] = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "t")
    result, _, _ = end_of(waiting, made.world.now_ms)
    assert result.error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    all_back(made)


@pytest.mark.parametrize("chosen", [7, -1, None, "0", 0.0])
def test_a_partitioner_that_errs_after_a_wait_for_memory_costs_none(chosen: Any) -> None:
    answers = [0, 0, 0, chosen]
    made = bench(partitioner_class=lambda *_: answers.pop(0))
    fill(made)
    waiting = placing(made)
    wait = next(waiting)
    assert isinstance(wait, Memory)
    made.world.run(until=lambda: wait.waiter.buffer is not None)
    with pytest.raises(ValueError, match=re.escape(f"the partitioner chose {chosen!r} (")):
        waiting.send(made.world.now_ms)
    all_back(made)


def test_a_record_that_cannot_be_written_costs_no_memory() -> None:
    made = bench()
    with pytest.raises((TypeError, AttributeError)):
        next(placing(made, headers=[(b"no text", b"")]))
    all_back(made)


def test_an_unknown_topic_is_waited_for_until_the_deadline() -> None:
    made = bench()
    waiting = placing(made, topic="absent")
    wait = next(waiting)
    assert wait == Topic("absent", made.metadata.version, made.world.now_ms + 1000)
    assert waiting.send(made.world.now_ms + 999) == wait
    result, _, _ = end_of(waiting, made.world.now_ms + 1000)
    assert isinstance(result.error, ClientTimeout)
    assert "topic absent is not in the metadata after max.block.ms (1000 ms)" in str(result.error)


def test_a_partition_that_its_topic_lacks_is_waited_for_and_named() -> None:
    made = bench()
    waiting = placing(made, partition=2)
    assert isinstance(next(waiting), Topic)
    assert made.metadata.troubles
    result, _, _ = end_of(waiting, made.world.now_ms + 1000)
    assert "partition 2 of topic t is not in the metadata after max.block.ms (1000 ms)" in str(result.error)
    assert "topic t has no partition 2; it has 1, from 0 on" in str(result.error)
    asking = know(made.core, "t", 2, made.world.now_ms, 1000)
    assert isinstance(next(asking), Topic)
    assert made.metadata.troubles
    with pytest.raises(ClientTimeout, match="topic t has no partition 2; it has 1, from 0 on"):
        asking.send(made.world.now_ms + 1000)
    assert not made.metadata.troubles


def test_draining_hurries_until_it_ends() -> None:
    made = bench()
    made.send(b"x")
    draining = drain(made.core)
    result = next(draining)
    assert made.accumulator.in_a_hurry
    made.world.run(until=lambda: result.done)
    assert next(draining, None) is None
    assert not made.accumulator.in_a_hurry
    all_back(made)
