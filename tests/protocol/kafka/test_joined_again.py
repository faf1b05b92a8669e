"""Who joins or syncs as others did is known by all bytes but its id, and reads as the compiled functions read it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from barnabas.protocol.api import VERSIONS, ApiKey, RequestHeader
from barnabas.protocol.errors import EncodeError, ErrorCode
from barnabas.protocol.kafka import APIS, codec, joined_again
from barnabas.protocol.kafka.compile import compile_encoder
from barnabas.protocol.requests.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from barnabas.protocol.requests.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse


def joining(member_id: str = "", group_id: str = "g", metadata: bytes = b"topics") -> Any:
    protocols = [JoinGroupRequestProtocol("range", metadata), JoinGroupRequestProtocol("sticky", metadata * 2)]
    return JoinGroupRequest(group_id, 30_000, 30_000, member_id, None, "consumer", protocols)


def syncing(member_id: str = "", group_id: str = "g", generation: int = 3) -> Any:
    return SyncGroupRequest(group_id, generation, member_id, None, "consumer", "range")


SAYS: dict[int, Any] = {ApiKey.JOIN_GROUP: joining, ApiKey.SYNC_GROUP: syncing}
ALL = [(key, version) for key in SAYS for version in range(VERSIONS[key][0], VERSIONS[key][1] + 1)]
IDS = ("", "m", "me-0123abcd-0123-4567-89ab-0123456789ab", "日本", "x" * 126)


@pytest.fixture(autouse=True)
def forget() -> None:
    """Every test begins with the short way in use and nothing known."""
    for key, version in ALL:
        codec.decode_request(bytes(frame(key, version, SAYS[key]())))
    for key in SAYS:
        codec._again[key]._tables.clear()
        codec._again[key]._last.clear()


def frame(key: int, version: int, message: Any, client: str | None = "me", number: int = 7) -> memoryview:
    return memoryview(bytearray(b"".join(codec.encode_request(key, version, number, client, message))))[4:]


def told(found: tuple[RequestHeader, Any]) -> tuple[list[Any], Any]:
    header, message = found
    return [getattr(header, name) for name in RequestHeader.__slots__], message


def is_recalled(data: memoryview) -> bool:
    key, version = int.from_bytes(data[:2], "big"), int.from_bytes(data[2:4], "big")
    length = int.from_bytes(data[8:10], "big", signed=True)
    return codec._again[key].recall(data, version, 1, length) is not None


@pytest.mark.parametrize("client", ["me", "", None])
@pytest.mark.parametrize(("key", "version"), ALL)
def test_whoever_says_what_another_said_is_recalled_and_reads_the_same(
    key: int, version: int, client: str | None
) -> None:
    first = frame(key, version, SAYS[key]("somebody"), client)
    assert not is_recalled(first)
    assert told(codec.decode_request(first)) == told(codec.decode_request(bytes(first)))
    for member_id in IDS:
        again = frame(key, version, SAYS[key](member_id), client, number=-9)
        assert is_recalled(again)
        header, request = codec.decode_request(again)
        assert (header.correlation_id, request.member_id) == (-9, member_id)
        assert told((header, request)) == told(codec.decode_request(bytes(again)))


@pytest.mark.parametrize(("key", "version"), ALL)
def test_whoever_says_something_else_is_decoded(key: int, version: int) -> None:
    """Every byte but those of the id counts, and so does every length: what is recalled reads as it is decoded."""
    known = frame(key, version, SAYS[key]("member"))
    codec.decode_request(known)
    at = bytes(known).index(b"member")
    for other in (frame(key, version, SAYS[key]("member"), "you"), frame(key, version, SAYS[key]("member", "other"))):
        assert not is_recalled(other)
    for position in range(8, len(known)):
        for flipped in range(1, 256):
            other = memoryview(bytearray(known))
            other[position] ^= flipped
            if at <= position < at + 6:
                assert is_recalled(other) is (flipped < 128), "another id, or one that is no text"
            else:
                assert not is_recalled(other)
        assert not is_recalled(known[:position])
        assert not is_recalled(memoryview(bytes(known[:position]) + b"\0" + bytes(known[position:])))


@pytest.mark.parametrize(("key", "version"), ALL)
def test_groups_in_turn_are_each_known(key: int, version: int) -> None:
    """The last one is looked at first, and is not the only one."""
    names = ("g", "gg", "h", "g" * 9)
    for name in names:
        codec.decode_request(frame(key, version, SAYS[key]("m", name)))
    for member_id in IDS:
        for name in names:
            again = frame(key, version, SAYS[key](member_id, name))
            assert is_recalled(again)
            assert told(codec.decode_request(again)) == told(codec.decode_request(bytes(again)))


@pytest.mark.parametrize("key", SAYS)
def test_an_id_whose_length_takes_more_than_a_byte_is_decoded(key: int) -> None:
    """Else its second byte of length would be the first of the id, and the id's last one of what is behind."""
    version = VERSIONS[key][1]
    codec.decode_request(frame(key, version, SAYS[key]("m")))
    assert is_recalled(frame(key, version, SAYS[key]("m")))
    for length in (127, 128, 129, 130):
        other = frame(key, version, SAYS[key]("y" * length))
        assert not is_recalled(other)
        assert codec.decode_request(other)[1].member_id == "y" * length
        assert not is_recalled(other), "it is not kept either"


