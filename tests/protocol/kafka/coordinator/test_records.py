"""Records of `__consumer_offsets`: the bytes that Apache Kafka 4.3.0 wrote for the same values."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.errors import EncodeError, ProtocolError
from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.kafka.coordinator import classic_groups as classic
from barnabas.protocol.kafka.coordinator import consumer_groups as groups
from barnabas.protocol.kafka.coordinator.offsets import (
    OffsetCommitKey,
    OffsetCommitValue,
    commit_batch,
    commit_key,
    commit_value,
)
from barnabas.protocol.kafka.coordinator.records import (
    RecordType,
    UnknownRecordType,
    decode,
    encode_key,
    encode_value,
    kinds,
)
from barnabas.protocol.records import single

ID = bytes(range(1, 17))
ID_HEX = ID.hex()

COMMIT = OffsetCommitValue(7, 5, "m", 1000, 2000, ID)
MEMBER = classic.MemberMetadata("l", "i", "c", "/h", 60, 10, b"\1\2", b"\3")
GROUP = classic.GroupMetadataValue("consumer", 2, "range", "l", 9, [MEMBER])
KEYS: list[tuple[Any, str]] = [
    (OffsetCommitKey("g", "t", 3), "000100016700017400000003"),
    (classic.GroupMetadataKey("g"), "0002000167"),
    (groups.ConsumerGroupMetadataKey("g"), "0003000167"),
    (groups.ConsumerGroupPartitionMetadataKey("g"), "0004000167"),
    (groups.ConsumerGroupMemberMetadataKey("g", "m"), "000500016700016d"),
    (groups.ConsumerGroupTargetAssignmentMetadataKey("g"), "0006000167"),
    (groups.ConsumerGroupTargetAssignmentMemberKey("g", "m"), "000700016700016d"),
    (groups.ConsumerGroupCurrentMemberAssignmentKey("g", "m"), "000800016700016d"),
    (groups.ConsumerGroupRegularExpressionKey("g", "t.*"), "00100001670003742e2a"),
]
VALUES: list[tuple[Any, str]] = [
    (OffsetCommitValue(7, 5, "m", 1000), "0004000000000000000700000005026d00000000000003e800"),
    (
        OffsetCommitValue(7, 5, "m", 1000, topic_id=ID),
        f"0004000000000000000700000005026d00000000000003e8010010{ID_HEX}",
    ),
    (
        GROUP,
        "00030008636f6e73756d657200000002000572616e676500016c00000000000000090000000100016c00016900016300022f680000003c"
        "0000000a0000000201020000000103",
    ),
    (classic.GroupMetadataValue("", 0, None, None, 9), "0003000000000000ffffffff000000000000000900000000"),
    (groups.ConsumerGroupMetadataValue(4, 99), "0000000000040100080000000000000063"),
    (
        groups.ConsumerGroupPartitionMetadataValue(
            [groups.TopicMetadata(ID, "t", 2, [groups.PartitionMetadata(1, ["r"])])]
        ),
        f"000002{ID_HEX}0274000000020200000001020272000000",
    ),
    (
        groups.ConsumerGroupMemberMetadataValue(
            "i",
            None,
            "c",
            "/h",
            ["t"],
            "",
            60,
            "uniform",
            groups.ClassicMemberMetadata(10, [groups.ClassicProtocol("range", b"\1\2")]),
        ),
        "00000269000263032f68020274010000003c08756e69666f726d010011010000000a020672616e67650301020000",
    ),
    (groups.ConsumerGroupTargetAssignmentMetadataValue(4, 77), "000000000004010008000000000000004d"),
    (
        groups.ConsumerGroupTargetAssignmentMemberValue([groups.TopicPartition(ID, [0, 1])]),
        f"000002{ID_HEX}0300000000000000010000",
    ),
    (
        groups.ConsumerGroupCurrentMemberAssignmentValue(
            4, 3, 1, [groups.TopicPartitions(ID, [0, 1], [4, 4])], [groups.TopicPartitions(ID, [2])]
        ),
        f"000000000004000000030102{ID_HEX}03000000000000000101000903000000040000000402{ID_HEX}02000000020000",
    ),
    (groups.ConsumerGroupRegularExpressionValue(["t"], 12, 34), "0000020274000000000000000c000000000000002200"),
]


def key_of(value: Any) -> Any:
    (kind,) = [kind for kind in kinds().values() if kind.value.struct.cls is type(value)]
    return next(key for key, _ in KEYS if type(key) is kind.key.struct.cls)


@pytest.mark.parametrize(("key", "written"), KEYS, ids=lambda each: type(each).__name__)
def test_keys_are_apache_kafkas(key: Any, written: str) -> None:
    assert encode_key(key).hex() == written
    assert decode(bytes.fromhex(written), None) == (key, None)


@pytest.mark.parametrize(("value", "written"), VALUES, ids=lambda each: type(each).__name__)
def test_values_are_apache_kafkas(value: Any, written: str) -> None:
    assert encode_value(value).hex() == written
    key = key_of(value)
    assert decode(memoryview(encode_key(key)), memoryview(bytes.fromhex(written))) == (key, value)


def test_every_type_of_record_is_among_them() -> None:
    assert {type(key) for key, _ in KEYS} == {kind.key.struct.cls for kind in kinds().values()}
    assert {type(value) for value, _ in VALUES} == {kind.value.struct.cls for kind in kinds().values()}
    assert set(kinds()) == set(RecordType)


@pytest.mark.parametrize(
    ("version", "written", "kept"),
    [
        (0, "0000000000000000000700016d00000000000003e8", OffsetCommitValue(7, -1, "m", 1000)),
        (
            1,
            "0001000000000000000700016d00000000000003e800000000000007d0",
            OffsetCommitValue(7, -1, "m", 1000, 2000),
        ),
        (2, "0002000000000000000700016d00000000000003e8", OffsetCommitValue(7, -1, "m", 1000)),
        (3, "000300000000000000070000000500016d00000000000003e8", OffsetCommitValue(7, 5, "m", 1000)),
    ],
)
def test_older_versions_of_a_commit(version: int, written: str, kept: OffsetCommitValue) -> None:
    assert encode_value(COMMIT, version).hex() == written
    assert decode(encode_key(KEYS[0][0]), bytes.fromhex(written))[1] == kept


@pytest.mark.parametrize(
    ("version", "written"),
    [
        (
            0,
            "00000008636f6e73756d657200000002000572616e676500016c0000000100016c00016300022f680000000a"
            "0000000201020000000103",
        ),
        (
            1,
            "00010008636f6e73756d657200000002000572616e676500016c0000000100016c00016300022f680000003c0000000a"
            "0000000201020000000103",
        ),
        (
            2,
            "00020008636f6e73756d657200000002000572616e676500016c00000000000000090000000100016c00016300022f68"
            "0000003c0000000a0000000201020000000103",
        ),
        (
            4,
            "000409636f6e73756d6572000000020672616e6765026c000000000000000902026c02690263032f680000003c0000000a"
            "03010202030000",
        ),
    ],
)
def test_other_versions_of_a_group(version: int, written: str) -> None:
    assert encode_value(GROUP, version).hex() == written
    member = classic.MemberMetadata("l", "i" if version > 2 else None, "c", "/h", 60 if version else -1, 10)
    member.subscription, member.assignment = b"\1\2", b"\3"
    kept = classic.GroupMetadataValue("consumer", 2, "range", "l", 9 if version > 1 else -1, [member])
    assert decode(encode_key(classic.GroupMetadataKey("g")), bytes.fromhex(written))[1] == kept


def test_a_field_of_a_later_release_is_passed_over() -> None:
    """Tagged fields are how these records grow (KIP-915)."""
    written = bytes.fromhex("0004000000000000000700000005026d00000000000003e8") + b"\1\x63\3abc"
    assert decode(encode_key(KEYS[0][0]), written)[1] == OffsetCommitValue(7, 5, "m", 1000)


@pytest.mark.parametrize("number", [0, 9, 11, 17, -1])
def test_a_type_that_is_not_kept_is_told_apart_from_damage(number: int) -> None:
    with pytest.raises(UnknownRecordType, match=f"a record of type {number}, which is unknown"):
        decode(number.to_bytes(2, "big", signed=True) + b"\0\1g", None)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (b"", None, "a record's key: 0 bytes"),
        (b"\0\2\0\5g", None, "GroupMetadataKey v0: group announces 5 at byte"),
        (b"\0\2\0\1g", b"", "GroupMetadataValue: 0 bytes"),
        (b"\0\2\0\1g", b"\0\5", "GroupMetadataValue v5 is unknown, only v0 to v4"),
        (b"\0\2\0\1g", b"\0\3\0\1x\0\0", "GroupMetadataValue v3: generation"),
        (b"\0\2\0\1\xff", None, "GroupMetadataKey v0: group .*not UTF-8"),
    ],
)
def test_damage_is_named(key: bytes, value: bytes | None, message: str) -> None:
    with pytest.raises(ProtocolError, match=message) as caught:
        decode(key, value)
    assert not isinstance(caught.value, UnknownRecordType)


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(EncodeError, match="OffsetCommitValue has no version 5, only 0 to 4"):
        encode_value(COMMIT, 5)
    with pytest.raises(EncodeError, match="OffsetCommitValue v4: metadata"):
        encode_value(OffsetCommitValue(metadata="m" * 40_000))


@settings(max_examples=300)
@given(st.sampled_from(KEYS), st.sampled_from(VALUES), st.integers(0, 2**32))
def test_damaged_records_are_read_or_refused(key: tuple[Any, str], value: tuple[Any, str], seed: int) -> None:
    random = Random(seed)
    spoiled = [bytearray(bytes.fromhex(written)) for _, written in (key, value)]
    one = random.choice(spoiled)
    one[random.randrange(len(one))] = random.randrange(256)
    with suppress(ProtocolError):
        decode(*map(bytes, spoiled))


@given(
    st.text(max_size=300),
    st.text(max_size=300),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.text(max_size=300),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([ZERO_UUID, ID]),
)
def test_a_commit_is_written_by_hand_as_its_tables_write_it(
    group: str, topic: str, partition: int, offset: int, epoch: int, metadata: str, committed_ms: int, topic_id: bytes
) -> None:
    assert commit_key(group, topic, partition) == encode_key(OffsetCommitKey(group, topic, partition))
    written = commit_value(offset, epoch, metadata, committed_ms, topic_id)
    assert written == encode_value(OffsetCommitValue(offset, epoch, metadata, committed_ms, topic_id=topic_id))


@given(
    st.text(max_size=300),
    st.text(max_size=300),
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from([ZERO_UUID, ID]),
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1),
            st.integers(-(2**31), 2**31 - 1),
            st.integers(0, 2**60),
            st.integers(0, 2**60),
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_the_batch_of_a_commit_is_that_of_its_only_record(
    group: str, topic: str, partition: int, topic_id: bytes, commits: list[tuple[int, int, int, int]]
) -> None:
    """Each time anew: what is kept of the one before is only what both have."""
    for offset, epoch, committed_ms, wall_ms in commits:
        made = commit_batch(group, topic, partition, offset, epoch, committed_ms, topic_id, wall_ms)
        value = commit_value(offset, epoch, "", committed_ms, topic_id)
        assert made == single(wall_ms, commit_key(group, topic, partition), value)
