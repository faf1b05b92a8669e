"""M10 to M27, M29: topics made, grown, deleted and told of: whole answers, at the edges of what may be asked."""

import re
from typing import Any
from uuid import UUID

from tests.conformance.batches import Record, batch
from tests.conformance.raw import Closed, encode
from tests.conformance.recordings import explained, recorded
from tests.conformance.scenario import Facts, scenario
from tests.conformance.whole import answers, ask
from tests.conformance.world import World, error, now_ms, produce_body

STRANGE = UUID(int=4711)
NOBODY = UUID(int=0)


def node_of(world: World) -> int:
    """The one broker's id."""
    return int(world.call("metadata", 12, {"topics": []}).body.brokers[0].node_id)


def creating(*topics: dict[str, Any], dry: bool = True, timeout: int = 5000) -> dict[str, Any]:
    """A CreateTopics request."""
    return {"topics": list(topics), "timeout": timeout, "validate_only": dry}


def new(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    """One topic of it."""
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, **more}


def assigned(name: str, *brokers: tuple[int, tuple[int, ...]], **more: Any) -> dict[str, Any]:
    """One topic of it, with its replicas given."""
    pairs = [{"partition_index": index, "broker_ids": ids} for index, ids in brokers]
    return new(name, -1, -1, assignments=pairs, **more)


def in_any_order(text: str) -> str:
    """An answer with its innermost parts sorted, where Apache Kafka gives them in no order."""
    parts = re.findall(r"\{[^{}]*\}", text)
    return re.sub(r"\{[^{}]*\}", lambda _: found.pop(0), text) if (found := sorted(parts)) else text


def settings_told(facts: Facts) -> Facts:
    """The facts with the settings of a topic that is made in short."""
    long = r"\{name (\S+), value (\S*), read_only False, config_source (\d), is_sensitive False\}"
    return {name: re.sub(long, r"\1=\2 from \3", text) for name, text in facts.items()}


def settings_counted(facts: Facts) -> Facts:
    """The facts without all settings of a topic that is made."""
    return {name: re.sub(r"configs \[\{.*?\}\]", "configs told", text) for name, text in facts.items()}


@scenario(
    "M10",
    "CreateTopics v2 to v7: the whole answer to one that is made, with its settings",
    recorded("M10"),
)
def m10(world: World) -> Facts:
    node = node_of(world)
    facts: Facts = {}
    for version in range(2, 8):
        name, given = world.fresh(), world.fresh()
        settings = [{"name": "retention.ms", "value": "60000"}, {"name": "cleanup.policy", "value": "compact"}]
        body = creating(new(name, 2, 1, configs=settings), assigned(given, (0, (node,)), (1, (node,))), dry=False)
        facts[f"v{version}"] = ask(world, "create_topics", version, body, {name: "T", given: "U"})
    return settings_told(facts)


@scenario("M11", "CreateTopics v2, v5, v7: the whole answer to each error, and to none at all", recorded("M11"))
def m11(world: World) -> Facts:
    topic, name, node = world.topic(), world.fresh(), node_of(world)
    setting = {"name": "retention.ms", "value": "soon"}
    bodies = {
        "there": creating(new(topic)),
        "bad name": creating(new("x y")),
        "no name": creating(new("")),
        "0 partitions": creating(new(name, 0)),
        "-2 partitions": creating(new(name, -2)),
        "0 replicas": creating(new(name, 1, 0)),
        "2 replicas": creating(new(name, 1, 2)),
        "-2 replicas": creating(new(name, 1, -2)),
        "bad value": creating(new(name, configs=[setting])),
        "unknown setting": creating(new(name, configs=[{"name": "no.such.key", "value": "1"}])),
        "setting without name": creating(new(name, configs=[{"name": "", "value": "1"}])),
        "setting twice": creating(new(name, configs=[{**setting, "value": "1"}, {**setting, "value": "2"}])),
        "setting null": creating(new(name, configs=[{**setting, "value": None}])),
        "twice": creating(new(name), new(name)),
        "thrice, another": creating(new(name), new(topic), new(name), new(name)),
        "replicas and assignment": creating(assigned(name, (0, (node,)), replication_factor=1)),
        "defaults": creating(new(name, -1, -1)),
        "nothing": creating(),
    }
    facts = settings_counted(answers(world, "create_topics", (2, 5, 7), bodies, {name: "N", topic: "T"}))
    return {fact: in_any_order(text) if fact.startswith("thrice") else text for fact, text in facts.items()}


