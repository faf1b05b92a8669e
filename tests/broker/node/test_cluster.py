"""Three brokers under one controller, in virtual time: what SEMANTICS say of followers, ISRs and elections."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.broker.cluster.image import TOPIC_RESOURCE
from barnabas.broker.memory_disk import MemoryDisk
from barnabas.broker.node.core import Core
from barnabas.broker.node.member import Stage
from barnabas.broker.replica.follower import Follower
from barnabas.protocol.api import SPOKEN, ApiKey
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import NO_LEADER, NO_PRODUCER_EPOCH, TopicPartition
from barnabas.protocol.requests import alter_configs as whole
from barnabas.protocol.requests.alter_partition import AlterPartitionRequest
from barnabas.protocol.requests.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.requests.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.requests.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from barnabas.protocol.requests.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.requests.describe_quorum import DescribeQuorumRequest, RequestedPartitionData, RequestedTopicData
from barnabas.protocol.requests.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.requests.init_producer_id import InitProducerIdRequest
from barnabas.protocol.requests.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.requests.unregister_broker import UnregisterBrokerRequest
from tests.broker.node.cluster import CLUSTER_ID, Answer, Cluster, Node
from tests.broker.node.world import World, batch

CONTROLLER = 1
SESSION_MS = 9000
LAG_MS = 30_000


@pytest.fixture
def three():
    return Cluster()


@pytest.fixture
def pair(three):
    """Three brokers and `t`, which 2 leads and 1 and 3 follow; one of them must follow for an acks=all."""
    three.create(replicas={0: [2, 3, 1]}, min_insync_replicas=2)
    assert three.put(b"first").error_code == 0
    three.advance(1000)
    return three


def agree(three):
    """All logs are the same, batch by batch, and all of it is committed."""
    three.until(lambda: len(set(three.high_watermarks().values()) | set(three.ends().values())) == 1)
    logs = [node.values() for node in three.nodes.values()]
    assert all(log == logs[0] for log in logs)
    return len(logs[0])


def alive(three):
    return [one.broker_id for one in three[CONTROLLER].core.image.alive_brokers()]


# Coming and going


def test_three_brokers_come_up_and_know_the_same(three):
    images = [list(node.core.image.to_records()) for node in three.nodes.values()]
    assert images[0] == images[1] == images[2]
    assert alive(three) == [1, 2, 3]


def test_a_broker_waits_for_the_controller_and_says_so_once(caplog):
    three = Cluster(1)
    three.kill(1)
    three.start(2)
    three.advance(10_000)
    assert not three[2].core.ready
    assert sum("does not answer" in one.message for one in caplog.records) == 2  # its registration, and its metadata
    three.start(1)
    three.until(lambda: three[2].core.ready)
    assert alive(three) == [1, 2]


def test_a_node_id_that_is_in_use_is_refused_in_one_sentence():
    three = Cluster(1, 2)
    three.disks[3] = MemoryDisk()
    thief = three.nodes[3] = Node(three, 2, three.disks[3], {})
    three.advance(61_000)
    assert "another broker has the node id 2 and is alive" in str(thief.core.fault)
    assert (alive(three), three[2].core.ready) == ([1, 2], True)


def test_a_node_id_is_in_use_only_where_one_controller_says_so_for_a_minute():
    """A controller that comes back gives every session its whole time again: it proves nobody alive."""
    three = Cluster(1, 2)
    three.kill(2)
    three.advance(50)  # too soon to be fenced for its closed connections
    three.start(2)
    for _ in range(10):
        three.advance(7000)
        assert not three[2].core.ready, "its last session is not over"
        three.kill(1)
        three.advance(500)
        three.start(1)
    three.until(lambda: three[2].core.ready)
    assert alive(three) == [1, 2]


def test_a_broker_of_another_cluster_is_refused_in_one_sentence():
    three = Cluster(1)
    stranger = three.start(2, barnabas_cluster_id="another-one")
    three.advance(1000)
    assert "another cluster than another-one" in str(stranger.core.fault)
    assert alive(three) == [1]


@pytest.mark.parametrize("older", [{2}, {2, 3}])
def test_who_asks_in_the_versions_before_the_newest_is_one_of_the_cluster(older):
    """Registration, heartbeats, metadata, replication, the ISR and producer ids of an earlier release's broker."""
    three = Cluster(1)
    before = {key: (first, max(first, last - 1)) for key, (first, last) in SPOKEN.items()}
    three.served |= dict.fromkeys(older, before)
    for one in (2, 3):
        three.start(one)
    three.until(lambda: alive(three) == [1, 2, 3])
    three.create(replicas={0: [2, 3, 1], 1: [1, 2, 3], 2: [3, 1, 2]}, min_insync_replicas=2)
    for number in range(3):
        assert three.put(b"%d" % number, partition=number).error_code == 0
    three.stop(3)
    three.until(lambda: alive(three) == [1, 2])
    three.start(3)
    three.until(lambda: all(sorted(three.state(number).isr) == [1, 2, 3] for number in range(3)))
    for number in range(3):
        assert three.put(b"more", partition=number).error_code == 0
    three.advance(1000)
    assert all(one.values(number) == three[1].values(number) for one in three.nodes.values() for number in range(3))
    for (node, other, key), spoken in three.spoken.items():
        release = SPOKEN if older.isdisjoint((node, other)) else before
        assert spoken == {release[key][1]}, ApiKey(key).name
    assert {key for node, _, key in three.spoken if node in older} >= {ApiKey.FETCH, ApiKey.ALTER_PARTITION}


