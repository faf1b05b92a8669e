"""A broker's part in a cluster, with what the controller answers in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.metadata_log import TOPIC_ID
from barnabas.broker.cluster.observer import Observer
from barnabas.broker.jobs import at_once
from barnabas.broker.node.member import Member, Stage
from barnabas.broker.node.whereabouts import Whereabouts
from barnabas.broker.ports import Lane
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.broker_heartbeat import BrokerHeartbeatResponse
from barnabas.protocol.requests.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from barnabas.protocol.requests.fetch import FetchableTopicResponse, FetchResponse, LeaderIdAndEpoch, PartitionData


class Peers:
    """Keeps what is asked, by lane, until the test answers it."""

    def __init__(self) -> None:
        self.asked: dict[Lane, Callable[[Any], None]] = {}

    def send(
        self,
        broker_id: int,
        request: Any,
        done: Callable[[Any], None],
        lane: Lane = Lane.RECORDS,
        version: int | None = None,
    ) -> None:
        self.asked[lane] = done

    def knock(self, broker_id: int, done: Callable[[bool], None]) -> None:
        raise AssertionError("a member knocks nowhere")

    def answer(self, lane: Lane, response: Any) -> None:
        self.asked.pop(lane)(response)


def member_of(peers: Peers, *voters: int) -> Member:
    return Member(
        Whereabouts(voters),
        BrokerRegistrationRequest(2, "the-cluster", b"i" * 16),
        Observer(2, "the-cluster", TOPIC_ID, Image()),
        peers,
        2000,
        lambda delta: None,
        lambda callback: callback(0),
        at_once,
        0,
    )


def registered(peers: Peers) -> Member:
    """One of epoch 7, whose first heartbeat is under way."""
    member = member_of(peers, 1)
    member.tick(0)
    peers.answer(Lane.MEMBERSHIP, BrokerRegistrationResponse(broker_epoch=7))
    member.tick(2000)
    return member


def test_a_broker_that_leaves_may_be_told_twice_that_it_may() -> None:
    peers = Peers()
    member = member_of(peers, 1)
    member.tick(0)
    peers.answer(Lane.MEMBERSHIP, BrokerRegistrationResponse(broker_epoch=7))
    left = member.leave(0)
    assert not left.is_open
    peers.answer(Lane.METADATA, FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    assert left.is_open, "the controller is followed no further"
    peers.answer(Lane.MEMBERSHIP, BrokerHeartbeatResponse())


def test_what_keeps_a_broker_out_is_said_once_for_each_controller(caplog: pytest.LogCaptureFixture) -> None:
    peers = Peers()
    member = member_of(peers, 1, 3)
    for now_ms in range(0, 20_000, 2000):
        member.tick(now_ms)
        peers.answer(Lane.MEMBERSHIP, None)
    said = sorted(one.getMessage() for one in caplog.records if "take this broker in" in one.getMessage())
    assert said == [
        f"the controller (node {one}) does not take this broker in: it does not answer; it is asked again"
        for one in (1, 3)
    ]


def test_a_broker_whose_node_id_was_registered_again_has_nothing_to_hand_over_as_it_leaves() -> None:
    peers = Peers()
    member = registered(peers)
    left = member.leave(2000)
    peers.answer(Lane.MEMBERSHIP, BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    assert left.is_open
    assert Lane.MEMBERSHIP not in peers.asked


def test_a_broker_whose_node_id_was_registered_again_asks_to_be_taken_in_anew() -> None:
    """It went on with the epoch that was no longer its own, and was fenced until it was started again."""
    peers = Peers()
    member = registered(peers)
    peers.answer(Lane.MEMBERSHIP, BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    assert (member.epoch, member.stage, member.fault) == (-1, Stage.REGISTERING, None)
    member.tick(5000)
    peers.answer(Lane.MEMBERSHIP, BrokerRegistrationResponse(broker_epoch=9))
    assert (member.epoch, member.stage) == (9, Stage.FENCED)


@pytest.mark.parametrize("voters", [(1,), (1, 3)])
def test_a_broker_that_is_told_of_a_controller_it_does_not_know_says_so(
    voters: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    peers = Peers()
    member = member_of(peers, *voters)
    part = PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=LeaderIdAndEpoch(7, 4))
    for now_ms in range(0, 10_000, 1000):
        member.tick(now_ms)
        if Lane.METADATA in peers.asked:
            peers.answer(
                Lane.METADATA, FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[part])])
            )
    said = [one.getMessage() for one in caplog.records if "leads the controllers" in one.getMessage()]
    assert said[0] == (
        "node 1 says that node 7 leads the controllers, and controller.quorum.voters of this broker does not name it: "
        "name all of them, as they do; it is asked again"
    )
    assert len(said) == len(voters)
    assert member.fault is None
