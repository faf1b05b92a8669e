"""A Spark session for low latency on one machine. Every setting here was measured; a plain session works as well.

A micro-batch of one record costs about 200 ms as Spark comes and 80 to 95 ms with these settings: 40 ms per task is
Nagle's algorithm against delayed acknowledgements on the worker's TCP socket, 60 ms are checkpoint files written
through Hadoop's shell-compatible file system.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.spark_bridge.java import find_java_home
from barnabas.spark_bridge.needs import NEEDS_PYSPARK
from barnabas.spark_bridge.python import python_for_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def tuned_conf(*, local_checkpoints: bool = True) -> dict[str, str]:
    """Spark settings for low latency; none of them changes what a query gives, or when a watermark closes a window.

    Args:
        local_checkpoints: checkpoints lie on this machine's own disks; False for HDFS or object stores, which need
            Hadoop's own checkpoint manager.
    """
    conf = {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    }
    if local_checkpoints:
        conf["spark.sql.streaming.checkpointFileManagerClass"] = (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        )
    return conf


def session(
    name: str = "barnabas",
    *,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    local_checkpoints: bool = True,
    log_file: Path | str | None = None,
) -> SparkSession:
    """A tuned local session, with a Java found or made (see `find_java_home`).

    Args:
        name: the application's name.
        master: where it runs; `local[N]` for N tasks at once.
        conf: further settings; they win over the tuned ones.
        local_checkpoints: see `tuned_conf`.
        log_file: all that Spark and its JVM print goes here instead of the terminal.

    Raises:
        JavaMissing: there is no Java that Spark can run on.
        ImportError: there is no PySpark, or one before 4.2.
    """
    builder: Any = _pyspark().SparkSession.builder
    os.environ["JAVA_HOME"] = str(find_java_home())
    if "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = python_for_spark() if master.startswith("local") else sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    settings |= {"spark.app.name": name, "spark.master": master}
    settings |= {**tuned_conf(local_checkpoints=local_checkpoints), **(conf or {})}
    if log_file is not None:
        _launch(settings, Path(log_file))
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    python = os.environ["PYSPARK_PYTHON"]
    if shlex.quote(python) != python:
        # Spark asks a shell whether there is such a Python before it looks for formats, and does not quote its path.
        from barnabas.spark_bridge.source import BarnabasDataSource

        spark.dataSource.register(BarnabasDataSource)
    return spark


def _pyspark() -> Any:
    try:
        import pyspark.sql.streaming.datasource
    except ImportError as error:
        raise ImportError(NEEDS_PYSPARK) from error
    return pyspark.sql


def _launch(settings: Mapping[str, str], log_file: Path) -> None:
    """Starts the JVM with its output in a file; whatever session comes next runs on it."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return  # it runs already
    with log_file.open("ab") as output:
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        launch: Any = launch_gateway  # PySpark gives it no types
        gateway = launch(conf=conf, popen_kwargs={"stdout": output, "stderr": output})
    SparkContext._ensure_initialized(gateway=gateway)
