"""The network core under virtual time: states, negotiation, limits, timeouts, back-off, least loaded node."""

from itertools import pairwise
from typing import Any

import pytest

from barnabas.net.config import ClientConfig
from barnabas.net.connections import State
from barnabas.net.errors import ClientClosed, Disconnected, FeatureMissing
from barnabas.net.metadata import Metadata
from barnabas.net.network import APART, SLOW_MS, NetworkClient, PerVersion
from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.codec import encode_response
from barnabas.protocol.requests.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.protocol.requests.delete_topics import DeleteTopicsRequest
from barnabas.protocol.requests.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.requests.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.client.world import CLOSE, SILENCE, Delayed, World


def connect(world, **settings):
    config = ClientConfig.of(bootstrap_servers="boot:9092", **settings)
    network = NetworkClient(config, Metadata(config, world.random.random), world.random.random)
    world.network = network
    world.run(until=lambda: not network.cluster.is_bootstrap)
    return network


class Answers(list[Any]):
    """Collects what `on_done` is told."""

    def __call__(self, response, error, now_ms):
        self.append(error if error is not None else response)


def request():
    return InitProducerIdRequest(None, 1000)


def test_it_learns_the_cluster_from_a_bootstrap_server():
    world = World(nodes=(1, 2, 3))
    network = connect(world)
    assert sorted(network.cluster.nodes) == [1, 2, 3]
    assert [each.key for each in world.asked] == [ApiKey.API_VERSIONS, ApiKey.METADATA]
    assert world.asked[0].version == 4
    assert network.cluster.cluster_id == "c"


def test_the_highest_version_both_sides_speak_is_used():
    world = World()
    world.versions[ApiKey.INIT_PRODUCER_ID] = (0, 2)
    world.versions[ApiKey.METADATA] = (0, 5)
    network = connect(world)
    answers = Answers()
    network.enqueue(1, request(), world.now_ms, answers)
    world.run(until=lambda: answers)
    assert world.requests(ApiKey.INIT_PRODUCER_ID)[0].version == 2
    assert world.requests(ApiKey.METADATA)[0].version == 5
    assert network.api_version(1, ApiKey.INIT_PRODUCER_ID, max_version=1) == 1


def test_an_unknown_api_versions_version_is_asked_again_lower():
    world = World()

    # A broker answers error 35 in v0 form whatever was asked; the world encodes by the asked version.
    original = world._answer

    def answer(node, header, asked):
        if header.api_key == ApiKey.API_VERSIONS and header.api_version > 3:
            header.api_version = 0
            return ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(18, 0, 3)])
        return original(node, header, asked)

    setattr(world, "_answer", answer)  # noqa: B010 - an instance replaces its own method
    connect(world)
    assert [each.version for each in world.requests(ApiKey.API_VERSIONS)][:2] == [4, 3]


def test_a_request_no_version_of_which_is_shared_fails_by_name():
    world = World()
    network = connect(world)
    answers = Answers()
    network.enqueue(1, DeleteTopicsRequest(), world.now_ms, answers)
    world.run(until=lambda: answers)
    assert isinstance(answers[0], FeatureMissing)
    assert "DELETE_TOPICS" in str(answers[0])


def test_at_most_five_requests_are_in_flight_and_metadata_counts():
    world = World()
    network = connect(world)
    world.handlers[ApiKey.INIT_PRODUCER_ID] = lambda node, asked: SILENCE
    warm = Answers()
    network.enqueue(1, request(), world.now_ms, warm)
    world.run(until_ms=world.now_ms + 10)
    for _ in range(6):
        network.enqueue(1, request(), world.now_ms, Answers())
    world.run(until_ms=world.now_ms + 10)
    assert network.in_flight_count(1) == 5
    assert not network.is_ready(1, world.now_ms)
    network.metadata.request_update()
    world.run(until_ms=world.now_ms + 1000)
    assert len(world.requests(ApiKey.METADATA)) == 1  # no place for it on the only connection


def test_nothing_is_sent_before_the_previous_request_is_fully_written():
    world = World()
    network = connect(world)
    network.enqueue(1, request(), world.now_ms, Answers())
    world.run(until_ms=world.now_ms + 10)
    world.hold_writes.add(1)
    network.enqueue(1, request(), world.now_ms, Answers())
    world.handlers[ApiKey.INIT_PRODUCER_ID] = lambda node, asked: SILENCE
    network.enqueue(1, request(), world.now_ms, Answers())
    world.step()
    assert len(world.requests(ApiKey.INIT_PRODUCER_ID)) == 2
    assert not network.is_ready(1, world.now_ms)
    network.on_written(1, world.now_ms)
    world.step()
    assert len(world.requests(ApiKey.INIT_PRODUCER_ID)) == 3


