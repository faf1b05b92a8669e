"""The native dialect: round trips, payloads by reference, growth, refusals, and the worked example of its page."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.api import REQUESTS, RESPONSES, VERSIONS, ApiKey
from barnabas.protocol.errors import EncodeError, ErrorCode, ProtocolError
from barnabas.protocol.ids import NATIVE_PREAMBLE, Buffer
from barnabas.protocol.kafka.codec import UnsupportedVersion
from barnabas.protocol.native import codec
from barnabas.protocol.requests.api_versions import ApiVersionsRequest
from barnabas.protocol.requests.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from barnabas.protocol.requests.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from barnabas.protocol.requests.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.protocol.requests.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.protocol.kafka import oracle

PAGE = Path(__file__).parents[3] / "docs" / "NATIVE.md"


def frame(head: Any, payload: bytes = b"") -> memoryview:
    packed = msgpack.packb(head)
    return memoryview(len(packed).to_bytes(4, "big") + packed + payload)


@pytest.mark.parametrize("key", list(VERSIONS))
def test_every_message_comes_back(key: int) -> None:
    version = VERSIONS[key][1]
    for seed in range(20):
        random = Random(seed)
        request = oracle.ours(oracle.generate(random, oracle.kio_class(key, version, response=False)), REQUESTS[key])
        data = b"".join(codec.encode_request(key, version, seed, "me", request))
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        header, decoded = codec.decode_request(memoryview(data)[4:])
        assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (
            key,
            version,
            seed,
            "me",
        )
        assert decoded == request
        response = oracle.ours(oracle.generate(random, oracle.kio_class(key, version, response=True)), RESPONSES[key])
        data = b"".join(codec.encode_response(key, version, seed, response))
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        assert codec.decode_response(key, version, memoryview(data)[4:]) == (seed, response)


def test_payloads_leave_by_reference_and_arrive_as_views() -> None:
    payload = memoryview(bytearray(b"payload" * 100))
    parts: list[bytes | bytearray | memoryview] = [b"one", payload]
    partitions = [PartitionData(0, records=payload), PartitionData(1, records=parts), PartitionData(2, records=b"")]
    buffers = codec.encode_response(
        1, 18, 3, FetchResponse(responses=[FetchableTopicResponse("t", partitions=partitions)])
    )
    assert [buffer is payload for buffer in buffers] == [False, True, False, True, False]
    data = bytearray(b"".join(buffers))
    decoded = codec.decode_response(1, 18, memoryview(data)[4:])[1].responses[0].partitions
    assert [bytes(partition.records) for partition in decoded] == [bytes(payload), b"one" + payload, b""]
    assert decoded[0].records.obj is data


def test_both_sides_can_grow() -> None:
    head = [3, 13, 1, None, {"topics": [{"name": "t", "colour": "red"}], "shape": [1, 2]}, "later"]
    _, request = codec.decode_request(frame(head))
    assert request.topics[0].name == "t"
    assert request.allow_auto_topic_creation is MetadataRequest().allow_auto_topic_creation
    assert codec.decode_request(frame([3, 13, 1, None, {"topics": None}]))[1].topics is None


def test_defaults_are_left_out() -> None:
    data = b"".join(codec.encode_request(3, 13, 1, None, MetadataRequest()))
    assert msgpack.unpackb(data[8:]) == [3, 13, 1, None, {}]
    request = ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, b"")])])
    assert codec.decode_request(memoryview(b"".join(codec.encode_request(0, 9, 1, None, request)))[4:])[1] == request


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (memoryview(b"\0\0"), "no head size"),
        (memoryview(b"\0\0\0\5abc"), "head announces 5 bytes, 3 are left"),
        (memoryview(b"\xff\xff\xff\xffabc"), "head announces 4294967295"),
        (memoryview(b"\0\0\0\1\xc1"), "not msgpack"),
        (memoryview(b"\0\0\0\5\xdd\xff\xff\xff\xff"), "not msgpack within bounds"),
        (memoryview(b"\0\0\0\3\x91\xd9\xff"), "not msgpack"),
        (memoryview(b"\0\0\0\2\x90\xc0"), "not msgpack"),
        (frame({}), "no array of 5"),
        (frame([1, 2, 3]), "no array of 5"),
        (frame([3.0, 13, 1, None, {}]), "three integers"),
        (frame([3, 13, 1 << 40, None, {}]), "three integers"),
        (frame([3, 13, True, None, {}]), "three integers"),
        (frame([3, 13, 1, 5, {}]), "client_id is no string"),
        (frame([3, 13, 1, "c" * 32768, {}]), "client_id has 32768 characters, at most 32767"),
        (frame([999, 0, 1, None, {}]), "API key 999 is unknown"),
        (frame([3, 13, 1, None, []]), "MetadataRequest is an array of 0, which is not a map"),
        (frame([3, 13, 1, None, [[1] * 900, [2]]]), "MetadataRequest is an array of 2, which is not a map"),
        (frame([3, 13, 1, None, {"topics": {"t": 1}}]), "MetadataRequest.topics is a map of 1, which is not an array"),
        (frame([3, 13, 1, None, {"topics": "t" * 900}]), f"topics is '{'t' * 60}', which is not an array"),
        (frame([[1] * 900, "k" * 900, 1, None, {}]), f"request header \\[an array of 900, '{'k' * 60}', 1\\] is not"),
        (frame([3, 13, 1, None, {"topics": 5}]), "MetadataRequest.topics is 5, which is not an array"),
        (frame([3, 13, 1, None, {"topics": ["t"]}]), "topics is 't', which is not a map"),
        (frame([3, 13, 1, None, {"topics": [{"name": 5}]}]), "topics.name is 5, which is not a string"),
        (frame([3, 13, 1, None, {"topics": [{"topic_id": b"x"}]}]), "topic_id is b'x', which is not a uuid"),
        (frame([3, 13, 1, None, {"allow_auto_topic_creation": 1}]), "not a boolean"),
        (frame([2, 11, 1, None, {"replica_id": 1 << 63}]), "not a signed integer"),
        (frame([2, 11, 1, None, {"replica_id": None}]), "replica_id is None"),
        (frame([3, 13, 1, None, {5: 1}]), "not msgpack"),
    ],
)
def test_nonsense_is_refused(data: memoryview, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        codec.decode_request(data)


@pytest.mark.parametrize("place", [[0, 4], [-1, 2], [2, -1], [3, 1], [0], 7, [0, "1"], [1.0, 1]])
def test_records_must_lie_within_the_payload(place: Any) -> None:
    body = {"topic_data": [{"name": "t", "partition_data": [{"records": place}]}]}
    with pytest.raises(ProtocolError, match="records is"):
        codec.decode_request(frame([0, 9, 1, None, body], b"abc"))


def test_an_unknown_version_is_told_apart() -> None:
    with pytest.raises(UnsupportedVersion) as caught:
        codec.decode_request(frame([18, 99, 7, "me", {}]))
    assert caught.value.header.correlation_id == 7
    data = b"".join(codec.encode_unsupported_api_versions(7))
    correlation_id, response = codec.decode_response(18, 0, memoryview(data)[4:])
    assert (correlation_id, response.error_code) == (7, ErrorCode.UNSUPPORTED_VERSION)
    assert [(entry.api_key, entry.min_version, entry.max_version) for entry in response.api_keys] == [(18, 0, 4)]


def test_what_msgpack_cannot_carry_is_a_fault_of_the_caller() -> None:
    with pytest.raises(EncodeError):
        codec.encode_request(18, 4, 1, None, ApiVersionsRequest(client_software_name=object()))  # type: ignore[arg-type]


@settings(max_examples=200)
@given(st.sampled_from(list(ApiKey)), st.binary(max_size=100), st.binary(max_size=20))
def test_random_bytes_are_read_or_refused(key: ApiKey, head: bytes, payload: bytes) -> None:
    for size in (len(head), 3):
        data = size.to_bytes(4, "big") + head + payload
        with suppress(ProtocolError):
            codec.decode_request(data)
        with suppress(ProtocolError):
            codec.decode_response(key, 0, data)


def test_damaged_frames_are_read_or_refused() -> None:
    random = Random(5)
    refused = 0
    for key in VERSIONS:
        version = VERSIONS[key][1]
        request = oracle.ours(oracle.generate(random, oracle.kio_class(key, version, response=False)), REQUESTS[key])
        data = b"".join(codec.encode_request(key, version, 1, "me", request))[4:]
        for _ in range(100):
            spoiled = bytearray(data)
            spoiled[random.randrange(len(spoiled))] = random.randrange(256)
            try:
                codec.decode_request(memoryview(spoiled))
            except ProtocolError:
                refused += 1
    assert refused > 100


def test_nested_array_heads_cannot_reserve_memory_beyond_bounds() -> None:
    with pytest.raises(ProtocolError, match="not msgpack"):
        codec.decode_request(memoryview(b"\0\0\x13\x88" + b"\xdc\xff\xff" * 1666 + b"\0\0"))


def test_the_page_tells_the_truth() -> None:
    """The worked example of docs/NATIVE.md, byte for byte."""
    examples = [
        bytes.fromhex("".join(re.findall(r"^    ((?:[0-9a-f]{2} ?)+)", block, re.M)))
        for block in re.findall(r"```\n(.*?)```", PAGE.read_text(), re.S)
        if block.startswith(("    42", "    00"))
    ]
    sent, answered = examples
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1500,
        topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, b"RECORDS")])],
    )
    assert sent == NATIVE_PREAMBLE + b"".join(codec.encode_request(ApiKey.PRODUCE, 9, 1, "me", request))
    assert codec.decode_request(memoryview(sent)[8:])[1] == request
    correlation_id, response = codec.decode_response(ApiKey.PRODUCE, 9, memoryview(answered)[4:])
    assert correlation_id == 1
    assert response.responses[0].partition_responses[0].base_offset == 42
    assert answered == b"".join(codec.encode_response(ApiKey.PRODUCE, 9, 1, response))


def test_the_page_lists_what_is_spoken() -> None:
    rows = re.findall(r"\| (\d+) \| \w+ \| (\d+)-(\d+)", PAGE.read_text())
    assert {int(key): (int(first), int(last)) for key, first, last in rows} == VERSIONS


@pytest.mark.parametrize("key", list(VERSIONS), ids=lambda key: ApiKey(key).name.lower())
def test_an_answer_written_in_steps_is_the_same(key: int) -> None:
    for seed in range(20):
        kio = oracle.generate(Random(seed), oracle.kio_class(key, VERSIONS[key][1], response=True))
        response = oracle.ours(kio, RESPONSES[key])
        at_once = codec.encode_response(key, VERSIONS[key][1], 7, response)
        assert b"".join(_in_steps(key, response)[0]) == b"".join(at_once)


def _in_steps(key: int, response: Any) -> tuple[list[Buffer], int]:
    """The buffers, and how many steps they took."""
    steps = codec.encode_response_in_steps(key, VERSIONS[key][1], 7, response)
    count = 0
    while True:
        try:
            next(steps)
            count += 1
        except StopIteration as end:
            buffers: list[Buffer] = end.value
            return buffers, count


@pytest.mark.parametrize(
    "topics",
    [
        [MetadataResponseTopic(0, f"t{number}") for number in range(5000)],
        [MetadataResponseTopic(0, "t", partitions=[MetadataResponsePartition(0, at) for at in range(5000)])],
    ],
    ids=["topics", "partitions of one topic"],
)
def test_an_answer_of_many_elements_takes_many_steps(topics: list[MetadataResponseTopic]) -> None:
    """In one step 20 MB of settings took 420 ms."""
    response = MetadataResponse(topics=topics)
    buffers, count = _in_steps(ApiKey.METADATA, response)
    assert b"".join(buffers) == b"".join(
        codec.encode_response(ApiKey.METADATA, VERSIONS[ApiKey.METADATA][1], 7, response)
    )
    assert count == 20


def test_an_answer_of_many_bytes_takes_many_steps() -> None:
    members = [DescribedGroupMember(member_metadata=bytes([at]) * 300_000) for at in range(30)]
    response = DescribeGroupsResponse(groups=[DescribedGroup(members=[one]) for one in members])
    buffers, count = _in_steps(ApiKey.DESCRIBE_GROUPS, response)
    assert count == 7
    key = ApiKey.DESCRIBE_GROUPS
    assert b"".join(buffers) == b"".join(codec.encode_response(key, VERSIONS[key][1], 7, response))


def test_an_answer_in_steps_that_msgpack_cannot_carry_is_a_fault_of_the_caller() -> None:
    with pytest.raises(EncodeError):
        _in_steps(ApiKey.METADATA, MetadataResponse(controller_id=2**70))
