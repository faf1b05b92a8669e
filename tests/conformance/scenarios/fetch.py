"""F01 to F12, F15, F17: what a fetch answers, and when."""

from tests.conformance.batches import batch
from tests.conformance.scenario import START, STOP, Facts, Steps, scenario
from tests.conformance.world import (
    FETCH,
    HURRIED_MS_MAX,
    World,
    after,
    fetch_body,
    fetched,
    later,
    now_ms,
    pause,
    records,
)


def big(size: int) -> bytes:
    """A batch of one record whose value has this many bytes."""
    return batch(records(1, size), timestamp=now_ms())


@scenario(
    "F01",
    "empty partition: fetch at 0, wait 1000 ms, at least 1 byte",
    {"answer": "NONE, empty, HW 0", "after": "1000 ms", "null records": "no"},
)
def f01(world: World) -> Facts:
    topic = world.topic()
    got, ms = world.fetch(topic, 0, wait=1000)
    with world.connect() as peer:
        part = peer.call("fetch", FETCH, fetch_body([(topic, 0, 0)])).body.responses[0].partitions[0]
    return {
        "answer": world.tell(topic, got),
        "after": after(ms, 1000),
        "null records": "yes" if part.records is None else "no",
    }


@scenario(
    "F02",
    "empty partition: wait 0; then wait 5000 ms with at least 0 bytes",
    {
        "no wait": "NONE, empty, HW 0",
        "no wait, after": "at once",
        "0 bytes": "NONE, empty, HW 0",
        "0 bytes, after": "at once",
    },
)
def f02(world: World) -> Facts:
    topic = world.topic()
    first, first_ms = world.fetch(topic, 0, wait=0)
    second, second_ms = world.fetch(topic, 0, wait=5000, min_bytes=0)
    return {
        "no wait": world.tell(topic, first),
        "no wait, after": after(first_ms, 0),
        "0 bytes": world.tell(topic, second),
        "0 bytes, after": after(second_ms, 0),
    }


@scenario(
    "F03",
    "empty partition: fetch waits 5000 ms; at 500 ms one record is produced",
    {"answer": "NONE, 0-0 as sent, HW 1", "after": "500 ms"},
)
def f03(world: World) -> Facts:
    topic = world.topic()
    with later(500, lambda: world.produce(topic, 1)):
        got, ms = world.fetch(topic, 0, wait=5000)
    return {"answer": world.tell(topic, got), "after": after(ms, 500, early=HURRIED_MS_MAX)}


@scenario(
    "F04",
    "fetch waits 2000 ms for 10000 bytes; about 1 KB is produced at 200 and at 400 ms",
    {"answer": "NONE, 0-0 as sent 1-1 as sent, HW 2", "after": "2000 ms"},
)
def f04(world: World) -> Facts:
    topic = world.topic()
    with later(200, lambda: world.produce(topic, big(1000))), later(400, lambda: world.produce(topic, big(1000))):
        got, ms = world.fetch(topic, 0, wait=2000, min_bytes=10000)
    return {"answer": world.tell(topic, got), "after": after(ms, 2000)}


@scenario(
    "F05",
    "fetch waits 5000 ms for 10000 bytes; 4 KB is produced at 200, 500 and 800 ms",
    {"answer": "NONE, 0-0 as sent 1-1 as sent 2-2 as sent, HW 3", "after": "800 ms"},
)
def f05(world: World) -> Facts:
    topic = world.topic()
    with (
        later(200, lambda: world.produce(topic, big(4096))),
        later(500, lambda: world.produce(topic, big(4096))),
        later(800, lambda: world.produce(topic, big(4096))),
    ):
        got, ms = world.fetch(topic, 0, wait=5000, min_bytes=10000)
    return {"answer": world.tell(topic, got), "after": after(ms, 800, early=HURRIED_MS_MAX)}