def test_a_broker_that_stood_alone_becomes_the_controller_of_a_cluster():
    world = World(barnabas_cluster_id=CLUSTER_ID)
    world.create()
    world.put(batch(b"first"))
    three = Cluster(disks={1: world.stop()})
    assert three.state(node_id=3).leader == 1
    three.create("u", factor=3)
    assert three.put(b"second").base_offset == 1


def test_one_that_stood_alone_and_has_written_a_snapshot_takes_in_others():
    world = World(barnabas_cluster_id=CLUSTER_ID, metadata_log_max_record_bytes_between_snapshots=1)
    for name in ("t", "u", "v"):
        world.create(name)
    three = Cluster(disks={1: world.stop()})
    assert three[CONTROLLER].core.metadata.log.log_start_offset > 0
    assert list(three[3].core.image.to_records()) == list(three[CONTROLLER].core.image.to_records())
    three.create("w", factor=3)
    assert three.put(b"first", topic="w").error_code == 0


def test_who_was_away_while_the_log_was_cut_is_given_the_snapshot(caplog):
    caplog.set_level("INFO")
    three = Cluster(metadata_log_max_record_bytes_between_snapshots=500)
    three.create(replicas={0: [2, 3, 1]}, min_insync_replicas=2)
    three.create("gone", replicas={0: [3]})
    three.paused.add(3)
    three.until(lambda: 3 not in alive(three))
    metadata, before = three[CONTROLLER].core.metadata, three[3].core.metadata_end()[0]
    three.ask(CONTROLLER, DeleteTopicsRequest([DeleteTopicState("gone")]), 6)
    topics = [CreatableTopic(f"t{number}", 3, 2) for number in range(20)]
    three.ask(CONTROLLER, CreateTopicsRequest(topics), 7)
    three.settle()
    assert metadata.log.log_start_offset > before
    written = [one for one in caplog.messages if one.startswith("metadata snapshot")]
    assert len(written) == len(set(written)), "none twice"
    assert three.put(b"meanwhile").error_code == 0
    caplog.clear()
    three.paused.clear()
    three.until(lambda: sorted(three.state().isr) == [1, 2, 3])
    assert sum("came as a snapshot" in one for one in caplog.messages) == 1
    three.until(lambda: list(three[3].core.image.to_records()) == list(three[2].core.image.to_records()))
    assert [str(key) for key in three[3].core.logs.logs if key.topic in ("t", "gone")] == ["t-0"]
    assert agree(three) == 1


def test_one_that_stops_in_good_order_has_others_lead_at_once(pair):
    send, asked = pair[2].send, []

    def sent(broker_id, request, done, *rest):
        if isinstance(request, BrokerHeartbeatRequest) and request.want_shut_down:
            asked.append(request)

            def answered(response):
                assert (response.should_shut_down, pair.leader()) == (True, 3)
                done(response)

            send(broker_id, request, answered, *rest)
        else:
            send(broker_id, request, done, *rest)

    pair[2].send = sent
    pair.stop(2)
    assert [one.want_fence for one in asked] == [False], "as Kafka has it (BrokerLifecycleManager)"
    assert (pair.leader(), pair.state().isr) == (3, (3, 1))
    assert alive(pair) == [1, 3]
    pair.start(2)
    assert pair.until(lambda: pair[2].core.ready) < 1000, "nobody waits for its session to end"
    pair.until(lambda: sorted(pair.state().isr) == [1, 2, 3])
    assert agree(pair) == 1


def test_one_that_stops_while_the_controller_is_away_does_not_wait_for_it(pair):
    pair.cut.add(frozenset((1, 2)))
    began_ms = pair.now_ms
    pair.stop(2)
    assert pair.now_ms - began_ms <= 500


