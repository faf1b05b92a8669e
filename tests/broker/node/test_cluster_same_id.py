"""Two processes with one node id: what one of them has fetched is not said of the other."""

from __future__ import annotations

from barnabas.broker.node.member import Member
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.requests.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tests.broker.node.cluster import CLUSTER_ID, Cluster

CONTROLLER, LEADER, FOLLOWER = 1, 2, 3
FAR = 1 << 40
T = TopicPartition("t", 0)


class Second:
    """Another process that calls itself 3, and has what it is given: it says so itself, and fetches nothing more."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        asked = BrokerRegistrationRequest(FOLLOWER, CLUSTER_ID, b"another process.")
        self.epoch = cluster.ask_as_broker(FOLLOWER, CONTROLLER, asked).broker_epoch
        beat = BrokerHeartbeatRequest(FOLLOWER, self.epoch, FAR)
        assert not cluster.ask_as_broker(FOLLOWER, CONTROLLER, beat).is_fenced
        cluster.until(lambda: cluster[LEADER].core.image.isr_eligible(FOLLOWER, self.epoch))

    def fetch(self, offset: int, epoch: int) -> int:
        """Fetch from the leader; the error."""
        state = self.cluster.state()
        part = FetchPartition(0, state.leader_epoch, offset, 0)
        topics = [FetchTopic("", state.topic_id, [part])]
        request = FetchRequest(replica_state=ReplicaState(FOLLOWER, epoch), max_wait_ms=0, topics=topics)
        response = self.cluster.ask_as_broker(FOLLOWER, LEADER, request)
        return int(response.responses[0].partitions[0].error_code)


def member_of(cluster: Cluster) -> Member:
    member = cluster[FOLLOWER].core.member
    assert member is not None
    return member


def in_sync_twice() -> tuple[Cluster, Second]:
    """Broker 3 was silent for a session, and another process of its id is in sync in its place."""
    cluster = Cluster()
    cluster.create(replicas={0: [LEADER, FOLLOWER]}, min_insync_replicas=2)
    assert cluster.put(b"first").error_code == 0
    cluster.paused.add(FOLLOWER)
    cluster.until(lambda: not cluster[LEADER].core.image.is_alive(FOLLOWER))
    second = Second(cluster)
    assert second.fetch(1, second.epoch) == 0
    cluster.until(lambda: sorted(cluster.state().isr) == [LEADER, FOLLOWER])
    return cluster, second


def test_what_a_process_fetches_that_is_not_registered_any_more_is_not_committed():
    """It named the epoch of the other: a record was acknowledged that the member of the ISR did not have."""
    cluster, second = in_sync_twice()
    cluster.paused.clear()
    answer = cluster.produce(b"second")
    cluster.advance(3000)
    assert member_of(cluster).epoch < 0
    assert not answer.done
    assert cluster[LEADER].log().high_watermark == 1
    assert second.fetch(2, second.epoch) == 0
    cluster.until(lambda: answer.done)
    assert cluster.part(answer).error_code == 0


def test_a_leader_that_has_heard_of_nobody_yet_knows_who_is_registered():
    """A new leader took the first fetch that came for that of the member of the ISR."""
    cluster, second = in_sync_twice()
    cluster[LEADER].core.replicas.hosted.online[T].remotes[FOLLOWER].reset(
        cluster.now_ms, 1, new_leader=True, in_sync=True
    )
    answer = cluster.produce(b"second")
    assert second.fetch(2, member_of(cluster).epoch) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert second.fetch(1, second.epoch) == 0
    cluster.settle()
    assert not answer.done


def test_a_process_does_not_lead_what_another_with_its_node_id_is_to_lead():
    """Whoever was still connected to it followed it, and cut what it did not have: acknowledged records."""
    cluster, second = in_sync_twice()
    answer = cluster.produce(b"second")
    assert second.fetch(2, second.epoch) == 0
    cluster.until(lambda: answer.done)
    assert cluster.part(answer).error_code == 0
    cluster.kill(LEADER)
    cluster.until(lambda: cluster.leader() == FOLLOWER)
    assert cluster[CONTROLLER].core.image.isr_eligible(FOLLOWER, second.epoch)
    cluster.paused.clear()
    cluster.until(lambda: cluster[FOLLOWER].core.image.partition("t", 0) == cluster.state())
    assert cluster.put(b"third", acks=1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.until(lambda: member_of(cluster).epoch > second.epoch)  # the other one is silent
    cluster.start(LEADER)
    cluster.until(lambda: sorted(cluster.state().isr) == [LEADER, FOLLOWER])
    assert cluster[FOLLOWER].values() == cluster[LEADER].values()
    assert cluster.put(b"third").base_offset == 2
