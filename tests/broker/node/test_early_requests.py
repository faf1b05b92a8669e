"""What is asked of a broker that is not up yet: nothing is refused for its start alone."""

from __future__ import annotations

import sys

from barnabas.broker.context import Connection
from barnabas.broker.node.startup import Phase
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.requests.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.requests.metadata import MetadataRequest
from tests.broker.node.world import World, api_versions, batch

CREATE_U = CreateTopicsRequest(topics=[CreatableTopic("u", 1, 1)], timeout_ms=1000)


def until(world: World, phase: Phase) -> None:
    """Step on until this phase has begun."""
    for _ in range(10_000):
        if world.core.phase >= phase:
            return
        world.core.run_job_step(world.now_ms)
        if world.disk.deliver():
            world.core.wake(world.now_ms)
    raise AssertionError("the core never came so far")


def test_only_versions_are_told_while_the_metadata_is_read():
    world = World(start=False)
    world.core.start(world.now_ms)
    assert world.core.phase is Phase.LOADING
    assert world.send(api_versions(3), 3).done
    metadata = world.send(MetadataRequest(topics=None), 12)
    assert not metadata.done
    until(world, Phase.RECOVERING)
    world.settle()
    assert metadata.done


def test_a_broker_that_recovers_its_logs_names_itself():
    world = World(start=False)
    world.core.start(world.now_ms)
    until(world, Phase.RECOVERING)
    assert not world.core.ready
    told = world.send(MetadataRequest(topics=None), 12).response
    assert [broker.node_id for broker in told.brokers] == [told.controller_id]


def test_a_topic_asked_for_too_early_is_created_when_the_broker_is_up():
    world = World(start=False)
    world.core.start(world.now_ms)
    until(world, Phase.RECOVERING)
    answer = world.send(CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)], timeout_ms=1000), 7)
    assert not answer.done
    world.settle()
    assert answer.response.topics[0].error_code == ErrorCode.NONE
    assert world.core.image.topics["t"].partitions[0].leader == world.core.config.node_id


def test_what_is_held_until_the_broker_is_up_ends_with_its_connection():
    """Nobody is charged for it any more: connections that close after each request would fill the memory."""
    world = World(start=False)
    world.core.start(world.now_ms)
    until(world, Phase.RECOVERING)
    mine, other = (Connection(number, "PLAINTEXT", "127.0.0.1", "kafka", 0) for number in (1, 2))
    request = CreateTopicsRequest(topics=[CreatableTopic("gone", 1, 1)], timeout_ms=1000)
    gone = world.send(request, 7, connection=mine)
    stays = world.send(CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)], timeout_ms=1000), 7, connection=other)
    world.core.disconnected(mine)
    assert sys.getrefcount(request) == 2, "its name here and the call's"
    world.settle()
    assert not gone.done
    assert stays.done
    assert list(world.core.image.topics) == ["t"]


def test_what_is_asked_of_a_broker_that_stops_before_it_knows_its_topics_is_not_answered():
    """What was not read is not denied: the connection ends with the stop, and the client asks another time."""
    world = World()
    world.create("t")
    world.stop()
    for phase, early in ((Phase.LOADING, MetadataRequest(topics=None)), (Phase.HOSTING, CREATE_U)):
        world.core = world._new_core()
        world.core.start(world.now_ms)
        until(world, phase)
        assert world.core.phase is phase
        world.core.stop(world.now_ms, lambda: None)
        told, versions = world.send(early, 7), world.send(api_versions(3), 3)
        world.settle()
        assert not told.done
        assert versions.response.error_code == ErrorCode.NONE
    world.core = world._new_core()
    world.start()
    assert list(world.core.image.topics) == ["t"]


def test_a_topic_that_is_deleted_while_the_broker_takes_the_lead_again_breaks_nothing():
    """The lead is taken in slices; one of a topic that went in between would be a record nobody can replay."""
    world = World()
    world.create("t", partitions=600)
    world.create("u", partitions=3)
    world.stop()
    world.core = world._new_core()
    world.core.start(world.now_ms)
    until(world, Phase.HOSTING)
    image = world.core.image
    while all(state.leader < 0 for state in image.topics["t"].partitions.values()):
        world.core.run_job_step(world.now_ms)
        if world.disk.deliver():
            world.core.wake(world.now_ms)
    assert any(state.leader < 0 for state in image.topics["t"].partitions.values())
    answer = world.send(DeleteTopicsRequest([DeleteTopicState("t")]), 6)
    world.settle()
    assert answer.response.responses[0].error_code == ErrorCode.NONE
    assert world.core.fault is None
    assert world.core.ready
    assert [state.leader for state in image.topics["u"].partitions.values()] == [world.core.config.node_id] * 3
    world.restart(clean=False)
    assert list(world.core.image.topics) == ["u"]


def test_a_broker_that_is_ready_leads_all_it_is_to_lead():
    """Many partitions follow the metadata a few at a time, as a job of their own."""
    world = World()
    world.create("t", partitions=600)
    world.stop()
    world.core = world._new_core()
    world.core.start(world.now_ms)
    until(world, Phase.READY)
    hosted = world.core.replicas.hosted.online.values()
    assert [partition.leader_epoch for partition in hosted if partition.is_leader] == [2] * 600


def test_a_topic_that_is_deleted_before_its_partitions_are_up_leaves_no_logs():
    world = World()
    world.create("t", partitions=60)
    world.put(batch(b"x"), partition=59)
    world.stop()
    world.core = world._new_core()
    world.core.start(world.now_ms)
    until(world, Phase.HOSTING)
    answer = world.send(DeleteTopicsRequest([DeleteTopicState("t")]), 6)
    world.settle()
    assert answer.response.responses[0].error_code == ErrorCode.NONE
    assert not world.core.logs.logs
    assert [name for name in world.disk.list("") if name.startswith("t-") and not name.endswith("-delete")] == []
    world.advance(120_000)
    assert [name for name in world.disk.list("") if name.startswith("t-")] == []


def test_what_is_done_for_a_connection_ends_with_it_though_the_start_goes_first():
    """Jobs of those that were gone kept their requests until the logs were recovered: 1.1 GB of 340 in 20 s."""
    before = World()
    before.create("t", 1)
    world = World(disk=before.stop(), start=False)
    world.core.start(world.now_ms)
    until(world, Phase.RECOVERING)
    parts = [FetchPartition(at) for at in range(5_000)]
    asked = FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[FetchTopic("t", partitions=parts)])
    peers = [Connection(at, "PLAINTEXT", "127.0.0.1", "kafka", 0) for at in range(100, 110)]
    for peer in peers:
        world.core.connected(peer)
        world.send(asked, 11, connection=peer)
    assert [one["name"] for one in world.core.jobs.snapshot()].count("request") == len(peers)
    for peer in peers:
        world.core.disconnected(peer)
    assert "request" not in [one["name"] for one in world.core.jobs.snapshot()]
    world.settle()
    assert world.core.ready
    assert not world.core.jobs.snapshot()
    assert world.core.services.file_line.is_empty
