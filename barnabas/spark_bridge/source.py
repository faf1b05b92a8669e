"""The format `barnabas` for PySpark: batch and streaming reads (PySpark's Python data source, 4.2 and later).

    flights = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("subscribe", "flights")
        .load()
    )

Planning runs in one long-lived process beside the driver, reading in tasks: readers are pickled, so they hold nothing
but options until they are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from barnabas.spark_bridge.cluster import Cluster, client_settings, read_span
from barnabas.spark_bridge.offsets import (
    OffsetError,
    Offsets,
    Span,
    fresh,
    is_fresh,
    lag_metrics,
    limit,
    parse_stored,
    split,
    stored_form,
    to_json,
)
from barnabas.spark_bridge.options import OptionError, SourceOptions, read_options
from barnabas.spark_bridge.planning import check_present, forward, resolve, spans_between, starts_of_new
from barnabas.spark_bridge.schema import arrow_schema, spark_schema, to_spark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

IDLE_WAIT_MS: Final = 250
"""An idle query waits at the brokers for news instead of asking again and again."""


@dataclass
class SpanPartition(InputPartition):
    """One task: the records of one span."""

    topic: str
    partition: int
    start: int
    end: int

    def __init__(self, span: Span) -> None:
        super().__init__(None)
        (self.topic, self.partition), self.start, self.end = span


class BarnabasDataSource(DataSource):
    """Reads topics with the schema and options of Spark's own Kafka source."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "barnabas"

    def schema(self) -> str:
        """Kafka's source's schema; `includeHeaders` adds the headers."""
        return spark_schema(str(self.options.get("includeHeaders", "false")).strip().lower() == "true")

    def reader(self, schema: StructType) -> BatchReader:
        """A batch read."""
        return BatchReader(self._checked(schema, read_options(self.options, "batch")))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """A streaming read."""
        return StreamReader(self._checked(schema, read_options(self.options, "stream")))

    def _checked(self, schema: StructType, options: SourceOptions) -> SourceOptions:
        wanted = arrow_schema(options.include_headers).names
        if schema.fieldNames() != wanted:
            raise OptionError("the format barnabas has a fixed schema: leave out schema(), and select what you need")
        client_settings(options)
        return options


class _Reading:
    """Reading a span in a task: the same for batches and streams."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one span as Arrow batches."""
        assert isinstance(partition, SpanPartition)
        _settle()
        options = self.options
        schema = arrow_schema(options.include_headers)
        span = Span(_where(partition), partition.start, partition.end)
        found = read_span(
            client_settings(options), span, headers=options.include_headers, fail_on_loss=options.fail_on_data_loss
        )
        for columns in found:
            yield to_spark(columns, schema)

    def plan(self, spans: list[Span]) -> list[SpanPartition]:
        """The tasks of these spans."""
        options = self.options
        pieces = split(spans, options.rows_per_partition_max, options.partitions_min)
        return [SpanPartition(span) for span in pieces]


class BatchReader(_Reading, DataSourceReader):
    """Reads from a start to an end, both resolved once."""

    def partitions(self) -> Sequence[InputPartition]:
        """One task per topic partition, or more where `minPartitions` or `maxRecordsPerPartition` ask for it."""
        options = self.options
        cluster = Cluster(options)
        try:
            partitions = cluster.partitions()
            check_present(options, partitions)
            start = resolve(cluster, options.starting, partitions, side="starting", or_latest=options.or_latest)
            end = resolve(cluster, options.ending, partitions, side="ending")
        finally:
            cluster.close()
        backwards = [where for where in partitions if end[where] < start[where]]
        if backwards and options.ending != "latest":
            raise OptionError(f"the batch would end before it starts in {', '.join(map(str, backwards))}")
        return self.plan(spans_between(start, end)) or [SpanPartition(Span(partitions[0], 0, 0))]


class StreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches. `offsets.py` tells what a stored offset looks like, and why."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._cluster: Cluster | None = None
        self._begun: Offsets | None = None
        self._target: Offsets | None = None
        self._consumed: Offsets = {}
        self._latest: Offsets = {}

    @property
    def cluster(self) -> Cluster:
        """The planner's connection, opened on first use: a pickled reader holds none."""
        if self._cluster is None:
            self._cluster = Cluster(self.options)
        return self._cluster

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """A marker that never changes: the first batch writes down where it begins."""
        return fresh()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """`maxOffsetsPerTrigger`, else all that is there."""
        rows = self.options.rows_per_trigger_max
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The query ends at what is there now."""
        self._target = self.cluster.latest(self.cluster.partitions())

    def latestOffset(self, start: dict[str, Any], limit_: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next batch ends; `start` itself when there is nothing new."""
        first = is_fresh(start)
        known, _ = parse_stored(start)
        latest = self._latest_now()
        begun = self._begin(known, latest, first)
        position = {**known, **begun}
        if not first and not begun and not _grown(position, latest) and self._target is None:
            self.cluster.wait_for_data(position, IDLE_WAIT_MS)
            latest = self._latest_now()
            begun = self._begin(known, latest, first)
            position = {**known, **begun}
        position = {where: offset for where, offset in position.items() if where in latest}
        end = forward(self.options, position, latest)
        if isinstance(limit_, ReadMaxRows):
            end = limit(position, end, limit_.max_rows)
        self._consumed, self._latest = end, latest
        if not first and end == known:
            return start
        return stored_form(end, begun)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The end of the log and how far the query is behind it, as it stands in the query's progress."""
        if not self._latest:
            return None
        return {**to_json(self._latest), "$metrics": lag_metrics(self._latest, self._consumed)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks between two offsets; after a restart this comes first, so it depends on nothing but them."""
        known, _ = parse_stored(start)
        until, begun = parse_stored(end)
        position = {**known, **begun}
        homeless = [where for where in until if where not in position]
        if homeless:
            raise OffsetError(f"the checkpoint does not say where {', '.join(map(str, homeless))} begin")
        backwards = [where for where in until if until[where] < position[where]]
        if backwards:
            raise OffsetError(f"the checkpoint goes backwards in {', '.join(map(str, backwards))}")
        return self.plan(spans_between(position, until))

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the checkpoint holds the offsets."""

    def stop(self) -> None:
        """Ends the planner's connection."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _latest_now(self) -> Offsets:
        latest = self.cluster.latest(self.cluster.partitions())
        if self._target is None:
            return latest
        return {where: min(offset, latest[where]) for where, offset in self._target.items() if where in latest}

    def _begin(self, known: Offsets, latest: Offsets, first: bool) -> Offsets:
        """Where new partitions begin; asked twice for the first batch, the answer is the same."""
        if first and self._begun is not None and set(self._begun) == set(latest):
            return self._begun
        begun = starts_of_new(self.cluster, self.options, known, latest, first=first)
        if first:
            self._begun = begun
        return begun


def _grown(position: Mapping[Any, int], latest: Mapping[Any, int]) -> bool:
    return any(offset > position.get(where, 0) for where, offset in latest.items())


def _where(partition: SpanPartition) -> Any:
    from barnabas.protocol.ids import TopicPartition

    return TopicPartition(partition.topic, partition.partition)


_settled = False


def _settle() -> None:
    """Once per worker process: what is loaded stays, so Spark's garbage collection after each task may pass it over."""
    global _settled
    if not _settled:
        import gc

        gc.freeze()
        _settled = True
