from __future__ import annotations

import re

import pytest

from barnabas.broker.config import BrokerConfig, ConfigError, load
from barnabas.broker.config.sources import OF_CLUSTERS, WITHOUT_EFFECT
from barnabas.broker.config.variables import PLUMBING
from barnabas.broker.introduction import CLUSTER_ID_BYTES_MAX


def test_defaults_are_kafkas() -> None:
    config, warnings = load()
    assert config == BrokerConfig()
    assert (config.log_segment_bytes, config.retention_ms, config.roll_ms, config.flush_ms) == (
        1 << 30,
        604_800_000,
        604_800_000,
        2**63 - 1,
    )
    assert warnings == ()


def test_the_nearer_source_wins() -> None:
    properties = "num.partitions=2\nlog.retention.ms=2\nfetch.max.bytes=2000\nmax.connections=2\n"
    kafka = {"KAFKA_NUM_PARTITIONS": "3", "KAFKA_LOG_RETENTION_MS": "3", "KAFKA_FETCH_MAX_BYTES": "3000"}
    ours = {"BARNABAS_NUM_PARTITIONS": "4", "BARNABAS_LOG_RETENTION_MS": "4"}
    config, _ = load(overrides={"num.partitions": "5"}, environment={**ours, **kafka}, properties=properties)
    assert (config.num_partitions, config.log_retention_ms, config.fetch_max_bytes, config.max_connections) == (
        5,
        4,
        3000,
        2,
    )


def test_variables_are_named_as_in_kafkas_image() -> None:
    config, _ = load(environment={"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://host:1", "KAFKA_BROKER_ID": "7"})
    assert config.advertised_listeners == ("PLAINTEXT://host:1",)
    assert config.node_id == 7


@pytest.mark.parametrize("variable", [*sorted(PLUMBING), "KAFKA_JMX_ANY_THING", "KAFKA_LOG4J_ANY_THING"])
def test_variables_of_the_image_that_are_no_settings_are_silent(variable: str) -> None:
    assert load(environment={variable: "-Xmx1G"}).warnings == ()


def test_unknown_kafka_variables_are_ignored_and_ours_are_not() -> None:
    assert load(environment={"KAFKA_NO_SUCH_THING": "1", "PATH": "/bin"}) == load()
    with pytest.raises(ConfigError, match=r"barnabas\.no\.such\.thing .* is no setting"):
        load(environment={"BARNABAS_NO_SUCH_THING": "1"})


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("KAFKA_NUM_PARTITONS", "KAFKA_NUM_PARTITIONS"),
        ("KAFKA_ADVERTISED_LISTENER", "KAFKA_ADVERTISED_LISTENERS"),
        ("KAFKA_AUTO_CREATE_TOPICS", "KAFKA_AUTO_CREATE_TOPICS_ENABLE"),
        ("KAFKA_LOG_RETENTION_HOUR", "KAFKA_LOG_RETENTION_HOURS"),
    ],
)
def test_a_kafka_variable_that_is_nearly_a_setting_is_told_with_the_one_meant(variable: str, meant: str) -> None:
    loaded = load(environment={variable: "3"})
    assert loaded.config == BrokerConfig()
    assert loaded.warnings == (f"the variable {variable} is no setting and is ignored; did you mean {meant}?",)


@pytest.mark.parametrize(
    "variable",
    [
        "KAFKA_BROKER",
        "KAFKA_BROKERS",
        "KAFKA_BOOTSTRAP_SERVERS",
        "KAFKA_CLIENT_ID",
        "KAFKA_GROUP_ID",
        "KAFKA_PORT",
        "KAFKA_PORT_9092_TCP_ADDR",
        "KAFKA_SASL_MECHANISM",
        "KAFKA_SECURITY_PROTOCOL",
        "KAFKA_SERVICE_HOST",
        "KAFKA_SERVICE_PORT",
        "KAFKA_TOPIC",
        "KAFKA_URL",
    ],
)
def test_what_other_programs_and_kubernetes_set_is_no_near_miss(variable: str) -> None:
    assert load(environment={variable: "x"}).warnings == ()


def test_variables_of_the_other_image_are_told_in_one_line() -> None:
    environment = {"KAFKA_CFG_NODE_ID": "0", "KAFKA_CFG_PROCESS_ROLES": "broker", "KAFKA_CFG_X": "1"}
    loaded = load(environment=environment)
    assert loaded.config == BrokerConfig()
    (told,) = loaded.warnings
    assert told == (
        "variables of another image are ignored: KAFKA_CFG_NODE_ID, KAFKA_CFG_PROCESS_ROLES; "
        "Kafka's own are named without CFG_, as KAFKA_NODE_ID"
    )


def test_what_belongs_to_zookeeper_is_ignored_and_told_wherever_it_stands() -> None:
    told = ("settings that Apache Kafka 4 no longer has (nor ZooKeeper) are ignored: zookeeper.connect",)
    assert load(properties="zookeeper.connect=zoo:2181").warnings == told
    assert load(environment={"KAFKA_ZOOKEEPER_CONNECT": "zoo:2181"}).warnings == told
    assert load(environment={"BARNABAS_ZOOKEEPER_CONNECT": "zoo:2181"}).warnings == told
    assert load(overrides={"zookeeper.connect": "zoo:2181"}).warnings == told
    both = load(properties="zookeeper.connect=a\ninter.broker.protocol.version=3.9\nbroker.id.generation.enable=true")
    assert len(both.warnings) == 1


