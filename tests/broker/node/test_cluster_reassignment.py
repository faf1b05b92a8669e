"""Partitions that move to other brokers while records are written, in virtual time; nothing acknowledged is lost."""

from __future__ import annotations

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import NO_LEADER, TopicPartition
from barnabas.protocol.requests.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.requests.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.requests.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.requests.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from barnabas.protocol.requests.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.requests.unregister_broker import UnregisterBrokerRequest
from tests.broker.node.cluster import Cluster

FOUR = (1, 2, 3, 4)
KEY = TopicPartition("t", 0)


@pytest.fixture
def four():
    return Cluster(*FOUR, replica_lag_time_max_ms=5000)


def reassign(cluster, moves, *, node_id=1, may_resize=True, topic="t"):
    """What a broker answers: error by partition. `moves`: replicas by partition, None to give up."""
    parts = [ReassignablePartition(number, replicas) for number, replicas in moves.items()]
    request = AlterPartitionReassignmentsRequest(5000, [ReassignableTopic(topic, parts)], may_resize)
    response = cluster.ask(node_id, request, 1)
    assert (response.error_code, response.allow_replication_factor_change) == (0, may_resize)
    (told,) = response.responses
    return {part.partition_index: part.error_code for part in told.partitions}


def under_way(cluster, named=None, node_id=1):
    """What a broker tells: (replicas, adding, removing) by partition."""
    topics = None if named is None else [ListPartitionReassignmentsTopics("t", named)]
    response = cluster.ask(node_id, ListPartitionReassignmentsRequest(5000, topics), 0)
    assert (response.error_code, response.error_message) == (0, None)
    return {
        TopicPartition(topic.name, part.partition_index): (
            part.replicas,
            part.adding_replicas,
            part.removing_replicas,
        )
        for topic in response.topics
        for part in topic.partitions
    }


def fill(cluster, count=50, first=0):
    for number in range(first, first + count):
        assert cluster.put(b"%d" % number).error_code == 0


def holds(cluster, node_id, count):
    """A broker has the records from 0 on, each once and in order."""
    found = cluster[node_id].values()
    assert [at for at, _, _ in found] == list(range(count))
    assert all(b"%d" % at in data for at, _, data in found)


def moved(cluster, node_id, way):
    name = f"ReassignmentBytes{way}PerSec"
    return cluster[node_id].core.registry.read("BrokerTopicMetrics", name)["count"]


def hosted(cluster, topic="t"):
    return sorted(one for one, node in cluster.nodes.items() if TopicPartition(topic, 0) in node.core.logs.logs)


def test_a_partition_goes_to_others_with_all_it_has_and_its_old_logs_are_deleted(four):
    four.create(replicas={0: [1, 2]})
    fill(four)
    assert reassign(four, {0: [3, 4]}, node_id=3) == {0: 0}
    four.until(lambda: four.state().replicas == (3, 4))
    state = four.state()
    assert (state.moves, state.leader, sorted(state.isr)) == (False, 3, [3, 4])
    came, went = (moved(four, one, way) for one, way in ((3, "In"), (1, "Out")))
    assert 2 * came == went > 0, "to each of the two"
    assert moved(four, 2, "In") == moved(four, 3, "Out") == 0
    four.until(lambda: hosted(four) == [3, 4])
    assert under_way(four) == {}
    holds(four, 3, 50)
    fill(four, 1, 50)
    four.advance(1000)
    holds(four, 4, 51)
    four.advance(61_000)
    for gone in (1, 2):
        left = [name for name in four.disks[gone].list(".") if name.startswith("t-0")]
        assert not left, "in the end the files go, too"


def test_while_it_goes_everybody_is_told_of_all_replicas(four):
    four.create(replicas={0: [1, 2]})
    fill(four, 3)
    four.paused.add(4)
    assert reassign(four, {0: [4, 2]}, node_id=2) == {0: 0}
    expected = {KEY: ([4, 2, 1], [4], [1])}
    assert under_way(four) == under_way(four, [0, 9], node_id=3) == expected
    assert under_way(four, [1]) == {}
    four.until(lambda: four.state(node_id=2).moves)
    (topic,) = four.ask(2, MetadataRequest([MetadataRequestTopic(name="t")]), 12).topics
    assert (topic.partitions[0].replica_nodes, topic.partitions[0].isr_nodes) == ([4, 2, 1], [1, 2])
    gauges = four[1].core.registry
    assert gauges.read("ReplicaManager", "ReassigningPartitions") == {"value": 1}
    assert gauges.read("ReplicaManager", "UnderReplicatedPartitions") == {"value": 0}, "who only comes is not missed"
    fill(four, 1, 3)
    four.paused.clear()
    four.until(lambda: not four.state().moves)
    assert four.leader() in (2, 4)
    four.until(lambda: gauges.read("ReplicaManager", "ReassigningPartitions") == {"value": 0})


