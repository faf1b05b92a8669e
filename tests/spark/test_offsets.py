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
from barnabas.spark_bridge.durations import duration_ms
from barnabas.spark_bridge.errors import OptionError
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
    stored_origin,
)
from barnabas.spark_bridge.options import read_options
from barnabas.spark_bridge.origin import Anew, Origin, made_anew
from barnabas.spark_bridge.pace import Pace
from barnabas.spark_bridge.planning import check_within, resolve, spans_between, starts

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


DAMAGED: list[Any] = [
    {"a": 5}, {"a": {"x": 1}}, {"a": {"0": "y"}}, {"$from/a/0": {}}, {"$from/a/0/-1": {}},
    {"a": {"0": -1}}, {"a": {"0": 7.9}}, {"a": {"0": True}}, {"a": {"0": None}}, {"a": {"-1": 1}}, {"logOffset": 3},
    None, 7, [], "a",
]  # fmt: skip


@pytest.mark.parametrize("stored", DAMAGED, ids=json.dumps)
def test_a_checkpoint_of_another_source_or_a_damaged_one_is_refused(stored: Any) -> None:
    """Spark hands over whatever JSON its file holds."""
    assert not is_fresh(stored)
    with pytest.raises(OffsetError, match=r"another source, or damaged ones: .*start from a new checkpoint"):
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


def test_a_least_number_of_tasks_is_dealt_to_the_spans_by_their_size() -> None:
    """Each span gets its share of the tasks, as in Spark's own source: `test_kafka_connector.py` asks that one."""
    spans = [Span(A0, 0, 600), Span(A1, 0, 300), Span(B0, 50, 150)]
    cut = split(spans, None, 10)
    assert [sum(piece.where == where for piece in cut) for where in (A0, A1, B0)] == [6, 3, 1]
    assert [(piece.start, piece.end) for piece in cut if piece.where == A1] == [(0, 100), (100, 200), (200, 300)]
    assert split(spans, None, 3) == spans, "there are enough of them"
    one_is_small = [Span(A0, 0, 1), Span(A1, 0, 999)]
    assert [sum(piece.where == where for piece in split(one_is_small, None, 4)) for where in (A0, A1)] == [1, 3]
    halves = [Span(A0, 0, 50), Span(A1, 0, 50)]
    assert len(split(halves, None, 3)) == 4, "1.5 is rounded up"
    assert len(split([Span(A0, 0, 30), Span(A1, 0, 30), Span(B0, 0, 30)], None, 4)) == 3, "1.33 is rounded down"


def test_spans_are_shared_out_without_looking_for_each_among_the_others() -> None:
    """A hundred thousand partitions would be ten thousand million comparisons."""

    class Compared(Span):
        def __eq__(self, other: object) -> bool:
            compared.append(other)
            return super().__eq__(other)

        __hash__ = Span.__hash__

    compared: list[object] = []
    spans = [Compared(TopicPartition("a", number), 0, 1) for number in range(50)]
    assert split([*spans, Span(B0, 0, 50)], None, 100)[:50] == spans
    assert len(compared) <= 50, "by this test alone"


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
        self.topics = {"a"}

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


def test_a_new_query_needs_the_topics_it_names_and_takes_of_assign_what_is_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assigned = read_options({**SERVERS, "assign": '{"a":[0,7]}', "startingOffsets": "earliest"}, "stream")
    assert starts(Fake(), assigned, {}, {A0: 10}, Anew(), first=True) == {A0: 5}
    assert "assign names partitions that are not there: a-7; they are read once they are" in caplog.text
    absent = read_options({**SERVERS, "assign": '{"a":[0],"b":[1]}'}, "stream")
    with pytest.raises(OptionError, match="the broker does not have b-1: create the topic first"):
        starts(Fake(), absent, {}, {A0: 10}, Anew(), first=True)
    pattern = read_options({**SERVERS, "subscribePattern": "x.*"}, "stream")
    assert starts(Fake(), pattern, {}, {}, Anew(), first=True) == {}


def begins(known: Offsets, latest: Offsets, *recreated: str, first: bool = False, **given: str) -> Offsets:
    options = read_options({**SERVERS, "subscribe": "a", **given}, "stream")
    was, now = (Origin("c", dict.fromkeys(recreated, topic_id)) for topic_id in ("id", "other id"))
    return starts(Fake(), options, known, latest, made_anew(was, now, recreated), first=first)


