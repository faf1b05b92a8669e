"""M04 to M08: topics with assignments, partitions added, settings changed while running, ids, committed reads."""

from typing import Any

from tests.conformance.batches import Record, batch
from tests.conformance.raw import Reply
from tests.conformance.scenario import Facts, scenario
from tests.conformance.world import FETCH, World, error, fetch_body, fetched, now_ms, records


def created(reply: Reply) -> str:
    """The errors of a CreateTopics answer, and what it says of the first topic."""
    return "; ".join(
        f"{error(topic.error_code)}, {topic.num_partitions} partition(s), {topic.replication_factor} replica(s)"
        for topic in reply.body.topics
    )


@scenario(
    "M04",
    "CreateTopics: assignments right and wrong; a topic twice; only validated; a null setting; counts of 0 and -2",
    {
        "assignment": "NONE, 2 partition(s), 1 replica(s)",
        "with counts": "INVALID_REQUEST(42), -1 partition(s), -1 replica(s)",
        "unknown broker": "INVALID_REPLICA_ASSIGNMENT(39), -1 partition(s), -1 replica(s)",
        "broker twice": "INVALID_REPLICA_ASSIGNMENT(39), -1 partition(s), -1 replica(s)",
        "gap": "INVALID_REPLICA_ASSIGNMENT(39), -1 partition(s), -1 replica(s)",
        "no replica": "INVALID_REPLICA_ASSIGNMENT(39), -1 partition(s), -1 replica(s)",
        "twice": "INVALID_REQUEST(42), -1 partition(s), -1 replica(s)",
        "validated": "NONE, 3 partition(s), 1 replica(s)",
        "then": "UNKNOWN_TOPIC_OR_PARTITION(3)",
        "null value": "INVALID_CONFIG(40), -1 partition(s), -1 replica(s)",
        "0 replicas": "INVALID_REPLICATION_FACTOR(38), -1 partition(s), -1 replica(s)",
        "-2 partitions": "INVALID_PARTITIONS(37), -1 partition(s), -1 replica(s)",
    },
)
def m04(world: World) -> Facts:
    node = world.call("metadata", 12, {"topics": []}).body.brokers[0].node_id
    strange = node + 100

    def ask(*topics: dict[str, Any], validate: bool = False) -> str:
        return created(
            world.call("create_topics", 7, {"topics": list(topics), "timeout": 5000, "validate_only": validate})
        )

    def assigned(name: str, brokers: dict[int, tuple[int, ...]], **counts: int) -> dict[str, Any]:
        pairs = [{"partition_index": index, "broker_ids": ids} for index, ids in brokers.items()]
        return {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": pairs, **counts}

    twice = {"name": world.fresh(), "num_partitions": 1, "replication_factor": 1}
    only = {"name": world.fresh(), "num_partitions": 3, "replication_factor": 1}
    return {
        "assignment": ask(assigned(world.fresh(), {0: (node,), 1: (node,)})),
        "with counts": ask(assigned(world.fresh(), {0: (node,)}, num_partitions=1)),
        "unknown broker": ask(assigned(world.fresh(), {0: (strange,)})),
        "broker twice": ask(assigned(world.fresh(), {0: (node, node)})),
        "gap": ask(assigned(world.fresh(), {0: (node,), 2: (node,)})),
        "no replica": ask(assigned(world.fresh(), {0: ()})),
        "twice": ask(twice, twice),
        "validated": ask(only, validate=True),
        "then": error(world.metadata(str(only["name"])).error_code),
        "null value": ask({**twice, "name": world.fresh(), "configs": [{"name": "retention.ms", "value": None}]}),
        "0 replicas": ask({**twice, "name": world.fresh(), "replication_factor": 0}),
        "-2 partitions": ask({**twice, "name": world.fresh(), "num_partitions": -2}),
    }


@scenario(
    "M05",
    "CreatePartitions from 1 to 3, a record into the new one; to 3 again; to 2; an unknown topic; with assignments",
    {
        "to 3": "NONE",
        "record": "NONE, base 0",
        "to 3 again": "INVALID_PARTITIONS(37)",
        "to 2": "INVALID_PARTITIONS(37)",
        "unknown": "UNKNOWN_TOPIC_OR_PARTITION(3)",
        "assigned": "NONE",
        "too many assigned": "INVALID_REPLICA_ASSIGNMENT(39)",
        "unknown broker": "INVALID_REPLICA_ASSIGNMENT(39)",
    },
)
def m05(world: World) -> Facts:
    topic = world.topic()
    node = world.metadata(topic).partitions[0].leader_id

    def grow(name: str, count: int, assignments: list[dict[str, Any]] | None = None) -> str:
        body = {"topics": [{"name": name, "count": count, "assignments": assignments}], "timeout": 5000}
        return error(world.call("create_partitions", 3, body).body.results[0].error_code)

    facts = {"to 3": grow(topic, 3)}
    world.wait(lambda: world.led(topic, 3), "the new partitions")
    got = world.produce(topic, 1, partition=2)
    facts["record"] = f"{got.code}, base {got.base_offset}"
    facts["to 3 again"] = grow(topic, 3)
    facts["to 2"] = grow(topic, 2)
    facts["unknown"] = grow(world.fresh(), 2)
    facts["assigned"] = grow(topic, 4, [{"broker_ids": (node,)}])
    facts["too many assigned"] = grow(topic, 5, [{"broker_ids": (node,)}, {"broker_ids": (node,)}])
    facts["unknown broker"] = grow(topic, 5, [{"broker_ids": (node + 100,)}])
    return facts


def alter(world: World, topic: str, key: str, operation: int, value: str | None) -> str:
    """One change of a topic's setting."""
    change = {"name": key, "config_operation": operation, "value": value}
    body = {"resources": [{"resource_type": 2, "resource_name": topic, "configs": [change]}], "validate_only": False}
    return error(world.call("incremental_alter_configs", 1, body).body.responses[0].error_code)


@scenario(
    "M06",
    "settings changed while the topic is in use: max.message.bytes down and back, LogAppendTime, compaction",
    {
        "before": "NONE",
        "down": "NONE",
        "too large": "MESSAGE_TOO_LARGE(10)",
        "back": "NONE",
        "LogAppendTime": "NONE",
        "compact": "NONE",
        "without key": "INVALID_RECORD(87)",
        "with key": "NONE",
        "small segments": "INVALID_CONFIG(40)",
        "empty policy": "NONE",
        "wrong operation": "UNKNOWN_SERVER_ERROR(-1)",
    },
)
def m06(world: World) -> Facts:
    topic = world.topic()
    large = batch(records(1, 5000), timestamp=now_ms())
    facts = {"before": world.produce(topic, large).code, "down": alter(world, topic, "max.message.bytes", 0, "1000")}
    world.wait(lambda: world.produce(topic, large).code != "NONE", "the new limit")
    facts["too large"] = world.produce(topic, large).code
    facts["back"] = alter(world, topic, "max.message.bytes", 1, None)
    world.wait(lambda: world.produce(topic, large).code == "NONE", "the old limit")
    facts["LogAppendTime"] = alter(world, topic, "message.timestamp.type", 0, "LogAppendTime")
    world.wait(lambda: world.produce(topic, 1).append_time > 0, "the broker's time")
    facts["compact"] = alter(world, topic, "cleanup.policy", 0, "compact")
    world.wait(lambda: world.produce(topic, 1).code != "NONE", "compaction")
    facts["without key"] = world.produce(topic, 1).code
    facts["with key"] = world.produce(topic, batch([Record(key=b"a")], timestamp=now_ms())).code
    facts["small segments"] = alter(world, topic, "segment.bytes", 0, "1000")
    facts["empty policy"] = alter(world, topic, "cleanup.policy", 0, "")
    facts["wrong operation"] = alter(world, topic, "cleanup.policy", 7, "delete")
    return facts


@scenario(
    "M07",
    "Metadata v12 by topic id, by an unknown id; v10 by id; DeleteTopics by id and by an unknown one",
    {
        "by id": "NONE, named",
        "unknown id": "UNKNOWN_TOPIC_ID(100), None",
        "v10 by id": "INVALID_REQUEST(42), ''",
        "delete unknown id": "UNKNOWN_TOPIC_ID(100), None",
        "delete by both": "INVALID_REQUEST(42), named",
        "delete by id": "NONE, named",
        "delete again": "UNKNOWN_TOPIC_ID(100), None",
    },
)
def m07(world: World) -> Facts:
    topic = world.topic()
    known = world.metadata(topic).topic_id
    strange = type(known)(int=known.int ^ 1)

    def ask(version: int, topic_id: Any, name: str | None = None) -> str:
        body = {"topics": [{"topic_id": topic_id, "name": name}]}
        found = world.call("metadata", version, body).body.topics[0]
        return f"{error(found.error_code)}, {'named' if found.name == topic else repr(found.name)}"

    def delete(**named: Any) -> str:
        found = world.call("delete_topics", 6, {"topics": [named], "timeout": 5000}).body.responses[0]
        return f"{error(found.error_code)}, {'named' if found.name == topic else repr(found.name)}"

    return {
        "by id": ask(12, known),
        "unknown id": ask(12, strange),
        "v10 by id": ask(10, known, ""),
        "delete unknown id": delete(topic_id=strange),
        "delete by both": delete(topic_id=known, name=topic),
        "delete by id": delete(topic_id=known),
        "delete again": delete(topic_id=known),
    }


@scenario(
    "M08",
    "read_committed without transactions: records, aborted ranges, last stable offset; ListOffsets with it",
    {
        "records": "NONE, 0-2 as sent, HW 3",
        "aborted": "[]",
        "last stable offset": "3",
        "latest": "3",
        "beyond, aborted": "null",
    },
)
def m08(world: World) -> Facts:
    topic = world.topic()
    world.produce(topic, 3)
    with world.connect() as peer:
        reply = peer.call("fetch", FETCH, fetch_body([(topic, 0, 0)], isolation=1))
        part = reply.body.responses[0].partitions[0]
        asked = [{"partition_index": 0, "timestamp": -1}]
        body = {"replica_id": -1, "isolation_level": 1, "topics": [{"name": topic, "partitions": asked}]}
        latest = peer.call("list_offsets", 9, body).body.topics[0].partitions[0].offset
        beyond = peer.call("fetch", FETCH, fetch_body([(topic, 0, 9)], isolation=1)).body.responses[0].partitions[0]
    return {
        "records": world.tell(topic, fetched(reply)[topic, 0]),
        "aborted": "null" if part.aborted_transactions is None else str(list(part.aborted_transactions)),
        "last stable offset": str(part.last_stable_offset),
        "latest": str(latest),
        "beyond, aborted": "null" if beyond.aborted_transactions is None else str(list(beyond.aborted_transactions)),
    }