def test_a_request_timeout_closes_the_connection_and_fails_all_in_flight():
    world = World()
    network = connect(world, request_timeout_ms=1000)
    world.handlers[ApiKey.INIT_PRODUCER_ID] = lambda node, asked: SILENCE
    first, second = Answers(), Answers()
    network.enqueue(1, request(), world.now_ms, first)
    world.run(until_ms=world.now_ms + 500)
    network.enqueue(1, request(), world.now_ms, second)
    sent = world.requests(ApiKey.INIT_PRODUCER_ID)[0].at_ms
    world.run(until=lambda: first)
    assert world.now_ms - sent <= 1000
    assert isinstance(first[0], Disconnected)
    assert first[0].timed_out
    assert first[0].retriable
    assert isinstance(second[0], Disconnected)  # 500 ms early: its connection is gone


def test_reconnect_back_off_doubles_to_its_cap_and_is_reset_by_success():
    world = World()
    network = connect(world, metadata_recovery_strategy="none", connections_max_idle_ms=-1)
    world.nodes[1] = False
    world.cut(-1)
    world.connects.clear()
    network.metadata.request_update()
    world.run(until_ms=world.now_ms + 20_000)
    times = [at for at, node in world.connects if node == 1]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    for gap, expected in zip(gaps[:5], (50, 100, 200, 400, 800), strict=True):
        assert expected * 0.8 <= gap <= expected * 1.2 + 2
    assert max(gaps) <= 1003
    assert min(gaps[5:]) >= 790
    world.nodes[1] = True
    world.run(until=lambda: network.connections.of(1).state is State.READY)
    assert network.connections.of(1).failures == 0


def test_connection_set_up_times_out_and_grows_to_its_cap():
    world = World()
    network = connect(world, metadata_recovery_strategy="none", connections_max_idle_ms=-1)
    world.nodes[1] = None  # swallows connection attempts
    world.cut(-1)
    world.connects.clear()
    network.metadata.request_update()
    start = world.now_ms
    world.run(until=lambda: len([1 for _, node in world.connects if node == 1]) >= 3)
    times = [at for at, node in world.connects if node == 1]
    assert 8000 <= times[1] - start <= 12_200
    assert 16_000 <= times[2] - times[1] <= 24_400


def test_a_throttled_node_gets_nothing_until_the_time_is_over():
    world = World()
    network = connect(world)
    told = []
    network.throttle_listeners.append(lambda node, ms: told.append((node, ms)))
    throttled = InitProducerIdResponse(throttle_time_ms=300, producer_id=1)
    world.handlers[ApiKey.INIT_PRODUCER_ID] = lambda node, asked: throttled
    answers = Answers()
    network.enqueue(1, request(), world.now_ms, answers)
    world.run(until=lambda: answers)
    at = world.now_ms
    assert told == [(1, 300)]
    assert not network.is_ready(1, at + 299)
    assert network.poll_delay_ms(1, at) == 300
    again = Answers()
    network.enqueue(1, request(), at, again)
    world.run(until=lambda: again)
    assert world.requests(ApiKey.INIT_PRODUCER_ID)[1].at_ms == at + 300


def test_a_closed_connection_fails_what_is_in_flight_and_asks_for_metadata():
    world = World()
    network = connect(world)
    world.handlers[ApiKey.INIT_PRODUCER_ID] = lambda node, asked: CLOSE
    answers = Answers()
    network.enqueue(1, request(), world.now_ms, answers)
    assert not network.metadata.update_requested
    world.run(until=lambda: answers)
    assert isinstance(answers[0], Disconnected)
    assert not answers[0].timed_out
    assert network.metadata.update_requested


def test_an_answer_that_is_none_ends_the_connection():
    world = World()
    network = connect(world)
    world.handlers[ApiKey.INIT_PRODUCER_ID] = lambda node, asked: SILENCE
    answers = Answers()
    network.enqueue(1, request(), world.now_ms, answers)
    world.run(until_ms=world.now_ms + 10)
    network.on_received(1, memoryview(b"\xff" * 40), world.now_ms)
    assert isinstance(answers[0], Disconnected)
    assert network.connections.of(1).state is State.DISCONNECTED


