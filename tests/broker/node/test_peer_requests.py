"""What brokers alone ask of the controller: who is refused, and what a leader's proposals come to."""

from __future__ import annotations

import pytest

from barnabas.broker.cluster.metadata_log import TOPIC_ID
from barnabas.broker.handlers.registry import _OF_PEERS, PeerHandlers, peer_versions
from barnabas.broker.raft import calls
from barnabas.broker.raft.world import Mark
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.requests.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionTopic,
    BrokerState,
)
from barnabas.protocol.requests.begin_quorum_epoch import BeginQuorumEpochRequest
from barnabas.protocol.requests.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.requests.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.requests.end_quorum_epoch import EndQuorumEpochRequest
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from barnabas.protocol.requests.fetch_snapshot import FetchSnapshotRequest, PartitionSnapshot, TopicSnapshot
from barnabas.protocol.requests.vote import VoteRequest
from tests.broker.node.cluster import CLUSTER_ID, Cluster
from tests.broker.node.controllers import Controllers

CONTROLLER = 1


@pytest.fixture
def pair():
    """Two brokers, of which 2 leads `t`."""
    cluster = Cluster(1, 2)
    cluster.create(replicas={0: [2, 1]})
    return cluster


def requests_of(broker, epoch):
    return [
        BrokerRegistrationRequest(broker, CLUSTER_ID, b"i" * 16),
        BrokerHeartbeatRequest(broker, epoch),
        AlterPartitionRequest(broker, epoch),
        AllocateProducerIdsRequest(broker, epoch),
    ]


def test_whatever_a_broker_may_ask_has_a_handler_and_is_told():
    handlers = PeerHandlers()
    assert all(handlers[key] for key in _OF_PEERS)
    assert list(peer_versions()) == sorted(_OF_PEERS)


def test_a_broker_speaks_for_itself_alone(pair):
    before = list(pair[1].core.image.to_records())
    epoch = pair[1].core.image.broker_epoch(2)
    for request in requests_of(2, epoch):
        assert pair.ask_as_broker(3, CONTROLLER, request).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    fetch = FetchRequest(replica_state=ReplicaState(2, epoch), topics=[FetchTopic("", TOPIC_ID, [FetchPartition(0)])])
    assert pair.ask_as_broker(3, CONTROLLER, fetch).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    snapshot = FetchSnapshotRequest(None, 2)
    assert pair.ask_as_broker(3, CONTROLLER, snapshot).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert list(pair[1].core.image.to_records()) == before


def test_who_is_not_the_controller_says_so(pair):
    for request in requests_of(3, 7):
        assert pair.ask_as_broker(3, 2, request).error_code == ErrorCode.NOT_CONTROLLER
    fetch = FetchRequest(replica_state=ReplicaState(3, 7), topics=[FetchTopic("", TOPIC_ID, [FetchPartition(0)])])
    (topic,) = pair.ask_as_broker(3, 2, fetch).responses
    assert topic.partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    snapshot = FetchSnapshotRequest(None, 3, topics=[TopicSnapshot("__cluster_metadata", [PartitionSnapshot()])])
    (topic,) = pair.ask_as_broker(3, 2, snapshot).topics
    assert topic.partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_epoch_of_an_earlier_life_counts_for_nothing(pair):
    epoch = pair[1].core.image.broker_epoch(2)
    for request in requests_of(2, epoch - 1)[1:]:
        assert pair.ask_as_broker(2, CONTROLLER, request).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert pair.ask_as_broker(3, CONTROLLER, BrokerHeartbeatRequest(3, 0)).error_code == (
        ErrorCode.BROKER_ID_NOT_REGISTERED
    )


def test_blocks_of_producer_ids_are_given_once(pair):
    epoch = pair[1].core.image.broker_epoch(2)
    first, second = (
        pair.ask_as_broker(2, CONTROLLER, AllocateProducerIdsRequest(2, epoch)).producer_id_start for _ in range(2)
    )
    assert second >= first + 1000


