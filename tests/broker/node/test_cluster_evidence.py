"""Three brokers under one controller, in virtual time: who is fenced before its session is over, and who is not."""

from __future__ import annotations

import pytest

from barnabas.broker.cluster.evidence import AGAIN_MS
from tests.broker.node.cluster import Cluster

SESSION_MS = 9000
HEARTBEAT_MS = 2000


@pytest.fixture
def three() -> Cluster:
    """Three brokers and `t`, which 2 leads and 1 and 3 follow."""
    three = Cluster()
    three.create(replicas={0: [2, 3, 1]}, min_insync_replicas=2)
    assert three.put(b"first").error_code == 0
    three.advance(1000)
    return three


def alive(cluster: Cluster) -> list[int]:
    return [one.broker_id for one in cluster[1].core.image.alive_brokers()]


def test_a_leader_that_is_killed_is_followed_by_another_in_100_ms(
    three: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    three.kill(2)
    assert three.until(lambda: three.leader() == 3) == AGAIN_MS
    assert alive(three) == [1, 3]
    assert three.put(b"second").error_code == 0
    assert caplog.text.count("broker 2 is fenced: its connections are closed") == 1


def test_one_that_is_started_again_once_it_is_fenced_is_taken_in_at_its_first_word(three: Cluster) -> None:
    three.kill(2)
    three.until(lambda: 2 not in alive(three))
    three.start(2)
    assert three.until(lambda: sorted(three.state().isr) == [1, 2, 3]) < HEARTBEAT_MS


def test_one_that_is_started_again_within_100_ms_waits_for_its_last_session(three: Cluster) -> None:
    epoch = three[1].core.image.broker_epoch(2)
    three.kill(2)
    three.advance(AGAIN_MS // 2)
    three.start(2)
    three.advance(HEARTBEAT_MS)
    assert three[1].core.image.broker_epoch(2) == epoch, "the id is in use"
    three.until(lambda: three[2].core.ready)
    assert alive(three) == [1, 2, 3]
    assert three[1].core.image.broker_epoch(2) > epoch
    assert three.put(b"second").error_code == 0


def test_one_that_comes_and_goes_is_fenced_as_often_as_it_goes(three: Cluster) -> None:
    for number in range(5):
        three.kill(2)
        assert three.until(lambda: 2 not in alive(three)) <= AGAIN_MS
        assert three.put(b"%d" % number).error_code == 0
        three.start(2)
        three.until(lambda: sorted(three.state().isr) == [1, 2, 3])
    assert len({tuple(three[one].values()) for one in three.nodes}) == 1


@pytest.mark.parametrize("why", ["paused", "taken", "off", "cut"])
def test_who_accepts_or_is_silent_waits_for_its_session(three: Cluster, why: str) -> None:
    if why == "paused":
        three.paused.add(2)
        for wire in [one for one in three.wires if one.sender is three[2]]:
            three._close(wire)
    elif why == "cut":
        three.cut.add(frozenset((1, 2)))
        three.kill(2)
    else:
        three.kill(2)
        getattr(three, why).add(2)
    assert SESSION_MS - HEARTBEAT_MS <= three.until(lambda: 2 not in alive(three)) <= SESSION_MS


def test_connections_that_break_without_an_end_cost_nobody_anything(three: Cluster) -> None:
    epochs = [three[1].core.image.broker_epoch(one) for one in (2, 3)]
    for _ in range(20):
        for wire in list(three.wires):
            if wire in three.wires:
                three._close(wire)
        three.advance(150)
        assert alive(three) == [1, 2, 3]
    assert [three[1].core.image.broker_epoch(one) for one in (2, 3)] == epochs
    assert three.state().leader_epoch == 0


def test_one_that_stops_in_good_order_is_not_knocked_for(three: Cluster) -> None:
    three.stop(2)
    assert 2 not in alive(three)
    three.settle()
    three.advance(SESSION_MS)
    assert three.state().isr == (3, 1)


def test_two_at_once(three: Cluster) -> None:
    three.kill(2)
    three.kill(3)
    assert three.until(lambda: alive(three) == [1]) == AGAIN_MS
    assert three.leader() == 1


def test_the_deposed_leader_that_is_there_after_all_acknowledges_nothing(three: Cluster) -> None:
    """A firewall that resets and refuses: the controller takes a broker for dead that serves its clients."""
    answer = None
    for wire in [one for one in three.wires if one.sender is three[2]]:
        three._close(wire)
    node = three.nodes.pop(2)  # nothing of it can be reached
    node.core.wake(three.now_ms)
    three.until(lambda: three.leader() == 3)
    three.nodes[2] = node
    answer = three.produce(b"by the old one", node_id=2)
    three.until(lambda: answer.done)
    assert three.part(answer).error_code != 0
    three.until(lambda: sorted(three.state().isr) == [1, 2, 3])
    assert three.put(b"second").error_code == 0
