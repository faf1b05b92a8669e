"""Whatever a dynamic setting is set to, everybody still gets in, writes and reads; what forbids it is refused."""

from __future__ import annotations

import pytest

from barnabas.broker.cluster import lock_out
from barnabas.broker.cluster.dynamic import refresh
from barnabas.broker.cluster.image import BROKER_RESOURCE, Image
from barnabas.broker.config import BrokerConfig, Key, Kind, Update, keys_of
from barnabas.broker.config.topics import OFFSETS_TOPIC
from barnabas.broker.host.admission import Admission
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.node.cluster import Cluster
from tests.broker.node.world import World, batch

DYNAMIC = {name: key for name, key in keys_of(BrokerConfig).items() if key.update is not Update.READ_ONLY}
NUMBERS = ["-9223372036854775808", "-2147483649", "-2147483648", "-2", "-1", "0", "1", "10", "1000", "1024"]
NUMBERS += ["1048576", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808"]
WORDS = {
    Kind.BOOLEAN: ["true", "false", "", "yes"],
    Kind.DOUBLE: ["nan", "inf", "-inf", "1e308", "0", "1", "-1"],
    Kind.STRING: ["", "producer", "zstd", "LogAppendTime", "CreateTime", "x" * 1000],
    Kind.LIST: ["", "compact", "delete", "compact,delete", "x"],
}
CLIENTS = 10
"""What one honest program, and the one who puts things right, may open together."""


def alter(world: World, name: str, value: str | None) -> int:
    """Of all brokers, or, where a setting is each broker's own, of this one."""
    change = AlterableConfig(name, 1 if value is None else 0, value)
    key = DYNAMIC.get(name)
    of_one = key is not None and key.update is Update.PER_BROKER
    resource = AlterConfigsResource(4, str(world.core.config.node_id) if of_one else "", [change])
    answer = world.ask(IncrementalAlterConfigsRequest([resource]), 1)
    return int(answer.responses[0].error_code)


@pytest.mark.parametrize("name", DYNAMIC)
def test_at_the_extremes_of_every_dynamic_setting_everybody_is_served(name: str) -> None:
    world = World()
    world.create()
    taken = []
    for value in WORDS.get(DYNAMIC[name].kind, NUMBERS):
        code = alter(world, name, value)
        assert code in (0, ErrorCode.INVALID_REQUEST), value
        if code == 0:
            taken.append(value)
        admission = Admission(world.core.config, 1000)
        assert [admission.admit("10.0.0.1", 0) for _ in range(CLIENTS)] == [None] * CLIENTS, value
        for _ in range(3):
            wall_ms = world.now_ms + world.wall_offset_ms
            written = world.put(batch(b"v" * 500, keys=[b"k"], at_ms=wall_ms), acks=-1)
            assert written.error_code == 0, (value, written)
        fetched = world.fetch({("t", 0): written.base_offset}).response.responses[0].partitions[0]
        assert (fetched.error_code, bool(fetched.records)) == (0, True), value
        world.advance(1000)
        stays = name == "min.insync.replicas" and taken  # it can be changed, not taken back, as in Apache Kafka
        assert alter(world, name, None) == (ErrorCode.INVALID_CONFIG if stays else 0)
    assert taken, "none of these values can be set"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max.connections", "9"),
        ("max.connections.per.ip", "9"),
        ("max.connection.creation.rate", "9"),
        ("message.max.bytes", "1023"),
        ("log.message.timestamp.before.max.ms", "999"),
        ("log.index.size.max.bytes", "4"),
        ("log.roll.ms", "0"),
        ("barnabas.controller.mutation.burst", "100001"),
        ("barnabas.controller.mutation.rate", "1001"),
        ("log.cleaner.backoff.ms", "99"),
        ("log.cleaner.dedupe.buffer.size", "1"),
        ("log.cleaner.dedupe.buffer.size", "268435457"),
        ("min.insync.replicas", "2"),
    ],
)
def test_what_would_lock_out_is_refused_when_set_and_ignored_aloud_when_stored(
    name: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    assert alter(world, name, value) == ErrorCode.INVALID_REQUEST
    live, static, image = BrokerConfig(), BrokerConfig(), Image()
    image.configs[(BROKER_RESOURCE, "")] = {name: value}
    assert refresh(live, static, image) == []
    assert live == static
    assert f"a stored setting is ignored, and should be deleted: {name}={value}" in caplog.text


def test_what_a_broker_was_started_with_is_not_ignored_when_it_is_stored_too(caplog: pytest.LogCaptureFixture) -> None:
    """A cluster of three stores its min.insync.replicas before the second broker is there: each start warned of it."""
    Cluster(1, 2, 3, min_insync_replicas=2)
    assert "is ignored" not in caplog.text


@pytest.mark.parametrize("name", ["connections.max.idle.ms", "socket.request.max.bytes", "queued.max.request.bytes"])
def test_what_only_a_start_can_change_is_refused(name: str) -> None:
    assert alter(World(), name, "1") == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["max.connections.per.ip.overrides", "num.network.threads", "num.io.threads"])
