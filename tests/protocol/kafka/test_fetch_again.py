"""The shorter ways of Fetch: of one partition's request, and of its answer, which has the bytes of the compiled one.

What they do not take they leave to the compiled functions.
"""

from __future__ import annotations

from dataclasses import fields
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.api import VERSIONS, ApiKey, RequestHeader
from barnabas.protocol.errors import EncodeError, ProtocolError
from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.kafka import APIS, codec, fetch_again
from barnabas.protocol.kafka.compile import compile_encoder
from barnabas.protocol.requests.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
    SnapshotId,
)

KEY = ApiKey.FETCH
API = APIS[KEY]
ALL = list(range(VERSIONS[KEY][0], VERSIONS[KEY][1] + 1))
TOPIC_ID = bytes(range(16))
NUMBERS = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(-(2**31), 2**31 - 1)


@pytest.fixture(autouse=True, scope="module")
def in_use() -> None:
    for version in ALL:
        codec._find_request_decoder(RequestHeader(KEY, version, 1, None))


def compiled(version: int, response: FetchResponse) -> bytes | type:
    head = bytearray(b"\0\0\0\0\0\0\0\x2a" + (b"\0" if API.is_flexible(version) else b""))
    try:
        data = b"".join(compile_encoder(API, version, response=True)(head, response))
    except EncodeError:
        return EncodeError
    return (len(data) - 4).to_bytes(4, "big") + data[4:]


def encoded(version: int, response: FetchResponse) -> bytes | type:
    try:
        return b"".join(codec.encode_response(KEY, version, 42, response))
    except EncodeError:
        return EncodeError


def told(records: Any = b"abc", name: str = "t", **values: Any) -> FetchResponse:
    partition = PartitionData(3, **{"high_watermark": 7, "records": records, **values})
    return FetchResponse(0, 0, 0, [FetchableTopicResponse(name, TOPIC_ID, [partition])])


@pytest.mark.parametrize("version", ALL)
@given(
    throttle_ms=SMALL,
    code=st.integers(-(2**15), 2**15 - 1),
    session=st.sampled_from([0, 1, 2**31 - 1]),
    name=st.text(max_size=300),
    numbers=st.tuples(SMALL, NUMBERS, NUMBERS, NUMBERS),
    aborted=st.sampled_from([None, []]),
    preferred=st.sampled_from([-1, 0, 2**31 - 1]),
    size=st.sampled_from([0, 1, 126, 127, 128, 16382, 16383, 70_000]),
)
def test_an_answer_has_the_compiled_bytes(
    version: int,
    throttle_ms: int,
    code: int,
    session: int,
    name: str,
    numbers: tuple[int, int, int, int],
    aborted: Any,
    preferred: int,
    size: int,
) -> None:
    index, watermark, stable, start = numbers
    partition = PartitionData(
        index,
        0,
        watermark,
        stable,
        start,
        aborted_transactions=aborted,
        preferred_read_replica=preferred,
        records=memoryview(b"r" * size),
    )
    response = FetchResponse(throttle_ms, code, session, [FetchableTopicResponse(name, TOPIC_ID, [partition])])
    expected = compiled(version, response)
    short = fetch_again.answer(version, 42, response)
    if short is not None:
        assert b"".join(short) == expected
    assert encoded(version, response) == expected


@pytest.mark.parametrize("version", ALL)
def test_the_common_answer_goes_the_short_way_and_keeps_its_records_as_they_lie(version: int) -> None:
    records = memoryview(b"r" * 500)
    several: list[dict[str, Any]] = [{}, {"aborted_transactions": None}]
    for values in several:
        short = fetch_again.answer(version, 42, told(records, **values))
        assert short is not None
        assert any(one is records for one in short)


@pytest.mark.parametrize("version", ALL)
def test_other_shapes_are_left_alone(version: int) -> None:
    two = told()
    two.responses[0].partitions.append(PartitionData(4, records=b""))
    topics = told()
    topics.responses += told(name="u").responses
    others = [two, topics, FetchResponse(), told(None), told([b"a", b"b"]), told(error_code=3)]
    others += [told(aborted_transactions=[AbortedTransaction(1, 2)]), told(high_watermark=2**63)]
    others += [told(name="n" * 300) if version < 13 else FetchResponse(1, 0, 0, [FetchableTopicResponse("", b"short")])]
    if version >= 12:
        others += [told(diverging_epoch=EpochEndOffset(1, 2)), told(current_leader=LeaderIdAndEpoch(1, 2))]
        others += [told(snapshot_id=SnapshotId(1, 2))]
    if version >= 16:
        others.append(told())
        others[-1].node_endpoints = [NodeEndpoint(1, "h", 9)]
    for other in others:
        assert fetch_again.answer(version, 42, other) is None
        assert encoded(version, other) == compiled(version, other)


