"""V00 to V60: the whole answer of every API at every version served, field by field; numbered by API key.

Versions that answer alike are told together. What is random or the machine's own (ids, hosts, ports, the node's number,
wall-clock times) is told by its shape; a topic's name reads `T`. The recorded answers are in
`versions.json`: `python -m tests.conformance.oracle --record V01` asks Apache Kafka again.
"""

import re
from collections.abc import Callable
from typing import Any

from barnabas.broker.handlers.registry import advertised_versions
from tests.conformance.batches import batch
from tests.conformance.raw import API_KEYS, fitting, plain
from tests.conformance.recordings import recorded
from tests.conformance.scenario import ABSENT, Facts, scenario
from tests.conformance.world import World, error, fetch_body, now_ms, records

SERVED = {key: (first, last) for key, first, last in advertised_versions()}

HIDDEN = {"host", "port"}
SHAPES: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        ("cluster_id", "topic_id", "producer_id", "client_instance_id", "replica_directory_id"),
        lambda value: "id" if value else value,
    ),
    **dict.fromkeys(
        (
            "partition_size",
            "total_bytes",
            "usable_bytes",
            "log_end_offset",
            "last_fetch_timestamp",
            "last_caught_up_timestamp",
            "last_timestamp",
            "subscription_id",
        ),
        lambda value: "a number" if value not in (None, -1, 0) else value,
    ),
    "log_dir": lambda value: "a path" if value else value,
    **dict.fromkeys(
        ("node_id", "leader_id", "controller_id", "broker_id"), lambda value: "node" if value >= 0 else value
    ),
    **dict.fromkeys(("replica_nodes", "isr_nodes"), lambda value: f"{len(value)} node(s)"),
    # Apache Kafka's own pages, longer than all else; whether they are there is what is compared.
    "documentation": lambda value: "text" if value else value,
    "records": lambda value: value if value is None else f"{len(value)} bytes",
}


def shaped(value: Any, topic: str) -> Any:
    """A plain answer with what is random told by its shape."""
    if isinstance(value, dict):
        return {
            name: SHAPES[name](each) if name in SHAPES else shaped(each, topic)
            for name, each in value.items()
            if name not in HIDDEN
        }
    if isinstance(value, list):
        return [shaped(each, topic) for each in value]
    return value.replace(topic, "T") if isinstance(value, str) else value


def told(value: Any) -> str:
    """A shaped answer on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} {told(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(told(each) for each in value) + "]"
    return "null" if value is None else str(value)


def sweep(world: World, api: str, versions: range, body: Callable[[int, Any], dict[str, Any]], topic: str) -> Facts:
    """Ask every version; `body` gets it and the topic's id. Versions in a row that answer alike are one fact."""
    topic_id = world.metadata(topic).topic_id
    answers: list[tuple[int, int, str]] = []
    with world.connect() as peer:
        for version in versions:
            reply = peer.call(api, version, fitting(api, version, body(version, topic_id)))
            text = told(shaped(plain(reply.body), topic))
            if answers and answers[-1][2] == text:
                answers[-1] = (answers[-1][0], version, text)
            else:
                answers.append((version, version, text))
    return {f"v{low}" if low == high else f"v{low} to v{high}": text for low, high, text in answers}


def coordinator(world: World, *groups: str) -> None:
    """Wait until these groups have a coordinator that has read what there is of them; the first has it made."""

    def there(group: str) -> bool:
        found = world.call("find_coordinator", 4, {"key_type": 0, "coordinator_keys": (group,)}).body.coordinators[0]
        if error(found.error_code) != "NONE":
            return False
        heard = world.call("describe_groups", 5, {"groups": (group,)}).body.groups[0]
        return error(heard.error_code) == "NONE"

    for group in groups:
        world.wait(lambda group=group: there(group), f"coordinator of {group}")  # type: ignore[misc]