def test_the_controller_starts_again_and_the_others_go_on(pair):
    pair.kill(1)
    pair.advance(2000)
    assert pair.produce(b"meanwhile", acks=1, node_id=2).done
    pair.start(1)
    pair.until(lambda: pair[1].core.ready and sorted(pair.state().isr) == [1, 2, 3])
    assert alive(pair) == [1, 2, 3]
    assert pair.leader() == 2
    assert pair.put(b"again").error_code == 0
    assert agree(pair) == 3


# What is asked of any broker


def test_any_broker_gives_out_producer_ids_and_none_twice(three):
    told = [three.ask(one, InitProducerIdRequest(None), 4) for one in (1, 2, 3, 2)]
    assert all(one.error_code == 0 and one.producer_epoch != NO_PRODUCER_EPOCH for one in told)
    assert len({one.producer_id for one in told}) == 4


def test_any_broker_makes_topics_that_are_asked_for(three):
    request = MetadataRequest([MetadataRequestTopic(name="fresh")], True)
    three.ask(3, request, 9)
    three.until(lambda: "fresh" in three[3].core.image.topics)
    assert three.ask(3, request, 9).topics[0].error_code == 0


def test_any_broker_takes_changes_that_the_controller_decides(three):
    three.create(node_id=3, factor=3)
    three.ask(2, CreatePartitionsRequest([CreatePartitionsTopic("t", 4, None)], 1000), 3)
    three.until(lambda: all(len(one.core.image.topics["t"].partitions) == 4 for one in three.nodes.values()))
    change = AlterableConfig("retention.ms", 0, "1234")
    asked = IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC_RESOURCE, "t", [change])])
    assert three.ask(2, asked, 1).responses[0].error_code == 0
    key = TopicPartition("t", 3)
    three.until(lambda: all(one.core.logs.config_of(key).retention_ms == 1234 for one in three.nodes.values()))
    settings = [whole.AlterableConfig("retention.ms", "5678")]
    replaced = whole.AlterConfigsRequest([whole.AlterConfigsResource(TOPIC_RESOURCE, "t", settings)])
    assert three.ask(3, replaced, 2).responses[0].error_code == 0
    three.until(lambda: all(one.core.logs.config_of(key).retention_ms == 5678 for one in three.nodes.values()))
    alive_yet = three.ask(2, UnregisterBrokerRequest(3), 0)
    assert (alive_yet.error_code, "is alive" in alive_yet.error_message) == (ErrorCode.INVALID_REQUEST, True)
    refused = three.ask(3, CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 7).topics[0]
    assert refused.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    described = DescribeQuorumRequest([RequestedTopicData("__cluster_metadata", [RequestedPartitionData(0)])])
    assert three.ask(2, described, 2).topics[0].partitions[0].leader_id == CONTROLLER
    assert three.ask(3, DeleteTopicsRequest([DeleteTopicState("t")]), 6).responses[0].error_code == 0
    three.until(lambda: not any(one.core.logs.logs for one in three.nodes.values()))


def quorum(three, node_id=CONTROLLER):
    asked = DescribeQuorumRequest([RequestedTopicData("__cluster_metadata", [RequestedPartitionData(0)])])
    return three.ask(node_id, asked, 2).topics[0].partitions[0]


def gauge(node, type_name, name):
    return node.core.registry.read(type_name, name)["value"]


def test_how_far_a_follower_is_behind_can_be_read(three, monkeypatch):
    three.create("t", replicas={0: [2, 3, 1]})
    take, seen = Follower.take, []

    def look_after(follower, data, now_ms):
        came = take(follower, data, now_ms)
        if came:
            seen.append((read(3, "MaxLag"), read(1, "MaxLag"), lags(3)))
        return came

    def lags(node_id):
        samples = three[node_id].core.registry.collect(three.now_ms)
        return [(one.tags, one.values["value"]) for one in samples if one.type == "FetcherLagMetrics"]

    def read(node_id, name):
        return three[node_id].core.registry.read("ReplicaFetcherManager", name, {"clientId": "Replica"})["value"]

    three.advance(1000)
    tags = (("clientId", "ReplicaFetcherThread-0-2"), ("partition", "0"), ("topic", "t"))
    assert (lags(2), lags(3)) == ([], [(tags, 0)])
    three.cut.add(frozenset((2, 3)))
    for number in range(3):
        assert three.put(b"%d" % number * 700_000, acks=1).error_code == 0
    three.until(lambda: three.state().isr == (2, 1))
    three.cut.clear()
    monkeypatch.setattr(Follower, "take", look_after)
    three.until(lambda: three[3].log().log_end_offset == 3)
    assert seen == [(lag, 0, [(tags, lag)]) for lag in (2, 1, 0)]
    assert read(2, "MinFetchRate") == 0
    three.advance(180_000)
    assert 1 < read(3, "MinFetchRate") < 4, "each waits half a second"
    moved = "PreferredReplicaImbalanceCount"
    assert gauge(three[1], "kafka.controller:KafkaController", moved) == 0
    three.kill(2)
    three.until(lambda: three.leader() == 3)
    assert gauge(three[1], "kafka.controller:KafkaController", moved) == 1