@scenario(
    "M12", "CreateTopics with assignments: brokers, gaps, doubles, counts beside them; only validated", recorded("M12")
)
def m12(world: World) -> Facts:
    name, node = world.fresh(), node_of(world)
    bodies = {
        "one": creating(assigned(name, (0, (node,)))),
        "in any order": creating(assigned(name, (1, (node,)), (0, (node,)))),
        "from 1": creating(assigned(name, (1, (node,)))),
        "negative": creating(assigned(name, (-1, (node,)), (0, (node,)))),
        "twice": creating(assigned(name, (0, (node,)), (0, (node,)))),
        "no broker": creating(assigned(name, (0, ()))),
        "broker twice": creating(assigned(name, (0, (node, node)))),
        "unknown broker": creating(assigned(name, (0, (node + 100,)))),
        "negative broker": creating(assigned(name, (0, (-1,)))),
        "uneven": creating(assigned(name, (0, (node,)), (1, (node, node + 1)))),
        "with partitions": creating(assigned(name, (0, (node,)), num_partitions=1)),
        "with replicas": creating(assigned(name, (0, (node,)), replication_factor=1)),
        "with partitions of 0": creating(assigned(name, (0, (node,)), num_partitions=0)),
    }
    return settings_counted(answers(world, "create_topics", (7,), bodies, {name: "N"}))


COLLIDING = {
    name: re.sub(r"N_x, error_code \d+, error_message \w+", "N_x, error_code 17, error_message text", fact)
    for name, fact in recorded("M13").items()
    if "N_x" in fact
}


@scenario(
    "M13",
    "CreateTopics: timeouts of 0, -1 and 1 ms; two names that collide; settings told of all sources",
    recorded("M13"),
    differs=COLLIDING,
    note="names of one request may not collide either: their metrics would be the same",
)
def m13(world: World) -> Facts:
    name, other = world.fresh(), world.fresh()
    names = {name: "N", other: "O"}
    facts = {
        f"timeout {timeout}": ask(world, "create_topics", 7, creating(new("x y"), timeout=timeout), names)
        for timeout in (0, -1)
    }
    facts["timeout 0, then"] = error(world.metadata(name).error_code)
    collide = creating(new(f"{name}.x"), new(f"{name}_x"))
    facts["collide, validated"] = ask(world, "create_topics", 4, collide, names)
    collide = creating(new(f"{name}.x"), new(f"{name}_x"), new(f"{name}-x"), dry=False)
    facts["collide"] = ask(world, "create_topics", 4, collide, names)
    facts["then with"] = ask(world, "create_topics", 4, creating(new(f"{name}_x")), names)
    return facts


INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")


@scenario(
    "M14",
    "internal names: told, made by hand (validated), described, altered, grown, cut, deleted, written to, listed",
    recorded("M14"),
    differs=explained("M14", *(f"{name}, described" for name in INTERNAL)),
    note="ours names the topic",
)
def m14(world: World) -> Facts:
    facts: Facts = {}
    part = {"partition_index": 0, "timestamp": -1, "offset": 0}
    for name in INTERNAL[1:]:
        named = {name: "I"}
        listed = {"replica_id": -1, "topics": [{"name": name, "partitions": [part]}]}
        cut = {"topics": [{"name": name, "partitions": [part]}], "timeout": 5000}
        grown = {"topics": [{"name": name, "count": 99, "assignments": None}], "timeout": 5000, "validate_only": True}
        asked = {"resources": [{"resource_type": 2, "resource_name": name, "configuration_keys": ("retention.ms",)}]}
        written = produce_body({name: {0: batch([Record(key=b"k")], timestamp=now_ms())}})
        facts[f"{name}, told"] = ask(
            world, "metadata", 12, {"topics": [{"name": name}], "allow_auto_topic_creation": False}, named
        ).split("topics ")[1]
        facts[f"{name}, made"] = ask(world, "create_topics", 4, creating(new(name)), named)
        facts[f"{name}, described"] = ask(world, "describe_configs", 4, asked, named)
        facts[f"{name}, grown"] = ask(world, "create_partitions", 3, grown, named)
        facts[f"{name}, cut"] = ask(world, "delete_records", 2, cut, named)
        facts[f"{name}, deleted"] = ask(world, "delete_topics", 5, {"topic_names": (name,), "timeout": 5000}, named)
        facts[f"{name}, written"] = ask(world, "produce", 9, written, named)
        facts[f"{name}, offsets"] = ask(world, "list_offsets", 9, listed, named)
    return facts