def test_our_own_settings_need_no_second_prefix() -> None:
    assert load(environment={"BARNABAS_TOPICS": "t:2"}).config.barnabas_topics == "t:2"
    assert load(environment={"BARNABAS_VALIDATE_RECORDS": "full"}).config.barnabas_validate_records == "full"


def test_a_misspelt_name_is_told_with_the_nearest() -> None:
    with pytest.raises(
        ConfigError, match=r"num\.partitons \(from --set\) is no setting; did you mean num\.partitions\?"
    ):
        load(overrides={"num.partitons": "1"})
    with pytest.raises(ConfigError, match=r"qqq \(from the configuration file\) is no setting$"):
        load(properties="qqq=1")


def test_a_setting_of_kafka_without_effect_is_named_once() -> None:
    loaded = load(
        overrides={"process.roles": "broker"},
        environment={"KAFKA_PROCESS_ROLES": "broker"},
        properties="process.roles=controller",
    )
    assert loaded.warnings == ("settings of Apache Kafka that have no effect here: process.roles",)
    assert load(properties="listener.name.internal.ssl.keystore.location=/x").warnings != ()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("num.partitions=many", "not a whole number"),
        ("num.partitions=0", "write 1 or more"),
        ("num.partitions=99999999999", "too large"),
        ("num.partitions=1e3", "digits only"),
        ("log.cleaner.enable=yes", "write true or false"),
        ("log.cleaner.min.cleanable.ratio=2", "between 0 and 1"),
        ("log.cleaner.min.cleanable.ratio=x", "not a number"),
        ("log.cleanup.policy=shred", "compact, delete"),
        ("compression.type=rar", "write one of producer"),
        ("compression.gzip.level=12", "1 to 9, or -1"),
        ("log.segment.bytes=1000", "write 1048576 or more"),
        ("barnabas.validate.records=some", "write one of header, full"),
        ("listeners=here", "write NAME://host:port"),
        ("listeners=", "listeners is empty"),
        ("listeners=INSIDE://:9092", "add INSIDE:PLAINTEXT"),
        ("log.dirs=/a,/b", "one data directory"),
        ("process.roles=x", "write one or more of broker, controller, each once"),
        ("barnabas.cluster.id=a\nnode.id=7", "write at most 255 bytes of printable characters"),
        ("barnabas.cluster.id=a\\b", "none of them a backslash"),
        ("barnabas.cluster.id=a\udcffb", "of printable characters"),
        ("barnabas.cluster.id=" + "\u00e9" * 128, "write at most 255 bytes"),
        ("barnabas.topics=t:0", "write 1 to 10000"),
        ("barnabas.topics=t{retention.ms=x}", "topics: t: retention.ms=x: not a whole number"),
    ],
)
def test_a_bad_value_is_told_with_what_to_write(setting: str, message: str) -> None:
    name, _, value = setting.partition("=")
    with pytest.raises(ConfigError) as caught:
        load(overrides={name: value})
    assert message in str(caught.value)


def test_the_longest_cluster_id_is_one_that_brokers_can_show_each_other() -> None:
    longest = "\u00e9" * 127 + "x"
    assert len(longest.encode()) == CLUSTER_ID_BYTES_MAX
    assert load(overrides={"barnabas.cluster.id": longest}).config.barnabas_cluster_id == longest
    with pytest.raises(ConfigError, match="write at most 255 bytes"):
        load(overrides={"barnabas.cluster.id": longest + "x"})


def test_what_is_said_to_have_no_effect_is_kafka_s() -> None:
    """A broker that stands alone names its fresh directory by the cluster's id, and refuses one of another."""
    assert load(overrides={"barnabas.cluster.id": "home"}).warnings == ()
    assert not [name for name in WITHOUT_EFFECT | OF_CLUSTERS if name.startswith("barnabas.")]


def test_values_may_have_blanks_and_any_case() -> None:
    config = load(overrides={"log.cleaner.enable": " FALSE ", "log.cleanup.policy": " compact , delete "}).config
    assert config.log_cleaner_enable is False
    assert config.log_cleanup_policy == ("compact", "delete")


def test_a_setting_that_is_kept_without_effect_is_named_too() -> None:
    loaded = load(overrides={"queued.max.requests": "7"}, properties="log.preallocate=true")
    assert loaded.config.queued_max_requests == 7
    assert loaded.warnings == (
        "settings of Apache Kafka that have no effect here: log.preallocate, queued.max.requests",
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"group.consumer.session.timeout.ms": "44999"}, "group.consumer.min.session.timeout.ms (45000)"),
        ({"group.consumer.heartbeat.interval.ms": "15001"}, "group.consumer.max.heartbeat.interval.ms (15000)"),
        ({"group.consumer.max.assignment.interval.ms": "999"}, "group.consumer.assignment.interval.ms=1000"),
        (
            {
                "group.consumer.min.session.timeout.ms": "5000",
                "group.consumer.session.timeout.ms": "5000",
            },
            "write less than group.consumer.session.timeout.ms (5000)",
        ),
        ({"group.consumer.assignors": "uniform,uniform"}, "each once"),
        ({"group.consumer.assignors": ""}, "write one or more of uniform, range"),
        ({"group.consumer.migration.policy": "both"}, "bidirectional, disabled, downgrade, upgrade"),
        ({"group.coordinator.rebalance.protocols": "new"}, "write one or more of classic"),
    ],
)
def test_what_groups_of_the_consumer_protocol_go_by_fits_together(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        load(overrides=given)


def test_a_policy_is_taken_in_whichever_case() -> None:
    assert load(overrides={"group.consumer.migration.policy": "Upgrade"}).config.group_consumer_migration_policy == (
        "Upgrade"
    )
