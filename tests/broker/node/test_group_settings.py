"""Settings of groups: set, told with their sources, listed, kept over a restart, and bounded."""

from __future__ import annotations

import pytest

from barnabas.broker.cluster import settings_room
from barnabas.broker.cluster.settings_room import bytes_of
from barnabas.protocol.requests.alter_configs import AlterableConfig as Replaced
from barnabas.protocol.requests.alter_configs import AlterConfigsRequest
from barnabas.protocol.requests.alter_configs import AlterConfigsResource as Replacing
from barnabas.protocol.requests.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.requests.list_config_resources import ListConfigResourcesRequest
from tests.broker.node.world import World

GROUP = 32
SET, DELETE, APPEND = 0, 1, 2
SESSION, BEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


@pytest.fixture
def world() -> World:
    return World()


def alter(world: World, group: str, name: str, value: str | None, operation: int = SET, **more: bool) -> int:
    asked = [AlterConfigsResource(GROUP, group, [AlterableConfig(name, operation, value)])]
    (told,) = world.ask(IncrementalAlterConfigsRequest(asked, **more), 1).responses
    return int(told.error_code)


def described(world: World, group: str, *names: str) -> list[tuple[str, str, int, list[tuple[str, str, int]]]]:
    """Name, value, source and synonyms of each."""
    asked = [DescribeConfigsResource(GROUP, group, list(names) or None)]
    (told,) = world.ask(DescribeConfigsRequest(asked, include_synonyms=True), 4).results
    assert (told.error_code, told.error_message) == (0, "")
    return [
        (one.name, one.value, one.config_source, [(each.name, each.value, each.source) for each in one.synonyms])
        for one in told.configs
    ]


def listed(world: World, *types: int) -> list[str]:
    told = world.ask(ListConfigResourcesRequest(list(types)), 1)
    assert told.error_code == 0
    return [one.resource_name for one in told.config_resources if one.resource_type == GROUP]


def test_a_group_that_nobody_set_anything_of_has_the_brokers(world: World) -> None:
    told = described(world, "nobody")
    assert len(told) == 17, "all that Apache Kafka 4.3.0 has"
    assert told[0] == (SESSION, "45000", 5, [("group.consumer.session.timeout.ms", "45000", 5)])
    assert {source for _, _, source, _ in told} == {5}


def test_what_is_set_is_told_with_what_it_would_be_otherwise(world: World) -> None:
    assert alter(world, "g", SESSION, "50000") == 0
    own, default = (SESSION, "50000", 8), ("group.consumer.session.timeout.ms", "45000", 5)
    assert described(world, "g", SESSION) == [(SESSION, "50000", 8, [own, default])]
    assert alter(world, "g", "share.isolation.level", "read_committed") == 0
    assert described(world, "g", "share.isolation.level") == [
        (
            "share.isolation.level",
            "read_committed",
            8,
            [("share.isolation.level", "read_committed", 8), ("share.isolation.level", "read_uncommitted", 5)],
        )
    ]
    assert alter(world, "g", SESSION, None, DELETE) == 0
    assert described(world, "g", SESSION) == [(SESSION, "45000", 5, [default])]


def test_the_group_has_what_the_broker_was_started_with() -> None:
    world = World(group_consumer_session_timeout_ms=50_000)
    static, default = (
        ("group.consumer.session.timeout.ms", "50000", 4),
        ("group.consumer.session.timeout.ms", "45000", 5),
    )
    assert described(world, "g", SESSION) == [(SESSION, "50000", 4, [static, default])]


@pytest.mark.parametrize(
    ("name", "value", "operation", "code"),
    [
        (SESSION, "44999", SET, 40),
        (SESSION, None, SET, 42),
        (SESSION, "1", APPEND, 40),
        ("nothing", "1", SET, 40),
        ("nothing", "1", APPEND, 40),
        ("nothing", None, DELETE, 0),
    ],
)
def test_what_is_refused(world: World, name: str, value: str | None, operation: int, code: int) -> None:
    assert alter(world, "g", name, value, operation) == code
    assert listed(world) == []


def test_there_is_no_default_group(world: World) -> None:
    assert alter(world, "", SESSION, "50000") == 42
    (told,) = world.ask(DescribeConfigsRequest([DescribeConfigsResource(GROUP, "", None)]), 4).results
    assert (told.error_code, told.error_message) == (42, "Group name must not be empty")


def test_who_has_settings_is_listed(world: World) -> None:
    world.create()
    assert alter(world, "g", SESSION, "50000") == 0
    assert alter(world, "h", SESSION, "50000", validate_only=True) == 0
    assert listed(world) == listed(world, GROUP) == ["g"]
    assert listed(world, 2) == []
    assert alter(world, "g", SESSION, None, DELETE) == 0
    assert listed(world) == []


def test_replacing_them_all_takes_the_others_back(world: World) -> None:
    assert alter(world, "g", SESSION, "50000") == 0
    asked = AlterConfigsRequest([Replacing(GROUP, "g", [Replaced(BEAT, "6000")])])
    assert [one.error_code for one in world.ask(asked, 2).responses] == [0]
    assert [told[1:3] for told in described(world, "g", SESSION, BEAT)] == [("45000", 5), ("6000", 8)]


def test_they_outlive_a_restart(world: World) -> None:
    assert alter(world, "g", SESSION, "50000") == 0
    world.restart()
    assert listed(world) == ["g"]
    assert described(world, "g", SESSION)[0][1] == "50000"


def counted(world: World) -> None:
    image = world.core.image
    owners = {resource: resource[1] if resource[0] == GROUP else "" for resource in image.configs}
    assert image.settings_bytes == sum(bytes_of(one, owners[resource]) for resource, one in image.configs.items())


def test_names_of_groups_count_for_they_need_not_exist(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_room, "ALL_BYTES_MAX", 100_000)
    name = "g" * 30_000
    assert [alter(world, f"{name}{number}", SESSION, "50000") for number in range(4)] == [0, 0, 0, 40]
    counted(world)
    assert alter(world, f"{name}0", BEAT, "6000") == 0, "its name is counted already"
    assert alter(world, f"{name}0", SESSION, None, DELETE) == 0
    assert alter(world, f"{name}3", SESSION, "50000") == 40
    assert alter(world, f"{name}0", BEAT, None, DELETE) == 0
    assert alter(world, f"{name}3", SESSION, "50000") == 0
    counted(world)
    world.restart()
    counted(world)