def test_given_up_it_is_as_before_and_who_came_has_nothing_left(four):
    four.create(replicas={0: [1, 2]})
    fill(four, 3)
    four.cut.add(frozenset((1, 4)))
    assert reassign(four, {0: None}) == {0: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
    assert reassign(four, {0: [3, 4]}) == {0: 0}
    four.cut.clear()
    four.cut.add(frozenset((1, 4)))
    four.until(lambda: 3 in four.state().isr)
    fill(four, 1, 3)
    assert reassign(four, {0: None}) == {0: 0}
    state = four.state()
    assert (state.replicas, sorted(state.isr), state.leader, state.moves) == ((1, 2), [1, 2], 1, False)
    four.cut.clear()
    four.until(lambda: hosted(four) == [1, 2])
    fill(four, 1, 4)
    holds(four, 2, 5)


def test_on_the_way_it_may_be_sent_elsewhere(four):
    four.create(replicas={0: [1, 2]})
    fill(four, 3)
    four.paused.add(4)
    assert reassign(four, {0: [4, 2]}) == {0: 0}
    assert reassign(four, {0: [3, 2]}) == {0: 0}
    four.until(lambda: not four.state().moves)
    assert (four.state().replicas, four.state().leader) == ((3, 2), 3)
    four.paused.clear()
    four.until(lambda: hosted(four) == [2, 3])
    holds(four, 3, 3)


def test_each_partition_is_answered_for_itself(four):
    four.create(partitions=3, factor=2)
    old = [four.state(number).replicas for number in range(3)]
    assert reassign(four, {0: [1, 9], 1: [1, 2, 3], 7: [1, 2]}, may_resize=False) == {
        0: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        1: ErrorCode.INVALID_REPLICATION_FACTOR,
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [four.state(number).replicas for number in range(3)] == old
    parts = [ReassignablePartition(0, [1, 2, 3]), ReassignablePartition(1, [1]), ReassignablePartition(0, [1])]
    response = four.ask(2, AlterPartitionReassignmentsRequest(5000, [ReassignableTopic("t", parts)]), 0)
    codes = [part.error_code for part in response.responses[0].partitions]
    assert codes == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]


def test_a_broker_that_was_away_when_its_replica_went_deletes_it_as_it_comes_back(four, caplog):
    caplog.set_level("INFO")
    four.create(replicas={0: [1, 2]})
    fill(four, 3)
    four.kill(2)
    assert reassign(four, {0: [1, 3]}) == {0: 0}
    four.until(lambda: not four.state().moves)
    four.start(2)
    four.until(lambda: four[2].core.ready)
    assert "t-0 is on brokers [1, 3] by now, and its log here is deleted" in caplog.text
    assert hosted(four) == [1, 3]


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("victim", FOUR)
def test_whoever_ends_on_the_way_it_arrives_once_he_is_back(four, victim, power):
    four.create(replicas={0: [2, 3]}, min_insync_replicas=2, flush_messages=1)
    fill(four, 20)
    assert reassign(four, {0: [3, 4]}) == {0: 0}
    four.kill(victim, power=power)
    four.advance(3000)
    four.start(victim)
    four.until(lambda: all(node.core.ready for node in four.nodes.values()))
    four.until(lambda: sorted(four.state().isr) == sorted(four.state().replicas) == [3, 4])
    four.until(lambda: hosted(four) == [3, 4] and four.leader() in (3, 4))
    fill(four, 1, 20)
    four.until(lambda: four[3].log().log_end_offset == four[4].log().log_end_offset)
    holds(four, 4, 21)


def test_the_controller_that_starts_anew_goes_on_with_it_from_its_snapshot():
    four = Cluster(*FOUR, metadata_log_max_record_bytes_between_snapshots=400)
    four.create(replicas={0: [2, 3]})
    fill(four, 3)
    four.paused.add(4)
    assert reassign(four, {0: [4, 3]}) == {0: 0}
    four.kill(1)
    four.start(1)
    four.until(lambda: four[1].core.ready)
    assert under_way(four) == {KEY: ([4, 3, 2], [4], [2])}
    four.paused.clear()
    four.until(lambda: not four.state().moves)
    assert four.state().replicas == (4, 3)


def test_a_topic_on_the_way_may_grow_and_be_deleted(four):
    four.create(replicas={0: [1, 2]})
    four.paused.add(4)
    assert reassign(four, {0: [4, 2]}) == {0: 0}
    grown = four.ask(1, CreatePartitionsRequest([CreatePartitionsTopic("t", 2, None)], 5000), 3)
    assert grown.results[0].error_code == 0
    assert len(four.state(1).replicas) == 3, "as Apache Kafka, which counts all of the first partition's"
    gone = four.ask(1, DeleteTopicsRequest([DeleteTopicState("t")]), 6)
    assert gone.responses[0].error_code == 0
    assert under_way(four) == {}
    four.paused.clear()
    four.until(lambda: hosted(four) == [])


def test_a_broker_that_is_stopped_for_good_is_forgotten(four):
    four.create(replicas={0: [4, 2], 1: [2, 3]})
    fill(four, 3)
    assert reassign(four, {0: [3, 2]}) == {0: 0}
    four.until(lambda: hosted(four) == [2, 3])
    four.stop(4)
    assert four.ask(3, UnregisterBrokerRequest(4), 0).error_code == 0
    four.until(lambda: all(4 not in node.core.image.brokers for node in four.nodes.values()))
    assert four.ask(3, UnregisterBrokerRequest(4), 0).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert four.ask(3, UnregisterBrokerRequest(1), 0).error_code == ErrorCode.INVALID_REQUEST
    assert reassign(four, {0: [4]}) == {0: ErrorCode.INVALID_REPLICA_ASSIGNMENT}
    fill(four, 1, 3)
    four.start(4)
    four.until(lambda: four[4].core.ready)
    assert 4 in four[1].core.image.brokers, "it may come back, as a new one"


def test_a_log_that_went_elsewhere_is_no_loss_of_a_start(four, caplog):
    """It would cost the broker its place among those that may lead, in every other partition."""
    four.create(replicas={0: [4, 2], 1: [2, 4]}, min_insync_replicas=2)
    fill(four, 3)
    four.advance(6_000)  # how far it was committed is noted
    assert reassign(four, {0: [3, 2]}) == {0: 0}
    four.until(lambda: hosted(four) == [2, 3])
    four.kill(4)
    assert b"t 0 3 " in four.disks[4].load("replication-offset-checkpoint")
    four.start(4)
    four.until(lambda: four[4].core.ready)
    assert "the directory is gone" not in caplog.text
    assert four[4].core.logs.losses.count == 0


def test_one_that_leads_is_forgotten_once_it_is_stopped(four):
    """It was at once, and asked on in vain: one request for each broker, by anybody, ended the cluster."""
    four.create(replicas={0: [4, 2, 3]})
    fill(four, 3)
    for node_id in FOUR:
        assert four.ask(2, UnregisterBrokerRequest(node_id), 0).error_code == ErrorCode.INVALID_REQUEST
    assert four.leader() == 4
    four.stop(4)
    assert four.ask(1, UnregisterBrokerRequest(4), 0).error_code == 0
    state = four.state()
    assert (state.replicas, sorted(state.isr), state.leader) == ((4, 2, 3), [2, 3], 2)
    four.until(lambda: four.state(node_id=2).leader == 2)
    fill(four, 1, 3)


def test_where_nobody_of_the_target_can_lead_nobody_does_until_he_is_back(four):
    four.create(replicas={0: [2]})
    fill(four, 3)
    four.kill(2)
    four.until(lambda: four.leader() == NO_LEADER)
    assert reassign(four, {0: [3]}) == {0: 0}
    assert four.leader() == NO_LEADER
    assert four.state().elr == (2,)
    four.start(2)
    four.until(lambda: four.state().replicas == (3,))
    four.until(lambda: hosted(four) == [3])
    holds(four, 3, 3)