def test_the_controller_tells_how_far_the_others_are(three):
    three.create()
    three.advance(1000)
    told = quorum(three, 3)
    now_ms = three[3].now_ms()
    assert [one.replica_id for one in told.observers] == [2, 3]
    assert all(one.log_end_offset == told.high_watermark for one in told.observers)
    assert all(now_ms - 500 <= one.last_fetch_timestamp == one.last_caught_up_timestamp for one in told.observers)
    three.paused.add(3)
    three.settle()
    paused_ms = now_ms = three[2].now_ms()
    three.ask(2, CreateTopicsRequest([CreatableTopic("u", 1, 1)]), 7)
    three.advance(2000)
    two, late = quorum(three, 2).observers
    assert two.log_end_offset > late.log_end_offset == told.high_watermark
    assert late.last_caught_up_timestamp <= paused_ms < two.last_caught_up_timestamp
    end = quorum(three).high_watermark
    assert gauge(three[2], "broker-metadata-metrics", "last-applied-record-offset") == end - 1
    assert gauge(three[3], "broker-metadata-metrics", "last-applied-record-offset") == told.high_watermark - 1
    assert gauge(three[1], "kafka.controller:KafkaController", "LastCommittedRecordOffset") == end - 1
    lag = "last-applied-record-lag-ms"
    assert [gauge(three[one], "broker-metadata-metrics", lag) for one in (1, 2)] == [0, 0]
    count = "ActiveControllerCount"
    assert [gauge(three[one], "kafka.controller:KafkaController", count) for one in (1, 2, 3)] == [1, 0, 0]
    applied = "LastAppliedRecordOffset"
    told_of = [gauge(three[one], "kafka.controller:KafkaController", applied) for one in (1, 2)]
    assert told_of == [end - 1] * 2
    three.kill(3)
    three.advance(300_000)
    assert [one.replica_id for one in quorum(three, 2).observers] == [2]


def metadata_lag_ms(node):
    names = (
        ("broker-metadata-metrics", "last-applied-record-lag-ms"),
        ("kafka.controller:KafkaController", "LastAppliedRecordLagMs"),
    )
    lag_ms, same = (gauge(node, *name) for name in names)
    assert lag_ms == same
    return lag_ms


def test_metadata_that_is_here_and_not_taken_in_is_a_lag(three):
    """A change of many partitions is taken in in steps; the first answer that tells of it says that there is more."""
    three.create()
    three.advance(5000)
    lags = []
    two, stepped = three[2], three[2].step

    def step():
        worked = stepped()
        lags.append(metadata_lag_ms(two))
        return worked

    two.step = step
    three.cut.add(frozenset((1, 2)))
    three.ask(CONTROLLER, CreateTopicsRequest([CreatableTopic("of-an-answer-that-is-under-way", 1, 1)]), 6)
    three.ask(CONTROLLER, CreateTopicsRequest([CreatableTopic("many", 2500, 1)]), 6)
    three.advance(400)
    three.cut.clear()
    three.until(lambda: "many" in two.core.image.topics)
    assert 0 < max(lags) < 10_000
    three.advance(1000)
    assert metadata_lag_ms(two) == 0


def test_who_does_not_hear_of_the_controller_does_not_say_that_it_has_all(three):
    three.create()
    three.advance(5000)
    assert [metadata_lag_ms(three[one]) for one in (1, 2, 3)] == [0, 0, 0]
    three.cut |= {frozenset((1, 3)), frozenset((2, 3))}
    three.advance(7000)
    assert 6000 <= metadata_lag_ms(three[3]) <= 8000
    assert [metadata_lag_ms(three[one]) for one in (1, 2)] == [0, 0]
    three.cut.clear()
    three.advance(3000)
    assert metadata_lag_ms(three[3]) == 0