@scenario(
    "M15",
    "DeleteTopics v1, v5, v6: unknown, twice, by name and id, by neither, nothing, a bad name; a timeout of 0",
    recorded("M15"),
)
def m15(world: World) -> Facts:
    topic, missing = world.topic(), world.fresh()
    known = world.metadata(topic).topic_id
    names = {topic: "T", missing: "M"}
    facts: Facts = {}
    for name, listed in {"unknown": (missing,), "twice": (missing, missing), "bad": ("x y", ""), "nothing": ()}.items():
        for version in (1, 5):
            body = {"topic_names": listed, "timeout": 5000}
            facts[f"v{version}, {name}"] = in_any_order(ask(world, "delete_topics", version, body, names))
    for name, asked in {
        "unknown": [{"name": missing}],
        "unknown twice": [{"name": missing}, {"name": missing}],
        "unknown id": [{"topic_id": STRANGE}],
        "unknown id twice": [{"topic_id": STRANGE}, {"topic_id": STRANGE}],
        "name and id": [{"name": topic, "topic_id": known}],
        "name, and id": [{"name": topic}, {"topic_id": known}],
        "id twice": [{"topic_id": known}, {"topic_id": known}],
        "name twice": [{"name": topic}, {"name": topic}],
        "neither": [{"name": None, "topic_id": NOBODY}],
        "bad names": [{"name": "x y"}, {"name": ""}],
        "nothing": [],
    }.items():
        facts[f"v6, {name}"] = in_any_order(ask(world, "delete_topics", 6, {"topics": asked, "timeout": 5000}, names))
    facts["still there"] = error(world.metadata(topic).error_code)
    return facts


@scenario(
    "M16",
    "CreatePartitions v0 to v3, validated: counts, assignments, unknown topics, one twice, no list, nothing",
    recorded("M16"),
)
def m16(world: World) -> Facts:
    topic, missing, node = world.topic(2), world.fresh(), node_of(world)

    def body(count: int, *replicas: tuple[int, ...], name: str = topic, times: int = 1) -> dict[str, Any]:
        given = [{"broker_ids": each} for each in replicas] or None
        one = {"name": name, "count": count, "assignments": given}
        return {"topics": [one] * times, "timeout": 5000, "validate_only": True}

    empty = body(3)
    empty["topics"] = [{"name": topic, "count": 3, "assignments": ()}]
    bodies = {
        "to 3": body(3),
        "to 2": body(2),
        "to 1": body(1),
        "to 0": body(0),
        "to -1": body(-1),
        "assigned": body(3, (node,)),
        "two for one": body(3, (node,), (node,)),
        "one for two": body(4, (node,)),
        "no broker": body(3, ()),
        "broker twice": body(3, (node, node)),
        "unknown broker": body(3, (node + 100,)),
        "no assignments": empty,
        "unknown topic": body(3, name=missing),
        "bad name": body(3, name="x y"),
        "no name": body(3, name=""),
        "twice": body(3, times=2),
        "nothing": {"topics": [], "timeout": 5000, "validate_only": True},
    }
    return answers(world, "create_partitions", (0, 3), bodies, {topic: "T", missing: "M"})


@scenario(
    "M17",
    "Metadata v0 to v13: unknown topics, bad names, none, all; without creation",
    recorded("M17"),
)
def m17(world: World) -> Facts:
    missing = world.fresh()

    facts: Facts = {}
    for name, asked in {"bad": ["x y"], "empty": [""], "dots": [".", ".."], "long": ["x" * 250], "none": []}.items():
        body = {"topics": [{"name": each} for each in asked], "allow_auto_topic_creation": False}
        facts |= answers(world, "metadata", (1, 4, 9, 10, 13), {name: body}, {missing: "M"})
    body = {"topics": [{"name": missing}, {"name": missing}], "allow_auto_topic_creation": False}
    return facts | answers(world, "metadata", (4, 9, 13), {"unknown twice": body}, {missing: "M"})


