"""pytest fixtures: a broker or a cluster for a test, a Spark session for all, and streaming jobs run to their end.

In the conftest.py at the top of your tests:

    pytest_plugins = ["barnabas.testing"]

and then:

    def test_it(barnabas_broker):
        producer = barnabas.Producer(barnabas_broker.bootstrap_servers)

    def test_a_job(barnabas_streams):
        barnabas_streams.feed("clicks", [("2026-01-01 10:00", "a"), ("2026-01-01 10:07", "b")])
        assert barnabas_streams.tuples(per_hour(barnabas_streams.read("clicks")), mode="complete") == [...]

They are not registered with pytest at installation: that would make pytest rewrite the assertions of this whole
package in everybody's test runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.broker.host.embedded import Broker
    from barnabas.testing.streams import Streams


@pytest.fixture
def barnabas_broker() -> Iterator[Broker]:
    """A broker in memory, for this test alone."""
    from barnabas.broker.host.embedded import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def barnabas_cluster() -> Iterator[Broker]:
    """Three brokers in memory, for this test alone: `barnabas_cluster.brokers[2].kill()`, `.stop()`, `.start()`."""
    from barnabas.broker.host.embedded import Broker

    with Broker(brokers=3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def barnabas_session_broker() -> Iterator[Broker]:
    """A broker in memory that all tests of the run share: use topics of your own."""
    from barnabas.broker.host.embedded import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def barnabas_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session that all tests of the run share, tuned for short jobs: it costs seconds once.

    A Java is found or brought as by `barnabas.spark_bridge.session`; Spark's own words go to a file.
    """
    from barnabas.spark_bridge import session

    directory = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = session("tests", master="local[2]", conf=conf, log_file=directory / "spark.log")
    yield spark
    spark.stop()


@pytest.fixture
def barnabas_streams(barnabas_spark: SparkSession, barnabas_broker: Broker, tmp_path: Path) -> Iterator[Streams]:
    """Streaming jobs over a broker of this test alone: feed topics, read them, run queries to their end."""
    from barnabas.testing.streams import Streams

    with Streams(barnabas_spark, barnabas_broker.bootstrap_servers, tmp_path / "checkpoints") as streams:
        yield streams
