"""What lies within the bytes of a request is extreme, too, and is answered: batches, and what groups tell each other.

The generator is held to what it has to reach; what it makes is appended, read and looked up in this process, and goes
through a group as its members' own, in both dialects.
"""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import Any

import pytest

from barnabas.protocol.api import ApiKey
from barnabas.protocol.batch import COMPRESSION_MASK, crc_ok, read_header
from barnabas.protocol.errors import ErrorCode, ProtocolError
from barnabas.protocol.kafka import codec as kafka
from barnabas.protocol.kafka.consumer_protocol import ASSIGNMENT, SUBSCRIPTION, decode_assignment, decode_subscription
from barnabas.protocol.kafka.data import Data
from barnabas.protocol.limits import MANY
from barnabas.protocol.native import codec as native
from barnabas.protocol.requests.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.requests.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.requests.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.requests.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.requests.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.requests.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.node.world import START_WALL_MS, World
from tests.hostile.extremes import TOPICS, extreme, inner_maker
from tests.hostile.inner import BOMBS, LIED, NUMBERS, RECORD, batch, of_width, said
from tests.hostile.test_extremes import prepare

DIALECTS = {"kafka": kafka, "native": native}
AS_IN_KAFKA = re.compile(r"codec \d is unknown|compressed records sent to [a-z]+-0 (have wrong offsets|are broken)")
"""What Kafka has no error for; an exception that nobody expected has another text."""
BATCHES = 300
SAID = 80
NATIVE_BYTES = 2**21
"""Of a request's head in the native dialect."""
RECORD_BYTES = 1_040_000
"""What members say, beside it a group's record is small: a batch of the log of groups has 1 MiB and a little."""


def ask(world: World, dialect: Any, key: int, version: int, request: Any) -> Any:
    """Send a request as bytes of a dialect; the answer, which must come and can be written."""
    data = b"".join(bytes(one) for one in dialect.encode_request(key, version, 1, "c", request))
    header, decoded = dialect.decode_request(memoryview(bytearray(data))[4:])
    answer = world.send(decoded, header.api_version)
    world.settle()
    world.advance(60)
    assert answer.response is not None, answer.closed
    assert dialect.encode_response(key, version, 1, answer.response)
    return answer.response


def test_the_generator_lies_in_every_field_of_batches_and_records() -> None:
    random = Random(1)
    made = [batch(random) for _ in range(3000)]
    lied = Counter(name for _, names in made for name in names)
    assert set(lied) == {*LIED, *(f"record.{name}" for name in RECORD), "bomb", "parts"}
    assert sum(not names for _, names in made) > 100, "some are honest"
    assert all(crc_ok(data, 0, len(data)) for data, names in made if "magic" not in names)
    headers = [read_header(data) for data, _ in made]
    assert {one.record_count for one in headers} >= {*of_width("i"), *BOMBS}
    assert {one.last_offset_delta for one in headers} >= set(of_width("i"))
    assert {one.attributes & COMPRESSION_MASK for one in headers} == set(range(8))


@pytest.mark.parametrize("kind", [SUBSCRIPTION, ASSIGNMENT], ids=lambda kind: kind.name)
def test_the_generator_reaches_the_limits_of_what_groups_tell_each_other(kind: Data) -> None:
    random = Random(2)
    elements, versions, refused = set(), set(), 0
    for _ in range(SAID):
        data = said(random, kind, inner_maker(random))
        versions.add(int.from_bytes(data[:2], "big", signed=True))
        try:
            told: Any = (decode_subscription if kind is SUBSCRIPTION else decode_assignment)(data)
        except ProtocolError:
            refused += 1
            continue
        arrays = [told.topics, told.owned_partitions] if kind is SUBSCRIPTION else [told.assigned_partitions]
        elements |= {len(one) for one in arrays} | {len(part.partitions) for part in arrays[-1]}
    assert versions >= set(range(kind.first, kind.last + 1))
    assert versions & {number for number in NUMBERS if number < 0}, "refused"
    assert versions & {number for number in NUMBERS if number > kind.last}, "read as the last"
    assert max(elements) >= MANY - 10, "with the few others as many as are read"
    assert 10 < refused < SAID - 10


