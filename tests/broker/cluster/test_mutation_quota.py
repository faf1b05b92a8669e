"""The controller mutation quota (KIP-599): the bucket by itself, and as the APIs that change topics meet it."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.cluster import mutation_quota
from barnabas.broker.cluster.mutation_quota import MutationQuota
from barnabas.broker.config import BrokerConfig
from barnabas.broker.context import Connection
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.requests.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.requests.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.node.world import World

ME = ("User:ANONYMOUS", "10.0.0.1")
OTHER = ("User:ANONYMOUS", "10.0.0.2")
EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


def quota(rate: int = 10, burst: int = 100) -> MutationQuota:
    return MutationQuota(BrokerConfig(barnabas_controller_mutation_rate=rate, barnabas_controller_mutation_burst=burst))


def test_what_is_owed_delays_the_next_one() -> None:
    bucket = quota()
    assert bucket.throttle_ms(ME, 0) == 0
    bucket.take(ME, 99, 0)
    assert bucket.throttle_ms(ME, 0) == 0, "a token is left"
    bucket.take(ME, 51, 0)
    assert bucket.throttle_ms(ME, 0) == 5001
    assert bucket.throttle_ms(ME, 5000) == 1
    assert bucket.throttle_ms(ME, 5001) == 0
    assert bucket.throttle_ms(OTHER, 0) == 0


def test_tokens_come_back_up_to_the_burst() -> None:
    bucket = quota()
    bucket.take(ME, 100, 0)
    bucket.take(ME, 100, 1_000_000)
    assert bucket.throttle_ms(ME, 1_000_000) == 1


def test_the_clients_told_apart_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation_quota, "BUCKETS_MAX", 3)
    bucket = quota()
    for number in range(3):
        bucket.take(("u", str(number)), 200, 0)
    bucket.take(("u", "fourth"), 200, 0)
    assert bucket.throttle_ms(("u", "fifth"), 0) > 0, "all the rest share one"
    assert bucket.throttle_ms(("u", "0"), 0) > 0
    for number in range(50):
        bucket.take(("u", f"later {number}"), 1, 100_000)
        assert len(bucket._buckets) <= 4


@pytest.fixture
def world() -> World:
    return World(barnabas_controller_mutation_rate=10, barnabas_controller_mutation_burst=10)


def create(world: World, *names: str, version: int = 7, partitions: int = 1, validate_only: bool = False) -> Any:
    topics = [CreatableTopic(name, partitions, 1) for name in names]
    return world.ask(CreateTopicsRequest(topics, 1000, validate_only), version)


def test_topics_above_the_quota_are_refused_one_by_one(world: World) -> None:
    answer = create(world, *(f"t{number}" for number in range(12)))
    assert [one.error_code for one in answer.topics] == [0] * 10 + [EXCEEDED] * 2
    assert answer.throttle_time_ms == 1
    assert "try again in 1 ms" in answer.topics[-1].error_message
    assert "t10" not in world.core.image.topics
    world.advance(1000)
    assert [one.error_code for one in create(world, "t10", "t11").topics] == [0, 0]


def test_one_request_may_owe_for_what_it_takes(world: World) -> None:
    answer = create(world, "wide", partitions=60)
    assert (answer.topics[0].error_code, answer.throttle_time_ms) == (0, 5001)
    assert create(world, "next").topics[0].error_code == EXCEEDED
    world.advance(5001)
    assert create(world, "next").topics[0].error_code == 0


def test_older_versions_are_served_and_throttled(world: World) -> None:
    create(world, "wide", partitions=19)
    for version in (2, 5):
        answer = create(world, f"old{version}", version=version)
        assert answer.topics[0].error_code == 0
        assert answer.throttle_time_ms > 800


def test_who_only_asks_takes_nothing(world: World) -> None:
    for _ in range(20):
        assert create(world, "wide", partitions=60, validate_only=True).throttle_time_ms == 0
    assert create(world, "t").topics[0].error_code == 0


@pytest.mark.parametrize(("version", "code"), [(2, 0), (3, EXCEEDED)])
def test_partitions_above_the_quota_are_refused(world: World, version: int, code: int) -> None:
    create(world, "t", partitions=19)
    request = CreatePartitionsRequest([CreatePartitionsTopic("t", 20, None)])
    answer = world.ask(request, version)
    assert answer.results[0].error_code == code
    assert answer.throttle_time_ms > 800
    assert len(world.core.image.topics["t"].partitions) == (19 if code else 20)


@pytest.mark.parametrize(("version", "code"), [(4, 0), (5, EXCEEDED), (6, EXCEEDED)])
def test_deletions_count_as_well(world: World, version: int, code: int) -> None:
    create(world, "t", partitions=19)
    request = DeleteTopicsRequest([DeleteTopicState("t")], ["t"])
    answer = world.ask(request, version)
    assert answer.responses[0].error_code == code
    assert answer.throttle_time_ms > 800
    assert ("t" in world.core.image.topics) is bool(code)


def test_a_deletion_takes_the_topic_s_partitions(world: World) -> None:
    create(world, "t", partitions=9)
    assert world.delete("t") == 0
    assert create(world, "u").topics[0].error_code == EXCEEDED


def test_topics_are_not_created_on_first_use_above_the_quota(world: World) -> None:
    answer = world.describe(*(f"t{number}" for number in range(12)), create=True)
    assert [one.error_code for one in answer.topics] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 12
    assert answer.throttle_time_ms == 0, "the controller of Apache Kafka refuses them, and nobody is told"
    assert len(world.core.image.topics) == 4, "each costs three, so the fourth left two to be paid"
    assert create(world, "by-name").topics[0].error_code == EXCEEDED
    world.advance(1000)
    world.describe("t10", "t11", create=True)
    assert len(world.core.image.topics) == 6


def test_a_topic_that_is_there_costs_nothing_to_ask_for(world: World) -> None:
    create(world, "t", partitions=9)
    for _ in range(5):
        world.describe("t", create=True)
    assert create(world, "u").topics[0].error_code == 0, "one token was left"


def test_one_address_leaves_the_quota_of_others_alone(world: World) -> None:
    create(world, "wide", partitions=60)
    other = Connection(99, "PLAINTEXT", "10.9.9.9", "kafka", 0)
    answer = world.send(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 7, connection=other)
    world.settle()
    assert answer.response.topics[0].error_code == 0


@pytest.mark.parametrize("hosts", [("127.0.0.1", "127.7.8.9"), ("2001:db8::1", "2001:db8::2:1")])
def test_who_has_one_address_has_no_more_by_having_others(world: World, hosts: tuple[str, str]) -> None:
    """A machine has all of 127.0.0.0/8, and whoever has one IPv6 address has 2^64."""
    told = []
    for number, host in enumerate(hosts):
        peer = Connection(90 + number, "PLAINTEXT", host, "kafka", 0)
        asked = CreateTopicsRequest([CreatableTopic(f"t{number}", 60, 1)])
        answer = world.send(asked, 7, connection=peer)
        world.settle()
        told.append(answer.response.topics[0].error_code)
    assert told == [0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]


def test_an_honest_start_up_meets_no_quota() -> None:
    world = World()
    assert create(world, *(f"t{number}" for number in range(5000))).throttle_time_ms == 0
    assert create(world, "wide", partitions=10_000).topics[0].error_code == 0
    assert world.delete("wide") == 0


@pytest.mark.parametrize("version", [5, 7])
def test_one_address_has_one_burst_and_one_request_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Version 5 had two bursts and one request: 50,000 partitions in four seconds."""
    monkeypatch.setattr(mutation_quota, "OWED_MAX", 5)
    made = 0
    for number in range(20):
        (topic,) = create(world, f"t{number}", version=version, partitions=5 if number else 4).topics
        made += 0 if topic.error_code else (5 if number else 4)
    assert made == 14
    assert len(world.core.image.topics) == 3


