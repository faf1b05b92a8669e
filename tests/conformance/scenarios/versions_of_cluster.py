"""V29 to V75: the answers of the APIs that consoles and admin clients ask, at every version (see `versions`)."""

import re
from typing import Any
from uuid import UUID

from tests.conformance.batches import batch
from tests.conformance.raw import fitting, plain
from tests.conformance.recordings import recorded
from tests.conformance.scenario import Facts
from tests.conformance.scenarios.versions import shaped, sweep, told, versions, worded
from tests.conformance.world import World, now_ms, records

SOMEBODY = UUID(int=7)
NO_TRANSACTIONS: dict[str, Any] = {
    "throttle_time": 0,
    "error_code": 0,
    "unknown_state_filters": [],
    "transaction_states": [],
}


def once(id_: str, pattern: str) -> Facts:
    """The recorded facts in which something is told twice in a row, with it told once; for `differs`."""
    ours = {name: re.sub(pattern, r"\1", text) for name, text in recorded(id_).items()}
    return {name: text for name, text in ours.items() if text != recorded(id_)[name]}


def each(world: World, api: str, asked: range, bodies: dict[str, dict[str, Any]], topic: str = "") -> Facts:
    """Every version of several requests, by their names."""
    topic = topic or world.topic()
    facts: Facts = {}
    for name, body in bodies.items():
        found = sweep(world, api, asked, lambda version, topic_id, body=body: body, topic)  # type: ignore[misc]
        facts |= {f"{name}, {versions}": text for versions, text in found.items()}
    return facts


@versions(29, "DescribeAcls v1 to v3: all there are, and of topics, without an authorizer")
def v29(world: World) -> Facts:
    everything = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 3,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    bodies = {"all": everything, "topics": {**everything, "resource_type_filter": 2}}
    return each(world, "describe_acls", range(1, 4), bodies)


@versions(
    33,
    "AlterConfigs v0 to v2: set, and what was set before; bad values, names and resources; validated",
    differs=worded(
        "V33",
        {
            "bad value": "retention.ms=soon: not a whole number; write digits only, without a unit",
            "unknown type": "Unexpected resource type 99.",
            "another broker": "Unexpected broker id, expected 1 or empty string, but received 4711",
            "no broker": "Unexpected broker id, expected 1 or empty string, but received x",
            "read only": "Cannot update these configs dynamically: node.id",
        },
    ),
    note="the codes are the same, and ours says what is allowed",
)
def v33(world: World) -> Facts:
    topic = world.topic(segment_ms="60000", retention_ms="60000")

    def body(configs: dict[str, str | None], name: str = topic, kind: int = 2, **options: Any) -> dict[str, Any]:
        settings = [{"name": key, "value": value} for key, value in configs.items()]
        return {
            "resources": [{"resource_type": kind, "resource_name": name, "configs": settings}],
            "validate_only": False,
            **options,
        }

    facts = each(
        world,
        "alter_configs",
        range(3),
        {
            "validated": body({"retention.ms": "70000"}, validate_only=True),
            "bad value": body({"retention.ms": "soon"}),
            "null value": body({"retention.ms": None}),
            "unknown key": body({"no.such.key": "1"}),
            "unknown topic": body({"retention.ms": "1"}, "missing"),
            "bad topic": body({"retention.ms": "1"}, "x y"),
            "no topic": body({"retention.ms": "1"}, ""),
            "unknown type": body({"a": "1"}, "x", 99),
            "another broker": body({"log.cleaner.threads": "1"}, "4711", 4),
            "no broker": body({"log.cleaner.threads": "1"}, "x", 4),
            "read only": body({"node.id": "1"}, "", 4),
            "nothing at all": {"resources": [], "validate_only": False},
            "set": body({"retention.ms": "80000"}),
        },
        topic,
    )
    asked = {"resources": [{"resource_type": 2, "resource_name": topic, "configuration_keys": None}]}
    for one in world.call("describe_configs", 4, asked).body.results[0].configs:
        if one.name in ("segment.ms", "retention.ms"):
            facts[f"then {one.name}"] = f"{one.value}, source {one.config_source}"
    return facts


@versions(35, "DescribeLogDirs v1 to v5: of one partition, of one that is not there, of an unknown topic; of nothing")
def v35(world: World) -> Facts:
    topic = world.topic()
    world.produce(topic, 2)
    bodies: dict[str, dict[str, Any]] = {
        "one": {"topics": [{"topic": topic, "partitions": (0,)}]},
        "twice": {"topics": [{"topic": topic, "partitions": (0, 0)}, {"topic": topic, "partitions": (0,)}]},
        "not there": {"topics": [{"topic": topic, "partitions": (9,)}, {"topic": "missing", "partitions": (0,)}]},
        "nothing": {"topics": []},
    }
    return each(world, "describe_log_dirs", range(1, 6), bodies, topic)


