"""Small micro-batches: their planner reads them and sends the rows along, as PySpark's own protocol has it."""

from __future__ import annotations

import io
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.serializers import write_with_length
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming import python_streaming_source_runner as runner
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, StructType

from barnabas import Consumer
from barnabas.protocol.ids import TopicPartition
from barnabas.spark_bridge import handing_over, near
from barnabas.spark_bridge.near import BYTES_MAX, Near
from barnabas.spark_bridge.offsets import Span
from barnabas.spark_bridge.source import BarnabasDataSource, StreamReader
from barnabas.spark_bridge.tasks import SpansPartition
from tests.spark.conftest import Cluster, Job

ALL = ReadAllAvailable()
WHERE = TopicPartition("t", 0)
VALUE = StructType().add("value", BinaryType())


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may be slow; what is tested is what is read."""
    monkeypatch.setattr(near, "WAIT_MS", 30_000)


@pytest.fixture
def stream(cluster: Cluster) -> Iterator[Callable[..., StreamReader]]:
    readers: list[StreamReader] = []

    def make(topic: str, **options: str) -> StreamReader:
        given = {"kafka.bootstrap.servers": cluster.servers, "subscribe": topic, "startingOffsets": "earliest"}
        reader = BarnabasDataSource({**given, **options}).streamReader(VALUE)
        assert isinstance(reader, StreamReader)
        readers.append(reader)
        return reader

    yield make
    for reader in readers:
        reader.stop()


def planned(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> tuple[int, int, list[int]]:
    """What Spark's planner sends for a batch: how many tasks, whether rows come along, and which."""
    asked, sent = io.BytesIO(), io.BytesIO()
    for offset in (start, end):
        write_with_length(json.dumps(offset).encode(), asked)
    asked.seek(0)
    runner.partitions_func(cast("DataSourceStreamReader", reader), BarnabasDataSource({}), VALUE, 10_000, asked, sent)
    sent.seek(0)
    tasks = _int(sent)
    for _ in range(tasks):
        sent.read(_int(sent))
    kind = _int(sent)
    values: list[int] = []
    if kind == runner.NON_EMPTY_PYARROW_RECORD_BATCHES:
        _int(sent)  # the mark of an Arrow stream
        values = [int(value) for value in pa.ipc.open_stream(sent).read_all().column("value").to_pylist()]
    return tasks, kind, sorted(values)


def _int(sent: io.BytesIO) -> int:
    return int.from_bytes(sent.read(4), "big", signed=True)


def test_a_few_records_come_with_the_plan(cluster: Cluster, stream: Callable[..., StreamReader]) -> None:
    topic = cluster.topic(3)
    cluster.put(topic, range(30), partitions=3)
    reader = stream(topic)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert planned(reader, start, end) == (1, runner.NON_EMPTY_PYARROW_RECORD_BATCHES, list(range(30)))
    cluster.put(topic, range(30, 32), partitions=3)
    later = reader.latestOffset(end, ALL)
    assert planned(reader, end, later) == (1, runner.NON_EMPTY_PYARROW_RECORD_BATCHES, [30, 31])
    assert planned(reader, end, later)[2] == [30, 31], "asked again, the same"


def test_the_reader_reports_its_lag_all_the_same(cluster: Cluster, stream: Callable[..., StreamReader]) -> None:
    """PySpark asks no reader that sends rows for its latest offset."""
    topic = cluster.topic(1)
    cluster.put(topic, range(5), partitions=1)
    reader = stream(topic)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    planned(reader, reader.initialOffset(), end)
    sent = io.BytesIO()
    runner.report_latest_offset_func(cast("DataSourceStreamReader", reader), sent)
    assert json.loads(sent.getvalue()[4:])[topic] == {"0": 5}
    sent = io.BytesIO()
    runner.check_support_func(cast("DataSourceStreamReader", reader), sent)
    assert sent.getvalue()[3] == runner.SUPPORTS_ADMISSION_CONTROL | runner.SUPPORTS_TRIGGER_AVAILABLE_NOW


def test_a_task_reads_the_same_rows_if_spark_loses_them(cluster: Cluster, stream: Callable[..., StreamReader]) -> None:
    topic = cluster.topic(2)
    cluster.put(topic, range(10))
    reader = stream(topic)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    (task,) = reader.partitions(start, end)
    assert isinstance(task, SpansPartition)
    found = [int(value) for batch in reader.read(task) for value in batch.column("value").to_pylist()]
    assert sorted(found) == list(range(10))


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        ({"prefetchRecords": "9"}, 2),
        ({"prefetchRecords": "0"}, 2),
        ({"minPartitions": "2"}, 2),
        ({"maxRecordsPerPartition": "3"}, 4),
    ],
)
def test_tasks_read_what_is_too_much_or_asked_for_as_tasks(
    cluster: Cluster, stream: Callable[..., StreamReader], options: dict[str, str], tasks: int
) -> None:
    topic = cluster.topic(2)
    cluster.put(topic, range(10))
    reader = stream(topic, **options)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert planned(reader, reader.initialOffset(), end) == (tasks, runner.PREFETCHED_RECORDS_NOT_FOUND, [])