@pytest.mark.parametrize(("key", "version"), [(ApiKey.JOIN_GROUP, 9), (ApiKey.SYNC_GROUP, 5)])
def test_a_frame_without_an_id_is_not_taken_for_one_with_an_empty_one(key: int, version: int) -> None:
    """What stands behind the id begins with a zero where there is no instance: read as a length, it was -1."""
    whole = bytes(frame(key, version, SAYS[key]("zz")))
    codec.decode_request(memoryview(whole))
    assert whole.count(b"\x03zz") == 1
    assert is_recalled(memoryview(whole.replace(b"\x03zz", b"\x01")))
    assert not is_recalled(memoryview(whole.replace(b"\x03zz", b"")))


def test_whoever_brings_assignments_or_much_else_is_not_kept() -> None:
    assigns = replace_assignments(syncing("m"))
    large = joining("m", metadata=bytes(joined_again.AROUND_BYTES_MAX))
    for key, message in ((ApiKey.SYNC_GROUP, assigns), (ApiKey.JOIN_GROUP, large)):
        for version in range(VERSIONS[key][0], VERSIONS[key][1] + 1):
            data = frame(key, version, message)
            codec.decode_request(data)
            assert not is_recalled(data)


def replace_assignments(request: Any) -> Any:
    return replace(request, assignments=[SyncGroupRequestAssignment("m", b"all")])


def test_what_is_known_looks_into_no_frame() -> None:
    """The buffer that it came in is received into again."""
    came = frame(ApiKey.JOIN_GROUP, 9, joining())
    again = memoryview(bytes(came))
    codec.decode_request(came)
    came[8:] = bytes(len(came) - 8)
    assert is_recalled(again)
    assert [bytes(one.metadata) for one in codec.decode_request(again)[1].protocols] == [b"topics", b"topicstopics"]


def test_what_is_known_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_again, "SURROUNDINGS_MAX", 8)
    key = ApiKey.SYNC_GROUP
    for generation in range(50):
        data = frame(key, generation % 5, syncing("m", generation=generation))
        codec.decode_request(data)
        assert is_recalled(data)
        assert sum(map(len, codec._again[key]._tables.values())) <= 8, "of all versions"
    for size in (10, joined_again.AROUND_BYTES_MAX):
        codec.decode_request(frame(ApiKey.JOIN_GROUP, 9, joining(metadata=bytes(size))))
    (kept,) = [around for table in codec._again[ApiKey.JOIN_GROUP]._tables.values() for around in table]
    assert sum(map(len, kept)) <= joined_again.AROUND_BYTES_MAX, "the long one is not kept"


