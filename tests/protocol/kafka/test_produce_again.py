"""The shorter way for one batch to one partition says what the compiled functions say, or leaves it to them."""

from __future__ import annotations

from dataclasses import fields
from random import Random
from typing import Any

import pytest

from barnabas.protocol.api import VERSIONS, ApiKey, RequestHeader
from barnabas.protocol.errors import EncodeError, ProtocolError
from barnabas.protocol.kafka import APIS, codec, produce_again
from barnabas.protocol.kafka.compile import compile_decoder, compile_encoder
from barnabas.protocol.requests.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    OneBatchRequest,
    OneBatchResponse,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

KEY = ApiKey.PRODUCE
API = APIS[KEY]
ALL = list(range(VERSIONS[KEY][0], VERSIONS[KEY][1] + 1))
TOPIC_ID = bytes(range(16))
NAMES = ["t", "", "topic-ü", "x" * 126, "y" * 127, "z" * 249, "n" * 300]
CLIENTS = [None, "", "bench", "日本", "c" * 200, "c" * 300]


@pytest.fixture(autouse=True)
def forget() -> None:
    """Every test begins with the module in use and nothing known."""
    for version in ALL:
        codec.decode_request(frame(version, request(version)))
    for table in produce_again._known:
        table.clear()


def request(version: int, name: str = "t", records: bytes | None = b"abc" * 99, **values: Any) -> ProduceRequest:
    topic = TopicProduceData("" if version >= 13 else name, TOPIC_ID if version >= 13 else bytes(16))
    topic.partition_data = [PartitionProduceData(values.pop("index", 3), records)]
    return ProduceRequest(**{"acks": -1, "timeout_ms": 30_000, "topic_data": [topic], **values})


def frame(version: int, message: ProduceRequest, client: str | None = "me", number: int = 7) -> memoryview:
    return memoryview(b"".join(codec.encode_request(KEY, version, number, client, message)))[4:]


def plain(data: memoryview) -> tuple[list[Any], Any] | type:
    """What the compiled decoder makes of a frame."""
    hidden, codec._again[KEY] = codec._again.pop(KEY, None), None
    try:
        return _told(*codec.decode_request(data))
    except ProtocolError as error:
        return type(error)
    finally:
        codec._again[KEY] = hidden or produce_again


def served(data: memoryview) -> tuple[list[Any], Any] | type:
    try:
        return _told(*codec.decode_request(data))
    except ProtocolError as error:
        return type(error)


def _told(header: RequestHeader, message: Any) -> tuple[list[Any], Any]:
    return [getattr(header, name) for name in RequestHeader.__slots__], message


def is_recalled(data: memoryview) -> bool:
    version = int.from_bytes(data[2:4], "big")
    return produce_again.recall(data, version, 1, int.from_bytes(data[8:10], "big", signed=True)) is not None


@pytest.mark.parametrize("version", ALL)
def test_a_second_request_is_read_the_short_way_and_reads_the_same(version: int) -> None:
    first, second = frame(version, request(version)), frame(version, request(version, records=b"other"), number=-9)
    assert not is_recalled(first)
    assert served(first) == plain(first)
    assert is_recalled(second)
    assert served(second) == plain(second)
    records = codec.decode_request(second)[1].topic_data[0].partition_data[0].records
    assert records.obj is second.obj  # a view, never a copy


@pytest.mark.parametrize("version", ALL)
def test_every_name_and_size_reads_the_same_twice(version: int) -> None:
    sizes = [0, 1, 62, 126, 127, 128, 16383, 16384, 70_000]
    for client in CLIENTS:
        for name in NAMES:
            for size in sizes:
                data = frame(version, request(version, name, b"r" * size), client)
                expected = plain(data)
                assert served(data) == expected
                assert served(data) == expected


@pytest.mark.parametrize("version", ALL)
def test_other_shapes_are_left_alone(version: int) -> None:
    two = request(version)
    two.topic_data[0].partition_data.append(PartitionProduceData(4, b"x"))
    topics = request(version)
    topics.topic_data += request(version, "u").topic_data
    others = [two, topics, request(version, records=None), request(version, transactional_id="me")]
    others += [request(version, topic_data=[]), request(version, index=4), request(version, acks=1)]
    known = frame(version, request(version))
    served(known)
    for other in others:
        data = frame(version, other)
        assert not is_recalled(data)
        assert served(data) == plain(data) == served(data)
    assert is_recalled(known)


@pytest.mark.parametrize("version", ALL)
def test_damage_and_cuts_read_the_same_while_the_good_frame_is_known(version: int) -> None:
    random = Random(version)
    good = frame(version, request(version))
    served(good)
    assert is_recalled(good)
    for size in range(10, len(good) + 1):
        assert served(good[:size]) == plain(good[:size])
    for at in range(2, len(good)):
        for piece in (b"\xff", b"\x80\x80\x80\x80\x08", b"\0", b"\x7f\xff\xff\xff", bytes([random.randrange(256)])):
            spoiled = bytearray(good)
            spoiled[at : at + random.choice([0, len(piece)])] = piece
            data = memoryview(bytes(spoiled))
            assert served(data) == plain(data), at
    assert served(good) == plain(good)