@scenario(
    "F06",
    "two partitions, data only in the second: fetch both, wait 5000 ms, at least 1 byte",
    {"p0": "NONE, empty, HW 0", "p1": "NONE, 0-1 as sent, HW 2", "after": "at once"},
)
def f06(world: World) -> Facts:
    topic = world.topic(2)
    world.produce(topic, 2, partition=1)
    with world.connect() as peer:
        reply = peer.call("fetch", FETCH, fetch_body([(topic, 0, 0), (topic, 1, 0)], wait=5000))
    parts = fetched(reply)
    return {
        "p0": world.tell(topic, parts[topic, 0]),
        "p1": world.tell(topic, parts[topic, 1], 1),
        "after": after(reply.ms, 0),
    }


@scenario(
    "F07",
    "10 records: fetch at 11, wait 5000 ms; fetch at 10, wait 300 ms",
    {
        "at 11": "OFFSET_OUT_OF_RANGE(1), empty, HW -1",
        "at 11, after": "at once",
        "at 10": "NONE, empty, HW 10",
        "at 10, after": "300 ms",
    },
)
def f07(world: World) -> Facts:
    topic = world.topic()
    world.produce(topic, 10)
    beyond, beyond_ms = world.fetch(topic, 11, wait=5000)
    end, end_ms = world.fetch(topic, 10, wait=300)
    return {
        "at 11": world.tell(topic, beyond),
        "at 11, after": after(beyond_ms, 0),
        "at 10": world.tell(topic, end),
        "at 10, after": after(end_ms, 300),
    }


@scenario(
    "F08",
    "wait 2000 ms: an empty topic and an unknown one; the unknown one alone; the empty one and offset 99 of another",
    {
        "with unknown": "NONE, empty, HW 0; UNKNOWN_TOPIC_OR_PARTITION(3), empty, HW -1",
        "with unknown, after": "2000 ms",
        "unknown alone": "UNKNOWN_TOPIC_OR_PARTITION(3), empty, HW -1",
        "unknown alone, after": "at once",
        "with an error while reading": "NONE, empty, HW 0; OFFSET_OUT_OF_RANGE(1), empty, HW -1",
        "with an error while reading, after": "at once",
        "v13 with unknown id": "NONE; UNKNOWN_TOPIC_ID(100)",
        "v13 with unknown id, after": "2000 ms",
    },
)
def f08(world: World) -> Facts:
    topic, other, unknown = world.topic(), world.topic(), world.fresh()
    facts: Facts = {}
    asked = {
        "with unknown": [(topic, 0, 0), (unknown, 0, 0)],
        "unknown alone": [(unknown, 0, 0)],
        "with an error while reading": [(topic, 0, 0), (other, 0, 99)],
    }
    with world.connect() as peer:
        for name, partitions in asked.items():
            reply = peer.call("fetch", FETCH, fetch_body(partitions, wait=2000))
            parts = fetched(reply)
            facts[name] = "; ".join(world.tell(each, parts[each, 0]) for each, _, _ in partitions)
            facts[f"{name}, after"] = after(reply.ms, 2000 if name == "with unknown" else 0)
        known = world.metadata(topic).topic_id
        strange = type(known)(int=known.int ^ 1)
        body = fetch_body([(known, 0, 0), (strange, 0, 0)], wait=2000, key="topic_id")
        reply = peer.call("fetch", 13, body)
    parts = fetched(reply)
    facts["v13 with unknown id"] = f"{parts[known, 0].code}; {parts[strange, 0].code}"
    facts["v13 with unknown id, after"] = after(reply.ms, 2000)
    return facts


@scenario(
    "F09",
    "one batch of 100 KB: fetch with both limits at 1000 bytes",
    {"answer": "NONE, 0-0 as sent, HW 1"},
)
def f09(world: World) -> Facts:
    topic = world.topic()
    world.produce(topic, big(100_000))
    got, _ = world.fetch(topic, 0, max_bytes=1000, partition_max=1000)
    return {"answer": world.tell(topic, got)}