def worded(id_: str, texts: dict[str, str]) -> Facts:
    """The recorded facts with our own texts of errors in them, by the beginning of the fact's name; for `differs`."""
    ours = {}
    for name, fact in recorded(id_).items():
        for beginning, text in texts.items():
            if name.startswith(beginning):
                ours[name] = re.sub(
                    r"error_message .*?(?=, (?:node_id|resource_type) |\})", f"error_message {text}", fact
                )
    return {name: fact for name, fact in ours.items() if fact != recorded(id_)[name]}


def versions(key: int, asks: str, **options: Any) -> Callable[[Callable[[World], Facts]], Callable[[World], Facts]]:
    """A scenario of this module."""
    id_ = f"V{key:02d}"
    return scenario(id_, asks, recorded(id_), **options)


@versions(0, "Produce v3 to v13: 2 records with acks -1, and an unknown partition")
def v00(world: World) -> Facts:
    topic = world.topic(14)
    payload = batch(records(2), timestamp=now_ms())

    def body(version: int, topic_id: Any) -> dict[str, Any]:
        parts = [{"index": index, "records": payload} for index in (version, 99)]
        return {
            "acks": -1,
            "timeout": 5000,
            "topic_data": [{"name": topic, "topic_id": topic_id, "partition_data": parts}],
        }

    return sweep(world, "produce", range(3, 14), body, topic)


@versions(1, "Fetch v4 to v18: two records at offset 0; and an unknown partition")
def v01(world: World) -> Facts:
    topic = world.topic()
    world.produce(topic, 2)

    def body(version: int, topic_id: Any) -> dict[str, Any]:
        key, name = ("topic", topic) if version < 13 else ("topic_id", topic_id)
        return fetch_body([(name, 0, 0), (name, 9, 0)], key=key)

    return sweep(world, "fetch", range(4, 19), body, topic)


@versions(2, "ListOffsets v1 to v11: latest")
def v02(world: World) -> Facts:
    topic = world.topic()
    world.produce(topic, 2)
    asked = [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]
    body = {"replica_id": -1, "topics": [{"name": topic, "partitions": asked}]}
    return sweep(world, "list_offsets", range(1, 12), lambda version, topic_id: body, topic)


@versions(3, "Metadata v0 to v13: a topic by name, with the operations allowed on it")
def v03(world: World) -> Facts:
    topic = world.topic()
    body = {"topics": [{"name": topic}], "include_topic_authorized_operations": True}
    return sweep(world, "metadata", range(14), lambda version, topic_id: body, topic)


@versions(
    10,
    "FindCoordinator v0 to v6: of a group; of a share group; of a type that nobody knows",
    differs=worded(
        "V10",
        {
            "type 2": "Key type 2 is unknown: 0 is a group, 1 a transactional id.",
            "type 9": "Key type 9 is unknown: 0 is a group, 1 a transactional id.",
        },
    ),
    alone=True,  # P12 wants to see the time before the topic of the offsets
    note="the codes are the same; ours says what is wrong",
)
def v10(world: World) -> Facts:
    coordinator(world, "g", "h")
    topic = world.topic()
    facts: Facts = {}
    for key_type in (0, 2, 9):
        body = {"key": "g", "key_type": key_type, "coordinator_keys": ("g", "h")}
        found = sweep(world, "find_coordinator", range(7), lambda version, topic_id, body=body: body, topic)  # type: ignore[misc]
        facts |= {f"type {key_type}, {name}": text for name, text in found.items()}
    return facts


@versions(19, "CreateTopics v2 to v7, only validated: one that exists, one with 0 partitions")
def v19(world: World) -> Facts:
    topic = world.topic()
    asked = [{"name": topic, "num_partitions": 1, "replication_factor": 1}, {"name": "x y", "num_partitions": 1}]
    body = {"topics": asked, "timeout": 5000, "validate_only": True}
    return sweep(world, "create_topics", range(2, 8), lambda version, topic_id: body, topic)


@versions(20, "DeleteTopics v1 to v6: one that does not exist")
def v20(world: World) -> Facts:
    topic, missing = world.topic(), world.fresh()
    body = {"topics": [{"name": missing}], "topic_names": (missing,), "timeout": 5000}
    facts = sweep(world, "delete_topics", range(1, 7), lambda version, topic_id: body, topic)
    return {name: text.replace(missing, "missing") for name, text in facts.items()}