@versions(
    43,
    "ElectLeaders v0 to v2: the preferred one leads already; partitions that are not there; unclean; twice",
    differs=once("V43", r"(\{partition_id 0, [^{}]*\}), \1"),
    note="a partition that is named twice is answered once",
)
def v43(world: World) -> Facts:
    topic = world.topic(2)

    def body(partitions: list[tuple[str, tuple[int, ...]]], kind: int = 0) -> dict[str, Any]:
        named = [{"topic": name, "partitions": indexes} for name, indexes in partitions]
        return {"election_type": kind, "topic_partitions": named, "timeout": 5000}

    return each(
        world,
        "elect_leaders",
        range(3),
        {
            "preferred": body([(topic, (0, 1))]),
            "not there": body([(topic, (7,)), ("missing", (0,))]),
            "twice": body([(topic, (0, 0))]),
            "unclean": body([(topic, (0,))], 1),
            "no such election": body([(topic, (0,))], 9),
            "nothing": body([]),
        },
        topic,
    )


@versions(
    45,
    "AlterPartitionReassignments v0 and v1: to where it is, by one broker, to one unknown, to nobody; given up",
)
def v45(world: World) -> Facts:
    topic = world.topic(2)
    node = world.call("metadata", 12, {"topics": []}).body.brokers[0].node_id

    def body(*partitions: tuple[int, tuple[int, ...] | None], name: str = topic, resize: bool = True) -> dict[str, Any]:
        parts = [{"partition_index": index, "replicas": replicas} for index, replicas in partitions]
        named = [{"name": name, "partitions": parts}]
        return {"timeout": 5000, "allow_replication_factor_change": resize, "topics": named}

    facts = each(
        world,
        "alter_partition_reassignments",
        range(2),
        {
            "as it is": body((0, (node,)), (1, (node,))),
            "given up": body((0, None)),
            "unknown broker": body((0, (node, node + 100))),
            "nobody": body((0, ())),
            "a broker twice": body((0, (node, node))),
            "not there": body((9, (node,)), (8, None)),
            "no such topic": body((0, (node,)), name="missing"),
            "nothing": {"timeout": 5000, "allow_replication_factor_change": True, "topics": []},
        },
        topic,
    )
    same = {"as it is, no more": body((0, (node,)), resize=False), "nobody, no less": body((0, ()), resize=False)}
    facts |= each(world, "alter_partition_reassignments", range(1, 2), same, topic)
    return {
        name: re.sub(rf"(?<=broker ){node}\b", "1", fact.replace(f"broker {node + 100}", "broker 101"))
        for name, fact in facts.items()
    }


@versions(46, "ListPartitionReassignments v0: all, of one partition, of one that is not there")
def v46(world: World) -> Facts:
    topic = world.topic()
    bodies: dict[str, dict[str, Any]] = {
        "all": {"timeout": 5000, "topics": None},
        "one": {"timeout": 5000, "topics": [{"name": topic, "partition_indexes": (0, 9)}]},
        "unknown": {"timeout": 5000, "topics": [{"name": "missing", "partition_indexes": (0,)}]},
        "nothing": {"timeout": 5000, "topics": []},
    }
    return each(world, "list_partition_reassignments", range(1), bodies, topic)


@versions(
    48, "DescribeClientQuotas v0 and v1, of which there are none: all, by user, by a name twice, of a type unknown"
)
def v48(world: World) -> Facts:
    def part(kind: str, match_type: int, match: str | None = None) -> dict[str, Any]:
        return {"entity_type": kind, "match_type": match_type, "match": match}

    bodies: dict[str, dict[str, Any]] = {
        "all": {"components": [], "strict": False},
        "user": {"components": [part("user", 0, "me")], "strict": True},
        "default user": {"components": [part("user", 1)], "strict": False},
        "any user": {"components": [part("user", 2)], "strict": False},
        "twice": {"components": [part("user", 0, "me"), part("user", 2)], "strict": False},
        "unknown type": {"components": [part("planet", 2)], "strict": False},
        "empty type": {"components": [part("", 2)], "strict": False},
        "unknown match": {"components": [part("user", 9)], "strict": False},
        "a name with any": {"components": [part("user", 2, "me")], "strict": False},
        "exact without a name": {"components": [part("user", 0)], "strict": False},
        "user and address": {"components": [part("user", 2), part("ip", 2)], "strict": False},
    }
    return each(world, "describe_client_quotas", range(2), bodies)


@versions(50, "DescribeUserScramCredentials v0: all, of which there are none; of a user, once and twice; of no name")
def v50(world: World) -> Facts:
    bodies: dict[str, dict[str, Any]] = {
        "all": {"users": None},
        "none": {"users": []},
        "one": {"users": [{"name": "me"}]},
        "twice": {"users": [{"name": "me"}, {"name": "you"}, {"name": "me"}]},
        "empty": {"users": [{"name": ""}]},
    }
    return each(world, "describe_user_scram_credentials", range(1), bodies)