def test_a_topic_made_anew_before_a_large_one_keeps_what_is_acknowledged(three, monkeypatch):
    """Broker 2 hears of all three changes at once; the records of the new topic are not for the log of the old one."""
    three.create(replicas={0: [2]})
    assert three.put(b"of the old one").error_code == 0
    three.cut.add(frozenset((1, 2)))
    assigned = [CreatableReplicaAssignment(0, [2])]
    for request in (
        CreateTopicsRequest([CreatableTopic("of-an-answer-that-is-under-way", 1, 1)]),
        DeleteTopicsRequest([DeleteTopicState("t")]),
        CreateTopicsRequest([CreatableTopic("t", -1, -1, assigned)]),
        CreateTopicsRequest([CreatableTopic("many", 300, 2)]),
    ):
        three.ask(CONTROLLER, request, 6)
    sent: list[Answer] = []
    new, step = three.state().topic_id, three[2].step

    def stepped():
        worked = step()
        if three.state(node_id=2) is not None and three.state(node_id=2).topic_id == new and len(sent) < 9:
            sent.append(three.produce(b"%d" % len(sent), node_id=2))
        return worked

    monkeypatch.setattr(three[2], "step", stepped)
    three.cut.clear()
    three.until(lambda: len(sent) == 9 and all(one.done for one in sent))
    acknowledged = [number for number, one in enumerate(sent) if three.part(one).error_code == 0]
    assert acknowledged
    assert [int(value[-2:-1]) for _, _, value in three[2].values()] == acknowledged, "once, and in order"


def test_a_change_while_the_controller_is_away_is_to_be_tried_again(three):
    three.kill(CONTROLLER)
    response = three.ask(2, CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 7)
    assert response.topics[0].error_code == ErrorCode.NOT_CONTROLLER


def test_groups_work_where_their_coordinator_is_not_the_controller(three):
    request = FindCoordinatorRequest(coordinator_keys=["g"], key_type=0)
    three.until(lambda: three.ask(2, request, 4).coordinators[0].error_code == 0)
    assert len(three[3].core.image.topics["__consumer_offsets"].partitions) == 50
    states = three[2].core.image.topics["__consumer_offsets"].partitions.values()
    assert {len(state.replicas) for state in states} == {3}
    assert {state.leader for state in states} == {1, 2, 3}


def test_a_first_group_waits_for_as_many_brokers_as_its_offsets_have_replicas(three):
    three.kill(3)
    three.until(lambda: alive(three) == [1, 2])
    request = FindCoordinatorRequest(coordinator_keys=["g"], key_type=0)
    for node_id in (1, 2):
        told = three.ask(node_id, request, 4).coordinators[0]
        assert told.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert told.error_message == (
            "__consumer_offsets waits for 3 brokers (offsets.topic.replication.factor), of which 2 are there."
        )
    assert "__consumer_offsets" not in three[CONTROLLER].core.image.topics
    three.start(3)
    three.until(lambda: three.ask(2, request, 4).coordinators[0].error_code == 0)
    states = three[2].core.image.topics["__consumer_offsets"].partitions.values()
    assert {len(state.replicas) for state in states} == {3}


def test_replicas_are_spread_over_all_brokers(three):
    three.create(partitions=6, factor=2)
    states = [three.state(number) for number in range(6)]
    assert sorted(state.leader for state in states) == [1, 1, 2, 2, 3, 3]
    assert all(len(set(state.replicas)) == 2 for state in states)


def test_topics_made_at_start_wait_for_as_many_brokers_as_they_have_replicas():
    """Else the first broker would lead them all, whoever comes after."""
    three = Cluster(1, barnabas_topics="t:3", default_replication_factor=3)
    for node_id in (2, 3):
        assert "t" not in three[1].core.image.topics
        three.start(node_id)
        three.until(lambda: all(one.core.ready for one in three.nodes.values()))
    assert sorted(three.state(number).leader for number in range(3)) == [1, 2, 3]


# Followers and the high watermark


def test_a_record_is_answered_when_all_in_sync_have_it(pair):
    pair.paused.add(3)
    answer = pair.produce(b"second")
    pair.advance(5000)
    assert not answer.done, "3 is in the ISR and has it not"
    assert (pair[2].log().log_end_offset, pair[2].log().high_watermark) == (2, 1)
    assert pair[1].log().log_end_offset == 2
    pair.paused.clear()
    pair.until(lambda: answer.done)
    assert pair.part(answer).error_code == 0
    assert pair[2].log().high_watermark == 2


def test_acks_1_does_not_wait_and_is_not_committed(pair):
    pair.paused |= {1, 3}
    answer = pair.produce(b"second", acks=1)
    pair.settle()
    assert (answer.done, pair.part(answer).base_offset) == (True, 1)
    assert pair[2].log().high_watermark == 1


