"""P30 to P40: what a Produce answer says beside its error, empty requests, ids, and the same partition twice."""

from typing import Any
from uuid import UUID

import crc32c

from tests.conformance.batches import CONTROL, GZIP, HEADER_BYTES, SNAPPY, ZSTD, Record, batch, varint
from tests.conformance.raw import Closed
from tests.conformance.recordings import explained, recorded
from tests.conformance.scenario import Facts, scenario
from tests.conformance.whole import answers
from tests.conformance.world import PRODUCE, World, error, now_ms, produce_body, records

STRANGE, NOBODY = UUID(int=4711), UUID(int=0)


def parts_told(world: World, version: int, body: dict[str, Any], names: dict[Any, str]) -> str:
    """A Produce answer, by topics and partitions, which Apache Kafka tells in no order."""
    told = [
        (len(each.partition_responses), names.get(getattr(each, "topic_id", None) or getattr(each, "name", None)), one)
        for each in world.call("produce", version, body).body.responses
        for one in each.partition_responses
    ]
    lines = [
        f"{name} of {size}: {one.index} {error(one.error_code)}, base {one.base_offset}, start {one.log_start_offset}"
        for size, name, one in told
    ]
    return "; ".join(sorted(lines)) or "nothing"


def cut_to(world: World, topic: str, offset: int) -> None:
    """DeleteRecords up to an offset."""
    part = {"partition_index": 0, "offset": offset}
    body = {"topics": [{"name": topic, "partitions": [part]}], "timeout": 5000}
    answer = world.call("delete_records", 2, body).body.topics[0].partitions[0]
    assert error(answer.error_code) == "NONE"


def bad_batches() -> dict[str, bytes]:
    """Batches that are refused, each for another reason."""
    now = now_ms()
    flipped = bytearray(batch(records(1, 100), timestamp=now))
    flipped[100] ^= 1
    return {
        "good": batch(records(1), timestamp=now),
        "corrupt": bytes(flipped),
        "base offset 7": batch(records(1), timestamp=now, base_offset=7),
        "two batches": batch(records(1), timestamp=now) * 2,
        "empty": b"",
        "cut short": batch(records(1), timestamp=now)[:-1],
        "magic 1": batch(records(1), timestamp=now, magic=1),
        "magic 3": batch(records(1), timestamp=now, magic=3),
        "control": batch(records(1), timestamp=now, attributes=CONTROL),
        "count 5": batch(records(1), timestamp=now, count=5),
        "count 2 of 1": batch(records(1, 90), timestamp=now, count=2, last_offset_delta=1),
        "garbage as gzip": batch(records(1), timestamp=now, attributes=GZIP),
        "codec 7": batch(records(1), timestamp=now, attributes=7),
        "too large": batch(records(1, 3000), timestamp=now),
        "two hours ahead": batch(records(1), timestamp=now + 7_200_000),
        "unknown producer's sequence 5": batch(
            records(1), timestamp=now, producer_id=4711, producer_epoch=0, sequence=5
        ),
        "then sequence 9": batch(records(1), timestamp=now, producer_id=4711, producer_epoch=0, sequence=9),
        "then epoch -1": batch(records(1), timestamp=now, producer_id=4711, producer_epoch=-1, sequence=6),
    }


@scenario(
    "P30",
    "Produce v9 to a log that starts at 2: offsets, times and log start beside each error",
    recorded("P30"),
    differs=explained(
        "P30", "corrupt", "base", "two b", "cut", "magic 1", "control", "count", "garbage", "codec", "too large", "then"
    ),
    note="the codes are the same; ours says what is wrong with the batch",
)
def p30(world: World) -> Facts:
    topic = world.topic(max_message_bytes="2000")
    world.produce(topic, 3)
    cut_to(world, topic, 2)
    bodies = {name: produce_body({topic: {0: data}}) for name, data in bad_batches().items()}
    bodies["unknown partition"] = produce_body({topic: {7: batch(records(1), timestamp=now_ms())}})
    bodies["negative partition"] = produce_body({topic: {-1: batch(records(1), timestamp=now_ms())}})
    return answers(world, "produce", (9,), bodies, {topic: "T"})