@scenario(
    "F10",
    "two partitions with 100 KB each: both limits at 1000 bytes, order p0 p1, then p1 p0",
    {
        "p0 first": "p0 NONE, 0-0 as sent, HW 1; p1 NONE, empty, HW 1",
        "p1 first": "p1 NONE, 0-0 as sent, HW 1; p0 NONE, empty, HW 1",
    },
)
def f10(world: World) -> Facts:
    topic = world.topic(2)
    for partition in (0, 1):
        world.produce(topic, big(100_000), partition=partition)
    facts: Facts = {}
    with world.connect() as peer:
        for name, order in {"p0 first": (0, 1), "p1 first": (1, 0)}.items():
            body = fetch_body([(topic, partition, 0) for partition in order], max_bytes=1000, partition_max=1000)
            parts = fetched(peer.call("fetch", FETCH, body))
            facts[name] = "; ".join(f"p{each} {world.tell(topic, parts[topic, each], each)}" for each in order)
    return facts


@scenario("F11", "a batch of offsets 0 to 9: fetch at 5", {"answer": "NONE, 0-9 as sent, HW 10"})
def f11(world: World) -> Facts:
    topic = world.topic()
    world.produce(topic, 10)
    return {"answer": world.tell(topic, world.fetch(topic, 5)[0])}


@scenario(
    "F12",
    "after a restart (leader epoch e): fetch with wait 2000 ms and current leader epoch e-1, e+1, e",
    {
        "epoch": "above 0",
        "e-1": "FENCED_LEADER_EPOCH(74), at once",
        "e+1": "UNKNOWN_LEADER_EPOCH(75), at once",
        "e": "NONE, at once",
    },
    restart=STOP,
)
def f12(world: World) -> Steps:
    topic = world.topic()
    world.produce(topic, 1)
    yield STOP
    yield START
    # What Metadata says and what the partition knows agree only when the restart has settled.
    world.wait(lambda: world.fetch(topic, 0, epoch=world.leader_epoch(topic))[0].code == "NONE", "the new epoch")
    pause(500)
    epoch = world.leader_epoch(topic)
    facts = {"epoch": "above 0" if epoch > 0 else str(epoch)}
    for name, asked in {"e-1": epoch - 1, "e+1": epoch + 1, "e": epoch}.items():
        for _ in range(5):  # nobody plays it again when it was late
            got, ms = world.fetch(topic, 0, wait=2000, epoch=asked)
            facts[name] = f"{got.code}, {after(ms, 0)}"
            if "(measured)" not in facts[name]:
                break
    return facts


@scenario(
    "F15",
    "a fetch waits 5000 ms; at 500 ms the topic is deleted",
    {"code": "UNKNOWN_TOPIC_OR_PARTITION(3)", "after": "500 ms"},
)
def f15(world: World) -> Facts:
    topic = world.topic()
    with later(500, lambda: world.delete(topic)):
        got, ms = world.fetch(topic, 0, wait=5000)
    return {"code": got.code, "after": after(ms, 500, late=400, early=HURRIED_MS_MAX)}


@scenario(
    "F17",
    "segments of 1 MiB, a reader at the end waits 10 s for 10 MB; 100 KB batches until the segment rolls",
    {"answered": "by the roll", "with": "NONE", "rolled files": "2"},
    alone=True,
)
def f17(world: World) -> Facts:
    topic = world.topic(segment_bytes="1048576")
    with world.connect() as reader, world.connect() as writer:
        body = fetch_body([(topic, 0, 0)], wait=10_000, min_bytes=10_000_000, partition_max=50 << 20)
        reader.send("fetch", FETCH, body)
        count = 0
        while reader.silent(0.05 if count < 11 else 5) and count < 30:
            world.produce_on(writer, topic, big(100_000))
            count += 1
        _, reply = reader.receive()
    part = fetched(reply)[topic, 0]
    files = world.files(topic, ".log")
    return {
        "answered": "by the roll"
        if count == 11 and reply.ms < 9000
        else f"after {count} batches, {reply.ms:.0f} ms (measured)",
        "with": part.code,
        "rolled files": str(len(files)),
    }