@versions(21, "DeleteRecords v0 to v2: to offset 1")
def v21(world: World) -> Facts:
    topic = world.topic()
    world.produce(topic, 2)
    asked = [{"partition_index": 0, "offset": 1}]
    body = {"topics": [{"name": topic, "partitions": asked}], "timeout": 5000}
    return sweep(world, "delete_records", range(3), lambda version, topic_id: body, topic)


@versions(22, "InitProducerId v0 to v5 without a transactional id")
def v22(world: World) -> Facts:
    topic = world.topic()
    assert world.producer_id() >= 0
    body = {"transactional_id": None, "transaction_timeout": 60000, "producer_id": -1, "producer_epoch": -1}
    return sweep(world, "init_producer_id", range(6), lambda version, topic_id: body, topic)


@versions(23, "OffsetForLeaderEpoch v2 to v4: epoch 0, epoch 5, epoch -1, an unknown partition")
def v23(world: World) -> Facts:
    topic = world.topic()
    world.produce(topic, 2)
    asked = [
        {"partition": index, "leader_epoch": epoch, "current_leader_epoch": -1} for index, epoch in ((0, 0), (9, 0))
    ]
    body = {"replica_id": -1, "topics": [{"topic": topic, "partitions": asked}]}
    facts = sweep(world, "offset_for_leader_epoch", range(2, 5), lambda version, topic_id: body, topic)
    for epoch in (5, -1):
        one = [{"partition": 0, "leader_epoch": epoch, "current_leader_epoch": -1}]
        reply = world.call(
            "offset_for_leader_epoch", 4, {"replica_id": -1, "topics": [{"topic": topic, "partitions": one}]}
        )
        facts[f"epoch {epoch}"] = told(shaped(plain(reply.body), topic))
    return facts


@versions(32, "DescribeConfigs v1 to v4: retention.ms of a topic that sets it, with synonyms and documentation")
def v32(world: World) -> Facts:
    topic = world.topic(retention_ms="60000")
    asked = [{"resource_type": 2, "resource_name": topic, "configuration_keys": ("retention.ms",)}]
    body = {"resources": asked, "include_synonyms": True, "include_documentation": True}
    return sweep(world, "describe_configs", range(1, 5), lambda version, topic_id: body, topic)


@scenario(
    "V32b",
    "DescribeConfigs v4: every setting of a topic with its value, source and type",
    recorded("V32b"),
)
def v32b(world: World) -> Facts:
    asked = [{"resource_type": 2, "resource_name": world.topic(), "configuration_keys": None}]
    found = world.call("describe_configs", 4, {"resources": asked}).body.results[0].configs
    return {
        each.name: f"{each.value}, source {each.config_source}, type {each.config_type}"
        f"{', read only' if each.read_only else ''}{', sensitive' if each.is_sensitive else ''}"
        for each in found
    }


@versions(37, "CreatePartitions v0 to v3, only validated: 3 instead of 2, 1 instead of 2")
def v37(world: World) -> Facts:
    topic = world.topic(2)
    facts: Facts = {}
    for count in (3, 1):
        body = {
            "topics": [{"name": topic, "count": count, "assignments": None}],
            "timeout": 5000,
            "validate_only": True,
        }
        found = sweep(world, "create_partitions", range(4), lambda version, topic_id, body=body: body, topic)  # type: ignore[misc]
        facts |= {f"{count} partitions, {name}": text for name, text in found.items()}
    return facts