@pytest.mark.parametrize(
    ("isr", "change", "expected"),
    [
        ([(2, 0)], {}, ErrorCode.NONE),
        ([(2, 0), (1, -1)], {}, ErrorCode.NONE),
        ([(2, 0), (1, 99)], {}, ErrorCode.INELIGIBLE_REPLICA),
        ([(2, 0), (3, -1)], {}, ErrorCode.INVALID_REQUEST),
        ([(2, 0)], {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ([(2, 0)], {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ([(2, 0)], {"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ([(2, 0)], {"partition_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ([(2, 0)], {"partition_index": 4}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([(2, 0)], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),  # it is RECOVERED, and stays so
        ([(2, 0)], {"leader_recovery_state": 2}, ErrorCode.INVALID_REQUEST),
        ([(1, -1)], {}, ErrorCode.NEW_LEADER_ELECTED),  # the leader gives up
    ],
)
def test_a_leaders_proposal_is_judged(pair, isr, change, expected):
    image = pair[1].core.image
    epoch = image.broker_epoch(2)
    members = [BrokerState(one, epoch + other if one == 2 else other) for one, other in isr]
    asked = {"partition_index": 0, "leader_epoch": 0, "partition_epoch": 0, **change}
    part = AlterPartitionPartition(new_isr_with_epochs=members, **asked)
    topic = AlterPartitionTopic(image.topics["t"].topic_id, [part])
    response = pair.ask_as_broker(2, CONTROLLER, AlterPartitionRequest(2, epoch, [topic]))
    (told,) = response.topics[0].partitions
    assert (response.error_code, told.error_code) == (0, expected)
    if not expected:
        assert (told.leader_id, told.isr, told.partition_epoch) == (2, [one for one, _ in isr], 1)
        assert pair.state().isr == tuple(one for one, _ in isr)


def test_who_does_not_lead_proposes_nothing(pair):
    image = pair[1].core.image
    part = AlterPartitionPartition(0, 0, new_isr=[2], partition_epoch=0)
    asked = AlterPartitionRequest(1, image.broker_epoch(1), [AlterPartitionTopic(image.topics["t"].topic_id, [part])])
    (topic,) = pair.ask_as_broker(1, CONTROLLER, asked, version=2).topics
    assert topic.partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    unknown = AlterPartitionRequest(1, image.broker_epoch(1), [AlterPartitionTopic(b"x" * 16, [part])])
    assert pair.ask_as_broker(1, CONTROLLER, unknown).topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert pair.ask_as_broker(1, CONTROLLER, AlterPartitionRequest(1, image.broker_epoch(1))).error_code == 0


@pytest.mark.parametrize("request_type", [VoteRequest, BeginQuorumEpochRequest, EndQuorumEpochRequest])
def test_who_has_no_vote_is_not_asked_for_one(pair, request_type):
    for node_id in (1, 2):
        response = pair.ask_as_broker(3 - node_id, node_id, request_type())
        assert response.error_code == ErrorCode.INCONSISTENT_VOTER_SET


def of_metadata(replica, cluster=CLUSTER_ID):
    """What asks for the metadata's records, and for a snapshot of it."""
    topics = [FetchTopic("", TOPIC_ID, [FetchPartition(0)])]
    pieces = [TopicSnapshot("__cluster_metadata", [PartitionSnapshot()])]
    return [
        FetchRequest(cluster_id=cluster, replica_state=ReplicaState(replica, -1), topics=topics),
        FetchSnapshotRequest(cluster, replica, topics=pieces),
    ]


def test_among_several_controllers_a_broker_speaks_for_itself_alone():
    three = Controllers()
    active = three.active
    one, another = three.others()
    raft = three.voter(active).raft
    assert raft is not None
    epoch = raft.epoch
    before = list(three[active].core.image.to_records())
    asked = [
        *requests_of(one, three[active].core.image.broker_epoch(one)),
        *of_metadata(one),
        calls.vote(CLUSTER_ID, active, one, epoch + 1, Mark(9999, epoch), False),
        calls.begin(CLUSTER_ID, active, one, epoch + 1),
        calls.end(CLUSTER_ID, one, epoch + 1, [another]),
    ]
    for request in asked:
        answer = three.ask_as_broker(another, active, request)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED, type(request).__name__
    assert raft.epoch == epoch
    assert list(three[active].core.image.to_records()) == before


@pytest.mark.parametrize("kind", [Cluster, Controllers])
def test_a_broker_of_another_cluster_is_given_no_metadata(kind):
    three = kind()
    active = three.active if isinstance(three, Controllers) else CONTROLLER
    other = next(one for one in three.nodes if one != active)
    for request in of_metadata(other, "another-cluster"):
        assert three.ask_as_broker(other, active, request).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
