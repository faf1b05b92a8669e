"""S01 to S15: settings described and altered, of topics and of brokers."""

import re
from typing import Any

from barnabas.broker.config import BrokerConfig, keys_of
from tests.conformance.recordings import explained, recorded
from tests.conformance.scenario import ABSENT, Facts, scenario
from tests.conformance.targets import PEERS
from tests.conformance.whole import answers, ask
from tests.conformance.world import World, error

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER = 2, 4
Change = tuple[str, int, str | None]


def described(world: World, kind: int, name: str, *keys: str, **options: bool) -> dict[str, str]:
    """The settings of a resource, each in words: value, source, type, and its synonyms if they are asked for."""
    asked = [{"resource_type": kind, "resource_name": name, "configuration_keys": keys or None}]
    found = world.call("describe_configs", 4, {"resources": asked, **options}).body.results[0]
    return {
        one.name: f"{one.value}, source {one.config_source}, type {one.config_type}"
        f"{', read only' if one.read_only else ''}{', sensitive' if one.is_sensitive else ''}"
        f"{', documented' if one.documentation else ''}"
        + "".join(f"; {each.name}={each.value} source {each.source}" for each in one.synonyms)
        for one in found.configs
    }


def altering(kind: int, name: str, *changes: Change, dry: bool = False) -> dict[str, Any]:
    """A request that alters one resource, setting by setting."""
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    return {
        "resources": [{"resource_type": kind, "resource_name": name, "configs": configs}],
        "validate_only": dry,
    }


def alter(world: World, kind: int, name: str, *changes: Change, dry: bool = False) -> str:
    """Alter one resource: the error."""
    reply = world.call("incremental_alter_configs", 1, altering(kind, name, *changes, dry=dry))
    return error(reply.body.responses[0].error_code)


def settle(world: World, topic: str) -> None:
    """Wait until what was altered is told, by altering one setting more: the metadata come in their order."""
    value = str(100_000 + int(described(world, TOPIC, topic, "flush.ms")["flush.ms"].split(",")[0]) % 100_000 + 1)
    assert alter(world, TOPIC, topic, ("flush.ms", SET, value)) == "NONE"
    world.wait(lambda: value in described(world, TOPIC, topic, "flush.ms")["flush.ms"], "the settings")


@scenario(
    "S01",
    "DescribeConfigs of a topic with settings of its own: every setting, with what it would be",
    recorded("S01"),
)
def s01(world: World) -> Facts:
    topic = world.topic(retention_ms="60000", cleanup_policy="compact,delete", compression_type="zstd")
    return described(world, TOPIC, topic, include_synonyms=True)


LIMITS: dict[str, tuple[str, str]] = {
    "auto.create.topics.enable": ("true", "1, read only"),
    "follower.replication.throttled.rate": ("9223372036854775807", "5"),
    "group.consumer.max.size": ("1000", "3, read only"),
    "group.consumer.regex.refresh.interval.ms": ("600000", "3, read only"),
    "group.coordinator.rebalance.protocols": ("classic,consumer", "7, read only"),
    "group.max.size": ("1000", "3, read only"),
    "leader.replication.throttled.rate": ("9223372036854775807", "5"),
    "max.connection.creation.rate": ("1000", "3"),
    "max.connections": ("10000", "3"),
    "max.connections.per.ip": ("5000", "3"),
    "producer.id.expiration.check.interval.ms": ("600000", "3, read only"),
    "queued.max.request.bytes": ("167772160", "5, read only"),
    "socket.listen.backlog.size": ("1024", "3, read only"),
    "unclean.leader.election.interval.ms": ("300000", "5, read only"),
}
"""What ours tells otherwise: value and type."""

MACHINE = {
    "advertised.listeners",
    "controller.listener.names",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "node.id",
}

ELSEWHERE = (
    "barnabas.",
    "controller.",
    "delegation.",
    "group.share.",
    "group.streams.",
    "remote.",
    "sasl.",
    "share.",
    "ssl.",
    "transaction",
)
"""Our own settings, and those of what is not here: its settings are not told either."""


