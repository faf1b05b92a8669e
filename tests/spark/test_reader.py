"""The readers as Spark's planner and workers call them, against a real broker and without a JVM."""

from __future__ import annotations

import contextlib
import itertools
import json
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows

from barnabas import Admin, Broker, Consumer, Producer
from barnabas.client.consume import fetcher as fetcher_module
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.fetch import FetchRequest
from barnabas.spark_bridge import brokers as brokers_module
from barnabas.spark_bridge import source
from barnabas.spark_bridge.borrowed import Borrowed, patience_of
from barnabas.spark_bridge.offsets import OffsetError, Span, parse_stored, stored_origin
from barnabas.spark_bridge.options import read_options
from barnabas.spark_bridge.patience import BrokersAway
from barnabas.spark_bridge.schema import BadTimestamp
from barnabas.spark_bridge.source import BatchReader, StreamReader
from barnabas.spark_bridge.tasks import SpanPartition
from tests.spark.conftest import Cluster

Stream = Callable[..., StreamReader]
ALL = ReadAllAvailable()


@pytest.fixture
def stream(cluster: Cluster) -> Iterator[Stream]:
    readers: list[StreamReader] = []

    def make(topic: str, **options: str) -> StreamReader:
        # A topic that is gone is looked for again, for it may just be made anew: not for seconds here.
        hasty = {"fetchOffset.retryIntervalMs": "10"}
        given = {"kafka.bootstrap.servers": cluster.servers, "subscribe": topic, **hasty, **options}
        readers.append(StreamReader(read_options(given, "stream")))
        return readers[-1]

    yield make
    for reader in readers:
        reader.stop()


def batch(cluster: Cluster, topic: str, **options: str) -> BatchReader:
    return BatchReader(
        read_options({"kafka.bootstrap.servers": cluster.servers, "subscribe": topic, **options}, "batch")
    )


