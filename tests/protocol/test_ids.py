"""Uuids in Kafka's text form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.ids import ZERO_UUID, TopicPartition, format_uuid, parse_uuid


@given(st.binary(min_size=16, max_size=16))
def test_text_and_back(raw: bytes) -> None:
    text = format_uuid(raw)
    assert len(text) == 22
    assert parse_uuid(text) == raw


def test_known_uuids() -> None:
    assert format_uuid(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert format_uuid(bytes(15) + b"\x01") == "AAAAAAAAAAAAAAAAAAAAAQ"  # Kafka's metadata topic
    assert format_uuid(b"\xff" * 16) == "_____________________w"


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 23, "A" * 21, "!" * 4 + "A" * 22, "A" * 21 + "B", "ü" * 22])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_uuid(text)


def test_a_partition_reads_as_kafka_writes_it() -> None:
    assert str(TopicPartition("my-topic", 3)) == "my-topic-3"