def test_new_partitions_begin_as_the_options_say_at_first_and_at_their_beginning_later() -> None:
    assert begins({}, {A0: 10, A1: 4}, first=True) == {A0: 10, A1: 4}
    assert begins({A0: 7}, {A0: 10, A1: 4}) == {A1: 0}
    with pytest.raises(OptionError, match="does not have nothing"):
        begins({}, {A0: 1}, first=True, subscribe="a,nothing")


@pytest.mark.parametrize(
    ("known", "latest", "recreated", "said", "begun"),
    [
        ({A0: 7, B0: 1}, {A0: 10}, (), "b-0 are gone, which were read up to 1", {}),
        # A log that lost its end, as after an unclean election, goes on where it ends: nothing is read twice.
        ({A0: 12}, {A0: 10}, (), "a-0 was read up to 12 and ends at 10", {A0: 10}),
        # A topic created anew is read from its beginning, whether it has outgrown the old one or not, has more
        # partitions, or fewer: that is what is said, not that partitions are gone.
        ({A0: 12}, {A0: 10}, ("a",), "^the topic a was deleted and created again", {A0: 5}),
        ({A0: 7, A1: 4}, {A0: 10, A1: 4}, ("a",), "^the topic a was deleted and created again", {A0: 5, A1: 0}),
        ({A0: 7}, {A0: 10, A1: 4}, ("a",), "^the topic a was deleted and created again", {A0: 5, A1: 0}),
        ({A0: 7, A1: 4, A10: 3}, {A0: 10}, ("a",), "^the topic a was deleted and created again", {A0: 5}),
    ],
)
def test_losses_end_the_query_or_are_passed(
    known: Offsets, latest: Offsets, recreated: tuple[str, ...], said: str, begun: Offsets
) -> None:
    with pytest.raises(OffsetError, match=said):
        begins(known, latest, *recreated)
    assert begins(known, latest, *recreated, failOnDataLoss="false") == begun


@pytest.mark.parametrize(("where", "begun"), [("earliest", {A0: 5, A1: 0}), ("latest", {A0: 10, A1: 4})])
def test_a_topic_made_anew_is_read_from_where_the_option_says(where: str, begun: Offsets) -> None:
    """Without giving up what failOnDataLoss protects from."""
    assert begins({A0: 7}, {A0: 10, A1: 4}, "a", onRecreatedTopic=where) == begun
    with pytest.raises(OffsetError, match="a-10 are gone"):
        begins({A0: 7, A10: 1}, {A0: 10, A1: 4}, onRecreatedTopic=where)
    with pytest.raises(OffsetError, match="Set onRecreatedTopic to earliest or latest"):
        begins({A0: 7}, {A0: 10}, "a", failOnDataLoss="false", onRecreatedTopic="fail")


def test_another_cluster_is_known_by_its_id() -> None:
    was, now = Origin("one", {"a": "x"}), Origin("two", {"a": "x"})
    anew = made_anew(was, now, ["a", "b"])
    assert anew.topics == {"a", "b"}
    assert anew.why.startswith("this is another cluster (id two) than the one of the checkpoint (one)")
    for unknown in (Origin("", {"a": "x"}), Origin("two", {})):
        assert made_anew(unknown, now, ["a"]).topics == frozenset()
        assert made_anew(now, unknown, ["a"]).topics == frozenset()
    options = read_options({**SERVERS, "subscribe": "a"}, "stream")
    with pytest.raises(OffsetError, match=r"b-0 are gone \(this is another cluster"):
        starts(Fake(), options, {B0: 3}, {A0: 10}, made_anew(was, now, ["b"]), first=False)


def test_an_option_beyond_the_end_of_a_log_is_refused_or_mended() -> None:
    strict = read_options({**SERVERS, "subscribe": "a"}, "stream")
    with pytest.raises(OptionError, match="endingOffsets lies beyond the end of the log: a-0 ends at 10, not 12"):
        check_within(strict, {A0: 12, A1: 4}, {A0: 10, A1: 4}, "endingOffsets")
    lenient = read_options({**SERVERS, "subscribe": "a", "failondataloss": "false"}, "stream")
    chosen = {A0: 12, A1: 4}
    check_within(lenient, chosen, {A0: 10, A1: 4}, "endingOffsets")
    assert chosen == {A0: 10, A1: 4}
    assert begins({}, {A0: 10}, first=True, startingOffsets='{"a":{"0":10}}') == {A0: 10}


