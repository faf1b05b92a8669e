"""P01 to P13: what an append answers, and what it leaves in the log."""

import crc32c

from tests.conformance.batches import CONTROL, GZIP, LOG_APPEND_TIME, LZ4, SNAPPY, ZSTD, Record, batch
from tests.conformance.scenario import Facts, scenario
from tests.conformance.scenarios.connections import fate
from tests.conformance.scenarios.versions import coordinator
from tests.conformance.world import (
    PRODUCE,
    Produced,
    World,
    error,
    now_ms,
    produce_body,
    produced,
    records,
)

HOUR_MS = 3_600_000


def told(got: Produced) -> str:
    """A Produce answer in words."""
    rest = f", records {got.errors}" if got.errors else ""
    return f"{got.code}, base {got.base_offset}{rest}"


@scenario(
    "P01",
    "3 records with acks 1, twice; the same with each compression",
    {
        "first": "NONE, base 0",
        "second": "NONE, base 3",
        "gzip": "NONE, base 6",
        "snappy": "NONE, base 9",
        "lz4": "NONE, base 12",
        "zstd": "NONE, base 15",
        "log": "NONE, 0-2 as sent 3-5 as sent 6-8 as sent 9-11 as sent 12-14 as sent 15-17 as sent, HW 18",
    },
)
def p01(world: World) -> Facts:
    topic = world.topic()
    facts = {"first": told(world.produce(topic, 3)), "second": told(world.produce(topic, 3))}
    for name, codec in {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}.items():
        facts[name] = told(world.produce(topic, batch(records(3, 100), timestamp=now_ms(), codec=codec)))
    return {**facts, "log": world.tell(topic, world.fetch(topic, 0)[0])}


@scenario("P02", "acks 2", {"answer": "INVALID_REQUIRED_ACKS(21), base -1", "log": "NONE, empty, HW 0"})
def p02(world: World) -> Facts:
    topic = world.topic()
    return {"answer": told(world.produce(topic, 1, acks=2)), "log": world.tell(topic, world.fetch(topic, 0)[0])}


@scenario(
    "P03",
    "acks 0 to a partition, then acks 0 to one that does not exist, on the same connection",
    {"to a partition": "no answer", "appended": "yes", "to none": "closed"},
)
def p03(world: World) -> Facts:
    topic = world.topic()
    payload = batch(records(1), timestamp=now_ms())
    facts: Facts = {}
    with world.connect() as peer:
        peer.send("produce", PRODUCE, produce_body({topic: {0: payload}}, acks=0))
        facts["to a partition"] = "no answer" if peer.silent(0.5) else "an answer"
        world.wait(lambda: world.fetch(topic, 0)[0].high_watermark == 1, "the record")
        facts["appended"] = "yes"
        peer.send("produce", PRODUCE, produce_body({topic: {9: payload}}, acks=0))
        facts["to none"] = fate(peer)
    return facts


@scenario(
    "P04",
    "one byte of the payload changed under its checksum",
    {"answer": "CORRUPT_MESSAGE(2), base -1", "log": "NONE, empty, HW 0"},
)
def p04(world: World) -> Facts:
    topic = world.topic()
    payload = bytearray(batch(records(3, 100), timestamp=now_ms()))
    payload[100] ^= 1
    got = world.produce(topic, bytes(payload))
    return {"answer": told(got), "log": world.tell(topic, world.fetch(topic, 0)[0])}


@scenario(
    "P05",
    "no records; two batches; magic 1; magic 3; a batch longer than the data; trailing bytes",
    {
        "no records": "INVALID_RECORD(87), base -1",
        "two batches": "INVALID_RECORD(87), base -1",
        "magic 1": "INVALID_RECORD(87), base -1",
        "magic 3": "CORRUPT_MESSAGE(2), base -1",
        "cut short": "INVALID_RECORD(87), base -1",
        "trailing bytes": "NONE, base 0",
        "log": "NONE, 0-0, HW 1",
    },
)
def p05(world: World) -> Facts:
    topic = world.topic()
    good = batch(records(1), timestamp=now_ms())
    asked = {
        "no records": b"",
        "two batches": good + good,
        "magic 1": batch(records(1), timestamp=now_ms(), magic=1),
        "magic 3": batch(records(1), timestamp=now_ms(), magic=3),
        "cut short": good[:-1],
        "trailing bytes": good + b"\0" * 11,
    }
    facts = {name: told(world.produce(topic, payload)) for name, payload in asked.items()}
    got, _ = world.fetch(topic, 0)
    log = " ".join(f"{each.base_offset}-{each.last_offset}" for each in got.batches)
    return {**facts, "log": f"{got.code}, {log}, HW {got.high_watermark}"}