@scenario(
    "M18",
    "Metadata v12 by name and by id, in one request: right, wrong and mixed ones, twice, the zero id",
    recorded("M18"),
    differs={
        "neither": "UNKNOWN_TOPIC_ID(100) None no id 0",
        "neither and a name": "UNKNOWN_TOPIC_ID(100) None no id 0; NONE T T's id 1",
    },
    note="Apache Kafka fails on a topic without a name and an id; here the others are answered",
)
def m18(world: World) -> Facts:
    topic, other, missing = world.topic(), world.topic(), world.fresh()
    known, second = world.metadata(topic).topic_id, world.metadata(other).topic_id

    def told(*asked: dict[str, Any], version: int = 12) -> str:
        body = {"topics": list(asked), "allow_auto_topic_creation": False}
        reply = world.call("metadata", version, body)
        letters = {topic: "T", other: "O", missing: "M"}
        ids = {known: "T's id", second: "O's id", STRANGE: "strange id", None: "no id", NOBODY: "zero id"}
        return "; ".join(
            f"{error(one.error_code)} {letters.get(one.name, repr(one.name))} {ids.get(one.topic_id)} "
            f"{len(one.partitions)}"
            for one in reply.body.topics
        )

    return {
        "both by name": told({"name": topic}, {"name": other}),
        "both by id": told({"name": None, "topic_id": known}, {"name": None, "topic_id": second}),
        "one by each": told({"name": topic}, {"name": None, "topic_id": second}),
        "name and its id": told({"name": topic, "topic_id": known}),
        "name and another id": told({"name": topic, "topic_id": second}),
        "name and a strange id": told({"name": topic, "topic_id": STRANGE}),
        "strange id": told({"name": None, "topic_id": STRANGE}),
        "strange id and known": told({"name": None, "topic_id": STRANGE}, {"name": None, "topic_id": known}),
        "neither": told({"name": None, "topic_id": NOBODY}),
        "neither and a name": told({"name": None, "topic_id": NOBODY}, {"name": topic}),
        "twice by name": told({"name": topic}, {"name": topic}),
        "twice by id": told({"name": None, "topic_id": known}, {"name": None, "topic_id": known}),
        "by name and by id": told({"name": topic}, {"name": None, "topic_id": known}),
        "unknown twice": told({"name": missing}, {"name": missing}),
        "v10, an id beside a name": told({"name": topic}, {"name": "", "topic_id": second}, version=10),
        "v11, name and its id": told({"name": topic, "topic_id": known}, version=11),
    }


@scenario(
    "M19",
    "Metadata with creation: of names that collide, internal ones, two at once, the same twice",
    recorded("M19"),
    differs={"collides": "B_x INVALID_TOPIC_EXCEPTION(17)"},
    note="the name can never be created; Apache Kafka lets the client ask for it until it gives up",
)
def m19(world: World) -> Facts:
    base = world.fresh()
    assert world.create(f"{base}.x") == "NONE"
    facts: Facts = {}
    for name, asked in {
        "collides": [f"{base}_x"],
        "two that collide": [f"{base}.y", f"{base}_y"],
        "two": [f"{base}a", f"{base}b"],
        "twice": [f"{base}c", f"{base}c"],
        "bad": ["x y", ".."],
        "metadata's own": ["__cluster_metadata"],
    }.items():
        body = {"topics": [{"name": each} for each in asked], "allow_auto_topic_creation": True}
        found = world.call("metadata", 12, body).body.topics
        facts[name] = "; ".join(sorted(f"{one.name.replace(base, 'B')} {error(one.error_code)}" for one in found))
    for name in ("a", "b", "c"):
        world.wait(lambda name=name: world.led(f"{base}{name}", 1), f"topic {name}")  # type: ignore[misc]
    facts["then a_x"] = error(world.metadata(f"{base}_x").error_code)
    return facts


