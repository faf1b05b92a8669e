"""Metadata by age and by need: times of refreshes, partial updates, epochs, waiting, starting again."""

import sys
from itertools import pairwise

from barnabas.client.produce.accumulator import Accumulator
from barnabas.client.produce.config import ProducerConfig
from barnabas.net.config import ClientConfig
from barnabas.net.connections import State
from barnabas.net.metadata import Metadata
from barnabas.net.network import NetworkClient
from barnabas.protocol.api import ApiKey
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.client.world import World


def connect(world, idle_ms=1 << 60, **settings):
    config = ClientConfig.of(bootstrap_servers="boot:9092", connections_max_idle_ms=-1, **settings)
    metadata = Metadata(config, world.random.random, topic_idle_ms=idle_ms)
    network = world.network = NetworkClient(config, metadata, world.random.random)
    world.run(until=lambda: not network.cluster.is_bootstrap)
    return network, metadata


def times(world):
    return [each.at_ms for each in world.requests(ApiKey.METADATA)]


def run_to_next(world, seen):
    world.run(until=lambda: len(times(world)) > seen)


def test_it_is_refreshed_at_its_maximal_age():
    world = World()
    connect(world)
    first = times(world)[0]
    world.run(until_ms=first + 299_990)
    assert len(times(world)) == 1
    world.run(until_ms=first + 300_010)
    assert len(times(world)) == 2


def test_a_request_for_it_waits_out_the_back_off():
    world = World()
    _, metadata = connect(world)
    at = world.now_ms
    metadata.request_update()
    world.run(until_ms=at + 2000)
    assert 75 <= times(world)[1] - at <= 125


def test_back_off_also_grows_when_answers_bring_nothing_newer():
    world = World()
    _, metadata = connect(world)
    start = len(times(world))
    for _ in range(5):
        seen = len(times(world))
        metadata.request_update()
        run_to_next(world, seen)
        world.run(until_ms=world.now_ms + 2)
    moments = times(world)[start:]
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    assert gaps[-1] > 2 * gaps[0]
    world.epochs[TopicPartition("t", 0)] = 9
    metadata.add_topics(["t"], world.now_ms)
    world.run(until_ms=world.now_ms + 10)
    at = world.now_ms
    metadata.request_update()
    seen = len(times(world))
    world.run(until=lambda: len(times(world)) > seen)
    assert world.now_ms - at <= 125  # something newer came: the back-off is small again


def test_a_new_topic_is_asked_for_at_once_and_alone():
    world = World(topics={"t": [1], "u": [1]})
    _, metadata = connect(world)
    metadata.add_topics(["t"], world.now_ms)
    at = world.now_ms
    world.run(until=lambda: "t" in metadata.cluster.topics)
    assert times(world)[1] - at <= 3  # the time to open the connection; no back-off
    metadata.add_topics(["u"], world.now_ms)
    world.run(until=lambda: "u" in metadata.cluster.topics)
    assert [each.name for each in world.requests(ApiKey.METADATA)[-1].request.topics] == ["u"]
    assert set(metadata.cluster.topics) == {"t", "u"}  # a partial answer is merged


def test_an_answer_without_brokers_is_ignored():
    world = World()
    _, metadata = connect(world)
    metadata.add_topics(["t"], world.now_ms)
    world.run(until=lambda: "t" in metadata.cluster.topics)
    before, version = metadata.cluster, metadata.version
    metadata.update(99, MetadataResponse(), False, world.now_ms)
    assert metadata.cluster is before
    assert metadata.version == version
    assert metadata.next_update_ms() > world.now_ms


def test_an_epoch_older_than_known_is_ignored():
    world = World(nodes=(1, 2), topics={"t": [1]})
    where = TopicPartition("t", 0)
    world.epochs[where] = 5
    _, metadata = connect(world)
    metadata.add_topics(["t"], world.now_ms)
    world.run(until=lambda: "t" in metadata.cluster.topics)
    world.epochs[where], world.topics["t"] = 4, [2]
    metadata.request_update()
    seen = metadata.version
    world.run(until=lambda: metadata.version > seen)
    assert metadata.cluster.partition("t", 0).leader == 1
    world.epochs[where] = 6
    metadata.request_update()
    seen = metadata.version
    world.run(until=lambda: metadata.version > seen)
    assert metadata.cluster.leader(where).id == 2


