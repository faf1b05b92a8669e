"""Streaming jobs in tests: topics fed at given event times, and queries that run to the end of what was produced."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

from barnabas.client.admin import Admin
from barnabas.client.producer import Producer
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Time: TypeAlias = datetime | str | int
Value: TypeAlias = bytes | str | Mapping[str, Any] | None
Mode: TypeAlias = Literal["append", "update", "complete"]

SECONDS_MAX: Final = 120


class StreamError(BarnabasError):
    """Rows that cannot be fed, or a query that does not come to its end."""


class Streams:
    """Jobs over one broker. Queries keep their checkpoints below a directory."""

    def __init__(self, spark: SparkSession, servers: str, checkpoints: Path) -> None:
        self.spark = spark
        self.servers = servers
        self._checkpoints = checkpoints
        self._producer: Producer | None = None
        self._numbers = itertools.count()

    def feed(self, topic: str, rows: Iterable[tuple[Any, ...]], *, partitions: int = 1) -> None:
        """Produce rows at their event times: each `(time, value)` or `(time, value, key)`. All are written on return.

        A topic that is not there is made, and keeps records however old they are.

        Args:
            topic: where to.
            rows: times are a datetime (UTC where it has no zone), a text such as `2026-01-01 10:07`, or milliseconds;
                values are bytes, text, a mapping that becomes JSON, or None; keys bytes, text or None.
            partitions: of a topic that is made; rows without a key go to the first.

        Raises:
            StreamError: a row is none.
        """
        self._make(topic, partitions)
        if self._producer is None:
            self._producer = Producer(self.servers)
        sent = []
        for row in rows:
            if not 2 <= len(row) <= 3:
                raise StreamError(f"feed: {row!r} is no row: give (time, value) or (time, value, key)")
            time, value, key = (*row, None)[:3]
            sent.append(
                self._producer.send(
                    topic, _octets(value), _octets(key), timestamp_ms=event_ms(time), partition=None if key else 0
                )
            )
        self._producer.flush()
        for future in sent:
            future.result()

    def read(self, *topics: str, **options: Any) -> DataFrame:
        """A stream of topics from their beginning; `options` are those of the format."""
        given = {"startingOffsets": "earliest", "subscribe": ",".join(topics), **options}
        reader = self.spark.readStream.format("barnabas").option("kafka.bootstrap.servers", self.servers)
        return reader.options(**given).load()

    def arrow(
        self, frame: DataFrame, *, mode: Mode = "append", name: str | None = None, seconds_max: int = SECONDS_MAX
    ) -> pa.Table:
        """Run a streaming frame until nothing is left to read, and hand back what it gave.

        Rows stand in the order of their micro-batches, those of one in Spark's. In mode `complete` they are those of
        the last one.

        Args:
            frame: a streaming query that was not started.
            mode: its output mode.
            name: of the checkpoint: run again under it, the query goes on, and gives what is new. Without a name each
                run begins anew.
            seconds_max: how long it may take.

        Raises:
            StreamError: it was not at its end in time.
            StreamingQueryException: it failed (PySpark's own).
        """
        import pyarrow as pa

        found: list[pa.Table] = []
        writer = frame.writeStream.outputMode(mode).foreachBatch(lambda rows, _: found.append(rows.toArrow()))
        place = self._checkpoints / (name or f"unnamed-{next(self._numbers)}")
        query = writer.option("checkpointLocation", str(place)).trigger(availableNow=True).start()
        try:
            if not query.awaitTermination(seconds_max):
                raise StreamError(f"the query runs for {seconds_max} s; it stands at {query.lastProgress}")
        finally:
            query.stop()
        if not found:
            return frame.sparkSession.createDataFrame([], frame.schema).toArrow()
        return found[-1] if mode == "complete" else pa.concat_tables(found)

    def tuples(
        self, frame: DataFrame, *, mode: Mode = "append", name: str | None = None, seconds_max: int = SECONDS_MAX
    ) -> list[tuple[Any, ...]]:
        """As `arrow`, sorted tuples of Python's values, which compare well; nulls come first."""
        table = self.arrow(frame, mode=mode, name=name, seconds_max=seconds_max)
        rows = [tuple(row.values()) for row in table.to_pylist()]
        return sorted(rows, key=lambda row: [(value is not None, _sortable(value)) for value in row])

    def pandas(
        self, frame: DataFrame, *, mode: Mode = "append", name: str | None = None, seconds_max: int = SECONDS_MAX
    ) -> Any:
        """As `arrow`, a pandas DataFrame."""
        return self.arrow(frame, mode=mode, name=name, seconds_max=seconds_max).to_pandas()

    def _make(self, topic: str, partitions: int) -> None:
        with Admin(self.servers) as admin:
            try:
                admin.create_topic(topic, partitions=partitions, config={"retention.ms": -1})
            except KafkaError as error:
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise

    def close(self) -> None:
        """Ends the producer."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close."""
        self.close()


def event_ms(time: Time) -> int:
    """Milliseconds since the epoch of a datetime, an ISO text, or milliseconds; without a zone it is UTC.

    Raises:
        StreamError: it is no time.
    """
    if isinstance(time, int) and not isinstance(time, bool):
        return time
    moment: Any = time
    if isinstance(time, str):
        with suppress(ValueError):
            moment = datetime.fromisoformat(time)
    if not isinstance(moment, datetime):
        raise StreamError(
            f"feed: {time!r} is no time: give a datetime, a text such as '2026-01-01 10:07', or milliseconds"
        )
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _octets(value: Value) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def _sortable(value: Any) -> Any:
    return repr(value) if isinstance(value, dict | list) else value