@versions(
    55,
    "DescribeQuorum v0 to v2: of the metadata, of another partition of it, of another topic, of nothing",
    differs={
        name: text.replace("{name CONTROLLER}", "{name PLAINTEXT}")
        for name, text in recorded("V55").items()
        if "CONTROLLER" in text
    },
    note="the controller has no listener of its own",
)
def v55(world: World) -> Facts:
    metadata = "__cluster_metadata"

    def body(name: str, *partitions: int) -> dict[str, Any]:
        return {"topics": [{"topic_name": name, "partitions": [{"partition_index": each} for each in partitions]}]}

    bodies: dict[str, dict[str, Any]] = {
        "metadata": body(metadata, 0),
        "partition 1": body(metadata, 1),
        "both": body(metadata, 0, 1),
        "another topic": body("missing", 0),
        "nothing": {"topics": []},
        "no partition": body(metadata),
    }
    facts = each(world, "describe_quorum", range(3), bodies)
    counted = r"(leader_epoch|high_watermark) \d+"
    return {name: re.sub(counted, r"\1 a number", text) for name, text in facts.items()}


@versions(
    57,
    "UpdateFeatures v0 to v2: the level that is, unknown features, impossible levels, one twice",
    differs=once("V57", r"(\{feature [^{}]*\}), \1"),
    note="a feature that is named twice is answered once",
)
def v57(world: World) -> Facts:
    def body(*changes: tuple[str, int, int], dry: bool = True) -> dict[str, Any]:
        updates = [
            {"feature": name, "max_version_level": level, "upgrade_type": kind, "allow_downgrade": kind > 1}
            for name, level, kind in changes
        ]
        return {"timeout": 5000, "feature_updates": updates, "validate_only": dry}

    bodies: dict[str, dict[str, Any]] = {
        "the same level": body(("metadata.version", 30, 1)),
        "unknown": body(("no.such.feature", 1, 1)),
        "unknown, off": body(("no.such.feature", 0, 2)),
        "too high": body(("metadata.version", 9999, 1)),
        "too low": body(("metadata.version", 1, 2)),
        "off": body(("metadata.version", 0, 3)),
        "a downgrade as upgrade": body(("metadata.version", 25, 1)),
        "negative": body(("metadata.version", -1, 1)),
        "unknown kind": body(("metadata.version", 30, 9)),
        "empty name": body(("", 1, 1)),
        "one good, one bad": body(("metadata.version", 30, 1), ("no.such.feature", 1, 1)),
        "twice": body(("metadata.version", 30, 1), ("metadata.version", 30, 1)),
        "nothing": body(),
    }
    return each(world, "update_features", range(3), bodies)


@versions(
    61,
    "DescribeProducers v0: one that has written, none, a partition and a topic that are not there; twice",
    differs=once("V61", r"(\{partition_index 0, .*?\]\}), \1"),
    note="a partition that is named twice is told once: it may remember thousands of producers",
)
def v61(world: World) -> Facts:
    topic = world.topic(2)
    producer = world.producer_id()
    data = batch(records(2), timestamp=now_ms(), producer_id=producer, producer_epoch=0, sequence=0)
    assert world.produce(topic, data, acks=-1).code == "NONE"
    bodies: dict[str, dict[str, Any]] = {
        "written": {"topics": [{"name": topic, "partition_indexes": (0, 1)}]},
        "not there": {
            "topics": [{"name": topic, "partition_indexes": (9,)}, {"name": "missing", "partition_indexes": (0,)}]
        },
        "twice": {"topics": [{"name": topic, "partition_indexes": (0, 0)}]},
        "no name": {"topics": [{"name": "x y", "partition_indexes": (0,)}]},
        "nothing": {"topics": []},
    }
    facts = each(world, "describe_producers", range(1), bodies, topic)
    return {name: re.sub(r"producer_id \w+", "producer_id id", text) for name, text in facts.items()}


@versions(
    66,
    "ListTransactions v0 to v2, of which there are none: all, by state, by an unknown state, by patterns",
    differs={"bad pattern, v2": told(NO_TRANSACTIONS)},
    note="there is no transaction that a pattern could match, so none is looked at",
)
def v66(world: World) -> Facts:
    bodies: dict[str, dict[str, Any]] = {
        "all": {"duration_filter": -1},
        "by state": {"state_filters": ("Ongoing",), "producer_id_filters": (1,), "duration_filter": 5},
        "unknown state": {"state_filters": ("Ongoing", "Asleep"), "duration_filter": -1},
        "pattern": {"duration_filter": -1, "transactional_id_pattern": "a.*"},
        "no pattern": {"duration_filter": -1, "transactional_id_pattern": ""},
        "bad pattern": {"duration_filter": -1, "transactional_id_pattern": "(["},
    }
    facts = each(world, "list_transactions", range(2), bodies)
    return facts | each(world, "list_transactions", range(2, 3), bodies)