def test_the_metadata_s_own_topic_is_not_created_on_first_use() -> None:
    world = World()
    world.describe("__cluster_metadata", create=True)
    assert "__cluster_metadata" not in world.core.image.topics


@pytest.mark.parametrize("connections", [1, 50])
def test_who_cannot_be_told_to_wait_owes_no_more_than_one_request(
    world: World, monkeypatch: pytest.MonkeyPatch, connections: int
) -> None:
    """Each connection is muted after its own request: a thousand of them passed any rate."""
    monkeypatch.setattr(mutation_quota, "OWED_MAX", 5)
    made = 0
    for number in range(50):
        peer = Connection(100 + number % connections, "PLAINTEXT", "10.9.9.9", "kafka", 0)
        sent = world.send(CreateTopicsRequest([CreatableTopic(f"old{number}", 1, 1)]), 5, connection=peer)
        world.settle()
        (topic,) = sent.response.topics
        made += not topic.error_code
        if topic.error_code:
            assert topic.error_code == ErrorCode.POLICY_VIOLATION
            assert "controller mutation quota is exceeded; try again in" in topic.error_message
            assert sent.response.throttle_time_ms > 500
    assert made == 15, "ten at once, and five that are owed"
    world.advance(2000)
    assert create(world, "later", version=5).topics[0].error_code == 0