@scenario(
    "P06",
    "base offset 7; a count that is not the last delta + 1; count 0; the control bit; a producer id with sequence -1",
    {
        "base offset 7": "INVALID_RECORD(87), base -1",
        "count 5 of 3": "INVALID_RECORD(87), base -1",
        "last delta 5 of 3": "INVALID_RECORD(87), base -1",
        "count 0": "INVALID_RECORD(87), base -1",
        "control": "INVALID_RECORD(87), base -1",
        "negative sequence": "INVALID_RECORD(87), base -1",
        "log": "NONE, empty, HW 0",
    },
)
def p06(world: World) -> Facts:
    topic, now = world.topic(), now_ms()
    asked = {
        "base offset 7": batch(records(3), timestamp=now, base_offset=7),
        "count 5 of 3": batch(records(3), timestamp=now, count=5),
        "last delta 5 of 3": batch(records(3), timestamp=now, last_offset_delta=5),
        "count 0": batch([], timestamp=now, last_offset_delta=-1),
        "control": batch(records(3), timestamp=now, attributes=CONTROL),
        "negative sequence": batch(records(3), timestamp=now, producer_id=5, producer_epoch=0, sequence=-1),
    }
    facts = {name: told(world.produce(topic, payload)) for name, payload in asked.items()}
    return {**facts, "log": world.tell(topic, world.fetch(topic, 0)[0])}


@scenario(
    "P06b",
    "inside the records: offset deltas 0, 2, 1, plain and zstd; garbage as gzip, snappy, lz4, zstd; codecs 5 and 7",
    {
        "plain deltas": "NONE, base 0",
        "stored deltas": "0 2 1",
        "zstd deltas": "UNKNOWN_SERVER_ERROR(-1), base -1",
        "garbage gzip": "UNKNOWN_SERVER_ERROR(-1), base -1",
        "garbage snappy": "UNKNOWN_SERVER_ERROR(-1), base -1",
        "garbage lz4": "UNKNOWN_SERVER_ERROR(-1), base -1",
        "garbage zstd": "UNKNOWN_SERVER_ERROR(-1), base -1",
        "codec 5": "UNKNOWN_SERVER_ERROR(-1), base -1",
        "codec 7": "UNKNOWN_SERVER_ERROR(-1), base -1",
        "HW": "3",
    },
)
def p06b(world: World) -> Facts:
    topic, now = world.topic(), now_ms()
    strange = [Record(offset_delta=delta) for delta in (0, 2, 1)]
    facts = {"plain deltas": told(world.produce(topic, batch(strange, timestamp=now)))}
    stored = world.fetch(topic, 0)[0].batches[0].records()
    facts["stored deltas"] = " ".join(str(each.offset_delta) for each in stored)
    facts["zstd deltas"] = told(world.produce(topic, batch(strange, timestamp=now, codec=ZSTD)))
    for name, codec in {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}.items():
        # The records are written plainly and only said to be compressed.
        payload = batch(records(3, 50), timestamp=now, attributes=codec)
        facts[f"garbage {name}"] = told(world.produce(topic, payload))
    for codec in (5, 7):
        facts[f"codec {codec}"] = told(world.produce(topic, batch(records(3, 50), timestamp=now, attributes=codec)))
    return {**facts, "HW": str(world.fetch(topic, 0)[0].high_watermark)}


