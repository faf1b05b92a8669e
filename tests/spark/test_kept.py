"""What a fetch brought beyond a task's end: handed to the task that goes on there, and to no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas import Broker, Consumer, Producer
from barnabas.client.consume.columnar import Columns, fixed
from barnabas.protocol import batch as wire
from barnabas.protocol.ids import TopicPartition, format_uuid
from barnabas.spark_bridge import brokers as brokers_module
from barnabas.spark_bridge.brokers import client_settings, read_span
from barnabas.spark_bridge.kept import Kept, Rest, bytes_of, rest_of
from barnabas.spark_bridge.offsets import Span
from barnabas.spark_bridge.options import read_options
from barnabas.spark_bridge.source import StreamReader
from tests.spark.conftest import Cluster

WHERE = TopicPartition("t", 0)


def columns_of(offsets: list[int], size: int = 1, epoch: int = 0) -> Columns:
    import numpy as np
    import pyarrow as pa

    values = pa.array([b"a" * size for _ in offsets], pa.binary())
    places = fixed(np.array(offsets, np.int64), pa.int64())
    return Columns("t", 0, values, values, places, values, values, leader_epoch=epoch)


def offsets_of(rest: Rest) -> list[int]:
    return [offset for columns in rest.columns for offset in columns.offset.to_pylist()]


@given(st.sets(st.integers(0, 30)), st.integers(0, 31), st.integers(1, 5))
def test_a_rest_is_cut_at_an_offset(present: set[int], at: int, size: int) -> None:
    offsets = sorted(present)
    pieces = [offsets[index : index + size] for index in range(0, len(offsets), size)]
    before, behind = Rest(0, 31, [columns_of(piece) for piece in pieces], 0).cut(at)
    assert offsets_of(before) == [offset for offset in offsets if offset < at]
    assert offsets_of(behind) == [offset for offset in offsets if offset >= at]
    assert (before.start, before.end, behind.start, behind.end) == (0, at, at, 31)


def test_a_rest_serves_from_an_offset_within_it() -> None:
    kept = Kept()
    kept.put("t-0", rest_of([columns_of([3, 4, 5, 9])], 4, 12))
    assert kept.take("t-1", 4, 0) is None
    found = kept.take("t-0", 5, 0)
    assert found is not None
    assert (found.start, found.end, offsets_of(found)) == (5, 12, [5, 9])
    assert kept.take("t-0", 5, 0) is None, "it was taken"
    for elsewhere in (3, 12):
        kept.put("t-0", rest_of([columns_of([3, 4, 5, 9])], 4, 12))
        assert kept.take("t-0", elsewhere, 0) is None
    kept.put("t-0", rest_of([columns_of([3])], 4, 12))
    gap = kept.take("t-0", 4, 0)
    assert gap is not None
    assert (gap.end, gap.columns) == (12, []), "a stretch without records is one, too"


def test_a_rest_serves_in_its_leader_s_epoch_alone() -> None:
    """A log that was cut has other records at these offsets, and its leader another epoch."""
    kept = Kept()
    kept.put("t-0", rest_of([columns_of([3, 4, 5], epoch=7)], 4, 6))
    assert kept.serve("t-0", Span(WHERE, 4, 6), 9) == ([], Span(WHERE, 4, 6))
    assert kept.take("t-0", 4, 7) is None, "it will not be there again"
    kept.put("t-0", rest_of([columns_of([3, 4, 5], epoch=7)], 4, 6))
    (found,), left = kept.serve("t-0", Span(WHERE, 4, 5), 7)
    assert (found.offset.to_pylist(), left.size) == ([4], 0)
    assert kept.take("t-0", 5, 7) is not None, "what is left of it knows its epoch, too"
    kept.put("t-0", rest_of([columns_of([3, 4, 5], epoch=-1)], 4, 6))
    assert kept.take("t-0", 4, -1) is None, "a broker that tells no epoch"


def test_what_is_kept_has_a_bound() -> None:
    size = columns_of([1], 1000)
    one = Rest(0, 10, [size], 0).bytes
    kept = Kept(3 * one)
    for number in range(4):
        kept.put(number, Rest(0, 10, [columns_of([1], 1000)], 0))
    assert kept.take(0, 0, 0) is None, "the oldest gave way"
    assert all(kept.take(number, 0, 0) for number in (1, 2, 3))
    kept.put("large", Rest(0, 10, [columns_of([1], 4000)], 0))
    assert kept.take("large", 0, 0) is None
    kept.put("nothing", Rest(10, 10, [], 0))
    assert kept.take("nothing", 10, 0) is None


def test_headers_are_counted_of_a_slice_itself_or_what_it_was_cut_from() -> None:
    import pyarrow as pa

    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    columns = columns_of(list(range(10)))
    without = bytes_of(columns)
    columns.headers = pa.array([[{"key": "h", "value": b"a" * 1000}]] * 10, kind)
    assert bytes_of(columns) - without >= 10_000
    part = columns.slice(3, 1)
    assert 1000 <= bytes_of(part) < 2000
    assert bytes_of(part, whole=True) >= 10_000
    one = Rest(0, 10, [part], 0)
    assert one.bytes >= 10_000
    kept = Kept(9000)
    kept.put("t-0", one)
    assert kept.take("t-0", 3, 0) is None, "headers alone are too large"


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records each poll of a consumer brought."""
    found: list[int] = []
    poll = Consumer.poll_columns

    def counted(self: Consumer, timeout: float | None = None, **given: Any) -> list[Columns]:
        columns = poll(self, timeout, **given)
        found.append(sum(map(len, columns)))
        return columns

    monkeypatch.setattr(Consumer, "poll_columns", counted)
    monkeypatch.setattr(brokers_module, "_kept", Kept())
    return found


