"""One Spark session and one broker for all tests here: a session costs seconds. Neither outlives them."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("pyspark", minversion="4.2")
pytest.importorskip("pyarrow")

from pyspark import SparkContext

from barnabas import Admin, Broker, Producer
from barnabas.cli.look import get
from barnabas.protocol.errors import BarnabasError
from barnabas.spark_bridge import borrowed, session, sink, tasks
from barnabas.spark_bridge.java import find_java_home
from tests.oracle.spark_connector import kept_connector


class Cluster:
    """A broker with what tests do to it."""

    def __init__(self, broker: Broker) -> None:
        self.servers = broker.bootstrap_servers
        self.admin = Admin(bootstrap_servers=self.servers)
        self._producer = Producer(bootstrap_servers=self.servers)
        self._numbers = itertools.count()

    def topic(self, partitions: int = 2, **config: Any) -> str:
        name = f"topic-{next(self._numbers)}"
        # Records of long ago must outlive the retention of a week.
        self.admin.create_topic(name, partitions=partitions, config={"retention.ms": -1, **config})
        return name

    def put(self, topic: str, values: range, *, partitions: int = 2, timestamp_ms: int | None = None) -> None:
        """Numbers as texts, dealt to the partitions in turn, keyed by themselves."""
        futures = [
            self._producer.send(
                topic, b"%d" % value, b"k%d" % value, partition=value % partitions, timestamp_ms=timestamp_ms
            )
            for value in values
        ]
        self._producer.flush()
        for future in futures:
            future.result()

    def put_one(self, topic: str, value: bytes | None, key: bytes | None, headers: Any) -> None:
        self._producer.send(topic, value, key, headers=headers, partition=0).result()

    def sessions(self) -> int:
        """Fetch sessions the broker keeps now."""
        _, page = get(self.servers, "/metrics")
        found = re.search(r"^kafka_server_fetchsessioncache_numincrementalfetchsessions (\d+)$", page, re.MULTILINE)
        assert found
        return int(found[1])

    def close(self) -> None:
        self._producer.close()
        self.admin.close()


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    with Broker() as broker:
        cluster = Cluster(broker)
        yield cluster
        cluster.close()


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    try:
        find_java_home()
    except BarnabasError as error:
        pytest.skip(str(error))
    directory = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
    }
    if kept_connector():
        conf["spark.jars"] = kept_connector()
    with mock.patch.dict(os.environ):  # a session leaves there what it found
        spark = session("tests", master="local[2]", conf=conf, log_file=directory / "spark.log")
        yield spark
        spark.stop()
        end_the_machine()


def end_the_machine() -> None:
    """PySpark keeps its Java virtual machine, and connections to it, until the process ends."""
    gateway: Any = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


@pytest.fixture(scope="module", autouse=True)
def no_worker() -> Iterator[None]:
    """Tasks that run in this process make no worker of it, and what they keep for the next goes with the file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "_settled", True)
        yield
    for idle in (borrowed._idle, sink._idle):
        while idle._clients:
            idle._clients.popitem()[1].close(0)


@pytest.fixture
def read(spark: Any, cluster: Cluster) -> Callable[..., Any]:
    def load(topic: str, **options: Any) -> Any:
        reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", cluster.servers)
        return reader.options(**{"subscribe": topic, **options}).load()

    return load


class Job:
    """A streaming query over one topic that can crash inside a batch and go on from its checkpoint."""

    def __init__(self, spark: Any, servers: str, topic: str, checkpoint: Path, source: str = "barnabas") -> None:
        self._spark, self._servers, self._topic, self._checkpoint = spark, servers, topic, checkpoint
        self._source = source
        self.seen: list[int] = []
        self.sizes: list[int] = []
        self.progress: Any = None

    def run(self, *, crash: bool = False, **options: Any) -> None:
        """Runs until nothing is left (trigger availableNow); with `crash` the first batch fails once it is planned."""

        def take(batch: Any, _: int) -> None:
            values = [int(row.value) for row in batch.select("value").collect()]
            if crash:
                raise RuntimeError("crashed on purpose")
            self.seen += values
            self.sizes.append(len(values))

        query = self.start(take, {"availableNow": True}, **options)
        if crash:
            with pytest.raises(Exception, match="crashed on purpose"):
                query.awaitTermination()
        else:
            assert query.awaitTermination(240)
            self.progress = query.lastProgress

    def start(self, take: Callable[[Any, int], None], trigger: dict[str, Any], **options: Any) -> Any:
        reader = self._spark.readStream.format(self._source).option("kafka.bootstrap.servers", self._servers)
        stream = reader.options(**{"subscribe": self._topic, **options}).load()
        writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(self._checkpoint))
        return (writer.trigger(**trigger) if trigger else writer).start()


@pytest.fixture
def job(spark: Any, cluster: Cluster, tmp_path: Path) -> Callable[[str], Job]:
    return lambda topic: Job(spark, cluster.servers, topic, tmp_path / "checkpoint")
