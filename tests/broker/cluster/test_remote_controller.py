"""The controller of another broker: ISRs of one step go in one request, of a bounded size; each has its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.cluster.remote_controller import PROPOSED_AT_ONCE_MAX, RemoteController
from barnabas.broker.ports import IsrAnswer, IsrProposal
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.alter_partition import (
    AlterPartitionPartitionResult,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopicResult,
)


class World:
    """A broker with a controller that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[AlterPartitionRequest, Callable[[Any], None]]] = []
        self.deferred: list[Callable[[], None]] = []
        self.told: dict[TopicPartition, IsrAnswer] = {}
        ask = lambda request, done: self.asked.append((request, done))  # noqa: E731
        self.controller = RemoteController(ask, ask, 1, lambda: 7, self.deferred.append)

    def propose(self, topic: str, partition: int) -> None:
        key = TopicPartition(topic, partition)
        proposal = IsrProposal(key, topic.encode() * 16, 3, partition, (1, 2), (7, 8))
        self.controller.alter_partition(proposal, lambda answer: self.told.update({key: answer}))

    def step_ends(self) -> None:
        while self.deferred:
            self.deferred.pop(0)()


def answer_to(request: AlterPartitionRequest) -> AlterPartitionResponse:
    """To each its own: the partition's epoch one higher; partition 5 is refused."""
    topics = []
    for topic in request.topics:
        parts = [
            AlterPartitionPartitionResult(
                one.partition_index,
                ErrorCode.INELIGIBLE_REPLICA if one.partition_index == 5 else 0,
                partition_epoch=one.partition_epoch + 1,
                isr=[one.broker_id for one in one.new_isr_with_epochs],
            )
            for one in topic.partitions
        ]
        topics.append(AlterPartitionTopicResult(topic.topic_id, parts))
    return AlterPartitionResponse(topics=topics)


def test_what_one_step_proposes_is_one_request_and_each_is_told_its_own() -> None:
    world = World()
    for partition in range(8):
        for topic in ("t", "u"):
            world.propose(topic, partition)
    assert world.asked == [], "not before the step ends"
    world.step_ends()
    ((request, done),) = world.asked
    assert (request.broker_id, request.broker_epoch) == (1, 7)
    assert [len(topic.partitions) for topic in request.topics] == [8, 8]
    done(answer_to(request))
    assert len(world.told) == 16
    for key, answer in world.told.items():
        refused = key.partition == 5
        assert answer.error_code == (ErrorCode.INELIGIBLE_REPLICA if refused else 0)
        assert answer.partition_epoch == key.partition + 1
    world.propose("t", 1)
    world.step_ends()
    assert len(world.asked) == 2, "the next step's are another request"


def test_no_request_is_larger_than_a_slice() -> None:
    world = World()
    for partition in range(2 * PROPOSED_AT_ONCE_MAX + 1):
        world.propose("t", partition)
    world.step_ends()
    sizes = [sum(len(topic.partitions) for topic in request.topics) for request, _ in world.asked]
    assert sizes == [PROPOSED_AT_ONCE_MAX, PROPOSED_AT_ONCE_MAX, 1]
    assert PROPOSED_AT_ONCE_MAX <= 250


@pytest.mark.parametrize(
    ("response", "code"),
    [
        (None, ErrorCode.NOT_CONTROLLER),
        (AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH), ErrorCode.STALE_BROKER_EPOCH),
        (AlterPartitionResponse(), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_is_not_answered_for_each_is_told_all(response: AlterPartitionResponse | None, code: int) -> None:
    world = World()
    world.propose("t", 0)
    world.propose("t", 1)
    world.step_ends()
    world.asked[0][1](response)
    assert [answer.error_code for answer in world.told.values()] == [code, code]