def test_an_idle_connection_is_closed():
    world = World()
    network = connect(world, connections_max_idle_ms=5000, metadata_max_age_ms=1_000_000)
    answers = Answers()
    network.enqueue(1, request(), world.now_ms, answers)
    world.run(until=lambda: answers)
    at = world.now_ms
    world.run(until_ms=at + 4990)
    assert network.connections.of(1).state is State.READY
    world.run(until_ms=at + 5001)
    assert network.connections.of(1).state is State.DISCONNECTED


def test_closing_fails_everything_under_way():
    world = World()
    network = connect(world)
    world.handlers[ApiKey.INIT_PRODUCER_ID] = lambda node, asked: SILENCE
    answers = Answers()
    for _ in range(7):
        network.enqueue(1, request(), world.now_ms, answers)
    world.run(until_ms=world.now_ms + 10)
    network.close(world.now_ms)
    assert len(answers) == 7
    assert all(isinstance(each, ClientClosed) for each in answers)


def test_all_addresses_of_a_name_are_tried_in_turn():
    world = World()
    network = connect(world)
    states = network.connections
    states.connecting(1, 0)
    assert states.resolved(1, ["10.0.0.1", "10.0.0.2"]) == "10.0.0.1"
    states.disconnected(1, 0)
    assert states.address(1) == "10.0.0.2"
    states.connecting(1, 100)
    states.disconnected(1, 100)
    assert states.address(1) is None  # look the name up again


def test_an_illegal_move_of_a_connection_is_a_bug():
    world = World()
    network = connect(world)
    with pytest.raises(AssertionError, match="node 9: disconnected to ready"):
        network.connections.of(9).move(State.READY)


# ---- least loaded node (C05) ----


def three(world_random=0.0):
    world = World(nodes=(1, 2, 3))
    network = connect(world)
    network._random = lambda: world_random  # where the pass starts
    return world, network


def warm(world, network, node):
    answers = Answers()
    network.enqueue(node, request(), world.now_ms, answers)
    world.run(until=lambda: answers)


def occupy(world, network, node, count):
    world.handlers[ApiKey.INIT_PRODUCER_ID] = lambda at, asked: Delayed(InitProducerIdResponse(), 10_000)
    for _ in range(count):
        network.enqueue(node, request(), world.now_ms, Answers())
    world.run(until_ms=world.now_ms + 5)


def test_an_idle_ready_node_is_taken_at_once():
    world, network = three()
    for node in (1, 2, 3):
        warm(world, network, node)
    occupy(world, network, 1, 1)
    assert network.least_loaded_node(world.now_ms).id == 2
    network._random = lambda: 0.99
    assert network.least_loaded_node(world.now_ms).id == 3


def test_else_the_sendable_node_with_the_fewest_in_flight():
    world, network = three()
    for node in (1, 2, 3):
        warm(world, network, node)
    occupy(world, network, 1, 3)
    occupy(world, network, 2, 2)
    occupy(world, network, 3, 5)  # not sendable
    assert network.least_loaded_node(world.now_ms).id == 2
    occupy(world, network, 2, 1)  # as many as node 1: the first of the pass
    assert network.least_loaded_node(world.now_ms).id == 1
    network._random = lambda: 0.5  # the pass: 2, 3, 1
    assert network.least_loaded_node(world.now_ms).id == 2


def test_else_the_last_scanned_of_those_being_opened():
    world, network = three()
    world.nodes = dict.fromkeys((1, 2, 3))  # attempts hang
    network.ready(1, world.now_ms)
    network.ready(2, world.now_ms)
    assert network.least_loaded_node(world.now_ms).id == 2
    network._random = lambda: 0.5  # the pass: 2, 3, 1
    assert network.least_loaded_node(world.now_ms).id == 1


def test_one_that_has_been_opening_for_a_second_comes_last():
    world, network = three()
    world.nodes = dict.fromkeys((1, 2, 3))  # attempts hang
    network.ready(1, world.now_ms)
    at = world.now_ms + SLOW_MS
    assert network.least_loaded_node(at - 1).id == 1
    assert network.least_loaded_node(at).id == 2
    network.ready(2, at)
    assert network.least_loaded_node(at).id == 2
    network.ready(3, at)
    assert network.least_loaded_node(at + SLOW_MS).id in (1, 2, 3), "nothing better is there"


@pytest.mark.parametrize("hung", [1, 2, 3])
def test_metadata_comes_from_another_when_one_does_not_answer_its_handshake(hung):
    """A paused broker lets in and says nothing: whoever asked it first waited for 10 s."""
    world, network = three((hung - 1) / 3)
    world.handlers[ApiKey.API_VERSIONS] = lambda at, asked: SILENCE if at == hung else None
    began, version = world.now_ms, network.metadata.version
    network.metadata.request_update()
    world.run(until=lambda: network.metadata.version > version)
    assert network.connections.of(hung).state is State.CHECKING
    assert SLOW_MS <= world.now_ms - began < 2 * SLOW_MS