def test_a_follower_that_is_cut_from_its_leader_leaves_the_isr_and_comes_back(pair):
    pair.cut.add(frozenset((2, 3)))
    answer = pair.produce(b"second", timeout_ms=60_000)
    took_ms = pair.until(lambda: answer.done)
    assert LAG_MS <= took_ms <= 1.5 * LAG_MS + 1000, "1 to 1.5 times replica.lag.time.max.ms"
    assert pair.part(answer).error_code == 0
    assert (pair.state().isr, pair.state().leader_epoch) == ((2, 1), 0)
    assert alive(pair) == [1, 2, 3], "it is heard of, all the same"
    pair.cut.clear()
    pair.until(lambda: sorted(pair.state().isr) == [1, 2, 3])
    assert agree(pair) == 2


def test_too_few_in_sync_refuse_acks_all_and_take_acks_1(pair):
    pair.kill(3)
    pair.until(lambda: pair.state().isr == (2, 1))
    pair.cut.add(frozenset((1, 2)))
    pair.until(lambda: pair.leader() != 2)  # 2 cannot be heard any more; 1 alone is in sync
    assert (pair.leader(), pair.state().isr) == (1, (1,))
    assert pair.put(b"x").error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert pair.put(b"y", acks=1).error_code == 0
    assert pair[1].log().high_watermark == 1, "below min.insync.replicas nothing is committed"


def test_a_proposal_that_is_tried_again_is_of_the_life_that_had_caught_up(three):
    three.create(replicas={0: [2, 3]})
    three.cut.add(frozenset((2, 3)))
    assert three.put(b"acknowledged", timeout_ms=60_000).error_code == 0
    assert three.state().isr == (2,)
    leader, lost = three[2], []
    send = leader.send

    def send_all_but_proposals(broker_id, request, done, *rest):
        if isinstance(request, AlterPartitionRequest):
            lost.append(request)
            done(None)
        else:
            send(broker_id, request, done, *rest)

    leader.send = send_all_but_proposals
    three.cut.clear()
    three.until(lambda: bool(lost))
    assert [one.broker_id for one in lost[0].topics[0].partitions[0].new_isr_with_epochs] == [2, 3]
    three.cut.add(frozenset((2, 3)))
    three.kill(3, power=True)
    three.start(3)
    three.until(lambda: three[3].core.ready)
    three.until(lambda: leader.core.image.is_alive(3))
    assert three[3].log().log_end_offset == 0, "what it had caught up with was not synced"
    leader.send = send
    three.advance(1000)
    three.kill(2)
    three.advance(2 * SESSION_MS)
    three.cut.clear()
    three.start(2)
    three.until(lambda: sorted(three.state().isr) == [2, 3])
    assert [three[one].log().log_end_offset for one in (2, 3)] == [1, 1]


# Fencing and elections


def test_a_follower_whose_machine_is_silent_leaves_the_isr_with_its_session(pair):
    pair.kill(3)
    pair.off.add(3)
    answer = pair.produce(b"second")
    took_ms = pair.until(lambda: answer.done)
    assert took_ms <= SESSION_MS
    assert pair.part(answer).error_code == 0
    assert pair.state().isr == (2, 1)
    pair.start(3)
    pair.until(lambda: sorted(pair.state().isr) == [1, 2, 3])
    assert agree(pair) == 2


def test_nobody_waits_for_a_follower_that_left_the_isr_in_a_slice_before_its_fence(pair):
    """Its last fetch is not long ago, and it counts as alive still: a leader waited 30 s for it to come back."""
    pair.create("u", partitions=600, factor=2)
    pair.kill(3)
    answer = pair.produce(b"second")
    took_ms = pair.until(lambda: answer.done)
    assert took_ms <= 1000
    assert pair.part(answer).error_code == 0
    assert pair.state().isr == (2, 1)
    pair.start(3)
    pair.until(lambda: sorted(pair.state().isr) == [1, 2, 3])
    assert agree(pair) == 2


def test_a_fence_that_cannot_be_written_is_tried_again_every_second_and_told_when_it_is(pair, caplog):
    faults = pair[CONTROLLER].disk.faults
    pair.kill(3)
    pair.off.add(3)
    pair.advance(SESSION_MS - 2000)
    calls = faults.calls
    faults.refuse(1, 1_000_000)
    pair.advance(11_000)
    assert 3 in alive(pair)
    assert 5 <= faults.calls - calls <= 15
    assert "is fenced" not in caplog.text
    faults.refuse(1, 0)
    assert pair.until(lambda: 3 not in alive(pair)) <= 1000
    assert caplog.text.count("broker 3 is fenced: nothing was heard of it for 9000 ms") == 1