def read_between(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """The numbers of a micro-batch, through pickles as tasks get them."""
    found = []
    worker = pickle.loads(pickle.dumps(StreamReader(reader.options)))
    for task in reader.partitions(start, json.loads(json.dumps(end))):
        for records in worker.read(pickle.loads(pickle.dumps(task))):
            found += [int(value) for value in records.column("value").to_pylist()]
    return sorted(found)


def read_all(reader: BatchReader) -> list[Any]:
    return [records for task in reader.partitions() for records in reader.read(task)]


def test_the_first_plan_is_kept_until_its_batch_is_there(cluster: Cluster, stream: Stream) -> None:
    """Asked again before the first batch, the beginning is the same: what came meanwhile belongs to the query."""
    topic = cluster.topic(1)
    cluster.put(topic, range(5), partitions=1)
    reader = stream(topic, startingOffsets="latest")
    start = reader.initialOffset()
    first = reader.latestOffset(start, ALL)
    cluster.put(topic, range(5, 8), partitions=1)
    again = reader.latestOffset(start, ALL)
    assert read_between(reader, start, first) == []
    assert read_between(reader, start, again) == [5, 6, 7]


def test_a_pattern_that_matches_nothing_yet_reads_later_topics_from_their_beginning(
    cluster: Cluster, stream: Stream
) -> None:
    reader = stream("unused", startingOffsets="latest")
    reader.options = read_options(
        {"kafka.bootstrap.servers": cluster.servers, "subscribePattern": "late[0-9]", "startingOffsets": "latest"},
        "stream",
    )
    first = reader.latestOffset(reader.initialOffset(), ALL)
    assert read_between(reader, reader.initialOffset(), first) == []
    assert reader.latestOffset(first, ALL) == first
    cluster.admin.create_topic("late1", partitions=1)
    cluster.put("late1", range(3), partitions=1)
    assert read_between(reader, first, reader.latestOffset(first, ALL)) == [0, 1, 2]


def test_a_wait_of_the_planner_opens_no_session(cluster: Cluster, stream: Stream) -> None:
    """Each wait is one question. With a session for each, the broker's thousand would be full of the planner's."""
    topic = cluster.topic(1)
    cluster.put(topic, range(3), partitions=1)
    reader = stream(topic)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    before = cluster.sessions()
    for _ in range(3):
        assert reader.latestOffset(end, ALL) == end
    assert cluster.sessions() <= before  # an earlier test's may go meanwhile


# ---- deleted, created anew, cut -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_that_goes_under_a_running_query(cluster: Cluster, stream: Stream, fail: str) -> None:
    topic, other = cluster.topic(1), cluster.topic(1)
    cluster.put(topic, range(10), partitions=1)
    cluster.put(other, range(10, 12), partitions=1)
    reader = stream(f"{topic},{other}", startingOffsets="earliest", failOnDataLoss=fail)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert read_between(reader, reader.initialOffset(), end) == list(range(12))
    cluster.admin.delete_topic(topic)
    cluster.put(other, range(12, 14), partitions=1)
    if fail == "true":
        with pytest.raises(OffsetError, match=f"the partitions {topic}-0 are gone.*set failOnDataLoss to false"):
            reader.latestOffset(end, ALL)
    else:
        later = reader.latestOffset(end, ALL)
        assert topic not in later
        assert read_between(reader, end, later) == [12, 13]
    assert topic not in cluster.admin.list_topics(), "looking for a topic must not bring it back"


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_that_goes_between_plan_and_task(
    cluster: Cluster, stream: Stream, fail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers_module, "CHECK_MS", 300)
    topic = cluster.topic(1)
    cluster.put(topic, range(10), partitions=1)
    reader = stream(topic, startingOffsets="earliest", failOnDataLoss=fail)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    cluster.admin.delete_topic(topic)
    if fail == "true":
        with pytest.raises(OffsetError, match=r"records from offset 0 to 9 are gone .the topic was deleted"):
            read_between(reader, reader.initialOffset(), end)
    else:
        assert read_between(reader, reader.initialOffset(), end) == []


@pytest.mark.parametrize("count", [3, 15])
def test_a_topic_created_anew_is_noticed_though_it_outgrew_the_old_one(
    cluster: Cluster, stream: Stream, count: int
) -> None:
    topic = cluster.topic(1)
    cluster.put(topic, range(10), partitions=1)
    reader = stream(topic, startingOffsets="earliest", failOnDataLoss="false")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    cluster.admin.delete_topic(topic)
    cluster.admin.create_topic(topic, partitions=1)
    cluster.put(topic, range(100, 100 + count), partitions=1)
    for restarted in (stream(topic), reader):  # a query that restarts from its checkpoint, and one that runs on
        if restarted is not reader:
            with pytest.raises(OffsetError, match="was deleted and created again"):
                restarted.latestOffset(end, ALL)
            continue
        later = restarted.latestOffset(end, ALL)
        assert read_between(restarted, end, later) == list(range(100, 100 + count))
        cluster.put(topic, range(200, 202), partitions=1)
        last = restarted.latestOffset(later, ALL)
        assert read_between(restarted, later, last) == [200, 201]


@pytest.mark.parametrize("fail", ["true", "false"])
def test_retention_that_passes_the_position(
    cluster: Cluster, stream: Stream, fail: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What is lost is said, to the record."""
    topic = cluster.topic(1)
    cluster.put(topic, range(10), partitions=1)
    reader = stream(topic, startingOffsets=json.dumps({topic: {"0": 2}}), failOnDataLoss=fail)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    cluster.admin.delete_records({TopicPartition(topic, 0): 5})
    if fail == "true":
        with pytest.raises(
            OffsetError, match=r"records from offset 2 to 4 are gone .OFFSET_OUT_OF_RANGE.*failOnDataLoss"
        ):
            read_between(reader, reader.initialOffset(), end)
    else:
        assert read_between(reader, reader.initialOffset(), end) == [5, 6, 7, 8, 9]
        assert f"{topic}-0: the records from offset 2 to 4 are gone (OFFSET_OUT_OF_RANGE)" in caplog.text


def test_partitions_added_under_a_running_query(cluster: Cluster, stream: Stream) -> None:
    topic = cluster.topic(1)
    cluster.put(topic, range(2), partitions=1)
    reader = stream(topic, startingOffsets="latest")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    cluster.admin.create_partitions(topic, 2)
    cluster.put(topic, range(10, 14))
    later = reader.latestOffset(end, ALL)
    assert read_between(reader, end, later) == [10, 11, 12, 13]
    assert reader.latestOffset(later, ALL) == later


def test_a_broker_that_restarts_is_waited_for(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path, topics={"kept": 1}) as broker:
        port, servers = broker.port, broker.bootstrap_servers
        with Producer(bootstrap_servers=servers) as producer:
            producer.send("kept", b"1").result()
        reader = StreamReader(read_options({"kafka.bootstrap.servers": servers, "subscribe": "kept"}, "stream"))
        end = reader.latestOffset(reader.initialOffset(), ALL)
        whole = {**end, "$from/kept/0/0": {}}
        assert read_between(reader, reader.initialOffset(), whole) == [1]  # leaves a connection for the next task
    with Broker(data_dir=tmp_path, port=port):
        with Producer(bootstrap_servers=servers) as producer:
            producer.send("kept", b"2").result()
        later = reader.latestOffset(end, ALL)
        assert read_between(reader, end, later) == [2]
        reader.stop()


def test_an_unreachable_broker_is_named() -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "a", "brokerTimeout": "100ms"}
    with pytest.raises(BrokersAway, match=r"127\.0\.0\.1:9"):
        BatchReader(read_options(given, "batch")).partitions()
    reader = StreamReader(read_options(given, "stream"))
    with pytest.raises(BrokersAway, match=r"127\.0\.0\.1:9"):
        reader.latestOffset(reader.initialOffset(), ALL)


# ---- how much a trigger takes ---------------------------------------------------------------------------------------


def test_a_minimum_waits_for_enough_or_for_the_longest_delay(
    cluster: Cluster, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0]
    monkeypatch.setattr(source, "now_ms", lambda: now[0])
    monkeypatch.setattr(source, "IDLE_WAIT_MS", 1)
    topic = cluster.topic(1)
    cluster.put(topic, range(3), partitions=1)
    reader = stream(topic, startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="1m")
    enough = reader.getDefaultReadLimit()
    assert enough == ReadMinRows(10)
    first = reader.latestOffset(reader.initialOffset(), enough)
    assert first[topic] == {"0": 3}, "the first trigger takes what is there"
    cluster.put(topic, range(9), partitions=1)
    assert reader.latestOffset(first, enough) == first
    report = reader.reportLatestOffset()
    assert report is not None
    assert report["$metrics"]["maxOffsetsBehindLatest"] == "9", "who waits is behind, and says so"
    now[0] = 59_999
    assert reader.latestOffset(first, enough) == first
    now[0] = 60_000
    second = reader.latestOffset(first, enough)
    assert second[topic] == {"0": 12}
    cluster.put(topic, range(10), partitions=1)
    assert reader.latestOffset(second, enough)[topic] == {"0": 22}
    now[0] = 200_000
    third = {**second, topic: {"0": 22}}
    assert reader.latestOffset(third, enough) == third, "nothing new is no batch, however long it lasts"


def test_a_minimum_does_not_keep_the_first_batch_from_saying_where_the_query_begins(
    cluster: Cluster, stream: Stream
) -> None:
    """Stopped before a record came, it must not begin at what is the latest then."""
    topic = cluster.topic(1)
    cluster.put(topic, range(3), partitions=1)
    reader = stream(topic, startingOffsets="latest", minOffsetsPerTrigger="10")
    begin = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert begin[topic] == {"0": 3}
    assert f"$from/{topic}/0/3" in begin


def test_a_checkpoint_of_an_earlier_release_goes_on(cluster: Cluster, stream: Stream) -> None:
    """It holds no topic ids; the next offset does."""
    topic = cluster.topic(1)
    cluster.put(topic, range(3), partitions=1)
    reader = stream(topic)
    old = {topic: {"0": 2}}
    end = reader.latestOffset(old, ALL)
    assert end[topic] == {"0": 3}
    assert stored_origin(end).topics.keys() == {topic}
    assert len(reader.partitions(old, end)) == 1
    there = {topic: {"0": 3}}
    assert reader.latestOffset(there, ALL) == there


def test_a_minimum_and_a_maximum_go_together(cluster: Cluster, stream: Stream) -> None:
    topic = cluster.topic(1)
    cluster.put(topic, range(50), partitions=1)
    reader = stream(topic, startingOffsets="earliest", minOffsetsPerTrigger="5", maxOffsetsPerTrigger="20")
    enough = reader.getDefaultReadLimit()
    assert enough == ReadMinRows(5)
    assert reader.latestOffset(reader.initialOffset(), enough)[topic] == {"0": 20}
    # Trigger once takes all that is there, as Spark documents it.
    assert reader.latestOffset(reader.initialOffset(), ALL)[topic] == {"0": 50}


def test_available_now_takes_the_rest_below_the_minimum(cluster: Cluster, stream: Stream) -> None:
    topic = cluster.topic(1)
    cluster.put(topic, range(23), partitions=1)
    reader = stream(topic, startingOffsets="earliest", minOffsetsPerTrigger="5", maxOffsetsPerTrigger="10")
    reader.prepareForTriggerAvailableNow()
    cluster.put(topic, range(9), partitions=1)  # came later: not for this run
    ends, offset = [], reader.initialOffset()
    while (later := reader.latestOffset(offset, ReadMinRows(5))) != offset:
        offset = later
        ends.append(offset[topic]["0"])
    assert ends == [10, 20, 23]


@pytest.mark.parametrize("limit", [ALL, ReadMaxRows(5), ReadMinRows(5)])
def test_nothing_new_is_the_same_offset(cluster: Cluster, stream: Stream, limit: ReadLimit) -> None:
    topic = cluster.topic()
    cluster.put(topic, range(4))
    reader = stream(topic, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="5")
    end = reader.latestOffset(reader.initialOffset(), limit)
    assert reader.latestOffset(end, limit) == end


# ---- what is read ---------------------------------------------------------------------------------------------------


def test_one_task_per_topic_partition(cluster: Cluster, stream: Stream) -> None:
    topic = cluster.topic(3)
    cluster.put(topic, range(30), partitions=3)
    reader = stream(topic, startingOffsets="earliest", prefetchRecords="0")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    tasks = [cast("SpanPartition", task) for task in reader.partitions(reader.initialOffset(), end)]
    assert [(task.topic, task.partition, task.start, task.end) for task in tasks] == [
        (topic, number, 0, 10) for number in range(3)
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressed_topics_nulls_and_headers(cluster: Cluster, codec: Any) -> None:
    topic = cluster.topic(1)
    with Producer(bootstrap_servers=cluster.servers, compression_type=codec, linger_ms=50) as producer:
        for number in range(100):
            key, value = (None, b"%d" % number) if number % 2 else (b"k", None)
            producer.send(topic, value, key, headers=[("h", b"x")] if number % 3 else [], timestamp_ms=1000 + number)
    (records,) = read_all(batch(cluster, topic, includeHeaders="true"))
    rows = records.to_pylist()
    assert [row["value"] for row in rows] == [b"%d" % number if number % 2 else None for number in range(100)]
    assert [row["key"] for row in rows] == [None if number % 2 else b"k" for number in range(100)]
    assert [row["headers"] for row in rows] == [
        [{"key": "h", "value": b"x"}] if number % 3 else None for number in range(100)
    ]
    assert [row["timestamp"].timestamp() for row in rows] == [1 + number / 1000 for number in range(100)]
    assert {row["timestampType"] for row in rows} == {0}


def test_a_compacted_topic_is_read_over_its_gaps() -> None:
    settings = {"log.cleaner.backoff.ms": 20, "log.initial.task.delay.ms": 0}
    config = {"cleanup.policy": "compact", "segment.ms": 1, "min.cleanable.dirty.ratio": 0, "min.compaction.lag.ms": 0}
    with Broker(config=settings) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic("c", partitions=1, config=config)
        given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "c", "startingOffsets": "earliest"}
        reader = StreamReader(read_options(given, "stream"))
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(30):
                producer.send("c", b"%d" % number, b"k%d" % (number % 3)).result()
        end = reader.latestOffset(reader.initialOffset(), ALL)
        assert end["c"] == {"0": 30}
        deadline = time.monotonic() + 30
        while len(found := read_between(reader, reader.initialOffset(), end)) == 30:
            assert time.monotonic() < deadline, "nothing was compacted"
        assert {27, 28, 29} <= set(found), "the newest of each key stay"
        reader.stop()


def test_the_broker_s_own_timestamps_are_marked(cluster: Cluster) -> None:
    topic = cluster.topic(1, **{"message.timestamp.type": "LogAppendTime"})
    cluster.put(topic, range(2), partitions=1, timestamp_ms=1000)
    (records,) = read_all(batch(cluster, topic))
    assert records.column("timestampType").to_pylist() == [1, 1]
    assert min(records.column("timestamp").to_pylist()).year > 1970


def test_a_timestamp_that_spark_cannot_hold_is_named(cluster: Cluster) -> None:
    topic = cluster.topic(1, **{"message.timestamp.after.max.ms": 2**63 - 1})
    largest = (2**63 - 1) // 1000
    for time_ms in (1, largest, largest + 1):
        cluster.put(topic, range(1), partitions=1, timestamp_ms=time_ms)
    told = rf"{topic}-0 at offset 2: the timestamp {largest + 1} ms is more .* read without this column"
    with pytest.raises(BadTimestamp, match=told):
        read_all(batch(cluster, topic))
    within = read_all(batch(cluster, topic, endingOffsets=json.dumps({topic: {"0": 2}})))
    assert [time for records in within for time in records.column("timestamp").cast("int64").to_pylist()] == [
        1000,
        largest * 1000,
    ]


def test_a_record_larger_than_a_fetch(cluster: Cluster) -> None:
    size = 10 << 20
    topic = cluster.topic(1, **{"max.message.bytes": size * 2})
    with Producer(bootstrap_servers=cluster.servers, max_request_size=size * 2) as producer:
        for letter in (b"a", b"b"):
            producer.send(topic, letter * size)
        producer.send(topic, b"small")
    values = [value for records in read_all(batch(cluster, topic)) for value in records.column("value").to_pylist()]
    assert values == [b"a" * size, b"b" * size, b"small"]


def test_a_stretch_without_records_ends_the_task_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Aborted:
        """A consumer of a partition whose records all belong to aborted transactions: it passes them silently."""

        def __init__(self) -> None:
            self.positions = iter([3, 3, 10])
            self.polls = 0

        def poll_columns(self, timeout: float, *, headers: bool, only: object) -> list[Any]:
            self.polls += 1
            return []

        def position(self, where: TopicPartition) -> int:
            return next(self.positions)

        def assign(self, partitions: list[TopicPartition]) -> None: ...
        def seek(self, where: TopicPartition, offset: int) -> None: ...
        def pause(self, where: TopicPartition) -> None: ...

    consumer = Aborted()
    options = read_options({"kafka.bootstrap.servers": "h:1", "subscribe": "a"}, "stream")
    held = Borrowed(cast("Consumer", consumer), {}, patience_of(options, {}))
    monkeypatch.setattr(brokers_module, "borrowed", lambda *_: contextlib.nullcontext(held))
    span = Span(TopicPartition("a", 0), 0, 10)
    # The end of the log is not asked for, as after seconds of silence: this consumer could not tell.
    assert list(brokers_module.read_span({}, span, options)) == []
    assert consumer.polls == 3


def test_an_empty_topic_and_an_empty_stretch(cluster: Cluster) -> None:
    topic = cluster.topic()
    assert read_all(batch(cluster, topic)) == []
    cluster.put(topic, range(4))
    assert read_all(batch(cluster, topic, startingOffsets=json.dumps({topic: {"0": 2, "1": 2}}))) == []


def test_records_cost_no_python_call_each(cluster: Cluster) -> None:
    count, calls = 20_000, 0
    topic = cluster.topic(1)
    cluster.put(topic, range(count), partitions=1)
    reader = batch(cluster, topic)
    tasks = reader.partitions()

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        rows = sum(records.num_rows for task in tasks for records in reader.read(task))
    finally:
        sys.setprofile(before)
    assert rows == count
    assert calls < count / 2, f"{calls} calls for {count} records"


def test_the_next_task_does_not_wait_behind_the_last_one_s_fetch(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the end of its span a task leaves a fetch at the broker: with Kafka's default it waits there for 500 ms,
    and the next task's on the same connection behind it."""
    topic = cluster.topic(2)
    cluster.put(topic, range(10))
    reader = batch(cluster, topic)
    waits_ms: list[int] = []

    def asked(**fields: Any) -> FetchRequest:
        waits_ms.append(fields["max_wait_ms"])
        return FetchRequest(**fields)

    monkeypatch.setattr(fetcher_module, "FetchRequest", asked)
    tasks = reader.partitions()
    assert sum(records.num_rows for task in tasks for records in reader.read(task)) == 10
    assert waits_ms
    assert max(waits_ms) <= 10


def test_a_task_that_gets_nothing_says_so_in_time(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, stream: Stream
) -> None:
    monkeypatch.setattr(brokers_module, "CHECK_MS", 100)
    topic = cluster.topic(1)
    cluster.put(topic, range(2), partitions=1)
    reader = stream(topic, startingOffsets="earliest", **{"kafkaConsumer.pollTimeoutMs": "200"})
    end = reader.latestOffset(reader.initialOffset(), ALL)
    monkeypatch.setattr(Consumer, "poll_columns", lambda *_, **__: [])
    with pytest.raises(OffsetError, match=r"nothing came at offset 0 for 200 ms.*raise kafkaConsumer.pollTimeoutMs"):
        read_between(reader, reader.initialOffset(), end)


def test_a_pattern_leaves_other_topics_alone(cluster: Cluster) -> None:
    topic, other = cluster.topic(1), cluster.topic(1)
    given = {"kafka.bootstrap.servers": cluster.servers, "subscribePattern": f"{topic}|none"}
    reader = StreamReader(read_options(given, "stream"))
    end = reader.latestOffset(reader.initialOffset(), ALL)
    reader.stop()
    assert topic in end
    assert other not in end


def test_settings_reach_the_client_under_kafka_s_names(cluster: Cluster) -> None:
    topic = cluster.topic(1)
    cluster.put(topic, range(3), partitions=1)
    settings = {"kafka.isolation.level": "read_committed", "KAFKA.Max.Partition.Fetch.Bytes": "1048576"}
    assert sum(records.num_rows for records in read_all(batch(cluster, topic, **settings))) == 3
    with Admin(bootstrap_servers=cluster.servers) as admin:
        assert topic in admin.list_topics()


def test_a_turn_that_brings_nothing_looks_once(
    stream: Stream, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ten thousand topics each look costs a second."""
    topic = cluster.topic(1)
    cluster.put(topic, range(1), partitions=1)
    reader = stream(topic, startingOffsets="earliest")
    start = reader.latestOffset(reader.initialOffset(), ALL)
    looks, look = itertools.count(), reader.cluster.latest
    monkeypatch.setattr(reader.cluster, "latest", lambda partitions: (next(looks), look(partitions))[1])
    assert parse_stored(reader.latestOffset(start, ALL)) == parse_stored(start)
    assert next(looks) == 1
    cluster.put(topic, range(1), partitions=1)
    assert parse_stored(reader.latestOffset(start, ALL))[0] == {TopicPartition(topic, 0): 2}