@versions(
    71, "GetTelemetrySubscriptions v0 by a new client, by one that says who it is, and once more; it is not told of"
)
def v71(world: World) -> Facts:
    bodies: dict[str, dict[str, Any]] = {
        "new": {"client_instance_id": None},
        "known": {"client_instance_id": SOMEBODY},
        "again": {"client_instance_id": SOMEBODY},
    }
    return each(world, "get_telemetry_subscriptions", range(1), bodies)


@versions(72, "PushTelemetry v0 by nobody, by a client that did not subscribe, of metrics that nobody asked for")
def v72(world: World) -> Facts:
    unknown = UUID(int=9)
    bodies: dict[str, dict[str, Any]] = {
        "nobody": {"client_instance_id": None, "metrics": b""},
        "unknown": {"client_instance_id": unknown, "subscription_id": 1, "metrics": b"m"},
        "again": {"client_instance_id": unknown, "subscription_id": 1, "metrics": b"m"},
        "compressed": {"client_instance_id": UUID(int=10), "compression_type": 99, "metrics": b"m"},
        "the last": {"client_instance_id": UUID(int=11), "terminating": True, "metrics": b""},
    }
    return each(world, "push_telemetry", range(1), bodies)


@versions(
    74,
    "ListConfigResources v0 and v1: each type, all, unknown ones; of topics the one made here is told",
    differs={
        name: re.sub(r"(, )?\{resource_name 1, resource_type 8\}", "", text)
        for name, text in recorded("V74").items()
        if "resource_type 8" in text
    },
    note="levels of loggers are no resource here",
)
def v74(world: World) -> Facts:
    topic = world.topic()
    facts: Facts = {}
    with world.connect() as peer:
        for name, types in {
            "all": (),
            "topics": (2,),
            "brokers": (4,),
            "loggers": (8,),
            "client metrics": (16,),
            "groups": (32,),
            "topics and brokers": (2, 4),
            "topics twice": (2, 2),
            "unknown": (99,),
            "topics and unknown": (2, 99),
        }.items():
            for version in range(2):
                body = {"resource_types": types}
                reply = plain(
                    peer.call("list_config_resources", version, fitting("list_config_resources", version, body)).body
                )
                reply["config_resources"] = [
                    one
                    for one in sorted(reply["config_resources"], key=lambda one: one.get("resource_type", 0))
                    if one.get("resource_type") not in (2, 32) or one["resource_name"] == topic
                ]
                facts[f"{name}, v{version}"] = told(shaped(reply, topic))
    return facts


@versions(75, "DescribeTopicPartitions v0: topics by name, more partitions than asked for, and on from where it ended")
def v75(world: World) -> Facts:
    base = world.fresh()
    topic, other = f"{base}a", f"{base}b"
    for name, partitions in ((topic, 2), (other, 3)):
        assert world.create(name, partitions) == "NONE"
        world.wait(lambda name=name, partitions=partitions: world.led(name, partitions), f"leaders of {name}")  # type: ignore[misc]

    def body(names: list[str], limit: int = 2000, cursor: tuple[str, int] | None = None) -> dict[str, Any]:
        at = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
        return {"topics": [{"name": name} for name in names], "response_partition_limit": limit, "cursor": at}

    bodies: dict[str, dict[str, Any]] = {
        "both": body([other, topic]),
        "twice": body([topic, topic]),
        "limit 2": body([topic, other], 2),
        "limit 3": body([topic, other], 3),
        "limit 0": body([topic], 0),
        "limit -1": body([topic], -1),
        "on": body([topic, other], 2, (topic, 2)),
        "on, to the end": body([topic, other], 10, (topic, 2)),
        "on, beyond": body([topic, other], 10, (topic, 99)),
        "on, below": body([topic, other], 10, (topic, -1)),
        "on, the second alone": body([topic, other], 10, (other, 0)),
        "on, a topic not named": body([other], 10, (topic, 1)),
        "on, a topic not there": body([topic], 10, ("missing", 1)),
        "not there": body(["missing", topic]),
        "bad name": body(["x y"]),
    }
    facts = each(world, "describe_topic_partitions", range(1), bodies, topic)
    return {name: text.replace(other, "U") for name, text in facts.items()}


@versions(64, "UnregisterBroker v0: of brokers that nobody knows")
def v64(world: World) -> Facts:
    bodies: dict[str, dict[str, Any]] = {"unknown": {"broker_id": 4711}, "none": {"broker_id": -1}}
    return each(world, "unregister_broker", range(1), bodies)
