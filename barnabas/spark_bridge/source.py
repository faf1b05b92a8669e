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

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from barnabas.protocol.errors import BarnabasError
from barnabas.spark_bridge.any_read import check_for_any_read
from barnabas.spark_bridge.borrowed import now_ms
from barnabas.spark_bridge.brokers import Brokers, client_settings, read_span
from barnabas.spark_bridge.cuts import Cuts
from barnabas.spark_bridge.errors import OptionError
from barnabas.spark_bridge.filters import Narrowed, narrowed, tell_one_use
from barnabas.spark_bridge.handing_over import hand_over, wrapper
from barnabas.spark_bridge.near import Near, is_anew
from barnabas.spark_bridge.needs import NEEDS_PYARROW
from barnabas.spark_bridge.offsets import (
    OffsetError,
    Offsets,
    Span,
    fresh,
    is_fresh,
    lag_metrics,
    parse_stored,
    split,
    stored_form,
    stored_origin,
    to_json,
)
from barnabas.spark_bridge.options import SourceOptions, read_options
from barnabas.spark_bridge.origin import Origin, made_anew
from barnabas.spark_bridge.pace import Pace
from barnabas.spark_bridge.planning import (
    View,
    bytes_behind,
    check_present,
    check_within,
    limited,
    resolve,
    spans_between,
    starts,
)
from barnabas.spark_bridge.process import plain_errors
from barnabas.spark_bridge.progress import Progress
from barnabas.spark_bridge.refused import RefusedReader
from barnabas.spark_bridge.schema import Column, arrow_schema, checked_names, spark_schema, to_spark
from barnabas.spark_bridge.sink import BatchWriter, StreamWriter
from barnabas.spark_bridge.sink_options import read_sink_options
from barnabas.spark_bridge.tasks import NOTHING, SpanPartition, SpansPartition, settle, tasks_for, tasks_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


IDLE_WAIT_MS: Final = 250
"""An idle query waits at the brokers for news instead of asking again and again."""
NO_NEWS_REST_MS: Final = 20
BYTES_BEHIND: Final = "estimatedTotalBytesBehindLatest"


class BarnabasDataSource(DataSource):
    """Reads topics with the schema and options of Spark's own Kafka source, and writes them as its sink does."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "barnabas"

    @plain_errors()
    def schema(self) -> str:
        """Kafka's source's schema; `includeHeaders` adds the headers. Spark asks for it in `load()`."""
        check_for_any_read(self.options)
        return spark_schema(str(self.options.get("includeHeaders", "false")).strip().lower() == "true")

    @plain_errors()
    def reader(self, schema: StructType) -> BatchReader:
        """A batch read."""
        options = self._checked(schema, read_options(self.options, "batch"))
        return FilteringReader(options) if options.push_filters else BatchReader(options)

    def streamReader(self, schema: StructType) -> StreamReader | RefusedReader:  # noqa: N802 - Spark's name
        """A streaming read."""
        try:
            return StreamReader(self._checked(schema, read_options(self.options, "stream")))
        except BarnabasError as error:
            return RefusedReader(error)

    @plain_errors()
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """A batch write."""
        return BatchWriter(read_sink_options(self.options, schema, overwrite=overwrite))

    @plain_errors()
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        """A streaming write; in output mode `complete` each micro-batch writes the whole result, as with Spark."""
        return StreamWriter(read_sink_options(self.options, schema, overwrite=False))

    def _checked(self, schema: StructType, options: SourceOptions) -> SourceOptions:
        try:
            arrow_schema(options.names)
        except ImportError as error:
            raise OptionError(NEEDS_PYARROW) from error
        columns = [Column(field.name, field.dataType.simpleString(), field.nullable) for field in schema.fields]
        try:
            names = checked_names(columns)
        except ValueError as error:
            raise OptionError(str(error)) from error
        client_settings(options)
        if any(field.metadata for field in schema.fields):  # Spark would miss it in the rows that a planner sends
            options = replace(options, near_records_max=0)
        return replace(options, columns=names)


class _Reading:
    """Reading a span in a task: the same for batches and streams."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a task as Arrow batches."""
        tasks = [task for task in tasks_of(partition) if task.start < task.end]
        if not tasks:
            return
        settle()
        options = self.options
        schema = arrow_schema(options.names)
        with plain_errors():
            for task in tasks:
                for columns in read_span(
                    client_settings(options), task.span, options, task.topic_id, task.leader_epoch
                ):
                    yield to_spark(columns, schema)

    def plan(self, spans: list[Span], origin: Origin, cluster: Brokers) -> list[SpanPartition]:
        """The tasks of these spans, whose offsets were counted in topics of this origin."""
        options = self.options
        pieces = split(spans, options.rows_per_partition_max, options.partitions_min)
        return tasks_for(pieces, origin, cluster.epochs)