@scenario(
    "M20", "operations that are allowed, asked for: of topics in Metadata v8 and v12, of the cluster", recorded("M20")
)
def m20(world: World) -> Facts:
    topic = world.topic()
    body = {
        "topics": [{"name": topic}],
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
    }
    unasked = {"topics": [{"name": topic}]}
    names = {topic: "T"}
    return answers(world, "metadata", (8, 10, 12), {"asked": body, "not asked": unasked}, names) | answers(
        world,
        "describe_cluster",
        (0, 2),
        {"cluster": {"include_cluster_authorized_operations": True}, "cluster, not asked": {}},
        names,
    )


@scenario(
    "M21", "DescribeCluster: of brokers, of controllers, of kinds nobody knows, with fenced ones", recorded("M21")
)
def m21(world: World) -> Facts:
    bodies = {f"kind {kind}": {"endpoint_type": kind} for kind in (0, 1, 2, 3, -1)}
    bodies["fenced"] = {"endpoint_type": 1, "include_fenced_brokers": True}
    bodies["fenced of controllers"] = {"endpoint_type": 2, "include_fenced_brokers": True}
    return answers(world, "describe_cluster", (0, 1, 2), bodies, {})


def raw_answer(world: World, api: str, version: int, body: dict[str, Any], old: bytes, fresh: bytes) -> str:
    """Send a request in which some bytes were replaced by as many others; what comes back, with them told."""
    frame = encode(api, version, body, 1, "raw")
    assert old in frame
    assert len(old) == len(fresh)
    with world.connect() as peer:
        peer.send_bytes(frame.replace(old, fresh))
        try:
            got = peer.receive_frame()
        except Closed:
            return "closed"
        except TimeoutError:
            return "no answer"
    return got.hex()


BROKEN = b"Q\xff\xfe\xc3Q"
AS_READ = "Q\ufffd\ufffd\ufffdQ"


@scenario("M22", "strings that are not UTF-8: names of topics, settings, values, groups and clients", recorded("M22"))
def m22(world: World) -> Facts:
    topic = world.topic()
    marker = "QQQQQ"
    cases: dict[str, tuple[str, int, dict[str, Any]]] = {
        "topic in Metadata": ("metadata", 8, {"topics": [{"name": marker}], "allow_auto_topic_creation": False}),
        "topic in Metadata v12": ("metadata", 12, {"topics": [{"name": marker}], "allow_auto_topic_creation": False}),
        "topic made": ("create_topics", 7, creating(new(marker))),
        "setting made": ("create_topics", 7, creating(new(world.fresh(), configs=[{"name": marker, "value": "1"}]))),
        "topic deleted": ("delete_topics", 5, {"topic_names": (marker,), "timeout": 5000}),
        "topic fetched": ("fetch", 11, {"topics": [{"topic": marker, "partitions": [{"partition": 0}]}]}),
        "topic listed": ("list_offsets", 5, {"topics": [{"name": marker, "partitions": [{"partition_index": 0}]}]}),
        "topic written": ("produce", 8, produce_body({marker: {0: batch([Record()], timestamp=now_ms())}})),
        "group described": ("describe_groups", 4, {"groups": (marker,)}),
        "resource described": ("describe_configs", 4, {"resources": [{"resource_type": 2, "resource_name": marker}]}),
        "value altered": (
            "incremental_alter_configs",
            1,
            {
                "resources": [
                    {
                        "resource_type": 2,
                        "resource_name": topic,
                        "configs": [{"name": "retention.ms", "config_operation": 0, "value": marker}],
                    }
                ],
                "validate_only": True,
            },
        ),
    }
    facts: Facts = {}
    for name, (api, version, body) in cases.items():
        got = raw_answer(world, api, version, body, marker.encode(), BROKEN)
        if got in ("closed", "no answer"):
            facts[name] = got
            continue
        parts = [what for what, text in (("replaced", AS_READ.encode()), ("as sent", BROKEN)) if text.hex() in got]
        facts[name] = f"answered, {' and '.join(parts) or 'without it'}"
    return facts