def test_requests_carry_them_and_name_many_different_topics() -> None:
    random = Random(3)
    names, patterns, metadata = 0, set(), set()
    keys = (ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT)
    for _ in range(60):
        one = extreme(random, keys)
        try:
            _, request = DIALECTS[one.dialect].decode_request(memoryview(one.frame)[4:])
        except ProtocolError:
            continue
        if isinstance(request, JoinGroupRequest):
            metadata |= {bytes(each.metadata) for each in request.protocols}
        else:
            names = max(names, len(set(request.subscribed_topic_names or ())))
            patterns.add(request.subscribed_topic_regex)
    assert names > 6_000, "a third of what is allowed"
    assert len(patterns) > 3
    assert len(metadata) > 20


@pytest.mark.parametrize("topic", TOPICS)
def test_every_batch_is_appended_or_refused_and_what_was_appended_is_read(topic: str) -> None:
    """Each is named with its error; none stops the broker, and those after it are appended."""
    random = Random(4)
    world = World(num_partitions=1)
    prepare(world)
    ended: Counter[int] = Counter()
    for number in range(BATCHES):
        made, _ = batch(random)
        data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, memoryview(made))])]
        dialect = DIALECTS["native" if number % 3 == 0 else "kafka"]
        told = ask(world, dialect, ApiKey.PRODUCE, 9, ProduceRequest(None, 1, 100, data))
        (part,) = told.responses[0].partition_responses
        if part.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
            assert part.error_message is not None
            assert AS_IN_KAFKA.search(part.error_message), part.error_message
        ended[part.error_code] += 1
    assert ended[ErrorCode.NONE] > 10
    assert ended.keys() >= {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}
    for timestamp in (-1, -2, -3, 0, START_WALL_MS, 2**63 - 1):
        parts = [ListOffsetsPartition(0, -1, timestamp)]
        asked = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, parts)])
        (part,) = ask(world, kafka, ApiKey.LIST_OFFSETS, 7, asked).topics[0].partitions
        assert part.error_code != ErrorCode.UNKNOWN_SERVER_ERROR
    fetch = FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic, partitions=[FetchPartition(0)])])
    (part,) = ask(world, kafka, ApiKey.FETCH, 11, fetch).responses[0].partitions
    assert part.error_code == 0
    assert not world.core.jobs.snapshot()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_group_bears_whatever_its_members_say(dialect: str) -> None:
    """They join, their leader assigns, and a consumer of the new protocol comes, who has all of it read."""
    random = Random(5)
    world = World(num_partitions=1, group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=1)
    prepare(world)
    ask(world, kafka, ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest("", 0, ["g"]))
    world.advance(60_000)
    codec = DIALECTS[dialect]
    ended: Counter[int] = Counter()
    for number in range(25):
        group = f"g{number}"
        said_of_it = said(random, SUBSCRIPTION, inner_maker(random))
        join = JoinGroupRequest(
            group, 10_000, 10_000, "", "i", "consumer", [JoinGroupRequestProtocol("range", said_of_it)]
        )
        try:
            joined = ask(world, codec, ApiKey.JOIN_GROUP, 9, join)
        except ProtocolError:
            assert len(said_of_it) > NATIVE_BYTES // 2
            continue
        assert joined.error_code == 0
        assigned = [SyncGroupRequestAssignment(joined.member_id, said(random, ASSIGNMENT, inner_maker(random)))]
        sync = SyncGroupRequest(group, joined.generation_id, joined.member_id, "i", "consumer", "range", assigned)
        code = ask(world, codec, ApiKey.SYNC_GROUP, 5, sync).error_code
        size = len(said_of_it) + len(assigned[0].assignment)
        assert code == (0 if size < RECORD_BYTES else ErrorCode.UNKNOWN_SERVER_ERROR), "Kafka's, where it does not fit"
        beat = ConsumerGroupHeartbeatRequest(
            group, "new", 0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
        )
        ended[ask(world, codec, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, beat).error_code] += 1
    assert ErrorCode.UNKNOWN_SERVER_ERROR not in ended
    assert ended[ErrorCode.NONE] > 0
    assert len(ended) > 1, "what cannot be read is refused"
