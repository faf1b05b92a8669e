"""A query's progress as a group's offsets: lag where group tools look for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from barnabas import Consumer
from barnabas.net.errors import ClientTimeout
from barnabas.protocol.ids import TopicPartition
from barnabas.spark_bridge.errors import OptionError
from barnabas.spark_bridge.options import read_options
from barnabas.spark_bridge.progress import AGAIN_MS, Progress
from barnabas.spark_bridge.source import StreamReader
from tests.spark.conftest import Cluster

ALL = ReadAllAvailable()
HERE = TopicPartition("a", 0)


@pytest.fixture
def reader(cluster: Cluster) -> Iterator[StreamReader]:
    topic = cluster.topic()
    given = {"kafka.bootstrap.servers": cluster.servers, "subscribe": topic, "startingOffsets": "earliest"}
    reader = StreamReader(read_options({**given, "commitGroup": f"of-{topic}"}, "stream"))
    yield reader
    reader.stop()


def test_group_tools_show_how_far_a_query_is(cluster: Cluster, reader: StreamReader) -> None:
    (topic,) = reader.options.topics
    cluster.put(topic, range(10))
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert reader.latestOffset(end, ALL) == end
    assert set(cluster.admin.group_lag(f"of-{topic}").values()) == {0}, "an idle query has no lag"
    cluster.put(topic, range(6))
    later = reader.latestOffset(end, ALL)
    assert sum(cluster.admin.group_lag(f"of-{topic}").values()) == 6, "what is planned is not processed yet"
    reader.latestOffset(later, ALL)
    assert sum(cluster.admin.group_lag(f"of-{topic}").values()) == 0


def test_a_group_with_members_is_left_alone_and_the_query_goes_on(
    cluster: Cluster, reader: StreamReader, caplog: pytest.LogCaptureFixture
) -> None:
    (topic,) = reader.options.topics
    cluster.put(topic, range(10))
    with Consumer(topic, bootstrap_servers=cluster.servers, group_id=f"of-{topic}", enable_auto_commit=False) as member:
        while not member.assignment():
            member.poll(0.1)
        end = reader.latestOffset(reader.initialOffset(), ALL)
        for _ in range(2):
            assert reader.latestOffset(end, ALL) == end
    told = [
        text
        for text in caplog.messages
        if text.startswith(f"commitGroup: progress is not seen in the group of-{topic},")
    ]
    assert len(told) == 1


class Coordinator:
    """A consumer whose commits fail as told."""

    def __init__(self) -> None:
        self.commits: list[dict[TopicPartition, int]] = []
        self.refuses = True

    def commit(self, offsets: Mapping[TopicPartition, int], timeout: float) -> None:
        self.commits.append(dict(offsets))
        if self.refuses:
            raise ClientTimeout("no coordinator")

    def close(self) -> None: ...


def test_a_commit_that_fails_is_tried_again_later_and_one_that_is_done_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    coordinator = Coordinator()
    progress = Progress("g", {}, lambda **_: cast("Any", coordinator))
    for now_ms in (0, 1, AGAIN_MS - 1, AGAIN_MS):
        progress.reached({HERE: 1}, now_ms)
    assert coordinator.commits == [{HERE: 1}] * 2
    coordinator.refuses = False
    for offset in (2, 2, 3):
        progress.reached({HERE: offset}, 2 * AGAIN_MS)
    assert coordinator.commits[2:] == [{HERE: 2}, {HERE: 3}]
    assert len(caplog.messages) == 1


def test_the_option_is_a_stream_s_and_names_a_group(caplog: pytest.LogCaptureFixture) -> None:
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "a"}
    with pytest.raises(OptionError, match="commitGroup is empty: name a group, or leave it out"):
        read_options({**given, "commitGroup": " "}, "stream")
    read_options({**given, "commitGroup": "g"}, "batch")
    assert "commitGroup has no effect on a batch query" in caplog.text