@versions(
    44,
    "IncrementalAlterConfigs v0 and v1: set, a bad value, an unknown key, an unknown topic, append to no list",
    differs=worded("V44", {"bad value": "retention.ms=soon: not a whole number; write digits only, without a unit"}),
    note="the code is the same; ours names the fault, the value and the remedy",
)
def v44(world: World) -> Facts:
    topic = world.topic()
    asked = {
        "set": (topic, "retention.ms", 0, "60000"),
        "bad value": (topic, "retention.ms", 0, "soon"),
        "unknown key": (topic, "no.such.key", 0, "1"),
        "unknown topic": ("missing", "retention.ms", 0, "1"),
        "append": (topic, "retention.ms", 2, "1"),
        "append to a list": (topic, "cleanup.policy", 2, "compact"),
        "delete": (topic, "retention.ms", 1, None),
    }
    facts: Facts = {}
    for name, (resource, key, operation, value) in asked.items():
        change = {"name": key, "config_operation": operation, "value": value}
        body = {
            "resources": [{"resource_type": 2, "resource_name": resource, "configs": [change]}],
            "validate_only": False,
        }
        found = sweep(world, "incremental_alter_configs", range(2), lambda version, topic_id, body=body: body, topic)  # type: ignore[misc]
        facts |= {f"{name}, {versions}": text for versions, text in found.items()}
    return facts


@versions(60, "DescribeCluster v0 to v2")
def v60(world: World) -> Facts:
    topic = world.topic()
    body = {"include_cluster_authorized_operations": True, "endpoint_type": 1}
    return sweep(world, "describe_cluster", range(3), lambda version, topic_id: body, topic)


@versions(18, "ApiVersions v0 to v4: the ranges of what is served here")
def v18(world: World) -> Facts:
    facts: Facts = {}
    software = {"client_software_name": "raw", "client_software_version": "1"}
    for version in range(5):
        reply = world.call("api_versions", version, fitting("api_versions", version, software))
        ranges = {int(each.api_key): f"{each.min_version}-{each.max_version}" for each in reply.body.api_keys}
        facts[f"v{version}"] = ", ".join(f"{key}: {ranges.get(key)}" for key in sorted(API_KEYS.values()))
    return facts


@scenario(
    "V18b",
    "ApiVersions v4: every API that is told, by number",
    recorded("V18b"),
    differs={
        name: ABSENT if int(name) not in SERVED else "-".join(map(str, SERVED[int(name)]))
        for name, text in recorded("V18b").items()
        if text != "-".join(map(str, SERVED.get(int(name), ())))
    },
    note="docs/COMPATIBILITY.md gives the reason for each",
)
def v18b(world: World) -> Facts:
    software = {"client_software_name": "raw", "client_software_version": "1"}
    told_keys = world.call("api_versions", 4, software).body.api_keys
    return {
        str(int(one.api_key)): f"{one.min_version}-{one.max_version}"
        for one in sorted(told_keys, key=lambda one: int(one.api_key))
    }


@scenario(
    "V18c",
    "ApiVersions v3 and v4: features, their levels and ranges; names and versions of clients that are none",
    recorded("V18c"),
    differs={
        name: ABSENT for name in recorded("V18c") if name.startswith(("kraft.", "share.", "streams.", "transaction."))
    },
    note="features of what is not served are not told: transactions, share and streams groups, voters that are added",
)
def v18c(world: World) -> Facts:
    """The range of a feature that begins at 0 is told from v4 on."""
    facts: Facts = {}
    for version in (3, 4):
        body = {"client_software_name": "raw", "client_software_version": "1"}
        told_of = world.call("api_versions", version, body).body
        levels = {one.name: (one.min_version_level, one.max_version_level) for one in told_of.finalized_features}
        facts |= {f"{name}, v{version}, level": f"{low}-{high}" for name, (low, high) in sorted(levels.items())}
        ranges = {one.name: f"{one.min_version}-{one.max_version}" for one in told_of.supported_features}
        facts |= {f"{name}, v{version}, range": text for name, text in sorted(ranges.items())}
        facts[f"epoch, v{version}"] = "known" if told_of.finalized_features_epoch >= 0 else "unknown"
        for name, number in (("", "1"), ("raw", ""), ("a b", "1"), ("-raw", "1"), ("raw", "1-"), ("r.a-w", "1.0-b")):
            body = {"client_software_name": name, "client_software_version": number}
            code = world.call("api_versions", version, body).body.error_code
            facts[f"{name!r} {number!r}, v{version}"] = error(code)
    return facts
