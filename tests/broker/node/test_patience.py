"""How long CreateTopics waits: its time counts until its turn comes, as Apache Kafka 4.3 was seen to do it.

Asked there: no time, or less, for one topic: error 7 for each, nothing made. 5 ms for 3,000 topics: begun in time, so
all are made, and the answer comes after 1.6 s without an error.
"""

from __future__ import annotations

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.create_topics import CreatableTopic, CreateTopicsRequest
from tests.broker.node.world import Answer, World


def create(world: World, name: str, partitions: int, timeout_ms: int) -> Answer:
    return world.send(CreateTopicsRequest([CreatableTopic(name, partitions, 1)], timeout_ms), 7)


def code(answer: Answer) -> int:
    (topic,) = answer.response.topics
    return int(topic.error_code)


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_no_time_at_all_is_over_at_once_and_nothing_is_made(timeout_ms: int) -> None:
    world = World()
    answer = create(world, "t", 1, timeout_ms)
    assert code(answer) == ErrorCode.REQUEST_TIMED_OUT
    world.settle()
    assert "t" not in world.core.image.topics


def test_what_waits_behind_others_for_too_long_is_told_so_in_time_and_never_done() -> None:
    world = World()
    large = create(world, "large", 600, 1)
    hasty = create(world, "hasty", 1, 100)
    patient = create(world, "patient", 1, 10_000)
    world.core.run_job_step(world.now_ms)
    for late_ms, told in ((99, False), (1, True)):
        world.now_ms += late_ms
        world.core.tick(world.now_ms)
        assert hasty.done == told
    assert (code(hasty), hasty.at_ms) == (ErrorCode.REQUEST_TIMED_OUT, 100)
    assert not large.done
    assert not patient.done
    world.settle()
    assert (code(large), code(patient)) == (0, 0), "what was begun in time is seen through"
    assert set(world.core.image.topics) == {"large", "patient"}
    world.advance(20_000)
    assert world.core.replicas.shared.timer.size == 1, "nothing else waits but the periodic look"


def test_a_refusal_that_comes_at_once_is_told_once() -> None:
    world = World()
    answer = create(world, "too-many", 10_001, 50)
    assert code(answer) == ErrorCode.POLICY_VIOLATION
    world.advance(1_000)
    assert answer.count == 1
