"""L20 to L27: ListOffsets, OffsetForLeaderEpoch and DeleteRecords at the edges of what may be asked."""

import re
from typing import Any

from tests.conformance.batches import batch
from tests.conformance.recordings import recorded
from tests.conformance.scenario import KILL, START, Facts, Steps, scenario
from tests.conformance.scenarios.produce_edges import cut_to
from tests.conformance.scenarios.topics import in_any_order
from tests.conformance.whole import answers
from tests.conformance.world import World, records


def listing(*parts: dict[str, int], topic: str, **more: int) -> dict[str, Any]:
    """A ListOffsets request of one topic."""
    return {"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": list(parts)}], **more}


def part(timestamp: int, index: int = 0, epoch: int = -1) -> dict[str, int]:
    """One partition of it."""
    return {"partition_index": index, "timestamp": timestamp, "current_leader_epoch": epoch}


@scenario("L20", "ListOffsets v1 to v11: every time that stands for something, and some that do not", recorded("L20"))
def l20(world: World) -> Facts:
    topic = world.topic(retention_ms="-1")
    for stamp in (100, 300, 200):
        world.produce(topic, batch(records(1), timestamp=stamp))
    stamps = (-1, -2, -3, -4, -5, -6, -7, -(2**63), 0, 200, 301, 2**63 - 1)
    bodies = {str(stamp): listing(part(stamp), topic=topic) for stamp in stamps}
    return answers(world, "list_offsets", (1, 4, 6, 7, 8, 9, 10, 11), bodies, {topic: "T"})


@scenario(
    "L21",
    "ListOffsets by time of records without a time, of one beside others, and of an empty partition",
    recorded("L21"),
    differs={"no times, -3": "offset -1, timestamp -1"},
    note="of records without a time, none has the latest one",
)
def l21(world: World) -> Facts:
    facts: Facts = {}
    none, mixed, empty, equal = (world.topic(retention_ms="-1") for _ in range(4))
    world.produce(none, batch(records(2), timestamp=-1))
    for stamp in (-1, 50, -1):
        world.produce(mixed, batch(records(1), timestamp=stamp))
    for _ in range(2):
        world.produce(equal, batch(records(2), timestamp=70))
    for name, topic in {"no times": none, "mixed": mixed, "empty": empty, "equal": equal}.items():
        for stamp in (-3, 0, 50, 51, 70):
            facts[f"{name}, {stamp}"] = world.list_offset(topic, stamp)
    return facts


@scenario(
    "L22",
    "ListOffsets: leader epochs that are right, old, to come and negative; replica ids; isolation levels",
    recorded("L22"),
)
def l22(world: World) -> Facts:
    topic = world.topic()
    world.produce(topic, 2)
    bodies = {f"epoch {epoch}": listing(part(-1, epoch=epoch), topic=topic) for epoch in (-2, -1, 0, 1, 99)}
    bodies |= {f"replica {one}": listing(part(-1), topic=topic, replica_id=one) for one in (-3, -2, -1, 0, 99)}
    bodies |= {f"isolation {one}": listing(part(-1), topic=topic, isolation_level=one) for one in (0, 1, 9, -1)}
    return answers(world, "list_offsets", (11,), bodies, {topic: "T"})


@scenario(
    "L23",
    "ListOffsets v1 to v11 of what is not there: topics, partitions, names, no partitions, no topics; twice",
    recorded("L23"),
)
def l23(world: World) -> Facts:
    topic = world.topic(2)
    twice = listing(part(-1), part(-2), part(-1, 1), topic=topic)
    apart = listing(part(-1), topic=topic)
    apart["topics"] = apart["topics"] * 2
    bodies = {
        "unknown topic": listing(part(-1), topic="missing"),
        "bad name": listing(part(-1), topic="x y"),
        "no name": listing(part(-1), topic=""),
        "unknown partition": listing(part(-1, 9), topic=topic),
        "negative partition": listing(part(-1, -1), topic=topic),
        "no partitions": listing(topic=topic),
        "no partitions of the unknown": listing(topic="missing"),
        "no topics": {"replica_id": -1, "topics": []},
        "partition twice": twice,
        "topic twice": apart,
        "unknown twice": listing(part(-1, 9), part(-1, 9), topic=topic),
    }
    facts = answers(world, "list_offsets", (1, 5, 11), bodies, {topic: "T"})
    return {name: in_any_order(text) if name.startswith("partition twice") else text for name, text in facts.items()}


@scenario("L24", "ListOffsets of a log whose first records were deleted: by every time", recorded("L24"))
def l24(world: World) -> Facts:
    topic = world.topic(retention_ms="-1")
    for stamp in (300, 100, 200, 150):
        world.produce(topic, batch(records(1), timestamp=stamp))
    facts: Facts = {}
    for name, cut in {"first deleted": 1, "two deleted": 2, "all deleted": 4}.items():
        cut_to(world, topic, cut)
        for stamp in (-1, -2, -3, -4, 0, 100, 150, 201, 300):
            facts[f"{name}, {stamp}"] = world.list_offset(topic, stamp)
    return facts


def epochs(*parts: tuple[int, int, int], topic: str, **more: int) -> dict[str, Any]:
    """OffsetForLeaderEpoch of (partition, current epoch, epoch)."""
    asked = [
        {"partition": index, "current_leader_epoch": current, "leader_epoch": epoch} for index, current, epoch in parts
    ]
    return {"replica_id": -1, "topics": [{"topic": topic, "partitions": asked}], **more}


