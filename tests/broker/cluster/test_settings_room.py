"""Settings of topics and brokers are in memory: a value, a resource and all of them together have a bound."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from barnabas.broker.cluster import settings_room
from barnabas.broker.cluster.image import BROKER_RESOURCE, TOPIC_RESOURCE, Image
from barnabas.broker.cluster.settings_room import RESOURCE_BYTES_MAX, VALUE_BYTES_MAX, bytes_of
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.node.world import World

LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def replicas(size: int) -> str:
    """A list of throttled replicas of so many bytes: one of a broker with a long number."""
    return "0:" + "1" * (size - 2)


@pytest.fixture
def world() -> World:
    world = World()
    world.create()
    return world


def alter(world: World, *resources: tuple[int, str, Mapping[str, str | None]]) -> list[tuple[int, str | None]]:
    asked = [
        AlterConfigsResource(
            kind, name, [AlterableConfig(key, 1 if value is None else 0, value) for key, value in settings.items()]
        )
        for kind, name, settings in resources
    ]
    answer = world.ask(IncrementalAlterConfigsRequest(asked), 1)
    return [(one.error_code, one.error_message) for one in answer.responses]


def create(world: World, *topics: tuple[str, Mapping[str, str | None]]) -> list[int]:
    asked = [
        CreatableTopic(name, 1, 1, [], [CreatableTopicConfig(key, value) for key, value in settings.items()])
        for name, settings in topics
    ]
    return [one.error_code for one in world.ask(CreateTopicsRequest(asked, 1000), 7).topics]


def counted(image: Image) -> None:
    assert image.settings_bytes == sum(bytes_of(one) for one in image.configs.values())


def test_a_value_has_a_bound(world: World) -> None:
    assert alter(world, (2, "t", {LISTS[0]: replicas(VALUE_BYTES_MAX)})) == [(0, None)]
    ((code, told),) = alter(world, (2, "t", {LISTS[1]: replicas(VALUE_BYTES_MAX + 1)}))
    assert code == ErrorCode.INVALID_CONFIG
    assert told == f"{LISTS[1]} has a value of 32768 bytes; write 32767 at most"
    assert create(world, ("u", {LISTS[0]: replicas(VALUE_BYTES_MAX + 1)})) == [ErrorCode.INVALID_CONFIG]
    ((_, told),) = alter(world, (2, "t", {LISTS[1]: "no list" * VALUE_BYTES_MAX}))
    assert told is not None
    assert told.endswith("write 32767 at most"), "it is not read"


def test_a_resource_has_a_bound(world: World) -> None:
    names = ("ssl.cipher.suites", "ssl.truststore.certificates", "ssl.keystore.key", "ssl.protocol", "sasl.jaas.config")
    for name in names[:-2]:
        assert alter(world, (4, "1", {name: "x" * VALUE_BYTES_MAX})) == [(0, None)]
    ((code, told),) = alter(world, (4, "1", dict.fromkeys(names[-2:], "x" * VALUE_BYTES_MAX)))
    assert code == ErrorCode.INVALID_CONFIG
    assert told is not None
    assert f"{RESOURCE_BYTES_MAX} is the most, so delete some first" in told


def test_all_of_them_together_have_a_bound_also_within_one_request(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two lists of 32 KB on each of 1,500 topics took 295 MB, and stayed."""
    monkeypatch.setattr(settings_room, "ALL_BYTES_MAX", 200_000)
    assert create(world, *((f"t{number}", {LISTS[0]: replicas(30_000)}) for number in range(8))) == [0] * 6 + [40] * 2
    counted(world.core.image)
    codes = alter(world, *((2, f"t{number}", {LISTS[1]: replicas(9_000)}) for number in range(3)))
    assert [code for code, _ in codes] == [0, 0, 40]
    assert "delete some first" in str(codes[-1][1])
    assert alter(world, (2, "t0", {LISTS[0]: None})) == [(0, None)], "less is always taken"
    assert alter(world, (2, "t2", {LISTS[1]: replicas(9_000)})) == [(0, None)]
    assert alter(world, (2, "t", {"retention.ms": "7"})) == [(0, None)]
    counted(world.core.image)


def test_what_is_deleted_makes_room(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_room, "ALL_BYTES_MAX", 40_000)
    assert create(world, ("u", {LISTS[0]: replicas(30_000)})) == [0]
    assert create(world, ("v", {LISTS[0]: replicas(30_000)})) == [40]
    assert world.delete("u") == 0
    assert create(world, ("v", {LISTS[0]: replicas(30_000)})) == [0]
    counted(world.core.image)


def test_the_count_is_that_of_the_settings_after_a_restart_and_many_at_once(world: World) -> None:
    wide = [(f"w{number}", {"retention.ms": str(number), "segment.ms": "5000"}) for number in range(60)]
    assert set(create(world, *wide)) == {0}
    assert alter(world, *((2, f"w{number}", {"segment.ms": None}) for number in range(30))) == [(0, None)] * 30
    assert alter(world, (4, "", {"log.retention.ms": "9000"})) == [(0, None)]
    counted(world.core.image)
    held = world.core.image.settings_bytes
    world.restart()
    assert world.core.image.settings_bytes == held > 0
    counted(world.core.controller.pending)
    assert set(world.core.image.configs) >= {(TOPIC_RESOURCE, "w0"), (BROKER_RESOURCE, "")}


def test_what_is_too_much_already_can_be_kept_and_made_less(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert create(world, ("u", {LISTS[0]: replicas(30_000)})) == [0]
    monkeypatch.setattr(settings_room, "ALL_BYTES_MAX", 1000)
    monkeypatch.setattr(settings_room, "RESOURCE_BYTES_MAX", 1000)
    monkeypatch.setattr(settings_room, "VALUE_BYTES_MAX", 100)
    assert alter(world, (2, "u", {LISTS[0]: replicas(90)})) == [(0, None)]
    told = f"{LISTS[0]} has a value of 101 bytes; write 100 at most"
    assert alter(world, (2, "u", {LISTS[0]: replicas(101)})) == [(40, told)]


def test_the_name_of_a_group_counts_for_it_need_not_exist() -> None:
    room = settings_room.SettingsRoom(settings_room.ALL_BYTES_MAX - 2000)
    room.take({}, {"consumer.session.timeout.ms": "45000"}, "g")
    with pytest.raises(KafkaError, match="The settings of all topics, groups and brokers would take"):
        room.take({}, {"consumer.session.timeout.ms": "45000"}, "g" * 2000)


def test_what_an_older_release_stored_beyond_the_bound_may_be_made_smaller() -> None:
    room = settings_room.SettingsRoom(settings_room.ALL_BYTES_MAX + 100_000)
    room.take({"a": "x" * 1000}, {"a": "x" * 900})
    room.take({"a": "x" * 1000, "b": "y"}, {"b": "y"})
    with pytest.raises(KafkaError, match="delete some first"):
        room.take({"b": "y"}, {"b": "yy"})