def told_otherwise() -> Facts:
    """What of a broker's settings ours does not tell, or tells with another value."""
    facts = {name: ABSENT for name in recorded("S02") if name not in keys_of(BrokerConfig)}
    name = "inter.broker.listener.name"
    facts[name] = f"{PEERS}, source 4, type 2, read only; {name}={PEERS} source 4"
    name, roles = "process.roles", "broker,controller"
    facts[name] = f"{roles}, source 4, type 7, read only; {name}={roles} source 4; {name}= source 5"
    return facts | {
        name: f"{value}, source 5, type {kind}; {name}={value} source 5" for name, (value, kind) in LIMITS.items()
    }


@scenario(
    "S02",
    "DescribeConfigs of a broker: every setting, with what it would be; without those of its machine",
    recorded("S02"),
    differs=told_otherwise(),
    note="a setting without effect is not told; limits of ours stand in docs/SECURITY.md; what is written as it would "
    "be anyway is told as the default; Apache Kafka is given its one replica here; the scenarios' broker has a "
    "listener for brokers alone; process.roles may be left out; Apache Kafka keeps the interval of unclean elections "
    "to itself, and the rates of replication until they are set",
)
def s02(world: World) -> Facts:
    node = world.call("metadata", 12, {"topics": []}).body.brokers[0].node_id
    found = described(world, BROKER, str(node), include_synonyms=True)
    return {name: found[name] for name in sorted(found) if name not in MACHINE and not name.startswith(ELSEWHERE)}


@scenario(
    "S03",
    "DescribeConfigs of one topic: some settings, unknown ones, one twice, an empty name, none, all; documentation",
    recorded("S03"),
)
def s03(world: World) -> Facts:
    topic = world.topic()
    asked: dict[str, tuple[str, ...] | None] = {
        "one": ("retention.ms",),
        "two": ("segment.ms", "retention.ms"),
        "unknown": ("no.such.key",),
        "known and unknown": ("no.such.key", "retention.ms"),
        "twice": ("retention.ms", "retention.ms"),
        "empty name": ("",),
        "a broker's": ("log.retention.ms",),
    }
    bodies = {
        name: {"resources": [{"resource_type": TOPIC, "resource_name": topic, "configuration_keys": keys}]}
        for name, keys in asked.items()
    }
    facts = answers(world, "describe_configs", (1, 4), bodies, {topic: "T"})
    for name, none in {"none": (), "null": None}.items():
        body = {"resources": [{"resource_type": TOPIC, "resource_name": topic, "configuration_keys": none}]}
        facts[name] = str(len(world.call("describe_configs", 4, body).body.results[0].configs))
    facts["no resources"] = ask(world, "describe_configs", 4, {"resources": []}, {})
    return facts


@scenario(
    "S04",
    "DescribeConfigs of what is not there: topics, names, brokers, types of resources",
    recorded("S04"),
    differs=explained("S04", "unknown topic"),
    note="ours names the topic",
)
def s04(world: World) -> Facts:
    missing = world.fresh()
    asked = {
        "unknown topic": (TOPIC, missing),
        "bad name": (TOPIC, "x y"),
        "no name": (TOPIC, ""),
        "dot": (TOPIC, "."),
        "another broker": (BROKER, "4711"),
        "no number": (BROKER, "x"),
        "negative": (BROKER, "-1"),
        "type 0": (0, "x"),
        "type 1": (1, "x"),
        "type 3": (3, "x"),
        "type 99": (99, "x"),
        "type -1": (-1, "x"),
    }
    bodies = {
        name: {"resources": [{"resource_type": kind, "resource_name": resource, "configuration_keys": None}]}
        for name, (kind, resource) in asked.items()
    }
    return answers(world, "describe_configs", (1, 4), bodies, {missing: "M"})