def test_a_plan_is_what_lies_between_two_offsets() -> None:
    assert spans_between({A0: 5, A1: 4}, {A0: 9, A1: 4}) == [Span(A0, 5, 9)]


def test_what_spark_s_form_cannot_say_stands_beside_it_as_topics_without_partitions() -> None:
    """Spark's own source reads a map of topics to maps of partitions to offsets, and so reads over these."""
    stored = stored_form({A0: 5, A10: 7}, {A10: 3, A1: 0}, Origin("c/1", {"a": "id-of-a", "b": "id-of-b"}))
    assert stored == {
        "$cluster/c/1": {}, "$from/a/1/0": {}, "$from/a/10/3": {}, "$id/a/id-of-a": {}, "a": {"0": 5, "10": 7},
    }  # fmt: skip
    assert parse_stored(stored) == ({A0: 5, A10: 7}, {A10: 3, A1: 0})
    assert stored_origin(stored) == Origin("c/1", {"a": "id-of-a"})
    assert stored_origin({"a": {"0": 5}}) == Origin()


def test_what_the_first_release_wrote_is_read() -> None:
    old = {"$from": {"a": {"0": 3}}, "$ids": {"a": "id-of-a"}, "a": {"0": 5}}
    assert parse_stored(old) == ({A0: 5}, {A0: 3})
    assert stored_origin(old) == Origin("", {"a": "id-of-a"})
    assert parse_option("startingOffsets", json.dumps(old)) == {A0: 5}


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
        ({"subscribepattern": "x"}, "not subscribe and subscribePattern"),
        ({"failOnDataLoss": "yes"}, "neither true nor false"),
        ({"maxOffsetsPerTrigger": "0"}, "at least 1"),
        ({"startingOffsets": "first"}, "expected JSON like"),
        ({"startingOffset": "latest"}, "did you mean 'startingOffsets'"),
        ({"bootstrap.servers": "h:1"}, r"'bootstrap\.servers'; did you mean 'kafka\.bootstrap\.servers'"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, r"minOffsetsPerTrigger \(5\) is above"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay: 'soon' is no time: write 500ms, 30s, 15m, 1h or 1d"),
        ({"kafkaConsumer.pollTimeoutMs": "0"}, "kafkaConsumer.pollTimeoutMs: '0' is no whole number of at least 1"),
        ({"kafka.enable.auto.commit": "true"}, "the source commits no offsets; the checkpoint holds them"),
        ({"kafka.interceptor.classes": "x"}, "interceptors could break"),
        ({"kafka.security.protocol": "SASL_SSL"}, "kafka.security.protocol: TLS and SASL are not supported yet"),
        ({"path": "a"}, r"reads topics, not the path 'a': use option\('subscribe'\)"),
        ({"includeHeaders": "1"}, "includeHeaders: '1' is neither true nor false"),
        ({"minPartitions": "-1"}, "minPartitions: '-1' is no whole number"),
        ({"minPartitions": str(2**31)}, "minPartitions: '2147483648' is no whole number of .* and at most 2147"),
        ({"maxOffsetsPerTrigger": "9" * 5000}, "maxOffsetsPerTrigger: '9+' is no whole number of at least 1"),
        ({"brokerTimeout": "9" * 5000}, "brokerTimeout: '9+' is no time: write 500ms"),
        ({"maxBytesPerTrigger": "9" * 5000}, "maxBytesPerTrigger: '9+' is no size of at least one byte: write"),
        ({"startingTimestamp": "-1"}, "startingTimestamp: '-1' is no whole number"),
        ({"startingTimestamp": str(2**63)}, "startingTimestamp: '9223372036854775808' is no whole number"),
        ({"startingOffsetsByTimestamp": '{"a":{"0":-1}}'}, r"expected JSON like .*1700000000000"),
        ({"kafka.auto.offset.reset": "latest"}, "use the option startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, "the checkpoint holds them"),
        ({"kafka.key.deserializer": "x"}, "kafka.key.deserializer is not supported: values and keys pass as bytes"),
        ({"endingTimestamp": "1"}, "endingTimestamp does not apply to a streaming query"),
        ({"startingOffsetsByTimestampStrategy": "x"}, "error or latest"),
        ({"onRecreatedTopic": "begin"}, "onRecreatedTopic is fail, earliest or latest, not 'begin'"),
        ({"subscribe": " , "}, "names no topic"),
    ],
)
def test_bad_options_get_one_sentence(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_options({**SERVERS, "subscribe": "a", **options}, "stream")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"a":1}',
        '{"a":{"x":1}}',
        '{"a":{"0":-3}}',
        '{"a":{"0":9223372036854775808}}',
        '{"a":{"0":1.5}}',
        '{"a":{"0":true}}',
        '{"a":{"-1":0}}',
    ],
)
def test_malformed_offsets_name_the_option(text: str) -> None:
    with pytest.raises(OffsetError, match="startingOffsets: expected JSON"):
        parse_option("startingOffsets", text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"assign": '{"a":[-1]}'}, "assign: expected JSON"),
        ({"assign": '{"a":[0.5]}'}, "assign: expected JSON"),
        ({"assign": "{}"}, "assign names no partition"),
        ({"subscribePattern": "("}, r"subscribePattern: .* is no regular expression \(Java's\)"),
        ({"subscribePattern": " "}, "subscribePattern is empty"),
        ({}, "exactly one of the options subscribe, subscribePattern and assign is needed, none was given"),
    ],
)
def test_what_is_read_must_be_named_well(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_options({**SERVERS, **options}, "stream")


def test_a_batch_passes_over_what_paces_a_stream(caplog: pytest.LogCaptureFixture) -> None:
    # As Spark's own source does: a job that is tried as a batch first keeps its options.
    read = read_options({**SERVERS, "subscribe": "a", "maxOffsetsPerTrigger": "10", "maxTriggerDelay": "?"}, "batch")
    assert (read.rows_per_trigger_max, read.rows_per_trigger_min) == (None, None)
    assert "maxOffsetsPerTrigger has no effect on a batch query" in caplog.text


def test_a_group_member_s_settings_have_no_effect_and_say_so(caplog: pytest.LogCaptureFixture) -> None:
    given = {
        "kafka.session.timeout.ms": "9",
        "kafka.group.id": "g",
        "kafka.security.protocol": "plaintext",
        "groupIdPrefix": "g",
    }
    assert read_options({**SERVERS, "subscribe": "a", **given}, "stream").client == {
        "bootstrap.servers": "localhost:9092"
    }
    assert "kafka.session.timeout.ms has no effect" in caplog.text
    assert "kafka.group.id has no effect: the source joins no group" in caplog.text


def test_offsets_as_a_query_s_progress_shows_them_are_taken() -> None:
    shown = json.dumps(stored_form({A0: 5}, {A0: 3}, Origin("c", {"a": "some id"})))
    assert parse_option("startingOffsets", shown) == {A0: 5}


def test_defaults_are_those_of_spark_s_source() -> None:
    read = read_options({**SERVERS, "subscribe": "a"}, "stream")
    assert (read.starting, read.fail_on_data_loss, read.include_headers) == ("latest", True, False)
    assert (read.attempts_max, read.retry_wait_ms, read.silent_ms_max) == (3, 1000, 120_000)
    assert (read.rows_per_trigger_min, read.rows_per_trigger_max, read.trigger_delay_ms_max) == (None, None, 900_000)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("15m", 900_000), ("15min", 900_000), (" 30S ", 30_000), ("500", 500), ("2h", 7_200_000), ("1d", 86_400_000)],
)
def test_times_are_spelled_as_in_spark(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


def test_a_trigger_waits_for_enough_but_not_for_ever() -> None:
    pace = Pace(1000, 900_000)
    assert pace.left_ms(1, 0) == 0  # the first takes what is there
    pace.began(0)
    assert pace.left_ms(400, 5_000) == 895_000
    assert pace.left_ms(1000, 5_001) == 0
    pace.began(6_000)
    assert pace.left_ms(999, 905_999) == 1
    assert pace.left_ms(1, 906_000) == 0
    assert Pace(0, 900_000).left_ms(0, 5) == 0
