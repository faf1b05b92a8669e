"""M01 to M03, M28: topics made by asking, names and counts refused, versions, what may be done with no topic."""

import struct
import uuid

from tests.conformance.scenario import Facts, scenario
from tests.conformance.world import World, error, pause


@scenario(
    "M01",
    "Metadata of an unknown topic twice, a second apart, with auto-creation; of another without",
    {
        "first": "UNKNOWN_TOPIC_OR_PARTITION(3)",
        "second": "NONE, 1 partition(s), leader",
        "without": "UNKNOWN_TOPIC_OR_PARTITION(3); UNKNOWN_TOPIC_OR_PARTITION(3)",
        "bad name": "INVALID_TOPIC_EXCEPTION(17)",
    },
)
def m01(world: World) -> Facts:
    name, other = world.fresh(), world.fresh()
    facts = {"first": error(world.metadata(name, create=True).error_code)}
    pause(1000)
    world.wait(lambda: error(world.metadata(name).error_code) == "NONE", "the topic")
    second = world.metadata(name, create=True)
    led = "leader" if second.partitions and second.partitions[0].leader_id >= 0 else "no leader"
    facts["second"] = f"{error(second.error_code)}, {len(second.partitions)} partition(s), {led}"
    without = []
    for _ in range(2):
        without.append(error(world.metadata(other).error_code))
        pause(300)
    facts["without"] = "; ".join(without)
    facts["bad name"] = error(world.metadata("x y", create=True).error_code)
    return facts


@scenario(
    "M02",
    "CreateTopics: a.b then a_b; `x y`; 250 letters; `.`; replication 9; 0 partitions; one that exists",
    {
        "a.b": "NONE",
        "a_b": "INVALID_TOPIC_EXCEPTION(17)",
        "x y": "INVALID_TOPIC_EXCEPTION(17)",
        "250 letters": "INVALID_TOPIC_EXCEPTION(17)",
        "249 letters": "NONE",
        ".": "INVALID_TOPIC_EXCEPTION(17)",
        "empty": "INVALID_TOPIC_EXCEPTION(17)",
        "replication 9": "INVALID_REPLICATION_FACTOR(38)",
        "0 partitions": "INVALID_PARTITIONS(37)",
        "existing": "TOPIC_ALREADY_EXISTS(36)",
        "defaults": "NONE",
        "unknown deleted": "UNKNOWN_TOPIC_OR_PARTITION(3)",
    },
)
def m02(world: World) -> Facts:
    name = world.fresh()
    return {
        "a.b": world.create(f"{name}.b"),
        "a_b": world.create(f"{name}_b"),
        "x y": world.create("x y"),
        "250 letters": world.create(f"{name}{'x' * 250}"[:250]),
        "249 letters": world.create(f"{name}{'x' * 249}"[:249]),
        ".": world.create("."),
        "empty": world.create(""),
        "replication 9": world.create(world.fresh(), 1, 9),
        "0 partitions": world.create(world.fresh(), 0),
        "existing": world.create(f"{name}.b"),
        "defaults": world.create(world.fresh(), -1, -1),
        "unknown deleted": world.delete(world.fresh()),
    }


@scenario(
    "M03",
    "ApiVersions v99, byte by byte; then v3: the range of Produce, the header's version",
    {
        "v99": "correlation 77, error 35, 1 entry: key 18, 0-4",
        "Produce from": "0",
        "Produce v2": "closed or refused",
    },
)
def m03(world: World) -> Facts:
    facts: Facts = {}
    with world.connect() as peer:
        frame = struct.pack(">hhih", 18, 99, 77, 3) + b"raw\0\0\0\0"
        peer.send_bytes(struct.pack(">i", len(frame)) + frame)
        got = peer.receive_frame()
        correlation, code, count, key, low, high = struct.unpack(">ihihhh", got[:16])
        facts["v99"] = f"correlation {correlation}, error {code}, {count} entry: key {key}, {low}-{high}"
        software = {"client_software_name": "raw", "client_software_version": "1"}
        keys = {int(each.api_key): each for each in peer.call("api_versions", 3, software).body.api_keys}
        facts["Produce from"] = str(keys[0].min_version)
    with world.connect() as peer:
        frame = struct.pack(">hhih", 0, 2, 78, -1) + struct.pack(">hii", 1, 1000, 0)
        peer.send_bytes(struct.pack(">i", len(frame)) + frame)
        try:
            got = peer.receive_frame()
            facts["Produce v2"] = f"answered with {len(got)} bytes"
        except ConnectionError:
            facts["Produce v2"] = "closed or refused"
    return facts


@scenario(
    "M28",
    "operations that are allowed on what is not there: an unknown topic, a bad name, an unknown id; Metadata v8 to v13",
    {
        "unknown": "UNKNOWN_TOPIC_OR_PARTITION(3), operations 3576",
        "bad name": "INVALID_TOPIC_EXCEPTION(17), operations 3576",
        "unknown, v13": "UNKNOWN_TOPIC_OR_PARTITION(3), operations 3576",
        "unknown, not asked": "UNKNOWN_TOPIC_OR_PARTITION(3), operations -2147483648",
        "unknown id": "UNKNOWN_TOPIC_ID(100), operations -2147483648",
        "unknown, DescribeTopicPartitions": "UNKNOWN_TOPIC_OR_PARTITION(3), operations 3576",
    },
)
def m28(world: World) -> Facts:
    name = world.fresh()

    def told(api: str, version: int, topic: dict[str, object], **more: object) -> str:
        (one,) = world.call(api, version, {"topics": [topic], **more}).body.topics
        return f"{error(one.error_code)}, operations {one.topic_authorized_operations}"

    asked = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
    return {
        "unknown": told("metadata", 8, {"name": name}, **asked),
        "bad name": told("metadata", 8, {"name": "x y"}, **asked),
        "unknown, v13": told("metadata", 13, {"name": name}, **asked),
        "unknown, not asked": told("metadata", 13, {"name": name}, allow_auto_topic_creation=False),
        "unknown id": told("metadata", 13, {"topic_id": uuid.uuid4(), "name": None}, **asked),
        "unknown, DescribeTopicPartitions": told("describe_topic_partitions", 0, {"name": name}),
    }