@scenario(
    "S05",
    "IncrementalAlterConfigs: a list appended and subtracted, what is there already, what is not, all of it",
    recorded("S05"),
)
def s05(world: World) -> Facts:
    topic = world.topic()
    facts: Facts = {}
    steps: list[tuple[str, Change]] = [
        ("append compact", ("cleanup.policy", APPEND, "compact")),
        ("append again", ("cleanup.policy", APPEND, "compact")),
        ("append both", ("cleanup.policy", APPEND, "delete,compact")),
        ("subtract delete", ("cleanup.policy", SUBTRACT, "delete")),
        ("subtract what is not there", ("cleanup.policy", SUBTRACT, "delete")),
        ("append nonsense", ("cleanup.policy", APPEND, "shred")),
        ("subtract nonsense", ("cleanup.policy", SUBTRACT, "shred")),
        ("append nothing", ("cleanup.policy", APPEND, "")),
        ("subtract all", ("cleanup.policy", SUBTRACT, "compact,delete")),
        ("append to nothing", ("cleanup.policy", APPEND, "delete")),
        ("back", ("cleanup.policy", DELETE, None)),
        ("subtract the default", ("cleanup.policy", SUBTRACT, "delete")),
        ("back again", ("cleanup.policy", DELETE, "delete")),
        ("append to throttled", ("leader.replication.throttled.replicas", APPEND, "0:1")),
        ("append more", ("leader.replication.throttled.replicas", APPEND, "1:1,0:1")),
        ("subtract one", ("leader.replication.throttled.replicas", SUBTRACT, "0:1")),
        ("append to a number", ("retention.ms", APPEND, "1")),
        ("subtract from a word", ("compression.type", SUBTRACT, "gzip")),
        ("append to the unknown", ("no.such.key", APPEND, "1")),
    ]
    for name, change in steps:
        code = alter(world, TOPIC, topic, change)
        settle(world, topic)
        facts[name] = f"{code}: {described(world, TOPIC, topic, change[0]).get(change[0], 'not told')}"
    return facts