def test_with_all_of_them_silent_it_waits_and_does_not_spin():
    world, network = three()
    world.nodes = dict.fromkeys((1, 2, 3))
    network.metadata.request_update()
    world.run(until_ms=world.now_ms + 4 * SLOW_MS)
    states = [network.connections.of(node).state for node in (1, 2, 3)]
    assert states == [State.CONNECTING] * 3
    due = network.next_deadline_ms(world.now_ms)
    assert due > world.now_ms + SLOW_MS, "until the first attempt has failed"


def test_with_all_disconnected_the_never_tried_first_then_the_longest_ago():
    world, network = three()
    at = world.now_ms
    for node, tried in ((1, at), (2, at + 10)):
        network.connections.connecting(node, tried)
        network.connections.disconnected(node, tried)
    assert network.least_loaded_node(at + 5000).id == 3
    network.connections.connecting(3, at + 20)
    network.connections.disconnected(3, at + 20)
    assert network.least_loaded_node(at + 5000).id == 1
    assert network.least_loaded_node(at + 21) is None  # all are backing off


@pytest.mark.parametrize(("off", "taken"), [(0, True), (1, False), (-1, False)])
def test_an_answer_to_another_request_ends_the_connection(off, taken):
    """Answers come in the order of the requests: another number means that one of the two sides has lost count."""
    world = World()
    network = connect(world)
    world.handlers[ApiKey.INIT_PRODUCER_ID] = lambda node, asked: SILENCE
    answers = Answers()
    network.enqueue(1, request(), world.now_ms, answers)
    world.run(until_ms=world.now_ms + 10)
    (asked,) = world.requests(ApiKey.INIT_PRODUCER_ID)
    number = network._correlation_id + off
    frame = b"".join(encode_response(asked.key, asked.version, number, InitProducerIdResponse(producer_id=5)))
    network.on_received(1, memoryview(frame)[4:], world.now_ms)
    if taken:
        assert answers[0].producer_id == 5
    else:
        assert isinstance(answers[0], Disconnected)
        assert network.connections.of(1).state is State.DISCONNECTED


def test_a_node_that_throttles_is_left_alone_over_a_reconnect():
    """As in Kafka's `ClusterConnectionStates`: the time is asked of the client, not of the connection."""
    world = World()
    network = connect(world, reconnect_backoff_ms=10, reconnect_backoff_max_ms=10)
    throttled = InitProducerIdResponse(throttle_time_ms=2000, producer_id=1)
    world.handlers[ApiKey.INIT_PRODUCER_ID] = lambda node, asked: throttled
    answers = Answers()
    network.enqueue(1, request(), world.now_ms, answers)
    world.run(until=lambda: answers)
    at = world.now_ms
    network.on_disconnected(1, "the broker went", world.now_ms)
    assert network.connections.of(1).state is State.DISCONNECTED
    again = Answers()
    network.enqueue(1, request(), world.now_ms, again)
    world.run(until=lambda: again)
    assert world.requests(ApiKey.INIT_PRODUCER_ID)[1].at_ms == at + 2000


def test_a_second_connection_to_a_broker_is_its_own_and_stays():
    world = World(nodes=(1,))
    network = connect(world)
    world.versions[ApiKey.FIND_COORDINATOR] = (0, 3)
    world.handlers[ApiKey.FIND_COORDINATOR] = lambda node, request: FindCoordinatorResponse(node_id=7)
    made: list[int] = []
    answers = Answers()

    def make(version):
        made.append(version)
        return FindCoordinatorRequest(key="g")

    apart = network.keep_apart(network.cluster.nodes[1], world.now_ms)
    assert apart == APART - 1
    network.enqueue(apart, PerVersion(ApiKey.FIND_COORDINATOR, make), world.now_ms, answers)
    world.run(until=lambda: answers)
    assert made == [3], "the form is made for the version that both sides speak"
    assert answers[0].node_id == 7
    assert [node for _, node in world.connects].count(apart) == 1
    network.metadata.request_update()
    world.run(until_ms=world.now_ms + 500)
    assert network.connections.of(apart).state is State.READY, "metadata does not know it, and does not close it"
    assert network.keep_apart(network.cluster.nodes[1]._replace(host="elsewhere"), world.now_ms) == apart
    assert network.connections.of(apart).state is State.DISCONNECTED, "the broker moved"