def test_the_next_of_the_isr_in_order_leads_when_the_leader_is_silent(pair):
    pair.kill(2)
    pair.off.add(2)
    took_ms = pair.until(lambda: pair.leader() == 3)
    assert SESSION_MS - 2000 <= took_ms <= SESSION_MS
    state = pair.state()
    assert (state.isr, state.leader_epoch) == ((3, 1), 1)
    pair.until(lambda: pair.state(node_id=3) == state)
    assert pair.put(b"second").error_code == 0
    pair.start(2)
    pair.until(lambda: sorted(pair.state().isr) == [1, 2, 3])
    assert pair.leader() == 3
    assert agree(pair) == 2


def test_many_partitions_change_their_leader_at_once(three):
    three.create(partitions=300, factor=2)
    led = [number for number in range(300) if three.leader(number) == 3]
    assert len(led) == 100
    three.kill(3)
    three.until(lambda: not three[CONTROLLER].core.image.is_alive(3))
    states = [three.state(number) for number in range(300)]
    assert all(state.leader in (1, 2) and 3 not in state.isr for state in states)
    three.until(lambda: [three.state(number, node_id=2) for number in range(300)] == states)
    three.start(3)
    three.until(lambda: all(len(three.state(number).isr) == 2 for number in range(300)))


def test_many_partitions_change_in_slices_and_nobody_ever_sees_a_leader_that_is_fenced(monkeypatch):
    publish = Core.publish
    seen: list[int] = []
    wrong: list[int] = []

    def look(core, delta):
        publish(core, delta)
        seen.append(len(delta.partitions))
        topics = core.image.topics.values()
        leaders = {state.leader for topic in topics for state in topic.partitions.values()}
        wrong.extend(one for one in leaders if one != NO_LEADER and not core.image.is_alive(one))

    monkeypatch.setattr(Core, "publish", look)
    three = Cluster()
    three.create(partitions=900, factor=2)
    seen.clear()
    three.kill(3)
    three.until(lambda: 3 not in alive(three))
    assert (max(seen), sum(seen)) == (250, 600 * 2), "on the controller and on 2"
    three.start(3)
    three.until(lambda: all(len(three.state(number).isr) == 2 for number in range(900)))
    seen.clear()
    three.stop(2)
    assert 2 not in alive(three)
    assert max(seen) == 250
    three.create("u", replicas={number: [3] for number in range(300)})
    three.stop(3)
    three.start(3)
    three.until(lambda: all(three.leader(number, "u") == 3 for number in range(300)))
    assert not wrong, "a leader was fenced"


def test_a_fence_of_many_that_is_cut_short_is_gone_on_with(three):
    three.create(partitions=900, factor=2)
    three.create("last", replicas={0: [3, 1, 2]})
    controller = three[CONTROLLER]
    append, appended = controller.core.metadata.append, []

    def refuse_the_second(records, committed):
        appended.append(len(records))
        if len(appended) == 2:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")
        append(records, committed)

    controller.core.metadata.append = refuse_the_second
    three.kill(3)
    three.until(lambda: len(appended) == 2)
    assert 3 in alive(three)
    assert sum(3 in three.state(number).isr for number in range(900)) == 600 - 250
    assert three.until(lambda: 3 not in alive(three)) <= 1000
    assert appended[2:] == [250, 102], "the rest, the other topic's, and the fence"
    assert three.leader(0, "last") == 1


def test_a_leader_that_was_killed_cuts_what_nobody_else_had(pair):
    pair.paused |= {1, 3}
    pair.produce(b"lost one", b"lost two", acks=1)
    pair.settle()
    pair.kill(2)
    pair.paused.clear()
    pair.until(lambda: pair.leader() == 3)
    assert pair.put(b"kept").error_code == 0
    pair.start(2)
    pair.until(lambda: sorted(pair.state().isr) == [1, 2, 3])
    assert agree(pair) == 2
    assert pair[2].log().log_end_offset == 2


def test_a_paused_leader_is_fenced_and_acknowledges_nothing_when_it_wakes(pair):
    pair.paused.add(2)
    pair.until(lambda: pair.leader() == 3)
    assert pair.put(b"second", node_id=3).error_code == 0
    pair.paused.clear()
    assert pair.state(node_id=2).leader == 2, "it has heard of nothing yet"
    answer = pair.produce(b"into the void", node_id=2)
    pair.until(lambda: answer.done)
    assert pair.part(answer).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    pair.until(lambda: sorted(pair.state().isr) == [1, 2, 3])
    assert pair[2].core.member.stage is Stage.UNFENCED
    assert agree(pair) == 2


