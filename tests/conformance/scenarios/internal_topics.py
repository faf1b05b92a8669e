"""G89 and G90: the topic that holds the groups, as clients see it and as they may not treat it."""

from tests.conformance.batches import batch
from tests.conformance.members import Member
from tests.conformance.scenario import Facts, scenario
from tests.conformance.scenarios.admin import alter
from tests.conformance.scenarios.joining import fresh
from tests.conformance.scenarios.offsets import commit, offsets, part
from tests.conformance.scenarios.versions import coordinator
from tests.conformance.world import FETCH, METADATA, World, error, fetch_body, fetched, now_ms, records

OFFSETS = "__consumer_offsets"


@scenario(
    "G89",
    "`__consumer_offsets`: marked, made again by hand, written to, grown, cut, read, its settings",
    {
        "Metadata": "NONE, internal True, 50 partitions",
        "listed": "True",
        "made by hand": "TOPIC_ALREADY_EXISTS(36)",
        "made by hand, 50 partitions": "TOPIC_ALREADY_EXISTS(36)",
        "a name that collides": "INVALID_TOPIC_EXCEPTION(17)",
        "written to": "INVALID_TOPIC_EXCEPTION(17)",
        "written to by __admin_client": "INVALID_RECORD(87)",
        "garbage": "INVALID_TOPIC_EXCEPTION(17)",
        "cut": "INVALID_TOPIC_EXCEPTION(17)",
        "to 2 partitions": "INVALID_PARTITIONS(37)",
        "read": "['NONE'], records found",
        "settings": "cleanup.policy=compact, compression.type=producer, min.insync.replicas=1, segment.bytes=104857600",
        "altered": "NONE",
        "the group": "NONE: t-0 5 'm'",
    },
    differs={"written to by __admin_client": "INVALID_TOPIC_EXCEPTION(17)"},
    note="a name that anybody may use proves nothing: it counts over the socket in the data directory alone",
)
def g89(world: World) -> Facts:
    group, _ = fresh(world)
    topic = world.topic()
    commit(world, group, [(topic, [part()])])
    found = world.metadata(OFFSETS)
    listed = world.call("metadata", METADATA, {"topics": None}).body.topics
    with world.connect(client_id="__admin_client") as peer:
        by_admin = world.produce_on(peer, OFFSETS, 1).code
    cut = {"topics": [{"name": OFFSETS, "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout": 5000}
    fewer = {"topics": [{"name": OFFSETS, "count": 2, "assignments": None}], "timeout": 5000}
    sizes: dict[str, int] = {}
    for index in range(len(found.partitions)):
        with world.connect() as peer:
            got = fetched(peer.call("fetch", FETCH, fetch_body([(OFFSETS, index, 0)])))[OFFSETS, index]
        sizes[got.code] = sizes.get(got.code, 0) + bool(got.batches)
    asked = [{"resource_type": 2, "resource_name": OFFSETS, "configuration_keys": None}]
    settings = world.call("describe_configs", 4, {"resources": asked}).body.results[0].configs
    shown = ("cleanup.policy", "compression.type", "segment.bytes", "min.insync.replicas")
    return {
        "Metadata": f"{error(found.error_code)}, internal {found.is_internal}, {len(found.partitions)} partitions",
        "listed": str(OFFSETS in [one.name for one in listed]),
        "made by hand": world.create(OFFSETS),
        "made by hand, 50 partitions": world.create(OFFSETS, 50),
        "a name that collides": world.create("..consumer_offsets"),
        "written to": world.produce(OFFSETS, 1).code,
        "written to by __admin_client": by_admin,
        "garbage": world.produce(OFFSETS, batch(records(1), timestamp=now_ms()), acks=-1).code,
        "cut": error(world.call("delete_records", 2, cut).body.topics[0].partitions[0].error_code),
        "to 2 partitions": error(world.call("create_partitions", 3, fewer).body.results[0].error_code),
        "read": f"{sorted(sizes)}, records {'found' if sum(sizes.values()) else 'none'}",
        "settings": ", ".join(f"{one.name}={one.value}" for one in sorted(settings, key=str) if one.name in shown),
        "altered": alter(world, OFFSETS, "segment.bytes", 0, "104857600"),
        "the group": offsets(world, group, None, {topic: "t"}),
    }


@scenario(
    "G90",
    "`__consumer_offsets` is deleted while a group is stable: the answer, its members and offsets, and then again",
    {
        "deleted": "NONE",
        "heartbeat": "NOT_COORDINATOR(16)",
        "again, heartbeat": "UNKNOWN_MEMBER_ID(25)",
        "again, offsets": "NONE: t-0 -1 ''",
    },
    alone=True,
)
def g90(world: World) -> Facts:
    group, names = fresh(world)
    topic = world.topic()
    commit(world, group, [(topic, [part()])])
    with Member(world, world.fresh(), "A", names) as a:
        coordinator(world, a.group)
        a.stable()
        facts = {"deleted": world.delete(OFFSETS)}
        if facts["deleted"] == "NONE":
            world.wait(lambda: error(world.metadata(OFFSETS).error_code) != "NONE", "the topic to go")
            world.wait(lambda: a.heartbeat() != "NONE", "the group to go")
            facts["heartbeat"] = a.heartbeat()
        coordinator(world, group, a.group)
        facts["again, heartbeat"] = a.heartbeat()
        facts["again, offsets"] = offsets(world, group, [(topic, (0,))], {topic: "t"})
    return facts