def test_what_this_broker_does_not_use_changes_nothing(name: str) -> None:
    world = World()
    before = repr(world.core.config)
    assert alter(world, name, "0") == 0
    assert repr(world.core.config) == before


def of_groups(world: World, *changes: AlterableConfig) -> int:
    """Alter the groups' topic."""
    resource = AlterConfigsResource(2, OFFSETS_TOPIC, list(changes))
    return int(world.ask(IncrementalAlterConfigsRequest([resource]), 1).responses[0].error_code)


@pytest.mark.parametrize(
    "change",
    [
        AlterableConfig("max.message.bytes", 0, "0"),
        AlterableConfig("max.message.bytes", 0, "1048575"),
        AlterableConfig("cleanup.policy", 0, "delete"),
        AlterableConfig("cleanup.policy", 0, "compact,delete"),
        AlterableConfig("cleanup.policy", 0, ""),
        AlterableConfig("cleanup.policy", 2, "delete"),
        AlterableConfig("cleanup.policy", 1, None),
    ],
    ids=str,
)
def test_no_setting_of_the_groups_topic_stops_groups_or_has_them_forget(change: AlterableConfig) -> None:
    """With `max.message.bytes=0` no group of the cluster could commit or be joined; with `delete` commits grew old."""
    world = World()
    world.create(OFFSETS_TOPIC)
    before = world.core.image.topic_overrides(OFFSETS_TOPIC)
    assert before == {"cleanup.policy": "compact"}, "also where a client makes it"
    assert of_groups(world, change) == ErrorCode.INVALID_CONFIG
    assert world.core.image.topic_overrides(OFFSETS_TOPIC) == before
    assert of_groups(world, AlterableConfig("max.message.bytes", 0, "1048576")) == 0
    assert of_groups(world, AlterableConfig("max.message.bytes", 1)) == 0
    assert of_groups(world, AlterableConfig("segment.bytes", 0, "1048576")) == 0


@pytest.mark.parametrize("settings", [{"cleanup.policy": "delete"}, {"max.message.bytes": "0"}], ids=str)
def test_it_is_not_made_with_them_either(settings: dict[str, str]) -> None:
    world = World()
    configs = [CreatableTopicConfig(name, value) for name, value in settings.items()]
    answer = world.ask(CreateTopicsRequest([CreatableTopic(OFFSETS_TOPIC, 1, 1, configs=configs)], 1000), 7)
    assert [one.error_code for one in answer.topics] == [ErrorCode.INVALID_CONFIG]


def test_every_bound_belongs_to_a_dynamic_setting() -> None:
    named: set[str] = {*lock_out._LOW, *lock_out._HIGH}
    assert named <= set(DYNAMIC)
    assert all(isinstance(key, Key) for key in DYNAMIC.values())