@scenario(
    "P06c",
    "counts 3 but holds 2 records, or 4, plain and zstd; plain garbage; a largest timestamp that no record has",
    {
        **{f"{name}, {held} of 3": "INVALID_RECORD(87), base -1" for name in ("plain", "zstd") for held in (2, 4)},
        "record too long": "INVALID_RECORD(87), base -1",
        "largest timestamp low": "NONE, base 0, stored +10",
        "largest timestamp high": "NONE, base 1, stored +10",
        "largest timestamp none": "NONE, base 2, stored +10",
    },
)
def p06c(world: World) -> Facts:
    topic, now = world.topic(), now_ms()
    facts: Facts = {}
    for name, codec in {"plain": 0, "zstd": ZSTD}.items():
        for held in (2, 4):
            payload = batch(records(held, 50), timestamp=now, count=3, last_offset_delta=2, codec=codec)
            facts[f"{name}, {held} of 3"] = told(world.produce(topic, payload))
    garbage = [Record(value=b"v", timestamp_delta=1)]
    broken = bytearray(batch(garbage, timestamp=now))
    broken[61] = 0x7E  # the record's length says 63
    broken[17:21] = crc32c.crc32c(bytes(broken[21:])).to_bytes(4, "big")
    facts["record too long"] = told(world.produce(topic, bytes(broken)))
    for name, largest in {"low": now - 1000, "high": now + 1000, "none": -1}.items():
        got = world.produce(topic, batch([Record(timestamp_delta=10)], timestamp=now, max_timestamp=largest))
        stored = world.fetch(topic, max(got.base_offset, 0))[0].batches[0].max_timestamp
        facts[f"largest timestamp {name}"] = f"{told(got)}, stored {stored - now:+}"
    return facts


@scenario(
    "P07",
    "max.message.bytes 1000: a batch of 1000 bytes, one of 1001",
    {"1000": "NONE, base 0", "1001": "MESSAGE_TOO_LARGE(10), base -1", "HW": "1"},
)
def p07(world: World) -> Facts:
    topic = world.topic(max_message_bytes="1000")
    facts: Facts = {}
    for size in (1000, 1001):
        rest = size - len(batch(records(1, 900), timestamp=now_ms()))
        payload = batch(records(1, 900 + rest), timestamp=now_ms())
        assert len(payload) == size
        facts[str(size)] = told(world.produce(topic, payload))
    return {**facts, "HW": str(world.fetch(topic, 0)[0].high_watermark)}


