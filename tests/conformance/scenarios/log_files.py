"""L09 to L15: retention, rolling, compaction and recovery, seen in the answers and in the files."""

from contextlib import suppress

from tests.conformance.batches import DELETE_HORIZON, Record, batch
from tests.conformance.scenario import KILL, START, STOP, Facts, Steps, scenario
from tests.conformance.scenarios.log import TIMED_FACTS, by_time, timed
from tests.conformance.world import World, now_ms, pause, records

MIB = 1 << 20

NO_INDEX_YET = {"index": "missing"}
INDEX_NOTE = (
    "the indexes of the active segment are kept in memory and written when it is sealed or at a clean stop; Apache "
    "Kafka maps preallocated files. The rebuilt index answers alike"
)


def log_name(offset: int) -> str:
    """The file of a segment."""
    return f"{offset:020d}.log"


@scenario(
    "L09",
    "segments of 1 MiB, 5 MiB written, retention.bytes 2 MiB, checked every 500 ms",
    {
        "log start": "base of a segment that is left",
        "size": "2 MiB to 3 MiB and a batch",
        "old offsets": "OFFSET_OUT_OF_RANGE(1)",
    },
    alone=True,
)
def l09(world: World) -> Facts:
    topic = world.topic(segment_bytes=str(MIB), retention_bytes=str(2 * MIB))
    payload_bytes = 64 * 1024
    with world.connect() as peer:
        for _ in range(5 * MIB // payload_bytes):
            world.produce_on(peer, topic, batch(records(1, payload_bytes), timestamp=now_ms()))

    def size() -> int:
        found = 0
        for path in world.directory(topic).glob("*.log"):
            with suppress(FileNotFoundError):  # retention has just taken it
                found += path.stat().st_size
        return found

    world.wait(lambda: size() < 3 * MIB + 2 * payload_bytes, "retention by size")
    start = world.fetch(topic, int(world.list_offset(topic, -1).split()[1].rstrip(",")))[0].log_start
    files = world.files(topic, ".log")
    within = 2 * MIB <= size() < 3 * MIB + 2 * payload_bytes
    return {
        "log start": "base of a segment that is left" if log_name(start) == files[0] else f"{start}, {files}",
        "size": "2 MiB to 3 MiB and a batch" if within else str(size()),
        "old offsets": world.fetch(topic, 0)[0].code,
    }


@scenario(
    "L10",
    "retention.ms 1000, two old records in the only segment",
    {"log start": "2", "latest": "offset 2, timestamp -1", "next": "2", "file": log_name(2)},
)
def l10(world: World) -> Facts:
    topic = world.topic(retention_ms="1000")
    for _ in range(2):
        world.produce(topic, batch(records(1), timestamp=now_ms() - 60_000))
    world.wait(lambda: world.list_offset(topic, -2).startswith("offset 2,"), "retention by time")
    facts = {"log start": str(world.fetch(topic, 2)[0].log_start), "latest": world.list_offset(topic, -1)}
    facts["file"] = " ".join(world.files(topic, ".log"))
    facts["next"] = str(world.produce(topic, 1).base_offset)
    return facts


@scenario(
    "L11",
    "segment.ms 1000: one record; 3 s later; one more record",
    {"3 s later": log_name(0), "after the second": f"{log_name(0)} {log_name(1)}"},
)
def l11(world: World) -> Facts:
    topic = world.topic(segment_ms="1000")
    world.produce(topic, 1)
    pause(3000)
    before = " ".join(world.files(topic, ".log"))
    world.produce(topic, 1)
    return {"3 s later": before, "after the second": " ".join(world.files(topic, ".log"))}


def keyed(world: World, topic: str, key: bytes, value: bytes | None) -> None:
    """One record of this key, a batch of its own."""
    world.produce(topic, batch([Record(key=key, value=value)], timestamp=now_ms()))


def held(world: World, topic: str) -> str:
    """All records of the log as key@offset, `-` for a tombstone; read on and on, as no answer spans segments."""
    out: list[str] = []
    at = 0
    while batches := world.fetch(topic, at)[0].batches:
        for each in batches:
            out += [
                f"{(item.key or b'?').decode()}@{item.offset}{'' if item.value else '-'}" for item in each.records()
            ]
        at = batches[-1].last_offset + 1
    return " ".join(out)


@scenario(
    "L12",
    "compaction: a three times, b, then the segment rolls (min.cleanable.dirty.ratio 0.01)",
    {"left": "a@2 b@3 z@4", "latest": "offset 5, timestamp -1", "earliest": "offset 0, timestamp -1", "at 0": "NONE"},
)
def l12(world: World) -> Facts:
    topic = world.topic(cleanup_policy="compact", segment_ms="300", min_cleanable_dirty_ratio="0.01")
    for key in (b"a", b"a", b"a", b"b"):
        keyed(world, topic, key, b"v")
    pause(400)
    keyed(world, topic, b"z", b"v")
    world.wait(lambda: held(world, topic).startswith("a@2"), "the cleaner")
    return {
        "left": held(world, topic),
        "latest": world.list_offset(topic, -1),
        "earliest": world.list_offset(topic, -2),
        "at 0": world.fetch(topic, 0)[0].code,
    }


@scenario(
    "L13",
    "compaction: a, b, tombstone of a, roll, clean; past delete.retention.ms 1000: roll again, clean",
    {"first cleaning": "b@1 a@2- z@3", "delete horizon": "set", "later cleaning": "b@1 z@4 y@5"},
)
def l13(world: World) -> Facts:
    topic = world.topic(
        cleanup_policy="compact", segment_ms="300", min_cleanable_dirty_ratio="0.01", delete_retention_ms="1000"
    )
    keyed(world, topic, b"a", b"v")
    keyed(world, topic, b"b", b"v")
    keyed(world, topic, b"a", None)
    pause(400)
    keyed(world, topic, b"z", b"v")
    world.wait(lambda: not held(world, topic).startswith("a@0"), "the first cleaning")
    facts = {"first cleaning": held(world, topic)}
    stone = next(each for each in world.fetch(topic, 2)[0].batches if each.base_offset <= 2 <= each.last_offset)
    facts["delete horizon"] = "set" if stone.attributes & DELETE_HORIZON else "not set"
    pause(1200)
    keyed(world, topic, b"z", b"v")
    pause(400)
    keyed(world, topic, b"y", b"v")
    world.wait(lambda: "a@2" not in held(world, topic) and "z@3" not in held(world, topic), "a later cleaning")
    return {**facts, "later cleaning": held(world, topic)}


@scenario(
    "L14",
    "three batches, kill -9, the last 5 bytes of the file cut off, start again",
    {
        "log": "NONE, 0-9 as sent 10-19 as sent, HW 20",
        "latest": "offset 20, timestamp -1",
        "next": "NONE, base 20",
        "index": "there",
    },
    restart=KILL,
    differs=NO_INDEX_YET,
    note=INDEX_NOTE,
)
def l14(world: World) -> Steps:
    topic = world.topic()
    for _ in range(3):
        world.produce(topic, 10)
    yield KILL
    file = world.directory(topic) / log_name(0)
    file.write_bytes(file.read_bytes()[:-5])
    yield START
    world.wait(lambda: world.led(topic, 1), "the partition after the kill")
    facts = {"log": world.tell(topic, world.fetch(topic, 0)[0]), "latest": world.list_offset(topic, -1)}
    got = world.produce(topic, 1)
    facts["next"] = f"{got.code}, base {got.base_offset}"
    facts["index"] = "there" if world.files(topic, ".index") else "missing"
    return facts


@scenario(
    "L15",
    "timestamps as in L02, a clean stop, all .index and .timeindex files deleted, start again",
    {**TIMED_FACTS, "fetch at 1": "NONE, 1-1 as sent 2-2 as sent, HW 3", "index": "there"},
    restart=STOP,
    differs=NO_INDEX_YET,
    note=INDEX_NOTE,
)
def l15(world: World) -> Steps:
    names = timed(world)
    yield STOP
    for topic in names.values():
        for suffix in (".index", ".timeindex"):
            for file in world.files(topic, suffix):
                (world.directory(topic) / file).unlink()
    yield START
    world.wait(lambda: all(world.led(each, 1) for each in names.values()), "the partitions after the restart")
    topic = names["three batches"]
    facts = by_time(world, names)
    facts["fetch at 1"] = world.tell(topic, world.fetch(topic, 1)[0])
    facts["index"] = "there" if world.files(topic, ".index") else "missing"
    return facts