def test_without_pyspark_s_wrapper_tasks_read(
    cluster: Cluster, stream: Callable[..., StreamReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import datasource_internal

    topic = cluster.topic(1)
    cluster.put(topic, range(3), partitions=1)
    reader = stream(topic)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    monkeypatch.delattr(datasource_internal, "_SimpleStreamReaderWrapper")
    handing_over.wrapper.cache_clear()
    try:
        assert planned(reader, reader.initialOffset(), end) == (1, runner.PREFETCHED_RECORDS_NOT_FOUND, [])
    finally:
        handing_over.wrapper.cache_clear()


def test_what_is_gone_is_left_to_a_task_which_says_so(cluster: Cluster, stream: Callable[..., StreamReader]) -> None:
    topic = cluster.topic(1)
    cluster.put(topic, range(10), partitions=1)
    reader = stream(topic)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    cluster.admin.delete_records({TopicPartition(topic, 0): 5})
    assert planned(reader, reader.initialOffset(), end) == (1, runner.PREFETCHED_RECORDS_NOT_FOUND, [])


def test_a_topic_that_was_made_anew_is_left_to_a_task(cluster: Cluster, stream: Callable[..., StreamReader]) -> None:
    """Its offsets may look as if nothing had happened; what to do about it is an option."""
    topic = cluster.topic(1)
    cluster.put(topic, range(5), partitions=1)
    reader = stream(topic)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    cluster.admin.delete_topic(topic)
    cluster.admin.create_topic(topic, partitions=1)
    cluster.put(topic, range(50, 55), partitions=1)
    reader.stop()
    assert planned(reader, reader.initialOffset(), end) == (1, runner.PREFETCHED_RECORDS_NOT_FOUND, [])


def test_large_records_are_left_to_tasks_until_they_are_small_again(cluster: Cluster) -> None:
    topic = cluster.topic(1)
    cluster.put_one(topic, b"a" * (BYTES_MAX * 3 // 4), b"k", [])
    cluster.put_one(topic, b"a" * (BYTES_MAX // 2), None, [])
    cluster.put(topic, range(40), partitions=1)
    where = TopicPartition(topic, 0)
    small = [Span(where, 2, 42)]
    reader = Near(1000)
    with Consumer(bootstrap_servers=cluster.servers) as consumer:
        assert reader.suits([Span(where, 0, 2)])
        assert reader.read(consumer, [Span(where, 0, 2)], ["key", "value"]) is None
        skipped = 0
        while not reader.suits(small):
            skipped += 1
        assert 10 < skipped < 100
        found = reader.read(consumer, small, ["key", "value"])
        assert found is not None
        assert sum(map(len, found)) == 40
        assert reader.suits(small)
        assert consumer.assignment() == []


def test_large_headers_are_left_to_tasks(cluster: Cluster) -> None:
    topic = cluster.topic(1)
    for _ in range(2):
        cluster.put_one(topic, b"v", None, [("h", b"a" * (BYTES_MAX * 3 // 5))])
    spans = [Span(TopicPartition(topic, 0), 0, 2)]
    reader = Near(1000)
    with Consumer(bootstrap_servers=cluster.servers) as consumer:
        assert reader.read(consumer, spans, ["value", "headers"]) is None
        assert not reader.suits(spans)
        found = reader.read(consumer, spans, ["value"])
        assert found is not None
        assert sum(map(len, found)) == 2, "nobody asked for the headers"


def test_many_partitions_are_left_to_tasks() -> None:
    reader = Near(1000)
    few = [Span(TopicPartition("t", number), 0, 1) for number in range(near.SPANS_MAX)]
    assert reader.suits(few)
    assert not reader.suits([*few, Span(TopicPartition("u", 0), 0, 1)])
    assert not reader.suits([])


def test_records_that_do_not_come_are_left_to_a_task() -> None:
    class Silent:
        """A consumer whose broker takes its time."""

        def assign(self, partitions: list[TopicPartition]) -> None: ...
        def seek(self, where: TopicPartition, offset: int) -> None: ...
        def poll_columns(self, timeout: float, **_: object) -> list[Any]:
            now[0] += timeout
            return []

        def position(self, where: TopicPartition) -> int:
            return 0

    now = [100.0]
    assert Near(1000, lambda: now[0]).read(cast("Consumer", Silent()), [Span(WHERE, 0, 1)], ["value"]) is None


def test_gaps_at_the_end_of_a_span_are_no_reason_to_wait(cluster: Cluster) -> None:
    """Those of transactions and of compaction: the position passes them, no record does."""

    class Gap:
        def __init__(self) -> None:
            self.positions = iter([3, 10])

        def assign(self, partitions: list[TopicPartition]) -> None: ...
        def seek(self, where: TopicPartition, offset: int) -> None: ...
        def poll_columns(self, timeout: float, **_: object) -> list[Any]:
            return []

        def position(self, where: TopicPartition) -> int:
            return next(self.positions)

    assert Near(1000).read(cast("Consumer", Gap()), [Span(WHERE, 0, 10)], ["value"]) == []


@pytest.mark.spark
def test_a_running_query_reads_small_batches_through_its_planner(job: Callable[[str], Job], cluster: Cluster) -> None:
    topic = cluster.topic(2)
    seen: list[int] = []
    tasks: list[int] = []
    changed = threading.Condition()

    def take(batch: Any, _: int) -> None:
        values = [int(row.value) for row in batch.select("value").collect()]
        with changed:
            if values:
                tasks.append(batch.rdd.getNumPartitions())
            seen.extend(values)
            changed.notify_all()

    query = job(topic).start(take, {}, startingOffsets="earliest", prefetchRecords="10", includeHeaders="true")
    sent = 0
    try:
        # Where the machine is slow, tasks read instead, two of them: until it is not.
        for size in itertools.chain.from_iterable(itertools.repeat((20, 2), 20)):
            if 1 in tasks:
                break
            cluster.put(topic, range(sent, sent + size))
            sent += size
            with changed:
                assert changed.wait_for(lambda: len(seen) >= sent, 240), query.exception()  # noqa: B023
    finally:
        query.stop()
    assert sorted(seen) == list(range(sent))
    assert 1 in tasks
    assert '"maxOffsetsBehindLatest": "0"' in query.lastProgress["sources"][0]["latestOffset"]
