"""F30 to F37: Fetch at the edges of what may be asked: limits, offsets, ids, epochs, replicas, sessions, doubles."""

from typing import Any
from uuid import UUID

from tests.conformance.batches import batch, parse
from tests.conformance.raw import Reply, fitting
from tests.conformance.recordings import recorded
from tests.conformance.scenario import Facts, scenario
from tests.conformance.scenarios.produce_edges import cut_to
from tests.conformance.whole import answers, ask
from tests.conformance.world import World, error, fetch_body, now_ms, records

STRANGE, NOBODY = UUID(int=4711), UUID(int=0)


@scenario(
    "F30",
    "Fetch v4, v11, v12, v17 out of range, below the log's start, negative, of nothing: whole answers",
    recorded("F30"),
)
def f30(world: World) -> Facts:
    topic = world.topic()
    world.produce(topic, 4)
    cut_to(world, topic, 2)
    known = world.metadata(topic).topic_id
    facts: Facts = {}
    for version in (4, 11, 12, 17):
        key, name = ("topic", topic) if version < 13 else ("topic_id", known)
        for offset in (-1, -2, 1, 5, 2**63 - 1):
            body = fetch_body([(name, 0, offset)], key=key)
            facts[f"v{version}, at {offset}"] = ask(world, "fetch", version, body, {topic: "T"})
        for index in (9, -1):
            body = fetch_body([(name, index, 0)], key=key)
            facts[f"v{version}, partition {index}"] = ask(world, "fetch", version, body, {topic: "T"})
    return facts


@scenario(
    "F31",
    "Fetch: limits of 0, -1 and 1 byte, of the request and of the partition; waits of -1; least bytes -1",
    recorded("F31"),
    differs={
        f"{name}, v{version}": "NONE, batches to [0], HW 2"
        for name in ("-1 bytes", "-1 bytes of the partition")
        for version in (4, 12)
    },
    note="a limit below 0 is read as 0; Apache Kafka fails on it",
)
def f31(world: World) -> Facts:
    topic = world.topic()
    world.produce(topic, batch(records(1, 500), timestamp=now_ms()))
    world.produce(topic, batch(records(1, 500), timestamp=now_ms()))
    facts: Facts = {}
    for name, options in {
        "all": {},
        "1 byte": {"max_bytes": 1},
        "0 bytes": {"max_bytes": 0},
        "-1 bytes": {"max_bytes": -1},
        "1 byte of the partition": {"partition_max": 1},
        "0 bytes of the partition": {"partition_max": 0},
        "-1 bytes of the partition": {"partition_max": -1},
        "least -1": {"min_bytes": -1},
        "wait -1": {"wait": -1, "min_bytes": 100_000},
        "least above all": {"max_bytes": 600, "min_bytes": 1_000_000, "wait": 300},
    }.items():
        for version in (4, 12):
            with world.connect() as peer:
                reply = peer.call("fetch", version, fitting_fetch(version, topic, options))
            got = reply.body.responses[0].partitions[0]
            ends = " ".join(str(each.last_offset) for each in parse(bytes(got.records)))
            facts[f"{name}, v{version}"] = f"{error(got.error_code)}, batches to [{ends}], HW {got.high_watermark}"
    return facts


def fitting_fetch(version: int, topic: str, options: dict[str, Any], offset: int = 0) -> dict[str, Any]:
    """A Fetch request of one partition without the fields its version does not have."""
    return fitting("fetch", version, fetch_body([(topic, 0, offset)], **options))