@scenario(
    "L25",
    "OffsetForLeaderEpoch v2 to v4: epochs below -1, the current one, to come; fenced, of strange replicas, not there",
    recorded("L25"),
    differs={
        name: re.sub(r"\{[^{}]*leader_epoch 0[^{}]*\}, ", "", fact)
        for name, fact in recorded("L25").items()
        if name.startswith("twice")
    },
    note="a partition that is named twice is answered once, for the last epoch",
)
def l25(world: World) -> Facts:
    topic, empty = world.topic(2), world.topic()
    world.produce(topic, 2)
    bodies = {f"epoch {epoch}": epochs((0, -1, epoch), topic=topic) for epoch in (-(2**31), -2, -1, 0, 1, 2**31 - 1)}
    bodies |= {f"current {epoch}": epochs((0, epoch, 0), topic=topic) for epoch in (-2, -1, 0, 1)}
    bodies |= {f"empty, epoch {epoch}": epochs((0, -1, epoch), topic=empty) for epoch in (-1, 0, 1)}
    bodies |= {f"replica {one}": epochs((0, -1, 0), topic=topic, replica_id=one) for one in (-3, -2, 0, 99)}
    bodies |= {
        "unknown topic": epochs((0, -1, 0), topic="missing"),
        "unknown partition": epochs((9, -1, 0), topic=topic),
        "unknown partition, fenced": epochs((9, 5, 0), topic=topic),
        "negative partition": epochs((-1, -1, 0), topic=topic),
        "twice": epochs((0, -1, 0), (0, -1, 5), topic=topic),
        "no partitions": epochs(topic=topic),
        "no topics": {"replica_id": -1, "topics": []},
        "other order": epochs((1, -1, 0), (9, -1, 0), (0, -1, 0), topic=topic),
    }
    return answers(world, "offset_for_leader_epoch", (2, 4), bodies, {topic: "T", empty: "E"})


@scenario(
    "L26",
    "OffsetForLeaderEpoch after a kill: records of two epochs, one epoch without any, before the first, to come",
    recorded("L26"),
    restart=KILL,
)
def l26(world: World) -> Steps:
    topic, quiet = world.topic(), world.topic()
    world.produce(topic, 3)
    world.produce(quiet, 2)
    first = world.leader_epoch(topic)
    yield KILL
    yield START
    for name in (topic, quiet):
        world.wait(lambda name=name: world.leader_epoch(name) > first and world.led(name, 1), "leaders")  # type: ignore[misc]
    # What Metadata says and what the partition knows agree only when the restart has settled.
    world.wait(lambda: world.fetch(topic, 0, epoch=world.leader_epoch(topic))[0].code == "NONE", "the new epoch")
    world.produce(topic, 2)
    now = world.leader_epoch(topic)
    facts: Facts = {}

    def told(topic: str, epoch: int) -> str:
        body = epochs((0, -1, epoch), topic=topic)
        found = world.call("offset_for_leader_epoch", 4, body).body.topics[0].partitions[0]
        names = {-1: "none", first: "the first", now: "the last"}
        return (
            f"{int(found.error_code)}: epoch {names.get(found.leader_epoch, found.leader_epoch)} to {found.end_offset}"
        )

    for name, epoch in {"before": first - 1, "first": first, "last": now, "to come": now + 1}.items():
        facts[f"{name}"] = told(topic, epoch)
        facts[f"{name}, quiet"] = told(quiet, epoch)
    return facts


def cutting(*parts: tuple[int, int], topic: str, timeout: int = 5000) -> dict[str, Any]:
    """DeleteRecords of (partition, offset)."""
    asked = [{"partition_index": index, "offset": offset} for index, offset in parts]
    return {"topics": [{"name": topic, "partitions": asked}], "timeout": timeout}


@scenario(
    "L27",
    "DeleteRecords v0 to v2: to the end, beyond, again, of an empty log, not there, twice, of nothing; timeouts",
    recorded("L27"),
)
def l27(world: World) -> Facts:
    topic = world.topic(3)
    world.produce(topic, 5)
    world.produce(topic, 5, partition=1)
    apart = cutting((1, 2), topic=topic)
    apart["topics"] = [*apart["topics"], *cutting((1, 1), topic=topic)["topics"]]
    bodies = {
        "beyond": cutting((0, 6), topic=topic),
        "below -1": cutting((0, -2), topic=topic),
        "to 2": cutting((0, 2), topic=topic),
        "to 1, again": cutting((0, 1), topic=topic),
        "to the end": cutting((0, 5), topic=topic),
        "to -1": cutting((0, -1), topic=topic),
        "empty, to 0": cutting((2, 0), topic=topic),
        "empty, to -1": cutting((2, -1), topic=topic),
        "empty, to 1": cutting((2, 1), topic=topic),
        "unknown topic": cutting((0, 0), topic="missing"),
        "bad name": cutting((0, 0), topic="x y"),
        "unknown partition": cutting((9, 0), topic=topic),
        "negative partition": cutting((-1, 0), topic=topic),
        "no partitions": cutting(topic=topic),
        "no partitions of the unknown": cutting(topic="missing"),
        "no topics": {"topics": [], "timeout": 5000},
        "twice": cutting((1, 1), (1, 2), topic=topic),
        "topic twice": apart,
        "timeout 0": cutting((1, 3), topic=topic, timeout=0),
        "timeout -1": cutting((1, 4), topic=topic, timeout=-1),
        "one of two unknown": cutting((9, 0), (1, 4), topic=topic),
    }
    facts = answers(world, "delete_records", (0, 2), bodies, {topic: "T"})
    return {name: in_any_order(text) if name.startswith("one of two") else text for name, text in facts.items()}