def test_a_topic_made_again_starts_its_epochs_afresh():
    world = World(nodes=(1, 2), topics={"t": [1]})
    world.epochs[TopicPartition("t", 0)] = 5
    _, metadata = connect(world)
    metadata.add_topics(["t"], world.now_ms)
    world.run(until=lambda: "t" in metadata.cluster.topics)
    world.epochs.clear()
    world.topics["t"], world.topic_ids["t"] = [2], b"n" * 16
    metadata.request_update()
    seen = metadata.version
    world.run(until=lambda: metadata.version > seen)
    assert metadata.cluster.partition("t", 0)[2:4] == (2, 0)


def test_an_unknown_topic_is_asked_for_again_until_it_is_there():
    world = World(topics={})
    _, metadata = connect(world)
    metadata.add_topics(["t"], world.now_ms)
    world.run(until_ms=world.now_ms + 1000)
    assert "t" not in metadata.cluster.topics
    assert len(times(world)) > 3
    world.topics["t"] = [1]
    world.run(until=lambda: "t" in metadata.cluster.topics)


def test_a_topic_unused_for_its_idle_time_is_dropped():
    world = World(topics={"t": [1], "u": [1]})
    _, metadata = connect(world, idle_ms=400_000)
    metadata.add_topics(["t", "u"], world.now_ms)
    world.run(until_ms=world.now_ms + 350_000)
    metadata.add_topics(["u"], world.now_ms)
    world.run(until_ms=world.now_ms + 300_000)
    assert metadata.topics == ("u",)
    assert set(metadata.cluster.topics) == {"u"}


def test_whoever_waits_is_woken_by_the_version():
    world = World()
    _, metadata = connect(world)
    told = []
    metadata.listeners.append(lambda changed: told.append(changed.version))
    version = metadata.request_update()
    world.run(until=lambda: metadata.version > version)
    assert told == [version + 1]


def test_a_wish_made_after_the_request_left_is_not_fulfilled_by_its_answer():
    world = World(topics={"t": [1], "u": [1]})
    world.latency_ms = 10
    _, metadata = connect(world)
    metadata.add_topics(["t"], world.now_ms)
    world.step()
    sent = len(times(world))
    metadata.add_topics(["u"], world.now_ms)
    world.run(until=lambda: "u" in metadata.cluster.topics)
    assert len(times(world)) == sent + 1


def test_a_leader_told_by_an_answer_is_taken_if_its_epoch_is_newer():
    world = World(nodes=(1, 2), topics={"t": [1]})
    where = TopicPartition("t", 0)
    world.epochs[where] = 3
    _, metadata = connect(world)
    metadata.add_topics(["t"], world.now_ms)
    world.run(until=lambda: "t" in metadata.cluster.topics)
    assert not metadata.update_leader(where, 2, 3)
    assert metadata.update_leader(where, 2, 4)
    assert metadata.cluster.leader(where).id == 2


def test_while_one_connection_opens_no_other_is_opened_for_metadata():
    world = World(nodes=(1, 2, 3))
    network, metadata = connect(world)
    world.cut(-1)
    world.latency_ms = 500
    world.connects.clear()
    metadata.request_update()
    world.run(until_ms=world.now_ms + 400)
    assert len(world.connects) == 1
    assert len([1 for each in network.connections.nodes.values() if each.state is State.CONNECTING]) == 1


