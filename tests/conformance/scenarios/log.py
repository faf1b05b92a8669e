"""L01 to L07 and L16: offsets by name and by time, deleted records, refused settings."""

from typing import Any

from tests.conformance.batches import GZIP, Record, batch
from tests.conformance.scenario import Facts, scenario
from tests.conformance.world import LIST, World, error, list_body

TIMES = (100, 300, 200)


def delete_records(world: World, topic: str, offset: int) -> str:
    """DeleteRecords of partition 0: error and low watermark."""
    body = {"topics": [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}], "timeout": 5000}
    part = world.call("delete_records", 2, body).body.topics[0].partitions[0]
    return f"{error(part.error_code)}, low watermark {part.low_watermark}"


def timed(world: World) -> dict[str, str]:
    """Topics with records of timestamps 100, 300, 200: a batch each, all in one batch, and that one compressed."""
    names = {each: world.topic(retention_ms="-1") for each in ("three batches", "one batch", "gzip")}
    for stamp in TIMES:
        world.produce(names["three batches"], batch([Record()], timestamp=stamp))
    together = [Record(timestamp_delta=stamp - TIMES[0]) for stamp in TIMES]
    world.produce(names["one batch"], batch(together, timestamp=TIMES[0]))
    world.produce(names["gzip"], batch(together, timestamp=TIMES[0], codec=GZIP))
    return names


def by_time(world: World, names: dict[str, str]) -> Facts:
    """ListOffsets of each: the maximal timestamp, t = 150, t = 301, t = 0."""
    facts: Facts = {}
    for name, topic in names.items():
        for label, stamp in {"max": -3, "150": 150, "301": 301, "0": 0}.items():
            facts[f"{name}, {label}"] = world.list_offset(topic, stamp)
    return facts


TIMED_FACTS = {
    f"{name}, {label}": answer
    for name in ("three batches", "one batch", "gzip")
    for label, answer in {
        "max": "offset 1, timestamp 300",
        "150": "offset 1, timestamp 300",
        "301": "offset -1, timestamp -1",
        "0": "offset 0, timestamp 100",
    }.items()
}


@scenario(
    "L01",
    "10 records: ListOffsets latest and earliest; on an empty partition latest, earliest, maximal timestamp",
    {
        "latest": "offset 10, timestamp -1",
        "earliest": "offset 0, timestamp -1",
        "empty, latest": "offset 0, timestamp -1",
        "empty, earliest": "offset 0, timestamp -1",
        "empty, max": "offset -1, timestamp -1",
        "unknown topic": "UNKNOWN_TOPIC_OR_PARTITION(3)",
    },
)
def l01(world: World) -> Facts:
    topic, empty = world.topic(), world.topic()
    world.produce(topic, 10)
    return {
        "latest": world.list_offset(topic, -1),
        "earliest": world.list_offset(topic, -2),
        "empty, latest": world.list_offset(empty, -1),
        "empty, earliest": world.list_offset(empty, -2),
        "empty, max": world.list_offset(empty, -3),
        "unknown topic": world.list_offset(world.fresh(), -1),
    }


@scenario(
    "L02",
    "timestamps 100, 300, 200 in three batches, in one, in one with gzip: ListOffsets -3, 150, 301, 0",
    TIMED_FACTS,
)
def l02(world: World) -> Facts:
    return by_time(world, timed(world))


@scenario(
    "L03",
    "ListOffsets -4 at v8, -5 at v9, -4 at v7, -9 at v9, -3 at v6",
    {
        "-4 at v8": "offset 0, timestamp -1",
        "-5 at v9": "offset -1, timestamp -1",
        "-4 at v7": "UNSUPPORTED_VERSION(35)",
        "-9 at v9": "UNSUPPORTED_VERSION(35)",
        "-3 at v6": "UNSUPPORTED_VERSION(35)",
    },
)
def l03(world: World) -> Facts:
    topic = world.topic()
    world.produce(topic, 3)
    asked = ((-4, 8), (-5, 9), (-4, 7), (-9, 9), (-3, 6))
    return {f"{stamp} at v{version}": world.list_offset(topic, stamp, version=version) for stamp, version in asked}


@scenario("L04", "the same partition twice in one ListOffsets", {"answer": "INVALID_REQUEST(42)"})
def l04(world: World) -> Facts:
    asked: list[dict[str, Any]] = [{"partition_index": 0, "timestamp": -1}] * 2
    parts = world.call("list_offsets", LIST, list_body(world.topic(), asked)).body.topics[0].partitions
    return {"answer": "; ".join(sorted({error(part.error_code) for part in parts}))}


@scenario(
    "L05",
    "10 records one by one: DeleteRecords 4; fetch at 3 and 4; ListOffsets earliest",
    {
        "delete": "NONE, low watermark 4",
        "at 3": "OFFSET_OUT_OF_RANGE(1)",
        "at 4": "NONE, first offset 4, log start 4",
        "earliest": "offset 4, timestamp -1",
    },
)
def l05(world: World) -> Facts:
    topic = world.topic()
    for _ in range(10):
        world.produce(topic, 1)
    facts = {"delete": delete_records(world, topic, 4), "at 3": world.fetch(topic, 3)[0].code}
    got, _ = world.fetch(topic, 4)
    facts["at 4"] = f"{got.code}, first offset {got.batches[0].base_offset}, log start {got.log_start}"
    facts["earliest"] = world.list_offset(topic, -2)
    return facts


@scenario(
    "L06",
    "10 records in a batch: DeleteRecords 4 inside it; then -1, 99, 2, -2; an unknown partition",
    {
        "4": "NONE, low watermark 4",
        "fetch at 4": "NONE, 0-9 as sent, HW 10",
        "-1": "NONE, low watermark 10",
        "99": "OFFSET_OUT_OF_RANGE(1), low watermark -1",
        "2": "NONE, low watermark 10",
        "-2": "OFFSET_OUT_OF_RANGE(1), low watermark -1",
        "unknown": "UNKNOWN_TOPIC_OR_PARTITION(3), low watermark -1",
    },
)
def l06(world: World) -> Facts:
    topic = world.topic()
    world.produce(topic, 10)
    facts = {"4": delete_records(world, topic, 4), "fetch at 4": world.tell(topic, world.fetch(topic, 4)[0])}
    for offset in (-1, 99, 2, -2):
        facts[str(offset)] = delete_records(world, topic, offset)
    return {**facts, "unknown": delete_records(world, world.fresh(), 1)}


@scenario(
    "L07",
    "DeleteRecords on a compacted topic; on one that compacts and deletes; on one that does neither",
    {
        "compact": "POLICY_VIOLATION(44), low watermark -1",
        "compact,delete": "NONE, low watermark 1",
        "neither": "NONE, low watermark 1",
    },
)
def l07(world: World) -> Facts:
    facts: Facts = {}
    for policy in ("compact", "compact,delete", ""):
        topic = world.topic(cleanup_policy=policy)
        world.produce(topic, batch([Record(key=b"a")], timestamp=1))
        facts[policy or "neither"] = delete_records(world, topic, 1)
    return facts


@scenario(
    "L16",
    "CreateTopics with segment.bytes 100000, with an unknown key, with a value that is no number",
    {"small segment": "INVALID_CONFIG(40)", "unknown key": "INVALID_CONFIG(40)", "no number": "INVALID_CONFIG(40)"},
)
def l16(world: World) -> Facts:
    return {
        "small segment": world.create(world.fresh(), segment_bytes="100000"),
        "unknown key": world.create(world.fresh(), no_such_key="1"),
        "no number": world.create(world.fresh(), retention_ms="soon"),
    }