def test_what_a_version_cannot_carry_is_refused_as_before() -> None:
    refused = told(preferred_read_replica=1)
    assert fetch_again.answer(10, 42, refused) is None
    assert encoded(10, refused) is compiled(10, refused)
    session = told()
    session.session_id = 5
    assert fetch_again.answer(6, 42, session) is None
    assert encoded(6, session) is compiled(6, session)


def test_the_constants_are_the_tables_own() -> None:
    assert API.flexible_from == fetch_again._FLEXIBLE
    assert VERSIONS[KEY] == (fetch_again._FIRST, fetch_again._LAST)
    assert told().responses[0].topic_id != ZERO_UUID


def request(version: int, name: str = "t", *, offset: int = 7, epoch: int = 3, **values: Any) -> FetchRequest:
    """Of one partition; each field of its version says something of its own."""
    part = FetchPartition(values.pop("partition", 4), 5 if version >= 9 else -1, offset)
    part.last_fetched_epoch = 6 if version >= 12 else -1
    part.log_start_offset = 8 if version >= 5 else -1
    part.partition_max_bytes = 9
    topic = FetchTopic("" if version >= 13 else name, TOPIC_ID if version >= 13 else ZERO_UUID, [part])
    asked = FetchRequest(None, 1 if version < 15 else -1, None, 500, 2, 10_000, 1, topics=[topic])
    if version >= 7:
        asked.session_id, asked.session_epoch = 11, epoch
    if version >= 11:
        asked.rack_id = values.pop("rack", "a-rack")
    for each, value in values.items():
        setattr(asked, each, value)
    return asked


def frame(version: int, message: FetchRequest, client: str | None = "me", number: int = 7) -> memoryview:
    return memoryview(b"".join(codec.encode_request(KEY, version, number, client, message)))[4:]


def told_of(header: RequestHeader, message: Any) -> tuple[list[Any], Any]:
    return [getattr(header, name) for name in RequestHeader.__slots__], message


def served(data: memoryview) -> tuple[list[Any], Any] | type:
    try:
        return told_of(*codec.decode_request(data))
    except ProtocolError as error:
        return type(error)


def plain(data: memoryview) -> tuple[list[Any], Any] | type:
    """What the compiled decoder makes of a frame."""
    codec._again[KEY] = None
    try:
        return served(data)
    finally:
        codec._again[KEY] = fetch_again


def is_recalled(data: memoryview) -> bool:
    version = int.from_bytes(data[2:4], "big")
    return fetch_again.recall(data, version, 1, int.from_bytes(data[8:10], "big", signed=True)) is not None