def test_with_no_node_left_it_starts_again_from_the_bootstrap_servers():
    world = World()
    network, metadata = connect(world)
    metadata.add_topics(["t"], world.now_ms)
    world.run(until=lambda: "t" in metadata.cluster.topics)
    world.metadata_nodes = (1,)
    world.nodes[1] = False
    for node_id in list(network.connections.nodes):
        world.cut(node_id)
    metadata.request_update()
    world.connects.clear()
    world.run(until=lambda: any(node == -1 for _, node in world.connects))
    assert "t" in metadata.cluster.topics  # what is known stays known
    world.nodes[1] = True
    world.run(until=lambda: not metadata.cluster.is_bootstrap)


def test_without_rebootstrap_only_known_nodes_are_tried():
    world = World()
    network, metadata = connect(world, metadata_recovery_strategy="none")
    world.nodes[1] = False
    for node_id in list(network.connections.nodes):
        world.cut(node_id)
    metadata.request_update()
    world.connects.clear()
    world.run(until_ms=world.now_ms + 5000)
    assert {node for _, node in world.connects} == {1}


def test_topics_refused_for_good_are_told():
    world = World(topics={})
    network, metadata = connect(world)
    answer = world.metadata

    def refuse(request):
        response = answer(request)
        for topic in response.topics:
            topic.error_code = 17
        return response

    world.handlers[ApiKey.METADATA] = lambda node, request: refuse(request)
    metadata.add_topics(["no good"], world.now_ms)
    world.run(until=lambda: metadata.topic_errors)
    assert metadata.topic_errors["no good"].code == 17
    assert network.cluster.topics == {}


def test_a_partial_answer_does_not_put_off_the_refresh_of_the_rest():
    """What one new topic was asked for says nothing about the age of the others."""
    world = World(topics={"t": [1], "u": [1]})
    _, metadata = connect(world)
    metadata.add_topics(["t"], world.now_ms)
    world.run(until=lambda: "t" in metadata.cluster.topics)
    metadata.request_update()
    run_to_next(world, len(times(world)))
    full = times(world)[-1]
    world.run(until_ms=full + 200_000)
    metadata.add_topics(["u"], world.now_ms)
    world.run(until=lambda: "u" in metadata.cluster.topics)
    partial = len(times(world))
    assert [each.name for each in world.requests(ApiKey.METADATA)[-1].request.topics] == ["u"]
    world.run(until_ms=full + 299_900)
    assert len(times(world)) == partial
    world.run(until_ms=full + 300_100)
    assert len(times(world)) == partial + 1


def calls(work):
    """How many calls the work makes, of Python and of C: a count that no machine's speed changes."""
    count = 0

    def called(frame, event, _):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def one_by_one(count):
    """What a client does that learns of so many topics one after the other: metadata, and a producer's queues."""
    config = ProducerConfig.of(bootstrap_servers="boot:9092")
    metadata = Metadata(config, lambda: 0.5, topic_idle_ms=1 << 40)
    accumulator = Accumulator(config, lambda: 0.5)
    brokers = [MetadataResponseBroker(1, "h", 9092)]
    _, wish, partial = metadata.next_request(0)
    metadata.update(wish, MetadataResponse(0, brokers, "c", 1, []), partial, 0)

    def learn():
        for number in range(count):
            name, topic_id = f"t{number}", (number + 1).to_bytes(16)
            metadata.add_topics([name], number)
            _, wish, partial = metadata.next_request(number)
            assert partial
            led = [MetadataResponsePartition(0, 0, 1, 0)]
            told = MetadataResponse(0, brokers, "c", 1, [MetadataResponseTopic(0, name, topic_id, False, led)])
            metadata.update(wish, told, partial, number)
            accumulator.update(metadata.cluster)

    made = calls(learn)
    assert len(metadata.cluster.topics) == len(metadata.cluster.topic_names) == len(accumulator.topics) == count
    assert metadata.cluster.topics.keys() == accumulator.topics.keys()
    assert all(metadata.cluster.topic_names[(n + 1).to_bytes(16)] == f"t{n}" for n in range(count))
    return made


def test_a_topic_more_costs_as_much_among_many_as_among_few():
    few, many = one_by_one(1000), one_by_one(4000)
    assert many < 5 * few, f"{few} calls for a thousand, {many} for four thousand"