def test_names_that_are_kept_for_answers_are_short() -> None:
    joined_again._joined.cache_clear()
    for size in (255, 256, 30_000):
        response = JoinGroupResponse(0, 0, 1, None, "n" * size, "leader", False, "m", [])
        assert (joined_again.answer_join(5, 1, response) is None) is (size > 255)
    assert joined_again._joined.cache_info().currsize == 1


MEMBERS = [JoinGroupResponseMember("m", None, b"topics")]
JOINED = [
    JoinGroupResponse(5, code, generation, "consumer", name, leader, skips, member_id, members)
    for code, generation in ((0, 7), (ErrorCode.MEMBER_ID_REQUIRED, -1))
    for name in ("range", "", "n" * 300, "日本")
    for leader in ("", "l" * 43, "l" * 127, "l" * 300)
    for skips in (False, True)
    for member_id in ("", "m", "x" * 126, "y" * 127, "z" * 300, "日本")
    for members in ([], MEMBERS)
]
SYNCED = [
    SyncGroupResponse(5, code, kind, name, assignment)
    for code in (0, 27)
    for kind, name in ((None, None), ("consumer", "range"), ("c" * 127, "r" * 300))
    for assignment in (b"", b"x", bytes(126), bytes(127), bytes(20_000))
]


@pytest.mark.parametrize(("key", "version"), ALL)
def test_an_answer_says_what_the_compiled_encoder_says(key: int, version: int) -> None:
    flexible = APIS[key].is_flexible(version)
    encode = compile_encoder(APIS[key], version, response=True)
    laid_out = 0
    responses: list[Any] = [*JOINED] if key == ApiKey.JOIN_GROUP else [*SYNCED]
    for response in responses:
        if key == ApiKey.JOIN_GROUP and response.skip_assignment and version < 9:
            assert joined_again.answer_join(version, -9, response) is None
            continue
        head = bytearray(4) + (-9).to_bytes(4, "big", signed=True) + bytes(flexible)
        common = bytearray(b"".join(map(bytes, encode(head, response))))
        common[:4] = (len(common) - 4).to_bytes(4, "big")
        assert b"".join(map(bytes, codec.encode_response(key, version, -9, response))) == common
        laid_out += joined_again.ANSWERS[ApiKey(key)](version, -9, response) is not None
    first = {ApiKey.JOIN_GROUP: 2, ApiKey.SYNC_GROUP: 1}[ApiKey(key)]
    assert bool(laid_out) is (version >= first), "no throttle time can be told before"


@pytest.mark.parametrize("version", range(7, VERSIONS[ApiKey.JOIN_GROUP][1] + 1))
def test_no_protocol_can_be_told_from_v7_on(version: int) -> None:
    response = JoinGroupResponse(error_code=25, protocol_name=None, member_id="m")
    assert joined_again.answer_join(version, 7, response) is not None
    data = memoryview(b"".join(map(bytes, codec.encode_response(ApiKey.JOIN_GROUP, version, 7, response))))
    assert codec.decode_response(ApiKey.JOIN_GROUP, version, data[4:])[1] == response


def test_an_answer_that_does_not_fit_is_refused_by_the_encoder() -> None:
    nameless = JoinGroupResponse(protocol_name=None)
    for version, response in ((5, nameless), (6, nameless), (9, JoinGroupResponse(error_code=2**15))):
        with pytest.raises(EncodeError):
            codec.encode_response(ApiKey.JOIN_GROUP, version, 1, response)
    for version in (3, 5):
        with pytest.raises(EncodeError):
            codec.encode_response(ApiKey.SYNC_GROUP, version, 1, SyncGroupResponse(error_code=2**15))
