"""The shorter way for a commit of one partition says what the compiled functions say, or leaves it to them."""

from __future__ import annotations

from dataclasses import fields
from random import Random
from typing import Any

import pytest

from barnabas.protocol.api import VERSIONS, ApiKey, RequestHeader
from barnabas.protocol.errors import EncodeError, ProtocolError
from barnabas.protocol.kafka import APIS, codec, commit_again
from barnabas.protocol.kafka.compile import compile_encoder
from barnabas.protocol.requests.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OneCommitRequest,
    OneCommitResponse,
)

KEY = ApiKey.OFFSET_COMMIT
API = APIS[KEY]
ALL = list(range(VERSIONS[KEY][0], VERSIONS[KEY][1] + 1))
SHORT = [version for version in ALL if version >= 6]
TOPIC_ID = bytes(range(16))
NAMES = ["t", "", "topic-ü", "x" * 126, "y" * 127, "z" * 249, "n" * 300]
TEXTS = [None, "", "me", "日本", "c" * 200, "c" * 300]


@pytest.fixture(autouse=True)
def forget() -> None:
    """Every test begins with the module in use and nothing known."""
    for version in ALL:
        codec.decode_request(frame(version, request(version)))
    for table in commit_again._tables.values():
        table.clear()


def request(version: int, name: str = "t", offset: int = 5, metadata: str | None = "", **values: Any) -> Any:
    topic = OffsetCommitRequestTopic("" if version >= 10 else name, TOPIC_ID if version >= 10 else bytes(16))
    epoch = values.pop("leader_epoch", -1)
    topic.partitions = [OffsetCommitRequestPartition(values.pop("index", 3), offset, epoch, metadata)]
    return OffsetCommitRequest(**{"group_id": "g", "member_id": "m", "topics": [topic], **values})


def frame(version: int, message: OffsetCommitRequest, client: str | None = "me", number: int = 7) -> memoryview:
    return memoryview(b"".join(codec.encode_request(KEY, version, number, client, message)))[4:]


def told(header: RequestHeader, message: Any) -> tuple[list[Any], Any]:
    return [getattr(header, name) for name in RequestHeader.__slots__], message


def served(data: Any) -> tuple[list[Any], Any] | type:
    try:
        return told(*codec.decode_request(data))
    except ProtocolError as error:
        return type(error)


def plain(data: memoryview) -> tuple[list[Any], Any] | type:
    """What the compiled decoder makes of a frame: the shorter way is for views."""
    return served(bytes(data))


def is_recalled(data: memoryview) -> bool:
    version = int.from_bytes(data[2:4], "big")
    return commit_again.recall(data, version, 1, int.from_bytes(data[8:10], "big", signed=True)) is not None


@pytest.mark.parametrize("version", SHORT)
def test_a_second_commit_is_read_the_short_way_and_reads_the_same(version: int) -> None:
    first = frame(version, request(version))
    assert not is_recalled(first)
    assert served(first) == plain(first)
    for offset in (6, -1, 2**63 - 1, -(2**63)):
        again = frame(version, request(version, offset=offset, leader_epoch=4), number=-9)
        assert is_recalled(again)
        assert served(again) == plain(again)
        assert type(codec.decode_request(again)[1]) is OneCommitRequest


def test_earlier_versions_go_the_common_way() -> None:
    for version in set(ALL) - set(SHORT):
        data = frame(version, request(version))
        assert served(data) == plain(data) == served(data)
        assert not is_recalled(data)


@pytest.mark.parametrize("version", SHORT)
def test_every_name_reads_the_same_twice(version: int) -> None:
    for text in TEXTS:
        for name in NAMES:
            for values in ({"group_id": text or ""}, {"member_id": text or ""}, {"group_instance_id": text}):
                if version < 7:
                    values.pop("group_instance_id", None)
                for client in ("me", text):
                    data = frame(version, request(version, name, **values), client)
                    expected = plain(data)
                    assert served(data) == expected
                    assert served(data) == expected


