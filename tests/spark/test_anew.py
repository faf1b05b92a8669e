"""Topics and clusters that are made anew under a checkpoint, without a JVM: recognised, explained, and begun again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from barnabas import Broker, Producer
from barnabas.spark_bridge import brokers as brokers_module
from barnabas.spark_bridge.brokers import Brokers
from barnabas.spark_bridge.offsets import OffsetError, stored_origin
from barnabas.spark_bridge.options import read_options
from barnabas.spark_bridge.source import StreamReader
from tests.spark.conftest import Cluster
from tests.spark.test_reader import read_between

Stream = Callable[..., StreamReader]
ALL = ReadAllAvailable()


@pytest.fixture
def stream(cluster: Cluster) -> Iterator[Stream]:
    readers: list[StreamReader] = []

    def make(topic: str, **options: str) -> StreamReader:
        given = {"kafka.bootstrap.servers": cluster.servers, "subscribe": topic, "startingOffsets": "earliest"}
        readers.append(StreamReader(read_options({**given, **options}, "stream")))
        return readers[-1]

    yield make
    for reader in readers:
        reader.stop()


def make_anew(cluster: Cluster, topic: str, values: range, partitions: int = 1) -> None:
    cluster.admin.delete_topic(topic)
    cluster.admin.create_topic(topic, partitions=partitions)
    cluster.put(topic, values, partitions=partitions)


@pytest.mark.parametrize("count", [3, 15])
def test_a_task_reads_nothing_of_a_topic_that_was_made_anew_since_it_was_planned(
    cluster: Cluster, stream: Stream, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the new one has outgrown the old one or not: its records would be taken for others."""
    monkeypatch.setattr(brokers_module, "CHECK_MS", 300)
    topic = cluster.topic(1)
    cluster.put(topic, range(10), partitions=1)
    reader = stream(topic)
    start, end = reader.initialOffset(), reader.latestOffset(reader.initialOffset(), ALL)
    make_anew(cluster, topic, range(100, 100 + count))
    told = (
        rf"^reading {topic}-0 at offset 0: the topic {topic} was deleted and created again .* Set onRecreatedTopic to"
    )
    with pytest.raises(OffsetError, match=told):
        read_between(reader, start, end)
    again = stream(topic, onRecreatedTopic="earliest")
    assert read_between(again, start, end) == []
    later = again.latestOffset(end, ALL)
    assert read_between(again, end, later) == list(range(100, 100 + count)), "each record of the new one, once"
    cluster.put(topic, range(200, 202), partitions=1)
    assert read_between(again, later, again.latestOffset(later, ALL)) == [200, 201]


def test_a_worker_that_read_the_old_topic_reads_the_new_one(cluster: Cluster, stream: Stream) -> None:
    """Its kept connection knows the topic by its old id, until it asks."""
    topic = cluster.topic(1)
    cluster.put(topic, range(10), partitions=1)
    reader = stream(topic, onRecreatedTopic="earliest")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert read_between(reader, reader.initialOffset(), end) == list(range(10))
    make_anew(cluster, topic, range(100, 120))
    later = reader.latestOffset(end, ALL)
    assert read_between(reader, end, later) == list(range(100, 120))


def test_the_new_topic_may_have_other_partitions(cluster: Cluster, stream: Stream) -> None:
    topic = cluster.topic(2)
    cluster.put(topic, range(10))
    reader = stream(topic, onRecreatedTopic="latest")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    make_anew(cluster, topic, range(5), partitions=1)
    with pytest.raises(OffsetError, match=f"^the topic {topic} was deleted and created again"):
        stream(topic).latestOffset(end, ALL)
    later = reader.latestOffset(end, ALL)
    assert later[topic] == {"0": 5}
    assert read_between(reader, end, later) == []


def test_a_topic_that_is_just_being_made_anew_is_looked_for_again(
    cluster: Cluster, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen between its end and its beginning, it is not told of as gone."""
    topic = cluster.topic(1)
    cluster.put(topic, range(3), partitions=1)
    reader = stream(topic, **{"fetchOffset.retryIntervalMs": "1", "fetchOffset.numRetries": "1000000"})
    end = reader.latestOffset(reader.initialOffset(), ALL)
    cluster.admin.delete_topic(topic)
    missed = threading.Event()
    look = Brokers.partitions

    def seen(self: Brokers) -> Any:
        found = look(self)
        if not found:
            missed.set()
        return found

    def create() -> None:
        if missed.wait(30):
            cluster.admin.create_topic(topic, partitions=1)

    monkeypatch.setattr(Brokers, "partitions", seen)
    creator = threading.Thread(target=create)
    creator.start()
    with pytest.raises(OffsetError, match=f"^the topic {topic} was deleted and created again"):
        reader.latestOffset(end, ALL)
    creator.join()


def test_a_broker_that_forgot_everything_is_told_of_as_another_cluster() -> None:
    options = {"subscribe": "a", "startingOffsets": "earliest", "fetchOffset.retryIntervalMs": "1"}
    with Broker(topics={"a": 1}) as broker:
        port = broker.port
        options["kafka.bootstrap.servers"] = broker.bootstrap_servers
        reader = StreamReader(read_options(options, "stream"))
        end = reader.latestOffset(reader.initialOffset(), ALL)
        assert stored_origin(end).cluster
    for topics, begin in (({}, r"the partitions a-0 are gone \("), ({"a": 1}, "")):
        with Broker(topics=topics, port=port) as broker:
            told = (
                rf"^{begin}this is another cluster \(id .*\) than the one of the checkpoint \(.*a broker without a data"
            )
            with pytest.raises(OffsetError, match=told):
                reader.latestOffset(end, ALL)
            if topics:
                with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
                    producer.send("a", b"7").result()
                again = StreamReader(read_options({**options, "onRecreatedTopic": "earliest"}, "stream"))
                assert read_between(again, end, again.latestOffset(end, ALL)) == [7]
                again.stop()
    reader.stop()