@pytest.mark.parametrize("version", [9, 13])
def test_what_is_tagged_and_long_lengths_are_read_the_slow_way(version: int) -> None:
    good = bytes(frame(version, request(version)))
    served(memoryview(good))
    tagged = memoryview(good[:-1] + b"\x01\x05\x01x")
    assert served(tagged) == plain(tagged)
    assert not isinstance(served(tagged), type)
    # The count of topics in two bytes instead of one means the same and is not remembered.
    at = good.index(b"\x75\x30\x02") + 2
    wordy = memoryview(good[:at] + b"\x82\x00" + good[at + 1 :])
    assert served(wordy) == plain(wordy)
    assert not is_recalled(wordy)


def test_what_is_known_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce_again, "PREFIXES_MAX", 8)
    for number in range(50):
        data = frame(7, request(7, index=number))
        assert served(data) == plain(data)
        assert len(produce_again._plain) <= 8


def test_the_constants_are_the_tables_own() -> None:
    assert API.flexible_from == produce_again._FLEXIBLE
    assert [one.name for one in fields(PartitionProduceData)] == ["index", "records"]
    assert [one.name for one in fields(TopicProduceData)] == ["name", "topic_id", "partition_data"]
    assert [one.name for one in fields(ProduceRequest)] == ["transactional_id", "acks", "timeout_ms", "topic_data"]


def compiled(version: int, response: ProduceResponse) -> bytes:
    head = bytearray(b"\0\0\0\0\0\0\0\x2a" + (b"\0" if API.is_flexible(version) else b""))
    data = b"".join(compile_encoder(API, version, response=True)(head, response))
    return (len(data) - 4).to_bytes(4, "big") + data[4:]


def answers(version: int) -> list[ProduceResponse]:
    parts = [
        PartitionProduceResponse(3, 0, 2**40, -1, 5, []),
        PartitionProduceResponse(3, 87, -1, 1_700_000_000_000, -1, []),
    ]
    if version >= 8:
        parts.append(PartitionProduceResponse(3, 87, -1, error_message="bad"))
        parts.append(PartitionProduceResponse(3, 87, -1, record_errors=[BatchIndexAndErrorMessage(0, "bad")]))
    if version >= 10:
        parts.append(PartitionProduceResponse(3, 6, -1, current_leader=LeaderIdAndEpoch(1, 2)))
    topics = [TopicProduceResponse(name, TOPIC_ID, [part]) for part in parts for name in NAMES]
    found = [ProduceResponse([topic], 0, []) for topic in topics]
    found += [OneBatchResponse(name, TOPIC_ID, 3, 0, 2**40, -1, 5) for name in NAMES]
    found += [OneBatchResponse(name, TOPIC_ID, 3, 87, -1, 1_700_000_000_000, -1) for name in NAMES]
    for response in found[-len(NAMES) :]:
        response.throttle_time_ms = 12
    found.append(ProduceResponse([], 3))
    found.append(ProduceResponse(topics[:2], 3))
    found.append(ProduceResponse([TopicProduceResponse("t", TOPIC_ID, parts[:2])], 3))
    if version >= 10:
        found.append(ProduceResponse(topics[:1], 3, [NodeEndpoint(1, "h", 9)]))
    return found


@pytest.mark.parametrize("version", ALL)
def test_answers_have_the_compiled_bytes(version: int) -> None:
    short = 0
    for response in answers(version):
        buffers = produce_again.answer(version, 42, response)
        expected = compiled(version, response)
        if buffers is not None:
            short += 1
            assert b"".join(buffers) == expected
        assert b"".join(codec.encode_response(KEY, version, 42, response)) == expected
        decoded, _ = compile_decoder(API, version, response=True)(expected, 9 if API.is_flexible(version) else 8)
        assert len(decoded.responses) == len(response.responses)
    assert short >= 8


def test_what_is_laid_flat_reads_as_any_other() -> None:
    request = OneBatchRequest(-1, 30_000, "t", TOPIC_ID, 3, b"abc")
    nested = ProduceRequest(None, -1, 30_000, [TopicProduceData("t", TOPIC_ID, [PartitionProduceData(3, b"abc")])])
    assert request == nested
    assert nested == request
    for other in (OneBatchRequest(1, 30_000, "t", TOPIC_ID, 3, b"abc"), ProduceRequest(None, -1, 30_000, []), None):
        assert request != other
    response = OneBatchResponse("t", TOPIC_ID, 3, 0, 7, -1, 5)
    told = ProduceResponse([TopicProduceResponse("t", TOPIC_ID, [PartitionProduceResponse(3, 0, 7, -1, 5)])])
    assert response == told
    assert told == response
    for changed in (OneBatchResponse("t", TOPIC_ID, 3, 0, 8, -1, 5), ProduceResponse(), None):
        assert response != changed
    told.throttle_time_ms = 1
    assert response != told


@pytest.mark.parametrize("version", ALL)
def test_answers_that_fit_nowhere_are_refused_by_the_compiled_encoder(version: int) -> None:
    served(frame(version, request(version)))  # from now on both ways are there
    part = PartitionProduceResponse(2**31, 0, 1, -1, 1, [])
    topic = TopicProduceResponse("t", TOPIC_ID, [part])
    flat = OneBatchResponse("t", TOPIC_ID, 2**31, 0, 1, -1, 1)
    for wrong in (ProduceResponse([topic]), ProduceResponse(None), flat):  # type: ignore[arg-type]
        assert produce_again.answer(version, 1, wrong) is None
        with pytest.raises(EncodeError):
            codec.encode_response(KEY, version, 1, wrong)
