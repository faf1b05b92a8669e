"""What is written by hand is what the tables write."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.kafka.coordinator import consumer_groups as kafka
from barnabas.protocol.kafka.coordinator import records
from barnabas.protocol.kafka.coordinator.members import (
    current_value,
    epoch_key,
    epoch_value,
    member_key,
    member_value,
    target_value,
)

IDS = st.binary(min_size=16, max_size=16)
EPOCHS = st.integers(-(2**31), 2**31 - 1)
NUMBERS = st.integers(0, 2**31 - 1)
GIVEN = st.dictionaries(IDS, st.dictionaries(NUMBERS, EPOCHS, min_size=1, max_size=200), max_size=3)


def written(given: dict[bytes, dict[int, int]]) -> list[kafka.TopicPartitions]:
    return [
        kafka.TopicPartitions(topic_id, sorted(some), [some[number] for number in sorted(some)])
        for topic_id, some in sorted(given.items())
    ]


@given(st.text(max_size=200), st.text(max_size=200))
def test_keys(group: str, member: str) -> None:
    keys: list[tuple[int, Any]] = [
        (5, kafka.ConsumerGroupMemberMetadataKey(group, member)),
        (7, kafka.ConsumerGroupTargetAssignmentMemberKey(group, member)),
        (8, kafka.ConsumerGroupCurrentMemberAssignmentKey(group, member)),
    ]
    for number, key in keys:
        assert member_key(number, group, member) == records.encode_key(key)


@given(st.text(max_size=200), EPOCHS, st.just(0) | st.integers(-(2**63), 2**63 - 1))
def test_the_epoch_of_a_group(group: str, epoch: int, metadata_hash: int) -> None:
    assert epoch_key(group) == records.encode_key(kafka.ConsumerGroupMetadataKey(group))
    value = kafka.ConsumerGroupMetadataValue(epoch, metadata_hash)
    assert epoch_value(epoch, metadata_hash) == records.encode_value(value)


TEXTS = st.text(max_size=200)
MAYBE = st.none() | TEXTS


@given(st.tuples(MAYBE, MAYBE, TEXTS, TEXTS, st.lists(TEXTS, max_size=200), MAYBE, EPOCHS, MAYBE))
def test_what_a_member_says(said: Any) -> None:
    assert member_value(*said) == records.encode_value(kafka.ConsumerGroupMemberMetadataValue(*said))


def check_target(target: dict[bytes, frozenset[int]]) -> None:
    parts = [kafka.TopicPartition(topic_id, sorted(some)) for topic_id, some in sorted(target.items())]
    assert target_value(target) == records.encode_value(kafka.ConsumerGroupTargetAssignmentMemberValue(parts))


def check_current(epochs: tuple[int, int, int], assigned: Any, revoking: Any) -> None:
    value = kafka.ConsumerGroupCurrentMemberAssignmentValue(*epochs, written(assigned), written(revoking))
    assert current_value(*epochs, assigned, revoking) == records.encode_value(value)


@given(st.dictionaries(IDS, st.frozensets(NUMBERS, max_size=200), max_size=3))
def test_what_a_member_is_to_have(target: dict[bytes, frozenset[int]]) -> None:
    check_target(target)


@given(st.tuples(EPOCHS, EPOCHS, st.integers(-128, 127)), GIVEN, GIVEN)
def test_what_a_member_has(epochs: tuple[int, int, int], assigned: Any, revoking: Any) -> None:
    check_current(epochs, assigned, revoking)


@pytest.mark.parametrize("count", [0, 1, 126, 127, 128, 16_382, 16_383, 16_384])
def test_where_a_length_takes_one_byte_more(count: int) -> None:
    some = dict.fromkeys(range(count), 5)
    check_current((5, 4, 0), {b"t" * 16: some}, {})
    check_target({b"t" * 16: frozenset(some)})
