"""Headers, traps of the wire, refusals, and what an encoder may not drop."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from barnabas.protocol.api import BROKER_VERSIONS, REQUESTS, RESPONSES, SPOKEN, VERSIONS, ApiKey, key_of
from barnabas.protocol.errors import EncodeError, ProtocolError
from barnabas.protocol.ids import Buffer
from barnabas.protocol.kafka import APIS, codec
from barnabas.protocol.kafka.encoder import BYTES_PER_STEP
from barnabas.protocol.requests.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.requests.create_topics import CreatableTopicResult, CreateTopicsResponse
from barnabas.protocol.requests.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.requests.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from barnabas.protocol.requests.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    ForgottenTopic,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from barnabas.protocol.requests.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.protocol.requests.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from barnabas.protocol.requests.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.protocol.kafka import oracle


def frame(text: str) -> memoryview:
    return memoryview(bytes.fromhex(text))


def test_a_request_header_keeps_the_old_client_id_in_flexible_versions() -> None:
    data = b"".join(codec.encode_request(ApiKey.API_VERSIONS, 3, 7, "me", ApiVersionsRequest("a", "b")))
    assert data.hex() == "00000012" + "00120003" + "00000007" + "00026d65" + "00" + "0261" + "0262" + "00"
    header, request = codec.decode_request(memoryview(data)[4:])
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (18, 3, 7, "me")
    assert request == ApiVersionsRequest("a", "b")


def test_a_client_id_may_be_null_or_empty() -> None:
    assert codec.decode_request(frame("00120000 00000001 ffff"))[0].client_id is None
    assert codec.decode_request(frame("00120000 00000001 0000"))[0].client_id == ""


def test_what_is_not_utf8_in_a_request_is_replaced_as_java_does() -> None:
    """Kafka reads U+FFFD, and answers that there is no such topic; the connection was closed here."""
    assert codec.decode_request(frame("00120000 00000001 0002 ff61"))[0].client_id == "\ufffda"
    assert (
        codec.decode_request(frame("00120003 00000001 ffff 00 04ff6162 0231 00"))[1].client_software_name == "\ufffdab"
    )
    for version in (1, 9):
        asked = b"".join(codec.encode_request(ApiKey.METADATA, version, 1, None, MetadataRequest([named("QxyQ")])))
        _, request = codec.decode_request(memoryview(asked.replace(b"xy", b"\xff\xc3"))[4:])
        assert request.topics == [named("Q\ufffd\ufffdQ")]
    data = TopicProduceData("QxyQ", partition_data=[PartitionProduceData(0, b"records \xff")])
    asked = b"".join(codec.encode_request(ApiKey.PRODUCE, 9, 1, None, ProduceRequest(None, 1, 9, [data])))
    for _ in range(2):  # nothing of it is remembered for the next one
        request = codec.decode_request(memoryview(asked.replace(b"xy", b"\xff\xc3"))[4:])[1]
        (told,) = request.topic_data
        assert (told.name, bytes(told.partition_data[0].records)) == ("Q\ufffd\ufffdQ", b"records \xff")


def named(name: str) -> MetadataRequestTopic:
    return MetadataRequestTopic(name=name)


def test_an_answer_that_is_not_utf8_is_refused() -> None:
    said = b"".join(
        codec.encode_response(ApiKey.METADATA, 1, 1, MetadataResponse(topics=[MetadataResponseTopic(0, "QxyQ")]))
    )
    with pytest.raises(ProtocolError, match="not UTF-8"):
        codec.decode_response(ApiKey.METADATA, 1, memoryview(said.replace(b"xy", b"\xff\xc3"))[4:])


def test_unknown_tags_are_skipped_in_header_and_body() -> None:
    # header tags: one, number 5, two bytes; body: name, version, then tags 0 and 300
    data = frame("00120003 00000001 ffff 01 05 02 aaaa" + "0261 0262" + "02 00 01 ff ac02 03 010203")
    assert codec.decode_request(data)[1] == ApiVersionsRequest("a", "b")


def test_the_api_versions_response_header_is_always_v0() -> None:
    data = b"".join(codec.encode_response(ApiKey.API_VERSIONS, 3, 1, ApiVersionsResponse()))
    assert data.hex() == "0000000c" + "00000001" + "0000" + "01" + "00000000" + "00"
    assert codec.decode_response(ApiKey.API_VERSIONS, 3, memoryview(data)[4:]) == (1, ApiVersionsResponse())


def test_an_unknown_api_versions_version_can_be_answered() -> None:
    with pytest.raises(codec.UnsupportedVersion, match="API_VERSIONS v99 is not served, only v0 to v4") as caught:
        codec.decode_request(frame("00120063 0000002a 00026d65 00"))
    header = caught.value.header
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (18, 99, 42, "me")
    answer = b"".join(codec.encode_unsupported_api_versions(header.correlation_id))
    assert answer.hex() == "00000010" + "0000002a" + "0023" + "00000001" + "0012" + "0000" + "0004"
    assert codec.decode_response(ApiKey.API_VERSIONS, 0, memoryview(answer)[4:])[1].error_code == 35


def test_produce_below_3_is_refused_though_it_is_advertised() -> None:
    with pytest.raises(codec.UnsupportedVersion, match="PRODUCE v2 is not served"):
        codec.decode_request(frame("00000002 00000001 ffff"))


def test_an_unknown_api_is_refused() -> None:
    with pytest.raises(ProtocolError, match="API key 9999 is unknown"):
        codec.decode_request(frame("270f0000 00000001 ffff"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "needs 10 bytes"),
        ("0012000000000001", "needs 10 bytes"),
        ("00120000 00000001 0005 6161", "client_id announces 5 bytes, 2 are left"),
        ("00120003 00000001 ffff", "bytes end within the tagged section"),
        ("00120003 00000001 ffff 01 00 7f", "goes beyond the frame"),
        ("00120003 00000001 ffff 00 0361", "client_software_name announces 2 at byte 12, 1 bytes are left"),
        ("00120003 00000001 ffff 00 00", "client_software_name is null at byte 12"),
        (
            "00120003 00000001 ffff 00 ffffffffff7f",
            "client_software_name at byte 12 of 17: varint at byte 11 is longer",
        ),
        ("00030001 00000001 ffff 7fffffff", "topics announces 2147483647 at byte 14, 0 bytes are left"),
        ("00030000 00000001 ffff ffffffff", "topics is null"),
        ("00030001 00000001 ffff 0000", "topics at byte 10 of 12: the bytes end within it"),
        (
            "00030001 00000001 ffff 00000001 7fff",
            r"topics announces 1 at byte 14, 2 bytes|topics\[\]\.name announces 32767 at byte 16",
        ),
        ("00000003 00000001 ffff ffff 0001", "acks to topic_data at byte 12 of 14: the bytes end within it"),
        ("0001000c 00000001 ffff 00" + "00" * 25 + "010101" + "01 07 05 0261", "tagged field announces 5 at byte 42"),
    ],
)
def test_nonsense_names_field_value_and_place(data: str, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        codec.decode_request(frame(data))


@pytest.mark.parametrize("length", [0, 1, 126, 127, 128, 254, 255, 256, 16_382, 16_383, 16_384, 32_767])
def test_a_compact_length_takes_as_many_bytes_as_it_needs_and_is_cut_nowhere(length: int) -> None:
    request = DeleteTopicsRequest([DeleteTopicState("n" * length)], timeout_ms=77)
    data = b"".join(codec.encode_request(ApiKey.DELETE_TOPICS, 6, 1, "", request))[4:]
    decoded = codec.decode_request(memoryview(data))[1]
    assert (decoded.topics, decoded.timeout_ms) == (request.topics, 77)
    for end in range(11, min(len(data), 20)):
        with pytest.raises(ProtocolError):
            codec.decode_request(memoryview(data[:end]))


@pytest.mark.parametrize("lengths", [[20_000], [12_000, 12_000]])
def test_the_array_elements_of_a_request_are_bounded_together(lengths: list[int]) -> None:
    def request(lengths: list[int]) -> memoryview:
        topics = [ForgottenTopic(topic="t", partitions=[7] * length) for length in lengths]
        message = FetchRequest(forgotten_topics_data=topics)
        return memoryview(b"".join(codec.encode_request(ApiKey.FETCH, 11, 1, None, message)))[4:]

    with pytest.raises(ProtocolError, match=r"Fetch v11 request: with \d+ of .*partitions .* more than 20000 array"):
        codec.decode_request(request(lengths))
    allowed = request([lengths[0] - 1, 0][: len(lengths)])  # the topics are elements, too
    assert len(codec.decode_request(allowed)[1].forgotten_topics_data[0].partitions) == lengths[0] - 1


def test_a_tagged_field_must_have_the_size_it_announces() -> None:
    good = b"".join(codec.encode_request(ApiKey.FETCH, 12, 1, None, FetchRequest(cluster_id="ab")))
    at = good.rindex(b"\x00\x03\x03ab")
    wrong = good[:at] + b"\x00\x02\x03ab" + good[at + 5 :]
    with pytest.raises(ProtocolError, match="cluster_id announces 2 bytes and holds 3"):
        codec.decode_request(memoryview(wrong)[4:])


def test_bytes_behind_a_request_are_ignored_as_kafka_ignores_them() -> None:
    assert codec.decode_request(frame("00030001 00000001 ffff ffffffff abcdef"))[1] == MetadataRequest(topics=None)


def test_metadata_tells_all_topics_from_none() -> None:
    assert codec.decode_request(frame("00030000 00000001 ffff 00000000"))[1].topics == []
    assert codec.decode_request(frame("00030001 00000001 ffff 00000000"))[1].topics == []
    assert codec.decode_request(frame("00030001 00000001 ffff ffffffff"))[1].topics is None


def one_partition(**fields: object) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse("t", partitions=[PartitionData(**fields)])])  # type: ignore[arg-type]


@pytest.mark.parametrize(("version", "empty"), [(4, b"\0\0\0\0"), (11, b"\0\0\0\0"), (12, b"\x01\0\0\0")])
@pytest.mark.parametrize("records", [None, b"", []])
def test_an_empty_fetch_is_zero_length_never_null(version: int, empty: bytes, records: object) -> None:
    data = b"".join(codec.encode_response(ApiKey.FETCH, version, 1, one_partition(records=records)))
    assert data.endswith(empty)
    decoded = codec.decode_response(ApiKey.FETCH, version, memoryview(data)[4:])[1]
    assert decoded.responses[0].partitions[0].records == b""


def test_a_null_fetch_of_another_broker_is_read() -> None:
    data = b"".join(codec.encode_response(ApiKey.FETCH, 4, 1, one_partition(records=b"")))
    null = memoryview(data[4:-4] + b"\xff\xff\xff\xff")
    assert codec.decode_response(ApiKey.FETCH, 4, null)[1].responses[0].partitions[0].records is None


@pytest.mark.parametrize("version", range(4, 19))
def test_payloads_leave_by_reference_and_arrive_as_views(version: int) -> None:
    payload = memoryview(bytes(range(256)) * 8)
    parts: list[bytes | bytearray | memoryview] = [b"one", bytearray(b"two"), payload]
    response = FetchResponse(
        responses=[
            FetchableTopicResponse("t", bytes(16), [PartitionData(0, records=payload), PartitionData(1, records=parts)])
        ]
    )
    buffers = codec.encode_response(ApiKey.FETCH, version, 1, response)
    assert sum(buffer is payload for buffer in buffers) == 2
    assert any(buffer is parts[0] for buffer in buffers)
    data = bytearray(b"".join(buffers))
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    first, second = codec.decode_response(ApiKey.FETCH, version, memoryview(data)[4:])[1].responses[0].partitions
    assert first.records == payload
    assert second.records == b"onetwo" + payload
    assert first.records.obj is data


def test_produce_hands_the_batch_out_as_a_view_that_can_be_patched() -> None:
    request = ProduceRequest(
        acks=-1, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(3, b"abc")])]
    )
    data = bytearray(b"".join(codec.encode_request(ApiKey.PRODUCE, 9, 1, None, request)))
    records = codec.decode_request(memoryview(data)[4:])[1].topic_data[0].partition_data[0].records
    records[0] = ord("X")
    assert b"Xbc" in data
    null = ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(3, None)])])
    data = bytearray(b"".join(codec.encode_request(ApiKey.PRODUCE, 9, 1, None, null)))
    assert codec.decode_request(memoryview(data)[4:])[1] == null


def test_ignorable_fields_are_dropped_others_are_refused() -> None:
    dropped = FetchRequest(rack_id="r", session_id=5, max_bytes=7)  # ignorable below 11 and 7
    assert codec.decode_request(memoryview(b"".join(codec.encode_request(1, 4, 1, None, dropped)))[4:])[1].rack_id == ""
    partition = ListOffsetsPartitionResponse(leader_epoch=3)
    response = ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [partition])])
    with pytest.raises(
        EncodeError, match=r"ListOffsets v3 response cannot carry topics\[\]\.partitions\[\]\.leader_epoch=3"
    ):
        codec.encode_response(ApiKey.LIST_OFFSETS, 3, 1, response)
    codec.encode_response(ApiKey.LIST_OFFSETS, 4, 1, response)
    hint = one_partition(current_leader=LeaderIdAndEpoch(1, 2))
    with pytest.raises(EncodeError, match="current_leader"):
        codec.encode_response(ApiKey.FETCH, 11, 1, hint)
    codec.encode_response(ApiKey.FETCH, 11, 1, one_partition(current_leader=LeaderIdAndEpoch()))


@pytest.mark.parametrize("version", [4, 7])
@pytest.mark.parametrize(("name", "end"), [("x" * 32_767, "xxx..."), ("ü" * 16_383, "ü...")])
def test_the_message_of_an_error_is_shortened_to_what_a_string_may_have(version: int, name: str, end: str) -> None:
    """It quotes what was asked for, as long as a string can be: the connection was closed without an answer."""
    topics = [CreatableTopicResult("t", b"\1" * 16, 17, f"a topic's name has 249 characters, not {name}")]
    frame = b"".join(codec.encode_response(ApiKey.CREATE_TOPICS, version, 1, CreateTopicsResponse(topics=topics)))
    told = codec.decode_response(ApiKey.CREATE_TOPICS, version, memoryview(frame)[4:])[1].topics[0].error_message
    assert told.startswith("a topic's name has 249 characters, not ")
    assert told.endswith(end)
    assert 32_765 <= len(told.encode()) <= 32_767


def test_what_does_not_fit_is_refused_by_name() -> None:
    wide = ListOffsetsResponse(
        topics=[ListOffsetsTopicResponse("t", [ListOffsetsPartitionResponse(error_code=1 << 20)])]
    )
    with pytest.raises(EncodeError, match=r"v1 response: .*partition_index to .*offset cannot be written"):
        codec.encode_response(2, 1, 1, wide)
    with pytest.raises(EncodeError, match=r"name cannot be written"):
        codec.encode_response(2, 1, 1, ListOffsetsResponse(topics=[ListOffsetsTopicResponse(None, [])]))  # type: ignore[arg-type]
    for version in (1, 6):
        with pytest.raises(EncodeError, match="name"):
            codec.encode_response(
                2, version, 1, ListOffsetsResponse(topics=[ListOffsetsTopicResponse("x" * 32768, [])])
            )
    topics = DeleteTopicsRequest(topics=[DeleteTopicState("t")])
    with pytest.raises(EncodeError, match="cannot carry topics"):
        codec.encode_request(ApiKey.DELETE_TOPICS, 5, 1, None, topics)


def test_tags_leave_in_ascending_order() -> None:
    request = FetchRequest(cluster_id="c", replica_state=ReplicaState(1, 2))
    data = b"".join(codec.encode_request(ApiKey.FETCH, 15, 1, None, request))
    assert data.endswith(b"\x02" + b"\x00\x02\x02c" + b"\x01\x0d" + b"\0\0\0\1" + b"\0" * 7 + b"\2" + b"\0")


def test_the_registry_and_the_tables_agree() -> None:
    assert sorted(SPOKEN) == list(ApiKey) == sorted({*VERSIONS, *BROKER_VERSIONS})
    assert not VERSIONS.keys() & BROKER_VERSIONS.keys()
    for key, api in APIS.items():
        assert api.key == key
        assert (api.request.cls, api.response.cls) == (REQUESTS[key], RESPONSES[key])
        assert key_of(api.request.cls) is key_of(api.response.cls) is ApiKey(key)
    assert len(REQUESTS) == len(APIS) == len(ApiKey)


@pytest.mark.parametrize("key", list(SPOKEN), ids=lambda key: ApiKey(key).name.lower())
def test_an_answer_written_in_steps_is_the_same(key: int) -> None:
    for version in range(SPOKEN[key][0], SPOKEN[key][1] + 1):
        kio = oracle.generate(Random(version), oracle.kio_class(key, version, response=True))
        response = oracle.ours(kio, RESPONSES[key])
        at_once = codec.encode_response(key, version, 7, response)
        assert b"".join(_in_steps(key, version, response)) == b"".join(at_once)


def _in_steps(key: int, version: int, response: Any) -> list[Buffer]:
    steps = codec.encode_response_in_steps(key, version, 7, response)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            buffers: list[Buffer] = end.value
            return buffers


def test_an_answer_of_many_bytes_takes_many_steps() -> None:
    """45 groups of one member each, 45 MB, were one step of 60 ms."""
    members = [DescribedGroupMember(member_metadata=bytes([at]) * 300_000) for at in range(30)]
    response = DescribeGroupsResponse(groups=[DescribedGroup(members=[one]) for one in members])
    assert len(list(codec.encode_response_in_steps(ApiKey.DESCRIBE_GROUPS, 5, 7, response))) == 1 + 7
    buffers = _in_steps(ApiKey.DESCRIBE_GROUPS, 5, response)
    assert max(map(len, buffers)) < BYTES_PER_STEP + 301_000
    assert b"".join(buffers) == b"".join(codec.encode_response(ApiKey.DESCRIBE_GROUPS, 5, 7, response))


def test_an_answer_of_many_elements_takes_many_steps() -> None:
    response = MetadataResponse(topics=[MetadataResponseTopic(0, f"t{number}") for number in range(5000)])
    assert len(list(codec.encode_response_in_steps(ApiKey.METADATA, 12, 7, response))) == 6


@pytest.mark.parametrize("key", sorted(SPOKEN))
def test_a_response_that_is_passed_on_is_the_answer_to_another_request(key: ApiKey) -> None:
    first, last = SPOKEN[key]
    for version in range(first, last + 1):
        response = RESPONSES[key]()
        fields = {one.name: one for one in APIS[key].response.fields}
        tells = "throttle_time_ms" in fields and fields["throttle_time_ms"].is_in(version)
        if tells:
            response.throttle_time_ms = 77
        came = memoryview(b"".join(codec.encode_response(key, version, 5, response)))[4:]
        buffers, throttle_ms = codec.pass_on_response(key, version, 2**31 - 1, came)
        assert b"".join(buffers) == b"".join(codec.encode_response(key, version, 2**31 - 1, response))
        first_field = next(one for one in fields.values() if one.is_in(version))
        assert throttle_ms == (77 if tells and first_field.name == "throttle_time_ms" else 0)