@scenario(
    "P31", "the same to a compacted topic with LogAppendTime: times and records beside each error", recorded("P31")
)
def p31(world: World) -> Facts:
    topic = world.topic(message_timestamp_type="LogAppendTime", cleanup_policy="compact")
    now = now_ms()
    bodies = {
        "no key": batch([Record(key=b"a"), Record(), Record()], timestamp=now),
        "no key, gzip": batch([Record(), Record(key=b"a"), Record()], timestamp=now, codec=GZIP),
        "flagged": batch([Record(key=b"a")], timestamp=now, attributes=8),
        "old": batch([Record(key=b"a")], timestamp=1),
    }
    facts: Facts = {}
    for name, data in bodies.items():
        part = world.call("produce", 9, produce_body({topic: {0: data}})).body.responses[0].partition_responses[0]
        stamp = "none" if part.log_append_time is None else "a time"
        told = [(one.batch_index, bool(one.batch_index_error_message)) for one in part.record_errors]
        facts[name] = (
            f"{error(part.error_code)}, base {part.base_offset}, time {stamp}, start {part.log_start_offset}, "
            f"records {told}, {'a text' if part.error_message else part.error_message}"
        )
    return facts


@scenario(
    "P32",
    "Produce v3, v7, v8, v12 with a record without key to a compacted topic, and corrupt",
    recorded("P32"),
    differs=explained("P32", "corrupt, v8", "corrupt, v12"),
    note="the codes are the same; ours says what is wrong with the batch",
)
def p32(world: World) -> Facts:
    topic = world.topic(cleanup_policy="compact")
    flipped = bytearray(batch([Record(key=b"k", value=b"v" * 100)], timestamp=now_ms()))
    flipped[100] ^= 1
    bodies = {
        "no key": produce_body({topic: {0: batch(records(2), timestamp=now_ms())}}),
        "corrupt": produce_body({topic: {0: bytes(flipped)}}),
    }
    return answers(world, "produce", (3, 7, 8, 12), bodies, {topic: "T"})


@scenario(
    "P33",
    "Produce without topics, with a topic without partitions, with null records; acks -2 and 2; timeouts of 0 and -1",
    recorded("P33"),
)
def p33(world: World) -> Facts:
    topic = world.topic()
    data = batch(records(1), timestamp=now_ms())
    bodies = {
        "no topics": produce_body({}),
        "no topics, acks -1": produce_body({}, acks=-1),
        "no partitions": produce_body({topic: {}}),
        "no partitions of the unknown": produce_body({"missing": {}}),
        "acks 2": produce_body({topic: {0: data}}, acks=2),
        "acks -2": produce_body({topic: {0: data}}, acks=-2),
        "acks 2, no topics": produce_body({}, acks=2),
        "acks 2, unknown": produce_body({topic: {9: data}}, acks=2),
        "timeout 0": produce_body({topic: {0: data}}, acks=-1, timeout=0),
        "timeout -1": produce_body({topic: {0: data}}, acks=-1, timeout=-1),
    }
    return answers(world, "produce", (9,), bodies, {topic: "T"})


@scenario(
    "P34",
    "Produce v13 by topic ids: right, strange, zero, of a deleted topic; both of two; the same twice",
    recorded("P34"),
)
def p34(world: World) -> Facts:
    topic, gone = world.topic(2), world.topic()
    known, old = world.metadata(topic).topic_id, world.metadata(gone).topic_id
    world.delete(gone)
    world.wait(lambda: error(world.metadata(gone).error_code) != "NONE", "the end of the topic")

    def body(*ids: Any, parts: tuple[int, ...] = (0,), acks: int = 1) -> dict[str, Any]:
        data = [{"index": index, "records": batch(records(1), timestamp=now_ms())} for index in parts]
        return {
            "acks": acks,
            "timeout": 5000,
            "topic_data": [{"topic_id": each, "partition_data": data} for each in ids],
        }

    bodies = {
        "right": body(known),
        "strange": body(STRANGE),
        "strange, two partitions": body(STRANGE, parts=(0, 1)),
        "zero": body(NOBODY),
        "deleted": body(old),
        "strange and right": body(STRANGE, known),
        "two strange": body(STRANGE, UUID(int=9)),
        "right, unknown partition": body(known, parts=(0, 7)),
        "partition twice": body(known, parts=(1, 1)),
        "id twice": body(known, known, parts=(1,)),
        "strange, acks -1": body(STRANGE, acks=-1),
    }
    names = {known: "T", STRANGE: "strange", UUID(int=9): "another", old: "deleted", None: "zero"}
    return {name: parts_told(world, 13, body, names) for name, body in bodies.items()}


