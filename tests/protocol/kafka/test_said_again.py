"""What was said once is known by its bytes, and reads as the compiled functions read it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from barnabas.protocol.api import VERSIONS, ApiKey, RequestHeader
from barnabas.protocol.errors import EncodeError, ErrorCode
from barnabas.protocol.kafka import APIS, codec, said_again
from barnabas.protocol.kafka.compile import compile_encoder
from barnabas.protocol.requests.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas.protocol.requests.heartbeat import HeartbeatRequest, HeartbeatResponse

SAYS: dict[int, Any] = {
    ApiKey.HEARTBEAT: HeartbeatRequest("g", 3, "m"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatRequest("g", "m", 4),
}
MORE: list[tuple[int, Any]] = [
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, ConsumerGroupHeartbeatRequest("g", "m", 4, topic_partitions=[])),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, ConsumerGroupHeartbeatRequest("g", "m", 4, subscribed_topic_names=["t"])),
    (
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ConsumerGroupHeartbeatRequest("g", "m", 4, topic_partitions=[TopicPartitions(bytes(16), [1])]),
    ),
]
ALL = [(key, version) for key in SAYS for version in range(VERSIONS[key][0], VERSIONS[key][1] + 1)]


@pytest.fixture(autouse=True)
def forget() -> None:
    """Every test begins with the short way in use and nothing known."""
    for key, version in ALL:
        codec.decode_request(bytes(frame(key, version, SAYS[key])))
    for key in SAYS:
        codec._again[key]._tables.clear()


def frame(key: int, version: int, message: Any, client: str | None = "me", number: int = 7) -> memoryview:
    return memoryview(bytearray(b"".join(codec.encode_request(key, version, number, client, message))))[4:]


def told(found: tuple[RequestHeader, Any]) -> tuple[list[Any], Any]:
    header, message = found
    return [getattr(header, name) for name in RequestHeader.__slots__], message


def is_recalled(data: memoryview) -> bool:
    key, version = int.from_bytes(data[:2], "big"), int.from_bytes(data[2:4], "big")
    return codec._again[key].recall(data, version, 1, 2) is not None


@pytest.mark.parametrize(("key", "version"), ALL)
def test_what_is_said_again_is_recalled_and_reads_the_same(key: int, version: int) -> None:
    first = frame(key, version, SAYS[key])
    assert not is_recalled(first)
    assert told(codec.decode_request(first)) == told(codec.decode_request(bytes(first)))
    again = frame(key, version, SAYS[key], number=-9)
    assert is_recalled(again)
    header, request = codec.decode_request(again)
    assert header.correlation_id == -9
    assert told((header, request)) == told(codec.decode_request(bytes(again)))
    assert codec.decode_request(again)[1] is request, "nothing was decoded"


@pytest.mark.parametrize(("key", "version"), ALL)
def test_whoever_says_something_else_or_is_somebody_else_is_decoded(key: int, version: int) -> None:
    known = frame(key, version, SAYS[key])
    codec.decode_request(known)
    assert is_recalled(known)
    assert not is_recalled(frame(key, version, SAYS[key], "you"))
    for at in range(8, len(known)):
        other = memoryview(bytearray(known))
        other[at] ^= 1
        assert not is_recalled(other)
        assert not is_recalled(known[:at])


@pytest.mark.parametrize(("key", "message"), MORE)
def test_whoever_says_more_is_not_kept(key: int, message: Any) -> None:
    data = frame(key, VERSIONS[key][1], message)
    codec.decode_request(data)
    assert not is_recalled(data)


def test_what_is_known_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(said_again, "FRAMES_MAX", 8)
    key = ApiKey.HEARTBEAT
    for generation in range(50):
        data = frame(key, generation % 5, HeartbeatRequest("g", generation, "m"))
        codec.decode_request(data)
        assert is_recalled(data)
        assert sum(map(len, codec._again[key]._tables.values())) <= 8, "of all versions"
    long = frame(key, 4, HeartbeatRequest("g" * said_again.FRAME_BYTES_MAX, 1, "m"))
    assert told(codec.decode_request(long)) == told(codec.decode_request(bytes(long)))
    assert not is_recalled(long)
    kept = [said for table in codec._again[key]._tables.values() for said in table]
    assert max(map(len, kept)) < said_again.FRAME_BYTES_MAX, "what is not looked up is not kept either"


ASSIGNMENT = Assignment([TopicPartitions(bytes(range(16)), [1, 2])])
CLASSIC = [HeartbeatResponse(), HeartbeatResponse(5, ErrorCode.REBALANCE_IN_PROGRESS), HeartbeatResponse(-1, -1)]
CONSUMER = [
    ConsumerGroupHeartbeatResponse(member_id=name, member_epoch=epoch, heartbeat_interval_ms=5000, **more)
    for name in (None, "", "m", "日本", "x" * 126, "y" * 127, "z" * 300)
    for epoch in (-1, 3, 2**31 - 1)
    for more in cast(
        "list[dict[str, Any]]",
        [{}, {"error_code": 25}, {"error_message": "why"}, {"assignment": ASSIGNMENT}, {"throttle_time_ms": 7}],
    )
]


@pytest.mark.parametrize(("key", "version"), ALL)
def test_an_answer_says_what_the_compiled_encoder_says(key: int, version: int) -> None:
    flexible = APIS[key].is_flexible(version)
    encode = compile_encoder(APIS[key], version, response=True)
    laid_out = 0
    for response in CLASSIC if key == ApiKey.HEARTBEAT else CONSUMER:
        for number in (7, -9):
            head = bytearray(4) + number.to_bytes(4, "big", signed=True) + bytes(flexible)
            common = bytearray(b"".join(map(bytes, encode(head, response))))
            common[:4] = (len(common) - 4).to_bytes(4, "big")
            assert b"".join(map(bytes, codec.encode_response(key, version, number, response))) == common
            laid_out += said_again.ANSWERS[ApiKey(key)](version, number, response) is not None
    assert bool(laid_out) is not (key == ApiKey.HEARTBEAT and version == 0)


def test_an_answer_that_does_not_fit_is_refused_by_the_encoder() -> None:
    for response in (HeartbeatResponse(0, 2**15), HeartbeatResponse(2**31, 0)):
        with pytest.raises(EncodeError):
            codec.encode_response(ApiKey.HEARTBEAT, 4, 1, response)
    broken = ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=2**31)
    with pytest.raises(EncodeError):
        codec.encode_response(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, 1, broken)