def test_a_leader_that_is_cut_off_from_everybody_commits_nothing_more(pair):
    pair.cut |= {frozenset((1, 2)), frozenset((2, 3))}
    answer = pair.produce(b"alone", node_id=2)
    pair.until(lambda: pair.leader() == 3)
    assert pair.put(b"second", node_id=3).error_code == 0
    pair.until(lambda: answer.done)
    assert pair.part(answer).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert pair[2].log().high_watermark == 1
    pair.cut.clear()
    pair.until(lambda: sorted(pair.state().isr) == [1, 2, 3])
    assert agree(pair) == 2
    values = pair[2].values()
    assert b"alone" not in values[1][2]


def test_what_an_earlier_life_has_asked_and_is_read_late_keeps_no_broker_out(pair):
    """Another connection had it: the broker was registered in an epoch that it did not know, and fenced for good."""
    pair.cut.add(frozenset((1, 2)))
    pair.until(lambda: pair.leader() == 3)
    late = replace(pair[2].core.member._me, incarnation_id=b"an earlier life!")
    assert pair.ask_as_broker(2, CONTROLLER, late).error_code == 0
    pair.cut.clear()
    pair.until(lambda: sorted(pair.state().isr) == [1, 2, 3])
    assert pair[2].core.member.epoch == pair[CONTROLLER].core.image.broker_epoch(2)
    assert pair.put(b"second", node_id=pair.leader()).error_code == 0
    assert agree(pair) == 2


def test_the_only_replica_leads_again_when_it_is_back_and_in_a_later_epoch(three):
    three.create(replicas={0: [2]})
    assert three.put(b"first").error_code == 0
    three.kill(2)
    three.until(lambda: three.leader() == NO_LEADER)
    assert (three.state().isr, three.state().elr) == ((), (2,))
    three.start(2)
    three.until(lambda: three[2].core.ready and three.leader() == 2)
    assert three.state().leader_epoch == 2
    three.until(lambda: three.state(node_id=2) == three.state())
    assert three.put(b"second").base_offset == 1


def test_all_brokers_start_again_and_nothing_is_lost(pair):
    assert pair.put(b"second").error_code == 0
    for one in (3, 2, 1):
        pair.kill(one)
    for one in (1, 2, 3):
        pair.start(one)
    pair.until(lambda: all(node.core.ready for node in pair.nodes.values()))
    pair.until(lambda: sorted(pair.state().isr) == [1, 2, 3] and pair.leader() != NO_LEADER)
    assert pair.put(b"third").error_code == 0
    assert agree(pair) == 3


@pytest.mark.parametrize("leader", [1, 2])
def test_one_that_loses_power_with_what_was_not_synced_takes_it_from_the_others(three, leader):
    others = [one for one in (1, 2, 3) if one != leader]
    three.create(replicas={0: [leader, *others]}, min_insync_replicas=2)
    for number in range(5):
        assert three.put(b"%d" % number).error_code == 0
    three.kill(leader, power=True)
    three.start(leader)
    three.until(lambda: all(node.core.ready for node in three.nodes.values()))
    three.until(lambda: sorted(three.state().isr) == [1, 2, 3])
    assert three.leader() == others[0]
    assert agree(three) == 5


def test_power_is_lost_everywhere_at_once_and_what_was_synced_is_there(three):
    three.create(replicas={0: [2, 3, 1]}, min_insync_replicas=2, flush_messages=1)
    for number in range(5):
        assert three.put(b"%d" % number).error_code == 0
    for one in (1, 2, 3):
        three.kill(one, power=True)
    for one in (1, 2, 3):
        three.start(one)
    three.until(lambda: all(node.core.ready for node in three.nodes.values()))
    three.until(lambda: sorted(three.state().isr) == [1, 2, 3])
    assert agree(three) == 5


def test_partitions_that_come_back_in_sync_in_one_step_are_proposed_by_one_request():
    """Apache Kafka's leader gathers them while a request is under way; a slice of 250 is proposed in one step here."""
    three = Cluster()
    three.create(replicas={number: [2, 3] for number in range(600)})
    three.stop(3)
    assert three.state(599).isr == (2,)
    before = three.asked[2, ApiKey.ALTER_PARTITION]
    three.start(3)
    three.until(lambda: all(sorted(three.state(number).isr) == [2, 3] for number in range(600)))
    three.advance(1000)
    assert three.asked[2, ApiKey.ALTER_PARTITION] - before <= 6
    assert three.asked[2, ApiKey.ALTER_PARTITION] - before >= 3, "and none is larger than a slice"