@pytest.mark.parametrize("version", SHORT)
def test_other_shapes_are_left_alone(version: int) -> None:
    two = request(version)
    two.topics[0].partitions.append(OffsetCommitRequestPartition(4, 5))
    topics = request(version)
    topics.topics += request(version, "u").topics
    others = [two, topics, request(version, metadata=None), request(version, metadata="said")]
    others += [request(version, topics=[]), request(version, index=4), request(version, group_id="other")]
    others += [request(version, generation_id_or_member_epoch=3), request(version, member_id="other")]
    known = frame(version, request(version))
    served(known)
    for other in others:
        data = frame(version, other)
        assert not is_recalled(data)
        assert served(data) == plain(data) == served(data)
    assert is_recalled(known)
    assert not is_recalled(frame(version, request(version), "somebody else"))


@pytest.mark.parametrize("version", SHORT)
def test_damage_cuts_and_more_bytes_read_the_same_while_the_good_frame_is_known(version: int) -> None:
    random = Random(version)
    good = frame(version, request(version))
    served(good)
    assert is_recalled(good)
    for size in range(10, len(good) + 1):
        assert served(good[:size]) == plain(good[:size])
    for more in (b"\0", b"\0\0", bytes(14), bytes(16), bytes(99)):
        longer = memoryview(bytes(good) + more)
        assert served(longer) == plain(longer) == served(longer), "what is behind a message is ignored"
    for at in range(2, len(good)):
        for piece in (b"\xff", b"\x80\x80\x80\x80\x08", b"\0", b"\x7f\xff\xff\xff", bytes([random.randrange(256)])):
            spoiled = bytearray(good)
            spoiled[at : at + random.choice([0, len(piece)])] = piece
            data = memoryview(bytes(spoiled))
            assert served(data) == plain(data) == served(data), at
    assert served(good) == plain(good)


@pytest.mark.parametrize("version", [version for version in SHORT if version >= 8])
def test_what_is_tagged_and_long_lengths_are_read_the_slow_way(version: int) -> None:
    good = bytes(frame(version, request(version)))
    served(memoryview(good))
    tagged = memoryview(good[:-1] + b"\x01\x05\x01x")
    assert served(tagged) == plain(tagged) == served(tagged)
    assert not isinstance(served(tagged), type)
    # An empty string's length in two bytes instead of one means the same and is not remembered.
    wordy = memoryview(good[:-4] + b"\x81\x00" + good[-3:])
    assert served(wordy) == plain(wordy) == served(wordy)
    assert not is_recalled(wordy)


@pytest.mark.parametrize("version", SHORT)
def test_those_behind_that_say_the_same_are_read_as_one_table(version: int) -> None:
    said = known(version)
    behind = [framed(version, offset=offset, leader_epoch=offset % 3, number=-offset) for offset in range(6)]
    expected = [(-offset, offset, offset % 3) for offset in range(6)]
    size = len(behind[0])
    assert said.again(memoryview(b"".join(behind)), 64) == (expected, 6 * size)
    assert said.again(memoryview(b"".join(behind)), 4) == (expected[:4], 4 * size)
    assert said.again(memoryview(b"".join(behind)), 0) == ([], 0)
    assert said.again(memoryview(b"".join(behind)[:-1]), 64) == (expected[:5], 5 * size)
    assert said.again(memoryview(behind[0][:3]), 64) == ([], 0)
    for other in (framed(version, index=4), framed(version, metadata="x"), framed(version, group_id="gg")):
        assert said.again(memoryview(b"".join([*behind[:2], other, *behind[2:]])), 64) == (expected[:2], 2 * size)


@pytest.mark.parametrize("version", SHORT)
def test_a_damaged_one_behind_is_left_alone_or_reads_as_ever(version: int) -> None:
    said = known(version)
    good = framed(version, offset=9, leader_epoch=2, number=1)
    for at in range(len(good)):
        for bit in range(8):
            data = bytearray(good)
            data[at] ^= 1 << bit
            found, _ = said.again(memoryview(good + data), 64)
            assert found[0] == (1, 9, 2)
            for correlation_id, offset, leader_epoch in found[1:]:
                header, message = codec.decode_request(bytes(data[4:]))
                part = message.topics[0].partitions[0]
                assert header.correlation_id == correlation_id
                assert (part.committed_offset, part.committed_leader_epoch) == (offset, leader_epoch)
                part.committed_offset, part.committed_leader_epoch = 5, -1
                assert message == request(version)