@scenario(
    "M23",
    "a topic is deleted and made again under its name at once: ids, offsets, settings, what the old id reads",
    recorded("M23"),
)
def m23(world: World) -> Facts:
    topic = world.topic(retention_ms="60000")
    world.produce(topic, 3)
    before = world.metadata(topic).topic_id
    facts = {"deleted": world.delete(topic), "made": world.create(topic)}
    world.wait(lambda: world.metadata(topic).topic_id not in (None, before), "the new topic")
    world.wait(lambda: world.led(topic, 1), "its leader")
    after = world.metadata(topic).topic_id
    asked = {"resources": [{"resource_type": 2, "resource_name": topic, "configuration_keys": ("retention.ms",)}]}
    found = world.call("describe_configs", 4, asked).body.results[0].configs[0]
    part = {"index": 0, "records": batch([Record()], timestamp=now_ms())}
    old = {"acks": 1, "timeout": 5000, "topic_data": [{"topic_id": before, "partition_data": [part]}]}
    return {
        **facts,
        "id": "another" if before != after else "the same",
        "offsets": world.list_offset(topic, -1),
        "settings": f"{found.value}, source {found.config_source}",
        "old id written to": ask(world, "produce", 13, old, {}),
        "old id told": error(
            world.call("metadata", 12, {"topics": [{"name": None, "topic_id": before}]}).body.topics[0].error_code
        ),
    }


@scenario(
    "M24", "ApiVersions v3 and v4: names of software that are fine and that are not; nothing in them", recorded("M24")
)
def m24(world: World) -> Facts:
    facts: Facts = {}
    for name, (software, number) in {
        "plain": ("raw", "1"),
        "dots and dashes": ("a.b-c", "1.0-x"),
        "empty": ("", ""),
        "blank": ("a b", "1"),
        "dash first": ("-raw", "1"),
        "dash last": ("raw", "1-"),
        "letters of others": ("r\u00e9", "1"),
    }.items():
        for version in (3, 4):
            reply = world.call(
                "api_versions", version, {"client_software_name": software, "client_software_version": number}
            )
            keys = "some" if len(reply.body.api_keys) > 20 else str(len(reply.body.api_keys))
            facts[f"{name}, v{version}"] = f"{error(reply.body.error_code)}, {keys} APIs"
    return facts


@scenario(
    "M25",
    "DescribeLogDirs v1, v4, v5 of no list at all: what it tells of a topic made here; of that alone, of none of it",
    recorded("M25"),
)
def m25(world: World) -> Facts:
    topic = world.topic(2)
    world.produce(topic, 2)
    facts: Facts = {}
    for version in (1, 4, 5):
        for name, asked in {
            "all": None,
            "alone": [{"topic": topic, "partitions": (0, 1)}],
            "no partitions": [{"topic": topic, "partitions": ()}],
            "unknown": [{"topic": "missing", "partitions": (0,)}],
        }.items():
            reply = world.call("describe_log_dirs", version, {"topics": asked}).body
            told = [
                f"{part.partition_index} {'some' if part.partition_size else 'no'} bytes, lag {part.offset_lag}"
                for one in reply.results
                for each in one.topics
                if each.name == topic
                for part in sorted(each.partitions, key=lambda part: part.partition_index)
            ]
            facts[f"v{version}, {name}"] = (
                f"{[error(one.error_code) for one in reply.results]}, {'; '.join(told) or 'nothing of it'}"
            )
    return facts


BEGUN_AT_ONCE = {
    f"{api}, {timeout}": answer
    for timeout in (0, -1)
    for api, answer in {
        "DeleteTopics": "{throttle_time 0, responses [{name M, topic_id null, error_code 3, error_message text}]}",
        "CreatePartitions": "{throttle_time 0, results [{name M, error_code 3, error_message null}]}",
        "ElectLeaders": "{throttle_time 0, error_code 0, replica_election_results [{topic T, partition_result "
        "[{partition_id 0, error_code 84, error_message text}]}]}",
    }.items()
}


@scenario(
    "M26",
    "timeouts of 0 and -1 ms: DeleteTopics, CreatePartitions, ElectLeaders, ListPartitionReassignments",
    recorded("M26"),
    differs=BEGUN_AT_ONCE,
    note="what can be begun at once is not given up; in the queue of Apache Kafka's controller the time is over",
)
def m26(world: World) -> Facts:
    topic, missing = world.topic(), world.fresh()
    facts: Facts = {}
    for timeout in (0, -1):
        grown = {"topics": [{"name": missing, "count": 3, "assignments": None}], "timeout": timeout}
        elected = {"election_type": 0, "topic_partitions": [{"topic": topic, "partitions": (0,)}], "timeout": timeout}
        listed = {"timeout": timeout, "topics": [{"name": topic, "partition_indexes": (0,)}]}
        names = {topic: "T", missing: "M"}
        facts |= {
            f"DeleteTopics, {timeout}": ask(
                world, "delete_topics", 6, {"topics": [{"name": missing}], "timeout": timeout}, names
            ),
            f"CreatePartitions, {timeout}": ask(world, "create_partitions", 3, grown, names),
            f"ElectLeaders, {timeout}": ask(world, "elect_leaders", 2, elected, names),
            f"ListPartitionReassignments, {timeout}": ask(world, "list_partition_reassignments", 0, listed, names),
        }
    return facts


