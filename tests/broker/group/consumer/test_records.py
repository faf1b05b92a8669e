"""What lies in the log of groups of the consumer protocol: the records, and the hash of a group's topics."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.group.consumer.hashing import topic_hash, xxh3_64
from barnabas.broker.group.consumer.records import keys_of_member
from barnabas.broker.group.consumer.values import (
    Classic,
    ConsumerRecord,
    Current,
    CurrentRecord,
    EpochRecord,
    MemberRecord,
    MemberState,
    PatternRecord,
    Resolved,
    Subscription,
    TargetEpochRecord,
    TargetRecord,
)
from barnabas.broker.group.records import decode, encode
from barnabas.broker.group.tombstones import of_member
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.kafka.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from barnabas.protocol.kafka.coordinator import consumer_groups as kafka
from barnabas.protocol.kafka.coordinator import records

T, U = b"t" * 16, b"u" * 16
WANTS = encode_subscription(ConsumerProtocolSubscription(["a", "b"]))
SAID = Subscription("i", "r", "c", "/10.0.0.1", ("a", "b"), "x.*", 5000, "range", Classic(6000, (("range", WANTS),)))
HAS = Current(5, 4, MemberState.UNREVOKED_PARTITIONS, {T: {0: 3, 7: 5}}, {U: {1: 2}})
RECORDS: list[ConsumerRecord] = [
    EpochRecord("g", 7, -5),
    EpochRecord("g", None),
    MemberRecord("g", "m", SAID),
    MemberRecord("g", "m", Subscription()),
    MemberRecord("g", "m", None),
    TargetEpochRecord("g", 7, 1_700_000_000_000),
    TargetEpochRecord("g", None),
    TargetRecord("g", "m", {T: frozenset({0, 7}), U: frozenset({1})}),
    TargetRecord("g", "m", {}),
    TargetRecord("g", "m", None),
    CurrentRecord("g", "m", HAS),
    CurrentRecord("g", "m", None),
    PatternRecord("g", "x.*", Resolved(frozenset({"x1", "x2"}), 9, 1_700_000_000_000)),
    PatternRecord("g", "x.*", None),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_what_is_written_is_read(record: ConsumerRecord) -> None:
    assert decode(*encode(record)) == record


@pytest.mark.parametrize("protocols", [(), (("range", b"m"),), (("range", WANTS), ("sticky", WANTS[:-3]))])
def test_a_classic_member_of_whom_nobody_could_say_what_it_wants_is_no_record(protocols: tuple[Any, ...]) -> None:
    """Once it was read, its group could never become a classic one again: who was silent stayed a member for ever."""
    written = encode(MemberRecord("g", "m", SAID._replace(classic=Classic(6000, protocols))))
    with pytest.raises(ProtocolError, match="a classic member"):
        decode(*written)


@pytest.mark.parametrize("member_id", ["m", "", "Mitglied-ü", "m" * 300])
def test_the_keys_of_a_member_that_goes_are_those_of_its_tombstones(member_id: str) -> None:
    assert [(key, None) for key in keys_of_member("g", member_id)] == [encode(one) for one in of_member("g", member_id)]


def test_a_record_of_an_earlier_release_has_the_members_epoch_for_all() -> None:
    """Before KIP-1251 there were no assignment epochs, and before 4.3 no time of a target."""
    key = records.encode_key(kafka.ConsumerGroupCurrentMemberAssignmentKey("g", "m"))
    value = kafka.ConsumerGroupCurrentMemberAssignmentValue(5, 4, 0, [kafka.TopicPartitions(T, [0, 7])], [])
    found = decode(key, records.encode_value(value))
    assert found == CurrentRecord("g", "m", Current(5, 4, MemberState.STABLE, {T: {0: 5, 7: 5}}, {}))


def test_a_state_of_a_later_release_is_unknown() -> None:
    key = records.encode_key(kafka.ConsumerGroupCurrentMemberAssignmentKey("g", "m"))
    found = decode(key, records.encode_value(kafka.ConsumerGroupCurrentMemberAssignmentValue(5, 4, 9)))
    assert found == CurrentRecord("g", "m", Current(5, 4, MemberState.UNKNOWN, {}, {}))


HASHES = [
    (0, 3244421341483603138),
    (1, 1433843135270481901),
    (3, -6266602912829716452),
    (4, 7895465118229274323),
    (8, 6941064856527638883),
    (9, -72226354546400344),
    (16, -5131753158909839995),
    (17, 8163341949877205007),
    (32, 1873302701886544469),
    (128, 7440608504995537343),
    (129, -4150982730466284604),
    (239, 2127415575477209850),
    (240, 7229805477010515663),
    (241, -8364630114420064745),
    (1024, -7241394453710343503),
    (1025, -9192937061388044938),
    (3000, -3994278647677818051),
]


@pytest.mark.parametrize(("size", "expected"), HASHES)
def test_the_hash_is_that_of_hash4j(size: int, expected: int) -> None:
    """hash4j 0.22.0 is what Apache Kafka 4.3 hashes with; one size of each way through XXH3."""
    assert xxh3_64(bytes((number * 7 + 3) & 255 for number in range(size))) == expected


def test_the_hash_of_a_topic_is_kafkas() -> None:
    topic_id = bytes([*range(1, 9), *range(0x11, 0x19)])
    assert topic_hash("töpic", topic_id, 3) == 4209755202365859680