@scenario(
    "S06",
    "IncrementalAlterConfigs of a topic: a setting twice, null values, unknown names, two at once of which one is bad",
    recorded("S06"),
)
def s06(world: World) -> Facts:
    topic = world.topic(retention_ms="60000")
    bodies = {
        "twice": altering(TOPIC, topic, ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
        "set and delete": altering(TOPIC, topic, ("retention.ms", SET, "1"), ("retention.ms", DELETE, None)),
        "null set": altering(TOPIC, topic, ("retention.ms", SET, None)),
        "null append": altering(TOPIC, topic, ("cleanup.policy", APPEND, None)),
        "null subtract": altering(TOPIC, topic, ("cleanup.policy", SUBTRACT, None)),
        "delete with a value": altering(TOPIC, topic, ("segment.ms", DELETE, "5")),
        "delete what is not set": altering(TOPIC, topic, ("segment.ms", DELETE, None)),
        "delete the unknown": altering(TOPIC, topic, ("no.such.key", DELETE, None)),
        "set the unknown": altering(TOPIC, topic, ("no.such.key", SET, "1")),
        "empty key": altering(TOPIC, topic, ("", SET, "1")),
        "one of two is bad": altering(TOPIC, topic, ("segment.ms", SET, "60000"), ("retention.ms", SET, "x")),
        "a broker's setting": altering(TOPIC, topic, ("log.retention.ms", SET, "1")),
        "nothing to change": altering(TOPIC, topic),
        "no resources": {"resources": [], "validate_only": False},
        "validated": altering(TOPIC, topic, ("retention.ms", SET, "70000"), dry=True),
        "validated, bad": altering(TOPIC, topic, ("retention.ms", SET, "x"), dry=True),
    }
    facts = answers(world, "incremental_alter_configs", (0, 1), bodies, {topic: "T"})
    settle(world, topic)
    for key in ("retention.ms", "segment.ms"):
        facts[f"then {key}"] = described(world, TOPIC, topic, key)[key]
    return facts


UNKNOWN_REFUSED = {
    name: recorded("S07").get(name, "").replace("error_code 0, error_message null", "error_code 40, error_message text")
    for name in ("unknown setting of the cluster", "a topic's setting")
}


@scenario(
    "S07",
    "IncrementalAlterConfigs of what is not there: topics, names, brokers, types of resources",
    recorded("S07"),
    differs=UNKNOWN_REFUSED,
    note="a setting of a broker that nobody knows is refused; Apache Kafka keeps it, and uses it for nothing",
)
def s07(world: World) -> Facts:
    topic, missing = world.topic(), world.fresh()
    good = ("retention.ms", SET, "60000")
    two = altering(TOPIC, missing, good)["resources"] + altering(TOPIC, topic, good)["resources"]
    bodies = {
        "unknown topic": altering(TOPIC, missing, good),
        "bad name": altering(TOPIC, "x y", good),
        "no name": altering(TOPIC, "", good),
        "one of two": {"resources": two, "validate_only": False},
        "another broker": altering(BROKER, "4711", ("log.cleaner.threads", SET, "1")),
        "no number": altering(BROKER, "x", ("log.cleaner.threads", SET, "1")),
        "unknown setting of the cluster": altering(BROKER, "", ("no.such.key", SET, "1")),
        "unknown setting deleted": altering(BROKER, "", ("no.such.key", DELETE, None)),
        "read only": altering(BROKER, "", ("node.id", SET, "1")),
        "read only deleted": altering(BROKER, "", ("node.id", DELETE, None)),
        "a topic's setting": altering(BROKER, "", ("retention.ms", SET, "1")),
        "a topic's setting deleted": altering(BROKER, "", ("retention.ms", DELETE, None)),
        "a listener's, of the cluster": altering(BROKER, "", ("listener.name.plaintext.ssl.keystore.type", SET, "JKS")),
        "bad value": altering(BROKER, "", ("log.cleaner.backoff.ms", SET, "x")),
        "value out of range": altering(BROKER, "", ("log.cleaner.backoff.ms", SET, "-1")),
        "empty value": altering(BROKER, "", ("log.cleaner.backoff.ms", SET, "")),
        "null value": altering(BROKER, "", ("log.cleaner.backoff.ms", SET, None)),
        "append to a number": altering(BROKER, "", ("log.cleaner.backoff.ms", APPEND, "1")),
        "type 0": altering(0, "x", good),
        "type 1": altering(1, "x", good),
        "type 99": altering(99, "x", good),
    }
    facts = answers(world, "incremental_alter_configs", (1,), bodies, {topic: "T", missing: "M"})
    settle(world, topic)
    return facts | {"then": described(world, TOPIC, topic, "retention.ms")["retention.ms"]}


VALUES: dict[str, tuple[str, ...]] = {
    "retention.ms": (
        "-1",
        "-2",
        "0",
        "",
        " 5 ",
        "+5",
        "5.0",
        "1e3",
        "0x10",
        "9223372036854775807",
        "9223372036854775808",
        "\u0665",
    ),
    "retention.bytes": ("-1", "-5", "0"),
    "segment.bytes": ("1048576", "1048575", "2147483648"),
    "segment.ms": ("1", "0"),
    "segment.jitter.ms": ("0", "-1"),
    "segment.index.bytes": ("4", "3"),
    "max.message.bytes": ("0", "-1"),
    "min.insync.replicas": ("1", "0", "100"),
    "cleanup.policy": ("", ",", "delete,delete", "compact , delete", "Delete", "none", "delete,none", "delete,"),
    "compression.type": ("none", "uncompressed", "GZIP", "lz4", " zstd", "brotli", ""),
    "compression.gzip.level": ("-1", "0", "1", "9", "10"),
    "compression.lz4.level": ("0", "1", "17", "18"),
    "compression.zstd.level": ("-131072", "-131073", "22", "23", "0"),
    "message.timestamp.type": ("createtime", "LogAppendTime", ""),
    "message.timestamp.before.max.ms": ("0", "-1"),
    "message.timestamp.after.max.ms": ("0", "-1"),
    "message.timestamp.difference.max.ms": ("0",),
    "message.format.version": ("3.0",),
    "message.downconversion.enable": ("true",),
    "preallocate": ("TRUE", "yes", "1", ""),
    "unclean.leader.election.enable": ("true", "False", "0"),
    "min.cleanable.dirty.ratio": ("0", "1", "1.1", "-0.1", ".5", "5e-1", "0.5f", "0,5", "NaN", "Infinity", ""),
    "min.compaction.lag.ms": ("0", "-1", "9223372036854775807"),
    "max.compaction.lag.ms": ("1", "0"),
    "delete.retention.ms": ("0", "-1"),
    "file.delete.delay.ms": ("0", "-1"),
    "flush.ms": ("0", "-1"),
    "flush.messages": ("1", "0"),
    "index.interval.bytes": ("0", "-1"),
    "leader.replication.throttled.replicas": ("", "*", "none", "0:1,1:2", "0", "0:x", "x:1", "0:1;1:2", "*,0:1"),
    "follower.replication.throttled.replicas": ("*", "a"),
    "local.retention.ms": ("-2", "-3", "-1", "5"),
    "local.retention.bytes": ("-2", "-3", "5"),
    "remote.storage.enable": ("false", "true"),
    "remote.log.copy.disable": ("true", "x"),
    "remote.log.delete.on.disable": ("true", "x"),
    "internal.segment.bytes": ("1048576", "0"),
}


@scenario(
    "S08",
    "values that a topic's settings may have, and may not: each with the error, none is kept",
    recorded("S08"),
    differs={
        "retention.ms='\\u0665'": "INVALID_CONFIG(40)",
        "min.cleanable.dirty.ratio='0.5f'": "INVALID_CONFIG(40)",
        "min.cleanable.dirty.ratio='NaN'": "INVALID_CONFIG(40)",
    },
    note="a number is written in the digits 0 to 9, without the letters that Java allows; NaN is no ratio",
)
def s08(world: World) -> Facts:
    topic = world.topic()
    facts: Facts = {}
    with world.connect() as peer:
        for key, values in VALUES.items():
            for value in values:
                reply = peer.call("incremental_alter_configs", 1, altering(TOPIC, topic, (key, SET, value), dry=True))
                facts[f"{key}={value!a}"] = error(reply.body.responses[0].error_code)
    return facts


@scenario(
    "S09", "values as they were written and as they are told again: blanks, signs, letters, lists", recorded("S09")
)
def s09(world: World) -> Facts:
    topic = world.topic()
    facts: Facts = {}
    for key, value in {
        "retention.ms": " 60000 ",
        "segment.ms": "+70000",
        "cleanup.policy": " compact , delete ",
        "preallocate": "TRUE",
        "min.cleanable.dirty.ratio": ".25",
        "compression.type": " gzip ",
        "flush.messages": "007",
        "leader.replication.throttled.replicas": " 0:1 , 1:1 ",
    }.items():
        code = alter(world, TOPIC, topic, (key, SET, value))
        settle(world, topic)
        told = described(world, TOPIC, topic, key, include_synonyms=True)
        facts[f"{key}={value!r}"] = f"{code}: {told[key]}"
    return facts


@scenario("S10", "settings that contradict each other, at once and one after the other", recorded("S10"))
def s10(world: World) -> Facts:
    topic = world.topic()
    return {
        "lags crossed": alter(
            world, TOPIC, topic, ("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")
        ),
        "one": alter(world, TOPIC, topic, ("min.compaction.lag.ms", SET, "10")),
        "then the other": alter(world, TOPIC, topic, ("max.compaction.lag.ms", SET, "5")),
        "local above all": alter(world, TOPIC, topic, ("retention.ms", SET, "10"), ("local.retention.ms", SET, "20")),
        "local above all, bytes": alter(
            world, TOPIC, topic, ("retention.bytes", SET, "10"), ("local.retention.bytes", SET, "20")
        ),
        "created so": world.create(world.fresh(), min_compaction_lag_ms="10", max_compaction_lag_ms="5"),
        "compact and remote": alter(
            world, TOPIC, topic, ("cleanup.policy", SET, "compact"), ("remote.storage.enable", SET, "true")
        ),
    }


@scenario(
    "S11",
    "a setting of the cluster, of the broker and of a topic: what the topic has, from where, and what it would be",
    recorded("S11"),
    alone=True,
)
def s11(world: World) -> Facts:
    node = str(world.call("metadata", 12, {"topics": []}).body.brokers[0].node_id)
    topic, key = world.topic(), "compression.lz4.level"
    facts: Facts = {}

    def look(name: str) -> None:
        facts[f"{name}, topic"] = described(world, TOPIC, topic, key, include_synonyms=True)[key]
        facts[f"{name}, broker"] = described(world, BROKER, node, key, include_synonyms=True)[key]
        facts[f"{name}, cluster"] = str(described(world, BROKER, "", key, include_synonyms=True))

    def change(name: str, kind: int, resource: str, value: str | None) -> None:
        facts[name] = alter(world, kind, resource, (key, DELETE if value is None else SET, value))
        own = {TOPIC: 1, BROKER: 2 if resource else 3}[kind]

        def told() -> bool:
            mine = f"={value} source {own}" if value is not None else f" source {own}"
            found = str(
                described(world, *((kind, resource) if resource else (BROKER, node)), key, include_synonyms=True)
            )
            return (mine in found) == (value is not None)

        world.wait(told, f"{key} {value}")
        look(name)

    look("at first")
    change("cluster", BROKER, "", "11")
    change("broker", BROKER, node, "12")
    change("topic", TOPIC, topic, "13")
    change("topic back", TOPIC, topic, None)
    change("broker back", BROKER, node, None)
    change("cluster back", BROKER, "", None)
    return facts


@scenario(
    "S12",
    "a broker's settings: of one broker alone, unknown ones, taken back, told, and what topics are told of them",
    recorded("S12"),
    differs={
        "unknown": recorded("S12").get("unknown", "").replace("0, error_message null", "40, error_message text"),
    },
    note="settings that nobody knows are refused",
    alone=True,
)
def s12(world: World) -> Facts:
    node = str(world.call("metadata", 12, {"topics": []}).body.brokers[0].node_id)
    bodies = {
        "own id": altering(BROKER, node, ("compression.zstd.level", SET, "4")),
        "again": altering(BROKER, node, ("compression.zstd.level", SET, "4")),
        "bad value": altering(BROKER, node, ("compression.zstd.level", SET, "99")),
        "unknown": altering(BROKER, node, ("no.such.key", SET, "1")),
        "read only": altering(BROKER, node, ("node.id", SET, "7")),
        "per broker, of the cluster": altering(BROKER, "", ("listeners", SET, "PLAINTEXT://127.0.0.1:1")),
        "list appended": altering(BROKER, "", ("log.cleanup.policy", APPEND, "compact"), dry=True),
        "list subtracted": altering(BROKER, "", ("log.cleanup.policy", SUBTRACT, "delete"), dry=True),
        "validated": altering(BROKER, "", ("compression.zstd.level", SET, "9"), dry=True),
        "twice": altering(BROKER, "", ("compression.zstd.level", SET, "9"), ("compression.zstd.level", SET, "8")),
        "two, one bad": altering(
            BROKER, "", ("compression.zstd.level", SET, "9"), ("log.cleaner.backoff.ms", SET, "x")
        ),
    }
    facts = answers(world, "incremental_alter_configs", (1,), bodies, {})
    facts["told"] = described(world, BROKER, node, "compression.zstd.level")["compression.zstd.level"]
    facts["cluster"] = str(described(world, BROKER, ""))
    facts["taken back"] = ask(
        world, "incremental_alter_configs", 1, altering(BROKER, node, ("compression.zstd.level", DELETE, None)), {}
    )
    return facts


@scenario(
    "S13",
    "AlterConfigs replaces all: of a topic, with a setting twice, of a resource twice, of nothing, only validated",
    recorded("S13"),
    differs={
        "resource twice": "{throttle_time 0, responses ["
        + ", ".join(["{error_code 42, error_message text, resource_type 2, resource_name T}"] * 2)
        + "]}"
    },
    note="Apache Kafka never answers this; here each is INVALID_REQUEST, as in IncrementalAlterConfigs",
)
def s13(world: World) -> Facts:
    topic = world.topic(retention_ms="60000", segment_ms="60000")

    def body(*pairs: tuple[str, str | None], dry: bool = False, times: int = 1) -> dict[str, Any]:
        configs = [{"name": name, "value": value} for name, value in pairs]
        one = {"resource_type": TOPIC, "resource_name": topic, "configs": configs}
        return {"resources": [one] * times, "validate_only": dry}

    facts: Facts = {}

    def play(name: str, asked: dict[str, Any]) -> None:
        facts[name] = ask(world, "alter_configs", 2, asked, {topic: "T"})
        settle(world, topic)
        own = described(world, TOPIC, topic)
        facts[f"{name}, then"] = ", ".join(
            f"{key}={text.split(',')[0]}"
            for key, text in sorted(own.items())
            if "source 1," in text and key != "flush.ms"  # that is for settling
        )

    play("validated", body(("retention.ms", "1"), dry=True))
    play("one bad", body(("retention.ms", "70000"), ("segment.ms", "x")))
    play("twice in it", body(("retention.ms", "70000"), ("retention.ms", "80000")))
    play("resource twice", body(("retention.ms", "90000"), times=2))
    play("null", body(("retention.ms", None), ("segment.ms", "80000")))
    play("another", body(("max.message.bytes", "5000")))
    play("nothing", body())
    return facts


def once(fact: str) -> str:
    """A DescribeConfigs answer with two results in which they are one."""
    inside = re.findall(r"configs \[(\{.*?documentation null\})\]", fact)
    results = fact.split("results [")
    first = re.sub(r"configs \[.*", f"configs [{', '.join(dict.fromkeys(inside))}]}}]}}", results[-1])
    return f"{results[0]}results [{first}"


ANSWERED_ONCE = {name: once(fact) for name, fact in recorded("S14").items() if name.startswith("describe")}


@scenario(
    "S14",
    "a resource twice in IncrementalAlterConfigs and DescribeConfigs: equal, and with other settings",
    recorded("S14"),
    differs=ANSWERED_ONCE,
    note="a resource that is named twice is described once, with all settings that it was named with",
)
def s14(world: World) -> Facts:
    topic = world.topic()
    first = altering(TOPIC, topic, ("retention.ms", SET, "60000"))["resources"]
    second = altering(TOPIC, topic, ("segment.ms", SET, "60000"))["resources"]
    names = {topic: "T"}
    facts = {
        "alter equal": ask(
            world, "incremental_alter_configs", 1, {"resources": first * 2, "validate_only": False}, names
        ),
        "alter others": ask(
            world, "incremental_alter_configs", 1, {"resources": first + second, "validate_only": False}, names
        ),
    }

    def told(*keys: tuple[str, ...]) -> str:
        asked = [{"resource_type": TOPIC, "resource_name": topic, "configuration_keys": each} for each in keys]
        return ask(world, "describe_configs", 4, {"resources": asked}, names)

    facts["describe equal"] = told(("retention.ms",), ("retention.ms",))
    facts["describe others"] = told(("retention.ms",), ("segment.ms",))
    return facts


@scenario(
    "S15",
    "AlterConfigs of a broker and of all: one setting, another in its place, bad ones, unknown ones, none; validated",
    recorded("S15"),
    differs={
        "unknown": recorded("S15").get("unknown", "").replace("0, error_message null", "40, error_message text"),
    },
    note="settings that nobody knows are refused",
    alone=True,
)
def s15(world: World) -> Facts:
    node = str(world.call("metadata", 12, {"topics": []}).body.brokers[0].node_id)

    def body(name: str, *pairs: tuple[str, str | None], dry: bool = False) -> dict[str, Any]:
        configs = [{"name": key, "value": value} for key, value in pairs]
        return {
            "resources": [{"resource_type": BROKER, "resource_name": name, "configs": configs}],
            "validate_only": dry,
        }

    asked = {
        "unknown": body(node, ("no.such.key", "5")),
        "one": body(node, ("compression.gzip.level", "5")),
        "another": body(node, ("compression.zstd.level", "5")),
        "validated": body(node, ("compression.zstd.level", "6"), dry=True),
        "bad": body(node, ("compression.zstd.level", "x")),
        "read only": body(node, ("node.id", "5")),
        "null": body(node, ("compression.zstd.level", None)),
        "another broker": body("4711", ("compression.zstd.level", "5")),
    }
    facts: Facts = {}
    keys = ("compression.gzip.level", "compression.zstd.level")

    def sources() -> str:
        found = described(world, BROKER, node, *keys)
        return "; ".join(f"{key} {found[key].split(', type')[0]}" for key in keys)

    for name, request in asked.items():
        facts[name] = ask(world, "alter_configs", 2, request, {})
    world.wait(lambda: sources() == "compression.gzip.level -1, source 5; compression.zstd.level 5, source 2", "both")
    facts["nothing"] = ask(world, "alter_configs", 2, body(node), {})
    world.wait(lambda: "source 2" not in sources(), "the end of them")
    facts["nothing of all"] = ask(world, "alter_configs", 2, body(""), {})
    return facts
