"""Elections in a cluster that somebody asks for, and those that its controller begins by itself, in virtual time."""

from __future__ import annotations

import pytest

from barnabas.broker.cluster.elections import PREFERRED, UNCLEAN
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import NO_LEADER, TopicPartition
from barnabas.protocol.requests.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.broker.node.cluster import Cluster

CONTROLLER = 1
CHECK_MS = 300_000


@pytest.fixture
def three():
    return Cluster()


def elect(three, election, *partitions, node_id=CONTROLLER):
    """What a broker answers: error by partition of `t`; all of them if none is named."""
    asked = [TopicPartitions("t", list(partitions))] if partitions else None
    response = three.ask(node_id, ElectLeadersRequest(election, asked), 2)
    assert response.error_code == 0
    results = {one.topic: one.partition_result for one in response.replica_election_results}
    return {part.partition_id: part.error_code for part in results["t"]}


def lead_others(three, *partitions):
    """2 goes, others lead what it led, and it comes back into every ISR."""
    three.stop(2)
    three.start(2)
    three.until(lambda: all(len(three.state(one).isr) == 3 for one in partitions))
    assert not any(three.leader(one) == 2 for one in partitions)


def lose(three, **settings):
    """2 alone is in sync of `t`, has a record that 3, the other replica, has not, and is killed."""
    three.create(replicas={0: [2, 3]}, **settings)
    assert three.put(b"both have it").error_code == 0
    three.advance(1000)
    three.cut.add(frozenset((2, 3)))
    assert three.put(b"2 alone has it", timeout_ms=60_000).error_code == 0
    assert three.state().isr == (2,)
    three.kill(2)
    three.cut.clear()
    three.until(lambda: three.leader() != 2)


# Preferred


def test_the_preferred_replica_leads_again_when_somebody_asks_any_broker(three):
    three.create(replicas={0: [2, 3, 1], 1: [1, 2, 3]})
    assert three.put(b"first").error_code == 0
    lead_others(three, 0, 1)
    epoch = three.state().leader_epoch
    assert elect(three, PREFERRED, 0, 1, 7, node_id=3) == {
        0: 0,
        1: ErrorCode.ELECTION_NOT_NEEDED,
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    state = three.state()
    assert (state.leader, state.leader_epoch, len(state.isr)) == (2, epoch + 1, 3)
    three.until(lambda: three.state(node_id=2) == state)
    assert three.put(b"second").base_offset == 1
    assert elect(three, PREFERRED, 0) == {0: ErrorCode.ELECTION_NOT_NEEDED}


def test_one_that_is_away_or_out_of_sync_is_not_elected(three):
    three.create(replicas={0: [2, 3, 1]})
    three.stop(2)
    assert elect(three, PREFERRED, 0) == {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    three.cut.add(frozenset((2, 3)))
    three.start(2)
    three.until(lambda: three[2].core.ready)
    assert elect(three, PREFERRED, 0) == {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert three.leader() == 3


def test_all_that_need_it_are_elected_in_one_request(three):
    three.create(partitions=600, factor=3)
    lead_others(three, *range(600))
    answers = elect(three, PREFERRED)
    assert len(answers) == 200
    assert set(answers.values()) == {0}
    assert all(three.leader(one) == three.state(one).replicas[0] for one in range(600))
    assert elect(three, PREFERRED) == {}


def test_an_election_that_the_disk_refuses_is_told_so(three):
    three.create(replicas={0: [2, 3, 1]})
    lead_others(three, 0)

    def refuse(records, committed):
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")

    three[CONTROLLER].core.metadata.append = refuse
    assert elect(three, PREFERRED, 0, 9) == dict.fromkeys((0, 9), ErrorCode.KAFKA_STORAGE_ERROR)


def test_leadership_goes_back_by_itself_at_the_next_check(three, caplog):
    caplog.set_level("INFO")
    three.create(replicas={0: [2, 3, 1]})
    lead_others(three, 0)
    assert three.until(lambda: three.leader() == 2, CHECK_MS) > CHECK_MS // 2
    assert "1 partitions are given back to their preferred leader" in caplog.text
    lead_others(three, 0)
    assert CHECK_MS // 2 < three.until(lambda: three.leader() == 2, CHECK_MS) < CHECK_MS


def test_leadership_stays_where_it_is_if_it_is_to_stay():
    three = Cluster(auto_leader_rebalance_enable=False)
    three.create(replicas={0: [2, 3, 1]})
    lead_others(three, 0)
    three.advance(2 * CHECK_MS)
    assert three.leader() == 3


# Unclean


def test_nobody_leads_who_is_not_in_sync_until_somebody_asks_for_it(three, caplog):
    lose(three)
    three.advance(2 * CHECK_MS)
    assert (three.leader(), three.state().isr, three.state().elr) == (NO_LEADER, (), (2,))
    assert elect(three, UNCLEAN, 0) == {0: 0}
    state = three.state()
    assert (state.leader, state.isr, state.recovering) == (3, (3,), True)
    assert (
        "1 partitions have a leader that may lack what was acknowledged, for nobody else could: t-0 (3)" in caplog.text
    )
    count = three[CONTROLLER].core.registry.read("kafka.controller:ControllerStats", "UncleanLeaderElectionsPerSec")
    assert count is not None
    assert count["count"] == 1
    three.until(lambda: three.state(node_id=3) == state)
    assert "t-0: leads in epoch 2 from offset 1 on, RECOVERING: what was acknowledged and is not here is" in caplog.text
    leads = three[3].core.replicas.partition(TopicPartition("t", 0))
    assert leads is not None
    assert leads.snapshot()["recovering"]
    assert three.put(b"instead").base_offset == 1
    three.start(2)
    three.until(lambda: sorted(three.state().isr) == [2, 3])
    assert not three.state().recovering, "a follower is in sync again"
    assert not leads.snapshot()["recovering"]
    three.until(lambda: three.state(node_id=2) == three.state(node_id=3))
    assert three[2].values() == three[3].values(), "2 has cut what it had alone"
    assert elect(three, UNCLEAN, 0) == {0: ErrorCode.ELECTION_NOT_NEEDED}


def test_nobody_is_elected_where_nobody_is_alive(three):
    lose(three)
    three.kill(3)
    three.advance(10_000)
    assert elect(three, UNCLEAN, 0) == {0: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    assert elect(three, UNCLEAN) == {0: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}


def test_a_topic_that_lets_it_gets_a_leader_that_was_not_in_sync_at_once(three):
    lose(three, unclean_leader_election_enable="true")
    assert (three.leader(), three.state().isr, three.state().recovering) == (3, (3,), True)


def test_who_comes_back_leads_a_topic_that_lets_it():
    three = Cluster(unclean_leader_election_enable=True)
    three.create("kept", replicas={0: [2, 3]}, unclean_leader_election_enable="false")
    three.create(replicas={0: [2, 3]})
    three.kill(3)
    three.until(lambda: three.state().isr == (2,))
    three.kill(2)
    three.until(lambda: three.leader() == NO_LEADER)
    three.start(3)
    three.until(lambda: three[3].core.ready)
    assert (three.leader(), three.state().isr, three.state().recovering) == (3, (3,), True)
    assert (three.leader(0, "kept"), three.state(0, "kept").elr) == (NO_LEADER, (2,))
