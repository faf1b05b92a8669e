"""Offsets, options and plans: pure arithmetic, no Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.ids import TopicPartition
from barnabas.spark_bridge.offsets import (
    OffsetError,
    Offsets,
    Span,
    fresh,
    is_fresh,
    lag_metrics,
    limit,
    parse_option,
    parse_stored,
    split,
    stored_form,
)
from barnabas.spark_bridge.options import OptionError, read_options
from barnabas.spark_bridge.planning import forward, resolve, spans_between, starts_of_new

A0, A1, A10, B0 = (TopicPartition(*where) for where in (("a", 0), ("a", 1), ("a", 10), ("b", 0)))
SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}

offsets = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 20)), st.integers(0, 2**62), min_size=1
)


@given(offsets, offsets)
def test_stored_offsets_survive_json_in_one_order(end: Offsets, begun: Offsets) -> None:
    text = json.dumps(stored_form(end, begun))
    assert parse_stored(json.loads(text)) == (end, begun)
    assert json.dumps(stored_form(dict(reversed(end.items())), dict(reversed(begun.items())))) == text
    assert json.dumps(json.loads(text)) == text


def test_partitions_stand_in_the_order_of_their_numbers() -> None:
    assert json.dumps(stored_form({A10: 1, A1: 2, B0: 3}, {})) == '{"a": {"1": 2, "10": 1}, "b": {"0": 3}}'


def test_the_marker_of_a_new_query_never_changes() -> None:
    assert is_fresh(fresh())
    assert parse_stored(fresh()) == ({}, {})
    assert not is_fresh(stored_form({A0: 1}, {A0: 0}))


@pytest.mark.parametrize("stored", [{"a": 5}, {"a": {"x": 1}}, {"a": {"0": "y"}}])
def test_a_checkpoint_of_another_source_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(OffsetError, match="another source"):
        parse_stored(stored)


@given(offsets, st.data(), st.integers(1, 10_000))
def test_a_limit_moves_every_partition_and_none_too_far(end: Offsets, data: st.DataObject, rows: int) -> None:
    start = {where: data.draw(st.integers(0, offset)) for where, offset in end.items()}
    limited = limit(start, end, rows)
    assert all(start[where] <= limited[where] <= end[where] for where in end)
    assert all(limited[where] > start[where] for where in end if end[where] > start[where])
    if sum(end[where] - start[where] for where in end) <= rows:
        assert limited == end
    else:
        assert sum(limited[where] - start[where] for where in end) <= rows + len(end)


def test_a_limit_is_in_proportion() -> None:
    assert limit({A0: 0, A1: 0, B0: 0}, {A0: 1000, A1: 100, B0: 1}, 110) == {A0: 99, A1: 9, B0: 1}


@given(st.integers(0, 100), st.integers(1, 1000), st.integers(1, 50), st.integers(1, 20))
def test_cut_spans_join_to_the_whole(start: int, size: int, rows: int, pieces: int) -> None:
    whole = Span(A0, start, start + size)
    for cut in (split([whole], rows, None), split([whole], None, pieces)):
        assert (cut[0].start, cut[-1].end) == (start, start + size)
        assert all(before.end == after.start for before, after in pairwise(cut))
        assert all(piece.start < piece.end for piece in cut)
    assert all(piece.end - piece.start <= rows for piece in split([whole], rows, None))
    assert len(split([whole], None, pieces)) == min(pieces, size)


def test_lag_has_kafka_s_names() -> None:
    assert lag_metrics({A0: 10, A1: 4}, {A0: 4, A1: 4}) == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "6",
        "avgOffsetsBehindLatest": "3.0",
    }


class Fake:
    """A cluster of two partitions: a-0 holds 5 to 9, a-1 holds 0 to 3; records are as old as their offset."""

    def __init__(self) -> None:
        self.log = {A0: (5, 10), A1: (0, 4)}

    def partitions(self) -> list[TopicPartition]:
        return sorted(self.log)

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return {where: self.log[where][0] for where in partitions}

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return {where: self.log[where][1] for where in partitions}

    def at_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {
            where: max(at, self.log[where][0]) if at < self.log[where][1] else None for where, at in timestamps.items()
        }


def starting(mode: Any = "stream", **options: str) -> Offsets:
    read = read_options({**SERVERS, "subscribe": "a", **options}, mode)
    return resolve(Fake(), read.starting, [A0, A1], side="starting", or_latest=read.or_latest)


def test_starts_resolve_in_spark_s_precedence() -> None:
    assert starting() == {A0: 10, A1: 4}
    assert starting("batch") == {A0: 5, A1: 0}
    assert starting(startingOffsets="EARLIEST") == {A0: 5, A1: 0}
    assert starting(startingOffsets='{"a":{"0":7,"1":-1}}') == {A0: 7, A1: 4}
    by_time = {"startingOffsetsByTimestamp": '{"a":{"0":6,"1":2}}', "startingOffsets": "earliest"}
    assert starting(**by_time) == {A0: 6, A1: 2}
    assert starting(startingTimestamp="3", **by_time) == {A0: 5, A1: 3}


def test_a_timestamp_beyond_the_log_follows_the_strategy() -> None:
    with pytest.raises(OptionError, match="a-1"):
        starting(startingTimestamp="6")
    assert starting(startingTimestamp="6", startingOffsetsByTimestampStrategy="latest") == {A0: 6, A1: 4}


def test_offsets_must_name_exactly_what_is_read() -> None:
    with pytest.raises(OptionError, match="missing a-1; too many b-0"):
        starting(startingOffsets='{"a":{"0":7},"b":{"0":1}}')


def test_new_and_vanished_partitions() -> None:
    options = read_options({**SERVERS, "subscribe": "a"}, "stream")
    assert starts_of_new(Fake(), options, {}, {A0: 10, A1: 4}, first=True) == {A0: 10, A1: 4}
    assert starts_of_new(Fake(), options, {A0: 7}, {A0: 10, A1: 4}, first=False) == {A1: 0}
    with pytest.raises(OffsetError, match="b-0 are gone"):
        starts_of_new(Fake(), options, {A0: 7, B0: 1}, {A0: 10}, first=False)
    lenient = read_options({**SERVERS, "subscribe": "a", "failOnDataLoss": "false"}, "stream")
    assert starts_of_new(Fake(), lenient, {A0: 7, B0: 1}, {A0: 10}, first=False) == {}
    with pytest.raises(OptionError, match="does not have nothing"):
        starts_of_new(Fake(), read_options({**SERVERS, "subscribe": "a,nothing"}, "stream"), {}, {A0: 1}, first=True)


def test_a_plan_never_goes_backwards() -> None:
    options = read_options({**SERVERS, "subscribe": "a"}, "stream")
    with pytest.raises(OffsetError, match="a-0 was read up to 12 and ends at 10"):
        forward(options, {A0: 12}, {A0: 10})
    lenient = read_options({**SERVERS, "subscribe": "a", "failondataloss": "false"}, "stream")
    assert forward(lenient, {A0: 12}, {A0: 10}) == {A0: 12}
    assert spans_between({A0: 5, A1: 4}, {A0: 9, A1: 4}) == [Span(A0, 5, 9)]


def test_options_are_read_whatever_their_case() -> None:
    read = read_options(
        {
            "KAFKA.Bootstrap.Servers": "h:1",
            "ASSIGN": '{"a":[1,0]}',
            "maxoffsetspertrigger": "10",
            "includeHeaders": "TRUE",
            "kafka.fetch.max.bytes": "100",
            "fetchOffset.numRetries": "0",
        },
        "stream",
    )
    assert read.client == {"bootstrap.servers": "h:1", "fetch.max.bytes": "100"}
    assert read.assigned == (A0, A1)
    assert (read.rows_per_trigger_max, read.include_headers, read.attempts_max) == (10, True, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers is required"),
        ({"subscribepattern": "x"}, "not subscribe and subscribepattern"),
        ({"failOnDataLoss": "yes"}, "neither true nor false"),
        ({"maxOffsetsPerTrigger": "0"}, "at least 1"),
        ({"startingOffsets": "first"}, "expected JSON like"),
        ({"startingOffset": "latest"}, "did you mean 'startingoffsets'"),
        ({"minOffsetsPerTrigger": "5"}, "not supported yet"),
        ({"kafka.auto.offset.reset": "latest"}, "use the option startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, "the checkpoint holds them"),
        ({"kafka.key.deserializer": "x"}, "keys are read as bytes"),
        ({"endingTimestamp": "1"}, "does not apply to a streaming query"),
        ({"startingOffsetsByTimestampStrategy": "x"}, "error or latest"),
        ({"subscribe": " , "}, "names no topic"),
    ],
)
def test_bad_options_get_one_sentence(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_options({**SERVERS, "subscribe": "a", **options}, "stream")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a":1}', '{"a":{"x":1}}'])
def test_malformed_offsets_name_the_option(text: str) -> None:
    with pytest.raises(OffsetError, match="startingOffsets: expected JSON"):
        parse_option("startingOffsets", text)