@scenario("P35", "Produce v9 of a partition twice, in one topic and in two; what of it is stored", recorded("P35"))
def p35(world: World) -> Facts:
    topic = world.topic(2)

    def part(index: int, value: bytes) -> dict[str, Any]:
        return {"index": index, "records": batch([Record(value=value)], timestamp=now_ms())}

    def body(*topics: list[dict[str, Any]], acks: int = 1) -> dict[str, Any]:
        data = [{"name": topic, "partition_data": parts} for parts in topics]
        return {"acks": acks, "timeout": 5000, "topic_data": data}

    bodies = {
        "in one": body([part(0, b"a"), part(0, b"b")]),
        "in two": body([part(0, b"c")], [part(0, b"d")]),
        "others in two": body([part(0, b"e")], [part(1, b"f")]),
        "in one, acks -1": body([part(0, b"g"), part(0, b"h")], acks=-1),
    }
    facts = {name: parts_told(world, 9, body, {topic: "T"}) for name, body in bodies.items()}
    stored = [each for one in world.fetch(topic, 0)[0].batches for each in one.records()]
    facts["stored"] = b" ".join(each.value or b"" for each in stored).decode()
    return facts


@scenario(
    "P36",
    "Produce by another codec than the topic's: what is stored for producer, gzip and uncompressed",
    recorded("P36"),
)
def p36(world: World) -> Facts:
    facts: Facts = {}
    for kind in ("producer", "gzip", "uncompressed"):
        topic = world.topic(compression_type=kind)
        for name, codec in {"plain": 0, "gzip": GZIP, "snappy": SNAPPY, "zstd": ZSTD}.items():
            got = world.produce(topic, batch(records(3, 100), timestamp=now_ms(), codec=codec))
            stored = world.fetch(topic, got.base_offset)[0].batches
            found = stored[0].attributes & 7 if stored else None
            facts[f"{kind}, {name}"] = f"{got.code}, base {got.base_offset}, stored codec {found}"
    topic = world.topic()
    for version in (3, 6, 7):
        reply = world.call(
            "produce", version, produce_body({topic: {0: batch(records(3, 100), timestamp=now_ms(), codec=ZSTD)}})
        )
        facts[f"zstd, v{version}"] = error(reply.body.responses[0].partition_responses[0].error_code)
    return facts


@scenario(
    "P37",
    "a duplicate: offsets, times and log start of its answer, also once the log starts beyond it",
    recorded("P37"),
)
def p37(world: World) -> Facts:
    topic, producer = world.topic(message_timestamp_type="LogAppendTime"), world.producer_id()

    def send(sequence: int, count: int = 1) -> str:
        data = batch(records(count), timestamp=1, producer_id=producer, producer_epoch=0, sequence=sequence)
        part = world.call("produce", 9, produce_body({topic: {0: data}})).body.responses[0].partition_responses[0]
        stamp = "none" if part.log_append_time is None else "a time"
        return f"{error(part.error_code)}, base {part.base_offset}, time {stamp}, start {part.log_start_offset}"

    facts = {"first": send(0, 2), "second": send(2), "second again": send(2), "first again": send(0, 2)}
    facts["a part of the first"] = send(0, 1)
    facts["across both"] = send(1, 2)
    cut_to(world, topic, 3)
    return {**facts, "first again, deleted": send(0, 2), "third": send(3)}


@scenario(
    "P38", "InitProducerId without a transactional id: ids, epochs and timeouts given; v0 and v5", recorded("P38")
)
def p38(world: World) -> Facts:
    assert world.producer_id() >= 0
    facts: Facts = {}
    for name, (producer, epoch, timeout) in {
        "none": (-1, -1, 60000),
        "timeout 0": (-1, -1, 0),
        "timeout -1": (-1, -1, -1),
        "timeout too long": (-1, -1, 2**31 - 1),
        "an id": (5, -1, 60000),
        "an epoch": (-1, 3, 60000),
        "both": (5, 3, 60000),
    }.items():
        body = {
            "transactional_id": None,
            "transaction_timeout": timeout,
            "producer_id": producer,
            "producer_epoch": epoch,
        }
        for version in (2, 5):
            answer = world.call(
                "init_producer_id",
                version,
                body if version > 2 else {key: body[key] for key in ("transactional_id", "transaction_timeout")},
            ).body
            given = "an id" if answer.producer_id >= 0 else str(answer.producer_id)
            facts[f"{name}, v{version}"] = f"{error(answer.error_code)}, {given}, epoch {answer.producer_epoch}"
    return facts