@scenario(
    "F32",
    "Fetch v13 by ids: strange, zero, two of which one is strange, a partition twice, a topic twice",
    recorded("F32"),
)
def f32(world: World) -> Facts:
    topic, other = world.topic(2), world.topic()
    world.produce(topic, 1)
    world.produce(other, 1)
    known, second = world.metadata(topic).topic_id, world.metadata(other).topic_id

    def told(*parts: tuple[Any, int, int], **options: Any) -> str:
        reply = world.call("fetch", 13, fetch_body(list(parts), key="topic_id", **options))
        names = {known: "T", second: "O", STRANGE: "strange", None: "zero", NOBODY: "zero"}
        return (
            error(reply.body.error_code)
            + ": "
            + "; ".join(
                f"{names[one.topic_id]}-{each.partition_index} {error(each.error_code)} HW {each.high_watermark} "
                f"start {each.log_start_offset} {'null' if each.records is None else len(each.records) and 'records'}"
                for one in reply.body.responses
                for each in one.partitions
            )
        )

    return {
        "right": told((known, 0, 0)),
        "strange": told((STRANGE, 0, 0)),
        "zero": told((NOBODY, 0, 0)),
        "strange and right": told((STRANGE, 0, 0), (known, 0, 0)),
        "right and strange": told((known, 0, 0), (STRANGE, 0, 0), (STRANGE, 1, 0)),
        "unknown partition": told((known, 9, 0)),
        "partition twice": told((known, 0, 0), (known, 0, 1)),
        "topic twice": told((known, 0, 0), (second, 0, 0), (known, 1, 0)),
        "the same twice": told((known, 0, 0), (second, 0, 0), (known, 0, 0)),
        "nothing": told(),
    }


@scenario(
    "F33",
    "Fetch v12: the same partition twice, apart and at other offsets; with a session; a topic without partitions",
    recorded("F33"),
)
def f33(world: World) -> Facts:
    topic, other = world.topic(2), world.topic()
    world.produce(topic, batch(records(1), timestamp=now_ms()))
    world.produce(topic, batch(records(1), timestamp=now_ms()))

    def told(reply: Reply) -> str:
        names = {topic: "T", other: "O"}
        return (
            error(reply.body.error_code)
            + ": "
            + "; ".join(
                f"{names.get(one.topic, one.topic)}-{each.partition_index} {error(each.error_code)} "
                f"{len(each.records or b'') // 50}"
                for one in reply.body.responses
                for each in one.partitions
            )
        )

    def get(*parts: tuple[Any, int, int], **options: Any) -> str:
        return told(world.call("fetch", 12, fetch_body(list(parts), **options)))

    empty = fetch_body([(topic, 0, 0)])
    empty["topics"][0]["partitions"] = []
    return {
        "twice": get((topic, 0, 0), (topic, 0, 1)),
        "twice, other order": get((topic, 0, 1), (topic, 0, 0)),
        "apart": get((topic, 0, 0), (other, 0, 0), (topic, 0, 1)),
        "in order": get((other, 0, 0), (topic, 1, 0), (topic, 0, 0)),
        "unknown twice": get((topic, 9, 0), (topic, 9, 0)),
        "with a session": get((topic, 0, 0), (topic, 0, 1), session=(0, 0)),
        "no partitions": told(world.call("fetch", 12, empty)),
        "bad name": get(("x y", 0, 0)),
        "no name": get(("", 0, 0)),
    }


FENCED = {
    "current -2": recorded("F34")
    .get("current -2", "")
    .replace(
        "error_code 0, high_watermark 3, last_stable_offset 3, log_start_offset 0",
        "error_code 74, high_watermark -1, last_stable_offset -1, log_start_offset -1",
    )
}


@scenario(
    "F34",
    "Fetch v12: leader epochs and last fetched epochs that are right, old, to come and negative",
    recorded("F34"),
    differs=FENCED,
    note="an epoch below -1 is one that is gone, as in ListOffsets; Apache Kafka takes it for none in Fetch",
)
def f34(world: World) -> Facts:
    topic = world.topic()
    world.produce(topic, 3)
    epoch = world.leader_epoch(topic)
    bodies = {}
    for step in (-2, -1, 0, 1):
        bodies[f"current {'none' if step == -1 else step}"] = fetch_body(
            [(topic, 0, 3)], epoch=step if step < 0 else epoch + step
        )
    for step in (-2, -1, 0, 1):
        bodies[f"last fetched {'none' if step == -1 else step}"] = fetch_body(
            [(topic, 0, 3)], last_epoch=step if step < 0 else epoch + step
        )
    bodies["last fetched, beyond"] = fetch_body([(topic, 0, 9)], last_epoch=epoch)
    return answers(world, "fetch", (12,), bodies, {topic: "T"})


