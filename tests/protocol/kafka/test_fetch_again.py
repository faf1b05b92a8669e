"""The shorter way for one partition's answer to Fetch has the bytes of the compiled one, or leaves it to that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.api import VERSIONS, ApiKey, RequestHeader
from barnabas.protocol.errors import EncodeError
from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.kafka import APIS, codec, fetch_again
from barnabas.protocol.kafka.compile import compile_encoder
from barnabas.protocol.requests.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
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