@scenario(
    "P39",
    "acks 0: an unknown topic, a corrupt batch, acks 0 without topics: what becomes of the connection",
    recorded("P39"),
)
def p39(world: World) -> Facts:
    topic = world.topic()
    flipped = bytearray(batch(records(1, 100), timestamp=now_ms()))
    flipped[100] ^= 1
    facts: Facts = {}
    for name, body in {
        "unknown topic": produce_body({world.fresh(): {0: batch(records(1), timestamp=now_ms())}}, acks=0),
        "corrupt": produce_body({topic: {0: bytes(flipped)}}, acks=0),
        "one of two": produce_body({topic: {0: batch(records(1), timestamp=now_ms()), 9: b""}}, acks=0),
        "good": produce_body({topic: {0: batch(records(1), timestamp=now_ms())}}, acks=0),
    }.items():
        with world.connect() as peer:
            peer.send("produce", PRODUCE, body)
            try:
                reply = peer.call("metadata", 9, {"topics": []})
                facts[name] = "goes on" if reply.body.brokers else "goes on, oddly"
            except (Closed, AssertionError, KeyError) as fault:
                facts[name] = "closed" if isinstance(fault, Closed) else "answered"
    facts["offsets"] = world.list_offset(topic, -1)
    return facts


def raw_batch(*bodies: bytes) -> bytes:
    """A batch of records made byte by byte: each is what follows a record's length."""
    whole = bytearray(batch(records(len(bodies)), timestamp=now_ms())[:HEADER_BYTES])
    for body in bodies:
        whole += varint(len(body)) + body
    whole[8:12] = (len(whole) - 12).to_bytes(4, "big")
    whole[17:21] = crc32c.crc32c(bytes(whole[21:])).to_bytes(4, "big")
    return bytes(whole)


@scenario(
    "P40",
    "records made byte by byte: names of headers that are null or not UTF-8, counts and lengths that are wrong",
    recorded("P40"),
    differs=dict.fromkeys(("value of -2", "key of -2"), "INVALID_RECORD(87)"),
    note="only a length of -1 stands for null; Apache Kafka takes any below 0 for it",
)
def p40(world: World) -> Facts:
    start = b"\0\0\0\1" + varint(1) + b"v"  # attributes, both deltas, no key, a value of one byte
    name = varint(1) + b"h"
    asked = {
        "plain": (start + varint(0),),
        "a header": (start + varint(1) + name + varint(1) + b"x",),
        "a header without a value": (start + varint(1) + name + varint(-1),),
        "a header without a name": (start + varint(1) + varint(-1) + varint(1) + b"x",),
        "a header with an empty name": (start + varint(1) + varint(0) + varint(1) + b"x",),
        "a name that is not UTF-8": (start + varint(1) + varint(2) + b"\xff\xfe" + varint(1) + b"x",),
        "the same header twice": (start + varint(2) + (name + varint(1) + b"x") * 2,),
        "-1 headers": (start + varint(-1),),
        "2 headers of 1": (start + varint(2) + name + varint(1) + b"x",),
        "a million headers": (start + varint(1_000_000),),
        "bytes behind the headers": (start + varint(0) + b"zz",),
        "value of -2": (b"\0\0\0\1" + varint(-2) + varint(0),),
        "value beyond": (b"\0\0\0\1" + varint(90) + b"v" + varint(0),),
        "key of -2": (b"\0\0\0" + varint(-2) + varint(1) + b"v" + varint(0),),
        "attributes": (b"\x7f" + start[1:] + varint(0),),
        "an empty record": (b"",),
        "one byte": (b"\0",),
        "second cut": (start + varint(0), start),
    }
    topic = world.topic()
    return {name: world.produce(topic, raw_batch(*bodies)).code for name, bodies in asked.items()}
