"""The kit for tests of streams: what it feeds, how it runs queries to their end, and its example."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from barnabas import Consumer
from barnabas.testing.streams import StreamError, Streams, event_ms
from tests.examples.loading import EXAMPLES
from tests.examples.test_programs import run
from tests.spark.conftest import Cluster

pytestmark = pytest.mark.spark

NOON = 1_767_268_800_000  # 2026-01-01 12:00 UTC


@pytest.fixture
def streams(spark: Any, cluster: Cluster, tmp_path: Path) -> Iterator[Streams]:
    with Streams(spark, cluster.servers, tmp_path) as streams:
        yield streams


@pytest.mark.parametrize(
    "time",
    [
        NOON,
        "2026-01-01 12:00",
        "2026-01-01T13:00:00+01:00",
        datetime(2026, 1, 1, 12),
        datetime(2026, 1, 1, 14, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_times_are_utc_unless_they_say_otherwise(time: Any) -> None:
    assert event_ms(time) == NOON


@pytest.mark.parametrize("time", ["noon", None, 1.5, True])
def test_what_is_no_time_is_refused(time: Any) -> None:
    with pytest.raises(StreamError, match=r"is no time: give a datetime, a text such as '2026-01-01 10:07'"):
        event_ms(time)


def test_rows_are_fed_at_their_times(streams: Streams, cluster: Cluster) -> None:
    rows = [(NOON, "text"), (NOON + 1, {"a": 1}, "key"), (1, b"bytes", b"k"), ("2026-01-01 12:00", None)]
    streams.feed("fed", rows)
    streams.feed("fed", [(NOON, "more")])
    with Consumer("fed", bootstrap_servers=cluster.servers, auto_offset_reset="earliest") as consumer:
        found: list[Any] = []
        while len(found) < 5:
            found += consumer.poll(30)
    assert [(each.timestamp, each.key, each.value) for each in found] == [
        (NOON, None, b"text"), (NOON + 1, b"key", b'{"a": 1}'), (1, b"k", b"bytes"), (NOON, None, None),
        (NOON, None, b"more"),
    ]  # fmt: skip
    assert cluster.admin.describe_topics("fed")["fed"].partitions[1:] == ()
    with pytest.raises(StreamError, match=r"\(5,\) is no row: give \(time, value\) or \(time, value, key\)"):
        streams.feed("fed", [(5,)])


def test_a_query_runs_to_its_end_and_goes_on_under_its_name(streams: Streams) -> None:
    streams.feed("goes-on", [(NOON, "1"), (NOON, "2")])
    numbers = streams.read("goes-on").selectExpr("TRY_CAST(CAST(value AS string) AS int) AS n")
    assert streams.tuples(numbers, name="a") == [(1,), (2,)]
    streams.feed("goes-on", [(NOON, "x"), (NOON, "3")])
    assert streams.tuples(numbers, name="a") == [(None,), (3,)]
    assert streams.arrow(numbers, name="a").num_rows == 0
    assert streams.arrow(numbers).column("n").to_pylist() == [1, 2, None, 3]


def test_each_output_mode_gives_what_it_gives(streams: Streams) -> None:
    streams.feed("counted", [(NOON, "a"), (NOON, "b"), (NOON, "a")])
    rows = streams.read("counted", maxOffsetsPerTrigger="2").selectExpr("CAST(value AS string) AS word")
    assert streams.tuples(rows.groupBy("word").count(), mode="complete") == [("a", 2), ("b", 1)]
    assert streams.tuples(rows.groupBy("word").count(), mode="update") == [("a", 1), ("a", 2), ("b", 1)]
    frame = streams.pandas(rows.groupBy("word").count(), mode="complete").sort_values("word")
    assert frame.to_dict("list") == {"word": ["a", "b"], "count": [2, 1]}


def test_a_query_that_fails_says_why(streams: Streams) -> None:
    with pytest.raises(Exception, match="the broker does not have absent"):
        streams.tuples(streams.read("absent"))


@pytest.mark.slow
def test_the_example_s_tests_pass(spark: Any) -> None:
    page = str(EXAMPLES / "test_late_flights.py")
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", page, seconds_max=600)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