@scenario("F35", "Fetch: isolation levels, replica ids and racks: what is told of the log's ends", recorded("F35"))
def f35(world: World) -> Facts:
    topic = world.topic()
    world.produce(topic, 2)
    known = world.metadata(topic).topic_id
    facts: Facts = {}
    for level in (0, 1, 2, -1):
        facts[f"isolation {level}"] = ask(
            world, "fetch", 12, fetch_body([(topic, 0, 0)], isolation=level), {topic: "T"}
        )
    for replica in (-3, -2, -1, 0, 99):
        body = fetch_body([(topic, 0, 0)]) | {"replica_id": replica}
        facts[f"replica {replica}, v11"] = ask(world, "fetch", 11, body, {topic: "T"})
        body = fetch_body([(known, 0, 0)], key="topic_id")
        body["replica_state"] = {"replica_id": replica, "replica_epoch": -1}
        facts[f"replica {replica}, v15"] = ask(world, "fetch", 15, body, {topic: "T"})
    facts["rack"] = ask(world, "fetch", 12, fetch_body([(topic, 0, 0)]) | {"rack_id": "r1"}, {topic: "T"})
    return facts


@scenario(
    "F36",
    "fetch sessions: ids and epochs that are wrong, one closed, one full again, nothing in one, names and then ids",
    recorded("F36"),
)
def f36(world: World) -> Facts:
    topic = world.topic(2)
    world.produce(topic, 1)
    known = world.metadata(topic).topic_id
    facts: Facts = {}

    def told(reply: Reply) -> str:
        parts = "; ".join(
            f"{each.partition_index} {error(each.error_code)} {'records' if each.records else 'empty'}"
            for one in reply.body.responses
            for each in one.partitions
        )
        number = "none" if not reply.body.session_id else "its own" if reply.body.session_id == own else "a new one"
        return f"{error(reply.body.error_code)}, session {number}: {parts or 'nothing'}"

    own = 0
    with world.connect() as peer:

        def go(name: str, session: tuple[int, int], *parts: tuple[Any, int, int], **options: Any) -> Reply:
            reply = peer.call("fetch", options.pop("version", 12), fetch_body(list(parts), session=session, **options))
            facts[name] = told(reply)
            return reply

        go("epoch 1 without an id", (0, 1), (topic, 0, 0))
        go("unknown, closed", (4711, -1), (topic, 0, 0))
        go("unknown, begun again", (4711, 0), (topic, 0, 0))
        go("negative id", (-5, 1), (topic, 0, 0))
        go("nothing in it", (0, 0))
        own = go("begun", (0, 0), (topic, 0, 0)).body.session_id
        go("moved", (own, 1), (topic, 0, 1))
        go("the same epoch again", (own, 1))
        go("epoch -2", (own, -2))
        go("another partition", (own, 2), (topic, 1, 0))
        go("an unknown one", (own, 3), (topic, 9, 0))
        go("it is told again", (own, 4))
        go("all forgotten", (own, 5), forget=[(topic, 0), (topic, 1), (topic, 9)])
        go("one that was not in it forgotten", (own, 6), forget=[(topic, 3)])
        go("added and forgotten", (own, 7), (topic, 0, 0), forget=[(topic, 0)])
        go("by ids", (own, 8), (known, 0, 0), key="topic_id", version=13)
        go("full again", (own, 0), (topic, 0, 0))
        go("the old one", (own, 9))
        go("closed twice", (own, -1), (topic, 0, 0))
    return facts


@scenario(
    "F37",
    "Fetch v17 and v4 of what is not there beside what is, read committed, and with nothing to read",
    recorded("F37"),
)
def f37(world: World) -> Facts:
    topic, empty = world.topic(), world.topic()
    world.produce(topic, 1)
    facts: Facts = {}
    for version in (4, 7, 12):
        for level in (0, 1):
            body = fetch_body([(topic, 0, 0), (topic, 9, 0), (empty, 0, 0), ("missing", 0, 0)], isolation=level)
            facts[f"v{version}, isolation {level}"] = ask(world, "fetch", version, body, {topic: "T", empty: "E"})
    return facts
