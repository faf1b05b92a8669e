"""A broker's part in a cluster, with what the controller answers in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.metadata_log import TOPIC_ID
from barnabas.broker.cluster.observer import Observer
from barnabas.broker.jobs import at_once
from barnabas.broker.node.member import Member
from barnabas.broker.node.whereabouts import Whereabouts
from barnabas.broker.ports import Lane
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.broker_heartbeat import BrokerHeartbeatResponse
from barnabas.protocol.requests.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from barnabas.protocol.requests.fetch import FetchResponse


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


def test_a_broker_that_leaves_may_be_told_twice_that_it_may() -> None:
    peers = Peers()
    member = Member(
        Whereabouts([1]),
        BrokerRegistrationRequest(2, "the-cluster", b"i" * 16),
        Observer(2, "the-cluster", TOPIC_ID, Image()),
        peers,
        2000,
        lambda delta: None,
        lambda callback: callback(0),
        at_once,
        0,
    )
    member.tick(0)
    peers.answer(Lane.MEMBERSHIP, BrokerRegistrationResponse(broker_epoch=7))
    left = member.leave(0)
    assert not left.is_open
    peers.answer(Lane.METADATA, FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    assert left.is_open, "the controller is followed no further"
    peers.answer(Lane.MEMBERSHIP, BrokerHeartbeatResponse())