@pytest.fixture
def forgotten() -> None:
    fetch_again._known.clear()


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("version", ALL)
def test_a_second_request_is_read_the_short_way_and_reads_the_same(version: int) -> None:
    first, second = (
        frame(version, request(version)),
        frame(version, request(version, offset=2**40, epoch=-1), number=-9),
    )
    assert not is_recalled(first)
    assert served(first) == plain(first)
    assert is_recalled(second)
    assert served(second) == plain(second)
    found, again = codec.decode_request(second)[1], codec.decode_request(second)[1]
    assert found.topics is not again.topics  # whoever changes one has changed no other
    assert found.topics[0].partitions[0] is not again.topics[0].partitions[0]


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("version", ALL)
def test_every_name_reads_the_same_twice(version: int) -> None:
    for client in (None, "", "bench", "日本", "c" * 200, "c" * 600):
        for name in ("t", "", "topic-ü", "x" * 126, "y" * 127, "z" * 249, "n" * 300):
            for rack in ("", "r" * 130):
                asked = request(version, name, rack=rack) if version >= 11 else request(version, name)
                data = frame(version, asked, client)
                expected = plain(data)
                assert served(data) == expected
                assert served(data) == expected


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("version", ALL)
def test_other_requests_are_left_alone(version: int) -> None:
    two, topics = request(version), request(version)
    two.topics[0].partitions.append(FetchPartition(5, partition_max_bytes=9))
    topics.topics += request(version, "u").topics
    others = [two, topics, request(version, topics=[])]
    if version >= 7:
        gone = ForgottenTopic("" if version >= 13 else "t", TOPIC_ID if version >= 13 else ZERO_UUID, [1])
        others.append(request(version, forgotten_topics_data=[gone]))
    if version >= 12:
        others.append(request(version, cluster_id="c"))
    if version >= 15:
        others.append(request(version, replica_state=ReplicaState(1, 2)))
    if version >= 17:
        others.append(request(version))
        others[-1].topics[0].partitions[0].replica_directory_id = TOPIC_ID
    if version >= 18:
        others.append(request(version))
        others[-1].topics[0].partitions[0].high_watermark = 3
    known = frame(version, request(version))
    served(known)
    for other in others:
        data = frame(version, other)
        assert served(data) == plain(data) == served(data)
        assert not is_recalled(data)
    for field in ("max_wait_ms", "min_bytes", "max_bytes", "isolation_level", "partition"):
        data = frame(version, request(version, "t", **{field: 0}))
        assert not is_recalled(data), field
        assert served(data) == plain(data) == served(data)
    assert is_recalled(known)


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("version", ALL)
def test_damage_and_cuts_read_the_same_while_the_good_frame_is_known(version: int) -> None:
    random = Random(version)
    good = frame(version, request(version))
    served(good)
    assert is_recalled(good)
    for size in range(10, len(good) + 1):
        assert served(good[:size]) == plain(good[:size])
    for at in range(2, len(good)):
        pieces = [b"\xff", b"\x80\x80\x80\x80\x08", b"\0", b"\x7f\xff\xff\xff", bytes([random.randrange(256)])]
        for piece in random.sample(pieces, 2):
            spoiled = bytearray(good)
            spoiled[at : at + random.choice([0, len(piece)])] = piece
            data = memoryview(bytes(spoiled))
            expected = plain(data)
            assert served(data) == expected, at
            assert served(data) == expected, at
            moved = bytearray(data)  # known by now, if ever: what differs in any byte reads the same, too
            moved[random.randrange(8, len(moved))] ^= 1 << random.randrange(8)
            assert served(memoryview(moved)) == plain(memoryview(moved)), at
    assert served(good) == plain(good)


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("version", [12, 13, 17])
def test_long_forms_of_counts_and_what_is_tagged_read_the_same(version: int) -> None:
    good = bytes(frame(version, request(version)))
    head = 10 + len("me")
    epoch_at = head + (22 if version < 15 else 18)
    places = [epoch_at + 4, head]  # the count of topics; the tags of the header
    places += [epoch_at + 5, epoch_at + 7] if version == 12 else [epoch_at + 21]  # its name's length; partitions' count
    for at in places:
        wordy = memoryview(good[:at] + bytes((good[at] | 128, 0)) + good[at + 1 :])
        for data in (wordy, wordy):
            assert served(data) == plain(data)
        assert not is_recalled(wordy), at
    tagged = memoryview(good[:-1] + b"\x01\x7f\x01x")
    for data in (tagged, tagged):
        assert served(data) == plain(data) != ProtocolError


@pytest.mark.usefixtures("forgotten")
def test_what_is_known_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_again, "FRAMES_MAX", 8)
    for number in range(50):
        data = frame(ALL[number % 3], request(ALL[number % 3], partition=number))
        assert served(data) == plain(data)
        assert sum(map(len, fetch_again._known.values())) <= 8
    large = frame(11, request(11, rack="r" * fetch_again.FRAME_BYTES_MAX))
    assert served(large) == plain(large)
    assert not is_recalled(large)


def test_every_field_of_a_request_is_filled_in() -> None:
    header, found = RequestHeader(KEY, 11, 7, "me"), request(11)
    data = frame(11, found)
    fetch_again.remember(data, header, found)
    recalled = fetch_again.recall(data, 11, 7, 2)
    assert recalled is not None
    for made, kind in ((recalled[1], FetchRequest), (recalled[1].topics[0], FetchTopic)):
        assert all(hasattr(made, each.name) for each in fields(kind))
    assert all(hasattr(recalled[1].topics[0].partitions[0], each.name) for each in fields(FetchPartition))
