"""Error numbers, names and retriability against the oracle."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as Theirs

from barnabas.protocol.errors import RETRIABLE, STALE_METADATA, ErrorCode, KafkaError


def test_numbers_and_names_agree_with_the_oracle() -> None:
    theirs = {code.value: code.name.upper() for code in Theirs}
    ours = {int(code): code.name for code in ErrorCode}
    assert {number: ours.get(number) for number in theirs} == theirs


def test_retriable_errors_agree_with_the_oracle() -> None:
    assert {int(code) for code in RETRIABLE} == {code.value for code in Theirs if code.retriable}


def test_what_calls_for_metadata_is_retriable() -> None:
    assert STALE_METADATA <= RETRIABLE


def test_an_error_keeps_its_name_and_number() -> None:
    error = KafkaError(3, "topic-0")
    assert str(error) == "UNKNOWN_TOPIC_OR_PARTITION(3): topic-0"
    assert error.retriable
    assert str(KafkaError(ErrorCode.INVALID_RECORD)) == "INVALID_RECORD(87)"
    unknown = KafkaError(9999)
    assert unknown.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "9999" in str(unknown)
    assert not unknown.retriable