def test_who_is_refused_is_told_the_settings_and_the_log_says_who_once_a_minute(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def refusals() -> list[str]:
        return [line for line in caplog.messages if line.startswith("10.1.2.3 is to wait")]

    peer = Connection(7, "PLAINTEXT", "10.1.2.3", "kafka", 0)
    for number in range(20):
        sent = world.send(CreateTopicsRequest([CreatableTopic(f"n{number}", 8, 1)]), 7, connection=peer)
        world.settle()
    (topic,) = sent.response.topics
    assert topic.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert "barnabas.controller.mutation.rate" in topic.error_message
    assert len(refusals()) == 1
    assert "barnabas.controller.mutation.burst allows 10 at once" in refusals()[0]
    world.advance(60_000)
    for number in range(3):
        world.send(CreateTopicsRequest([CreatableTopic(f"m{number}", 20, 1)]), 7, connection=peer)
        world.settle()
    assert len(refusals()) == 2


def test_a_topic_that_is_there_is_said_to_be_above_the_quota_too(world: World) -> None:
    """Programs that make their topics at each start met the quota, and were muted, though they made none."""
    create(world, "t", partitions=9)
    for version in (5, 7):
        for _ in range(5):
            answer = create(world, "t", partitions=9, version=version)
            assert answer.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
            assert answer.throttle_time_ms == 0
    assert create(world, "wide", partitions=60).topics[0].error_code == 0, "one token was left"
    answer = create(world, "t", "new", partitions=9)
    assert [one.error_code for one in answer.topics] == [ErrorCode.TOPIC_ALREADY_EXISTS, EXCEEDED]


@pytest.mark.parametrize("version", [5, 7])
def test_what_comes_to_nothing_takes_nothing(world: World, version: int) -> None:
    for partitions in (9, 60, 10_000, 10_001):
        topics = [CreatableTopic("far", partitions, 3)]  # there is one broker
        answer = world.ask(CreateTopicsRequest(topics, 1000, False), version)
        assert answer.topics[0].error_code != 0
        assert answer.throttle_time_ms == 0
    create(world, "t", partitions=9)
    too_many = CreatePartitionsRequest([CreatePartitionsTopic("t", 60, [])])
    assert world.ask(too_many, 3).results[0].error_code != 0
    assert create(world, "u", partitions=2).topics[0].error_code == 0, "one token was left, and no more than that"
    assert create(world, "v").topics[0].error_code == EXCEEDED


def test_who_is_served_and_has_to_wait_is_in_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Its connection is muted: a client of such a version sees a broker that does not answer."""
    create(world, "little", partitions=11, version=5)
    assert not [line for line in caplog.messages if "is to wait" in line], "0.1 s, which nobody notices"
    create(world, "much", partitions=60, version=5)
    (line,) = [line for line in caplog.messages if "is to wait" in line]
    assert "is to wait 6101 ms" in line
    assert "barnabas.controller.mutation.rate 10 a second" in line
    create(world, "more", partitions=10, version=5)
    create(world, "most", partitions=60, version=5)
    told = [line for line in caplog.messages if "is to wait" in line]
    assert len(told) == 2, "not for 7.1 s, and for 13.1 s: more than twice as long"
    assert "is to wait 13101 ms" in told[1]