def known(version: int) -> commit_again.Said:
    """What the module keeps of the commonest commit."""
    first = frame(version, request(version))
    codec.decode_request(first)
    said = codec.decode_request(first)[1].said
    assert isinstance(said, commit_again.Said)
    return said


def framed(version: int, number: int = 7, **values: Any) -> bytes:
    data = bytes(frame(version, request(version, **values), number=number))
    return len(data).to_bytes(4, "big") + data


def test_what_is_known_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_again, "PREFIXES_MAX", 8)
    for number in range(50):
        data = frame(7, request(7, index=number))
        assert served(data) == plain(data)
        assert len(commit_again._tables[7]) <= 8
    long = frame(7, request(7, group_id="g" * commit_again.FRAME_BYTES_MAX))
    assert served(long) == plain(long)
    assert not is_recalled(long)


def test_the_constants_are_the_tables_own() -> None:
    assert API.flexible_from == commit_again._FLEXIBLE
    assert [one.name for one in fields(OffsetCommitRequestTopic)] == ["name", "topic_id", "partitions"]
    parts = ["partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata"]
    assert [one.name for one in fields(OffsetCommitRequestPartition)] == parts
    who = ["group_id", "generation_id_or_member_epoch", "member_id", "group_instance_id"]
    assert [one.name for one in fields(OffsetCommitRequest)] == [*who, "retention_time_ms", "topics"]


def compiled(version: int, response: OffsetCommitResponse) -> bytes:
    head = bytearray(b"\0\0\0\0\0\0\0\x2a" + (b"\0" if API.is_flexible(version) else b""))
    data = b"".join(compile_encoder(API, version, response=True)(head, response))
    return (len(data) - 4).to_bytes(4, "big") + data[4:]


@pytest.mark.parametrize("version", ALL)
def test_answers_have_the_compiled_bytes(version: int) -> None:
    short = 0
    for name in NAMES:
        for code in (0, 22):
            flat = OneCommitResponse(name, TOPIC_ID, 3, code)
            if version >= 3:
                flat.throttle_time_ms = code
            nested = [OffsetCommitResponseTopic(name, TOPIC_ID, [OffsetCommitResponsePartition(3, code)])]
            expected = compiled(version, OffsetCommitResponse(flat.throttle_time_ms, nested))
            buffers = commit_again.answer(version, 42, flat)
            if buffers is not None:
                short += 1
                assert b"".join(buffers) == expected
            assert b"".join(codec.encode_response(KEY, version, 42, flat)) == expected
    assert commit_again.answer(version, 42, OffsetCommitResponse()) is None
    assert (short >= 8) == (version in SHORT)


def test_what_is_laid_flat_reads_as_any_other() -> None:
    flat = OneCommitRequest("g", 1, "m", "i", "t", TOPIC_ID, 3, 7, 2)
    topic = OffsetCommitRequestTopic("t", TOPIC_ID, [OffsetCommitRequestPartition(3, 7, 2, "")])
    nested = OffsetCommitRequest("g", 1, "m", "i", -1, [topic])
    assert flat == nested
    assert nested == flat
    for other in (OneCommitRequest("g", 1, "m", "i", "t", TOPIC_ID, 3, 8, 2), OffsetCommitRequest("g"), None):
        assert flat != other
    response = OneCommitResponse("t", TOPIC_ID, 3, 5)
    said = OffsetCommitResponse(0, [OffsetCommitResponseTopic("t", TOPIC_ID, [OffsetCommitResponsePartition(3, 5)])])
    assert response == said
    assert said == response
    for changed in (OneCommitResponse("t", TOPIC_ID, 3, 6), OffsetCommitResponse(), None):
        assert response != changed


@pytest.mark.parametrize("version", ALL)
def test_answers_that_fit_nowhere_are_refused_by_the_compiled_encoder(version: int) -> None:
    flat = OneCommitResponse("t", TOPIC_ID, 2**31, 0)
    assert commit_again.answer(version, 1, flat) is None
    with pytest.raises(EncodeError):
        codec.encode_response(KEY, version, 1, flat)
