"""The consumers' own protocol: byte for byte against an independent implementation, and what a stranger may send."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.errors import EncodeError, ProtocolError
from barnabas.protocol.kafka.consumer_protocol import (
    VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    assignment_bytes,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from barnabas.protocol.limits import MANY
from tests.protocol.kafka import oracle


def theirs(stem: str) -> list[Any]:
    """The oracle's class of each version."""
    name = stem.title().replace("_", "")
    return [getattr(import_module(f"kio.schema.{stem}.v{version}"), name) for version in range(VERSION + 1)]


SUBSCRIPTIONS = theirs("consumer_protocol_subscription")
ASSIGNMENTS = theirs("consumer_protocol_assignment")
FULL = ConsumerProtocolSubscription(["a", "b"], b"data", [TopicPartition("a", [0, 2])], 7, "rack")


@pytest.mark.parametrize("version", range(VERSION + 1))
def test_bytes_agree_with_the_oracle(version: int) -> None:
    for seed in range(40):
        random = Random(seed)
        entity = oracle.generate(random, SUBSCRIPTIONS[version])
        subscription = oracle.ours(entity, ConsumerProtocolSubscription)
        expected = version.to_bytes(2, "big") + oracle.write(entity)
        assert encode_subscription(subscription, version) == expected, f"seed {seed}"
        assert decode_subscription(expected) == subscription, f"seed {seed}"
        entity = oracle.generate(random, ASSIGNMENTS[version])
        assignment = oracle.ours(entity, ConsumerProtocolAssignment)
        expected = version.to_bytes(2, "big") + oracle.write(entity)
        assert encode_assignment(assignment, version) == expected, f"seed {seed}"
        assert decode_assignment(expected) == assignment, f"seed {seed}"


def test_what_a_version_lacks_is_left_out() -> None:
    told = [decode_subscription(encode_subscription(FULL, version)) for version in range(VERSION + 1)]
    assert told == [
        ConsumerProtocolSubscription(["a", "b"], b"data"),
        ConsumerProtocolSubscription(["a", "b"], b"data", [TopicPartition("a", [0, 2])]),
        ConsumerProtocolSubscription(["a", "b"], b"data", [TopicPartition("a", [0, 2])], 7),
        FULL,
    ]


def test_a_newer_version_is_read_as_the_last_one() -> None:
    newer = b"\0\x63" + encode_subscription(FULL)[2:] + b"and what is new"
    assert decode_subscription(newer) == FULL
    assignment = ConsumerProtocolAssignment([TopicPartition("a", [1])])
    assert decode_assignment(b"\x7f\xff" + encode_assignment(assignment)[2:] + b"more") == assignment


def test_no_bytes_are_an_assignment_of_nothing_and_no_subscription() -> None:
    assert decode_assignment(b"") == ConsumerProtocolAssignment()
    with pytest.raises(ProtocolError, match="ConsumerProtocolSubscription: 0 bytes"):
        decode_subscription(b"")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\0", "1 bytes, it begins with a number of two"),
        (b"\xff\xff\0\0\0\0", "v-1 is unknown: there are none below v0"),
        (b"\0\0\0\0\0\1", "topics announces 1 at byte"),
        (b"\0\0\x7f\xff\xff\xff", "topics announces 2147483647"),
        (b"\0\0\xff\xff\xff\xff\0\0\0\0", "topics is null"),
        (b"\0\1\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", "owned_partitions is null"),
    ],
)
def test_nonsense_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        decode_subscription(data)


def test_the_elements_of_a_subscription_are_bounded() -> None:
    decode_subscription(encode_subscription(ConsumerProtocolSubscription([""] * MANY)))
    with pytest.raises(ProtocolError, match="array elements"):
        decode_subscription(encode_subscription(ConsumerProtocolSubscription([""] * (MANY + 1))))


def test_an_unknown_version_is_not_written() -> None:
    with pytest.raises(EncodeError, match="has no version 4, only 0 to 3"):
        encode_subscription(FULL, 4)


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    decoders: tuple[Any, ...] = (decode_subscription, decode_assignment)
    for decode in decoders:
        with suppress(ProtocolError):
            decode(data)


@given(st.lists(st.tuples(st.text(max_size=20), st.lists(st.integers(0, 2**31 - 1), max_size=20)), max_size=5))
def test_an_assignment_by_hand_is_that_of_the_table(parts: list[tuple[str, list[int]]]) -> None:
    told = ConsumerProtocolAssignment([TopicPartition(topic, numbers) for topic, numbers in parts])
    for version in range(VERSION + 1):
        assert assignment_bytes(parts, version) == encode_assignment(told, version)