@scenario(
    "M27",
    "a new topic at once: told by Metadata, led, written to, read, described, deleted, told no more",
    recorded("M27"),
)
def m27(world: World) -> Facts:
    topic = world.topic(3, min_insync_replicas="1", retention_ms="60000")
    found = world.metadata(topic)
    facts = {
        "told": f"{error(found.error_code)}, {len(found.partitions)} partitions, internal {found.is_internal}",
        "in order": str([part.partition_index for part in found.partitions]),
        "epochs": str({part.leader_epoch for part in found.partitions}),
        "offline": str([list(part.offline_replicas) for part in found.partitions]),
        "written": world.produce(topic, 2, partition=2).code,
        "read": world.fetch(topic, 0, partition=2)[0].code,
        "deleted": world.delete(topic),
    }
    world.wait(lambda: error(world.metadata(topic).error_code) != "NONE", "the end of the topic")
    facts["then told"] = error(world.metadata(topic).error_code)
    facts["then by id"] = error(
        world.call("metadata", 12, {"topics": [{"name": None, "topic_id": found.topic_id}]}).body.topics[0].error_code
    )
    facts["then listed"] = str(topic in [one.name for one in world.call("metadata", 12, {"topics": None}).body.topics])
    facts["then deleted again"] = world.delete(topic)
    return facts


REFUSED = "{throttle_time 0, results [{name T, error_code 44, error_message text}]}"
WITHOUT_NAME = (
    "{error_code 17, name , topic_id null, is_internal False, partitions [], topic_authorized_operations 3576}"
)


@scenario(
    "M29",
    "what names nothing, or too much: ElectLeaders without partitions, an empty name, thousands of new partitions",
    recorded("M29"),
    differs={
        "DescribeTopicPartitions, no name": f"{{throttle_time 0, topics [{WITHOUT_NAME}], next_cursor null}}",
        "CreatePartitions, 20000, dry": REFUSED,
    },
    note="Apache Kafka fails within and answers UNKNOWN_SERVER_ERROR, without a name for every topic asked for; "
    "ours tells what is wrong with it: INVALID_TOPIC_EXCEPTION, POLICY_VIOLATION as CreateTopics has it in both",
)
def m29(world: World) -> Facts:
    topic, missing = world.topic(2), world.fresh()
    names = {topic: "T", missing: "M"}

    def elect(kind: int, **partitions: tuple[int, ...]) -> str:
        asked = [{"topic": {"T": topic, "M": missing}[name], "partitions": some} for name, some in partitions.items()]
        body = {"election_type": kind, "topic_partitions": asked, "timeout": 5000}
        return ask(world, "elect_leaders", 2, body, names)

    facts = {
        "ElectLeaders": elect(0, T=()),
        "ElectLeaders, unclean": elect(1, T=()),
        "ElectLeaders, unknown type": elect(7, T=()),
        "ElectLeaders, unknown topic": elect(0, M=()),
        "ElectLeaders, and some": elect(0, T=(), M=(1,)),
        "ElectLeaders, none": elect(0),
    }
    body = {"topics": [{"name": ""}], "response_partition_limit": 100, "cursor": None}
    facts["DescribeTopicPartitions, no name"] = ask(world, "describe_topic_partitions", 0, body, names)
    # To do it leaves Apache Kafka with 10,000 of them, whatever it answers, and its next start takes a minute.
    grown = {"topics": [{"name": topic, "count": 20_000, "assignments": None}], "timeout": 5000, "validate_only": True}
    facts["CreatePartitions, 20000, dry"] = ask(world, "create_partitions", 3, grown, names)
    return facts