class BatchReader(_Reading, DataSourceReader):
    """Reads from a start to an end, both resolved once."""

    @plain_errors()
    def partitions(self) -> Sequence[InputPartition]:
        """One task per topic partition, or more where `minPartitions` or `maxRecordsPerPartition` ask for it."""
        options = self.options
        cluster = Brokers(options)
        try:
            partitions = cluster.partitions()
            check_present(options, partitions, cluster.topics)
            start = resolve(cluster, options.starting, partitions, side="starting", or_latest=options.or_latest)
            end = resolve(cluster, options.ending, partitions, side="ending")
            latest = cluster.latest(partitions)
            check_within(options, start, latest, "startingOffsets")
            check_within(options, end, latest, "endingOffsets")
            backwards = [where for where in partitions if end[where] < start[where]]
            if backwards:
                raise OptionError(f"the batch would end before it starts in {', '.join(map(str, backwards))}")
            start, end = self._narrow(cluster, start, end)
        finally:
            cluster.close()
        return self.plan(spans_between(start, end), cluster.origin, cluster) or [SpanPartition(NOTHING)]

    def _narrow(self, cluster: Brokers, start: Offsets, end: Offsets) -> tuple[Offsets, Offsets]:
        return start, end


class FilteringReader(BatchReader):
    """With the option `pushFilters`: reads less where a query's filters say so.

    PySpark refuses any batch of a reader that has the method, unless the session is told to push filters: so the other
    has none. The plan of the filters pushed last serves all uses of a DataFrame: all there is to do is to say so.
    """

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._narrowed = Narrowed()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Reads less where the filters say so; Spark applies all of them again."""
        self._narrowed = narrowed(filters)
        if self._narrowed != Narrowed():
            tell_one_use()
        return filters

    def _narrow(self, cluster: Brokers, start: Offsets, end: Offsets) -> tuple[Offsets, Offsets]:
        found = self._narrowed
        start, end = found.clip(start, end)
        if found.since_ms is not None:
            wanted = {where: found.since_ms for where in end if start[where] < end[where]}
            for where, offset in cluster.at_times(wanted).items():
                start[where] = end[where] if offset is None else max(offset, start[where])
        return start, end


class StreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches. `offsets.py` tells what a stored offset looks like, and why."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._cluster: Brokers | None = None
        self._progress: Progress | None = None
        self._begun: Offsets | None = None
        self._target: Offsets | None = None
        self._consumed: Offsets = {}
        self._latest: Offsets = {}
        self._cuts = Cuts()
        self._near = Near(options.near_records_max)
        self._pace = Pace(options.rows_per_trigger_min or 0, options.trigger_delay_ms_max)

    @property
    def cluster(self) -> Brokers:
        """The planner's connection, opened on first use: a pickled reader holds none."""
        if self._cluster is None:
            self._cluster = Brokers(self.options)
        return self._cluster

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """A marker that never changes: the first batch writes down where it begins."""
        return fresh()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """`minOffsetsPerTrigger`, `maxOffsetsPerTrigger`, `maxBytesPerTrigger`, else all that is there.

        PySpark has no limit of several: `latestOffset` takes the maxima from the options.
        """
        options = self.options
        if options.rows_per_trigger_min is not None:
            return ReadMinRows(options.rows_per_trigger_min)
        if options.rows_per_trigger_max is not None:
            return ReadMaxRows(options.rows_per_trigger_max)
        size = options.bytes_per_trigger_max
        return ReadAllAvailable() if size is None else ReadMaxBytes(size)

    @plain_errors()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The query ends at what is there now."""
        self._target = self.cluster.latest(self.cluster.partitions())

    @plain_errors()
    def latestOffset(self, start: dict[str, Any], limit_: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next batch ends; `start` itself when there is nothing new."""
        first = is_fresh(start)
        known, _ = parse_stored(start)
        # A trigger that must end at what is there (availableNow) or take all of it (once) waits for no company.
        rows_min = limit_.min_rows if isinstance(limit_, ReadMinRows) and self._target is None else 0
        view = self._view(start, known, first)
        self._tell_group(known)
        left_ms = self._left_ms(view, rows_min)
        if left_ms and self._target is None and not first:
            news = self.cluster.wait_for_data(view.latest, min(left_ms, IDLE_WAIT_MS))
            if news:  # else Spark asks again at once: one look a turn tells of new partitions soon enough
                view = self._view(start, known, first)
            left_ms = self._left_ms(view, rows_min)
            if left_ms and news:
                # News that are none for this query (an open transaction's, or too few): Spark asks again at once.
                time.sleep(NO_NEWS_REST_MS / 1000)
        # The first batch is planned at once, even an empty one: it says for ever where the query begins.
        if left_ms and rows_min and not first:
            self._consumed, self._latest = view.position, view.latest
            return start
        self._pace.began(now_ms())
        end = view.latest
        if not isinstance(limit_, ReadAllAvailable):
            end = limited(self.cluster, self.options, view.position, view.latest)
        self._consumed, self._latest = end, view.latest
        if end == known and not view.begun and not first:  # a pattern may match nothing in the first batch
            return start
        return stored_form(end, view.begun, self.cluster.origin, self.cluster.epochs)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The end of the log and how far the query is behind it, as it stands in the query's progress."""
        if not self._latest:
            return None
        size = bytes_behind(self.cluster, self._consumed, self._latest)
        metrics = {**lag_metrics(self._latest, self._consumed), BYTES_BEHIND: str(size)}
        return {**to_json(self._latest), "$metrics": metrics}

    @plain_errors()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks between two offsets; after a restart this comes first, so it depends on nothing but them."""
        known, _ = parse_stored(start)
        until, begun = parse_stored(end)
        position = {**known, **begun}
        homeless = [where for where in until if where not in position]
        if homeless:
            raise OffsetError(
                f"the checkpoint does not say where {', '.join(map(str, homeless))} begin: a first batch that Spark's "
                "own source planned must be ended by it; run the query with format kafka once more, then with this one"
            )
        backwards = [where for where in until if until[where] < position[where]]
        if backwards:
            raise OffsetError(f"the checkpoint goes backwards in {', '.join(map(str, backwards))}")
        spans, origin = spans_between(position, until), stored_origin(end)
        if not self._latest:  # a restart: who planned it was another planner
            self._cuts.check_planned(self.cluster, end, spans, self.options)
        if self._read_near(spans, origin):
            return [SpansPartition(tasks_for(spans, origin, self.cluster.epochs))]
        return self.plan(spans, origin, self.cluster)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the checkpoint holds the offsets."""

    def stop(self) -> None:
        """Ends the planner's connection."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
        if self._progress is not None:
            self._progress.close()
            self._progress = None

    def _tell_group(self, known: Offsets) -> None:
        group = self.options.commit_group
        if group is None or not known:
            return
        if self._progress is None:
            self._progress = Progress(group, client_settings(self.options))
        self._progress.reached(known, now_ms())

    def _read_near(self, spans: list[Span], origin: Origin) -> bool:
        """Whether the rows of these spans go to Spark with the plan (`near.py`)."""
        options = self.options
        if options.partitions_min or options.rows_per_partition_max:  # who wants more tasks shall have tasks
            return False
        if wrapper() is None or not self._near.suits(spans):
            return False
        try:
            consumer = self.cluster.consumer
        except BarnabasError:  # tasks know how to wait
            return False
        found = self._near.read(consumer, spans, options.names)
        if found is None or any(is_anew(consumer, span, origin) for span in spans):
            return False
        schema = arrow_schema(options.names)
        hand_over(self, [to_spark(columns, schema) for columns in found])
        return True

    def _latest_now(self) -> Offsets:
        latest = self.cluster.latest(self.cluster.partitions())
        if self._target is None:
            return latest
        return {where: min(offset, latest[where]) for where, offset in self._target.items() if where in latest}

    def _latest_of(self, known: Offsets) -> Offsets:
        """Where the logs end now. A topic that was there is looked for again: it may just be made anew."""
        tries = self.options.attempts_max
        while True:
            latest = self._latest_now()
            here = {where.topic for where in latest}
            if not tries or all(where.topic in here or not self.options.asks_for(where) for where in known):
                return latest
            tries -= 1
            time.sleep(self.options.retry_wait_ms / 1000)

    def _view(self, start: Mapping[str, Any], known: Offsets, first: bool) -> View:
        latest = self._latest_of(known)
        anew = made_anew(stored_origin(start), self.cluster.origin, (where.topic for where in known))
        begun = self._begun if first else None
        if begun is None or set(begun) != set(latest):
            cut = self._cuts.below(self.cluster, start, known)
            begun = starts(self.cluster, self.options, known, latest, anew, cut, first=first)
        if first:
            self._begun = begun  # asked again before the first batch, the answer is the same
        position = {where: offset for where, offset in {**known, **begun}.items() if where in latest}
        return View(begun, position, latest)

    def _left_ms(self, view: View, rows_min: int) -> int:
        """How long the next batch may wait for records; 0 when there is something to plan."""
        rows = sum(max(view.latest[where] - offset, 0) for where, offset in view.position.items())
        if rows_min:
            return self._pace.left_ms(rows, now_ms()) if rows else IDLE_WAIT_MS
        return 0 if rows or view.begun else IDLE_WAIT_MS