def put(broker: Broker, values: range) -> None:
    """Each in a batch of its own."""
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in values:
            producer.send("t", b"%d" % value, partition=0).result()


def values_of(reader: StreamReader, tasks: Any) -> list[int]:
    return [int(value) for task in tasks for found in reader.read(task) for value in found.column("value").to_pylist()]


def values(cluster: Cluster, span: Span, topic_id: str, epoch: int = 0) -> list[int]:
    options = read_options({"kafka.bootstrap.servers": cluster.servers, "subscribe": span.where.topic}, "stream")
    found = read_span(client_settings(options), span, options, topic_id, epoch)
    return [int(value) for columns in found for value in columns.value.to_pylist()]


def id_of(cluster: Cluster, topic: str) -> str:
    return format_uuid(cluster.admin.describe_topics(topic)[topic].topic_id)


def test_the_next_task_fetches_nothing_that_is_there(cluster: Cluster, fetched: list[int]) -> None:
    topic = cluster.topic(1)
    cluster.put(topic, range(100), partitions=1)
    where, own = TopicPartition(topic, 0), id_of(cluster, topic)
    assert values(cluster, Span(where, 0, 10), own) == list(range(10))
    assert sum(fetched) == 100
    assert values(cluster, Span(where, 10, 25), own) == list(range(10, 25))
    assert values(cluster, Span(where, 30, 40), own) == list(range(30, 40)), "some may have been read elsewhere"
    assert sum(fetched) == 100
    cluster.put(topic, range(100, 120), partitions=1)
    assert values(cluster, Span(where, 40, 120), own) == list(range(40, 120)), "partly kept, partly fetched"
    assert sum(fetched) == 120


def test_without_an_id_nothing_is_kept(cluster: Cluster, fetched: list[int]) -> None:
    topic = cluster.topic(1)
    cluster.put(topic, range(20), partitions=1)
    where = TopicPartition(topic, 0)
    assert values(cluster, Span(where, 0, 10), "") == list(range(10))
    assert values(cluster, Span(where, 10, 20), "") == list(range(10, 20))
    assert sum(fetched) == 30


def test_another_topic_of_that_name_is_read_anew(cluster: Cluster, fetched: list[int]) -> None:
    topic = cluster.topic(1)
    cluster.put(topic, range(20), partitions=1)
    where = TopicPartition(topic, 0)
    assert values(cluster, Span(where, 0, 10), id_of(cluster, topic)) == list(range(10))
    cluster.admin.delete_topic(topic)
    cluster.admin.create_topic(topic, partitions=1)
    cluster.put(topic, range(50, 70), partitions=1)
    assert values(cluster, Span(where, 10, 20), id_of(cluster, topic)) == list(range(60, 70))
    assert sum(fetched) == 30


def test_a_stream_s_tasks_know_their_topic_s_id(cluster: Cluster, fetched: list[int]) -> None:
    topic = cluster.topic(1)
    cluster.put(topic, range(50), partitions=1)
    given_options = {"kafka.bootstrap.servers": cluster.servers, "subscribe": topic, "startingOffsets": "earliest"}
    reader = StreamReader(
        read_options({**given_options, "maxOffsetsPerTrigger": "20", "prefetchRecords": "0"}, "stream")
    )
    limit, offset, found = reader.getDefaultReadLimit(), reader.initialOffset(), []
    for _ in range(3):
        later = reader.latestOffset(offset, limit)
        found += values_of(reader, reader.partitions(offset, later))
        offset = later
    reader.stop()
    assert found == list(range(50))
    assert sum(fetched) == 50


def cut(directory: Path, batches: int) -> None:
    """As a power failure may leave it: of the log nothing is there behind so many batches."""
    (log,) = directory.glob("**/t-0/*.log")
    data = log.read_bytes()
    log.write_bytes(data[: [*(at for at, _ in wire.batches(memoryview(data))), len(data)][batches]])


def test_what_a_power_failure_took_is_not_given_from_what_is_kept(tmp_path: Path, fetched: list[int]) -> None:
    """Other records have its offsets: the leader's epoch, which rises at each start, tells them apart."""
    given_options = {"subscribe": "t", "startingOffsets": "earliest", "prefetchRecords": "0"}
    found: list[int] = []
    with Broker(data_dir=tmp_path, topics={"t": 1}) as broker:
        port, given_options["kafka.bootstrap.servers"] = broker.port, broker.bootstrap_servers
        put(broker, range(10))
        reader = StreamReader(read_options({**given_options, "maxOffsetsPerTrigger": "4"}, "stream"))
        limit, start = reader.getDefaultReadLimit(), reader.initialOffset()
        for rows in (range(4), range(4, 8)):
            end = reader.latestOffset(start, limit)
            assert values_of(reader, reader.partitions(start, end)) == list(rows)
            start = end
        assert sum(fetched) == 10, "the second task's were kept"
    cut(tmp_path, 8)
    with Broker(data_dir=tmp_path, port=port) as broker:
        put(broker, range(80, 84))
        while len(found) < 4:
            end = reader.latestOffset(start, limit)
            found += values_of(reader, reader.partitions(start, end))
            start = end
        reader.stop()
    assert found == [80, 81, 82, 83]