@scenario(
    "P08",
    "timestamp two hours ahead; 30 minutes ahead; 3 records of which the second is two hours ahead",
    {
        "2 h": "INVALID_TIMESTAMP(32), base -1, records [0]",
        "30 min": "NONE, base 0",
        "second of 3": "INVALID_TIMESTAMP(32), base -1, records [1]",
        "HW": "1",
    },
)
def p08(world: World) -> Facts:
    topic, now = world.topic(), now_ms()
    mixed = [Record(), Record(timestamp_delta=2 * HOUR_MS), Record()]
    asked = {
        "2 h": batch(records(1), timestamp=now + 2 * HOUR_MS),
        "30 min": batch(records(1), timestamp=now + HOUR_MS // 2),
        "second of 3": batch(mixed, timestamp=now),
    }
    facts = {name: told(world.produce(topic, payload)) for name, payload in asked.items()}
    return {**facts, "HW": str(world.fetch(topic, 0)[0].high_watermark)}


@scenario(
    "P09",
    "a LogAppendTime topic: a record with timestamp 1; then a batch that says LogAppendTime itself",
    {
        "answer": "NONE, base 0",
        "append time": "now",
        "attribute": "set",
        "max timestamp": "the append time",
        "base timestamp": "1",
        "crc": "valid",
        "flagged by the client": "INVALID_TIMESTAMP(32), base -1, records [0]",
    },
)
def p09(world: World) -> Facts:
    topic = world.topic(message_timestamp_type="LogAppendTime")
    got = world.produce(topic, batch(records(1), timestamp=1))
    stored = world.fetch(topic, 0)[0].batches[0]
    flagged = batch(records(1), timestamp=now_ms(), attributes=LOG_APPEND_TIME)
    return {
        "answer": told(got),
        "append time": "now" if abs(got.append_time - now_ms()) < 2000 else str(got.append_time),
        "attribute": "set" if stored.attributes & LOG_APPEND_TIME else "not set",
        "max timestamp": "the append time" if stored.max_timestamp == got.append_time else str(stored.max_timestamp),
        "base timestamp": str(stored.base_timestamp),
        "crc": "valid" if stored.crc_valid else "wrong",
        "flagged by the client": told(world.produce(topic, flagged)),
    }


@scenario(
    "P09b",
    "a CreateTime topic: a record with timestamp 1; a batch that says LogAppendTime itself",
    {
        "answer": "NONE, base 0",
        "append time": "-1",
        "flagged by the client": "NONE, base 1",
        "stored": "not flagged",
        "crc": "valid",
    },
)
def p09b(world: World) -> Facts:
    topic = world.topic(retention_ms="-1")
    got = world.produce(topic, batch(records(1), timestamp=1))
    flagged = batch(records(1), timestamp=now_ms(), attributes=LOG_APPEND_TIME)
    again = world.produce(topic, flagged)
    stored = world.fetch(topic, again.base_offset)[0].batches[-1]
    return {
        "answer": told(got),
        "append time": str(got.append_time),
        "flagged by the client": told(again),
        "stored": "flagged" if stored.attributes & LOG_APPEND_TIME else "not flagged",
        "crc": "valid" if stored.crc_valid else "wrong",
    }


@scenario(
    "P10",
    "a compacted topic: one record without key among three, plain and gzip",
    {
        "plain": "INVALID_RECORD(87), base -1, records [1]",
        "gzip": "INVALID_RECORD(87), base -1, records [1]",
        "log": "NONE, empty, HW 0",
    },
)
def p10(world: World) -> Facts:
    topic = world.topic(cleanup_policy="compact")
    mixed = [Record(key=b"a"), Record(), Record(key=b"b")]
    plain = world.produce(topic, batch(mixed, timestamp=now_ms()))
    packed = world.produce(topic, batch(mixed, timestamp=now_ms(), codec=GZIP))
    return {"plain": told(plain), "gzip": told(packed), "log": world.tell(topic, world.fetch(topic, 0)[0])}


@scenario(
    "P11",
    "one request with acks -1: p0 and an unknown p9",
    {"p0": "NONE, base 0", "p9": "UNKNOWN_TOPIC_OR_PARTITION(3), base -1"},
)
def p11(world: World) -> Facts:
    topic, payload = world.topic(), batch(records(1), timestamp=now_ms())
    got = produced(world.call("produce", PRODUCE, produce_body({topic: {0: payload, 9: payload}}, acks=-1)))
    return {"p0": told(got[topic, 0]), "p9": told(got[topic, 9])}


@scenario(
    "P12",
    "produce to __consumer_offsets: before it exists; once it exists, as any client",
    {"before": "UNKNOWN_TOPIC_OR_PARTITION(3), base -1", "any client": "INVALID_TOPIC_EXCEPTION(17), base -1"},
)
def p12(world: World) -> Facts:
    name = "__consumer_offsets"
    body = produce_body({name: {0: batch([Record(key=b"k")], timestamp=now_ms())}})
    facts = {"before": "UNKNOWN_TOPIC_OR_PARTITION(3), base -1"}
    if error(world.metadata(name).error_code) != "NONE":  # a second go finds it made by the first
        facts["before"] = told(produced(world.call("produce", PRODUCE, body))[name, 0])
        coordinator(world, "P12")  # made as it is for groups: with one partition, groups would have no coordinator
    return {**facts, "any client": told(produced(world.call("produce", PRODUCE, body))[name, 0])}


@scenario(
    "P13",
    "min.insync.replicas 2 on one replica: acks -1",
    {"answer": "NONE, base 0", "log": "NONE, 0-0 as sent, HW 1"},
)
def p13(world: World) -> Facts:
    topic = world.topic(min_insync_replicas="2")
    return {"answer": told(world.produce(topic, 1, acks=-1)), "log": world.tell(topic, world.fetch(topic, 0)[0])}
