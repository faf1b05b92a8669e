"""Where Spark runs: a standalone cluster whose executors have the wheel and little else, and Spark Connect."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pyspark
import pytest

from barnabas import Broker, Producer
from barnabas.spark_bridge.java import find_java_home
from tests.spark.test_wheel import ROOT

pytest.importorskip("hatchling")

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SPARK_HOME = Path(pyspark.__file__).parent
SECONDS_MAX = 240

# Reads in a batch and in a stream, and writes both ways; prints who worked.
JOB = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
master, servers, checkpoint = sys.argv[1:]
builder = SparkSession.builder
builder = builder.remote(master) if {connect} else builder.master(master)
spark = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2").getOrCreate()
kafka = {{"kafka.bootstrap.servers": servers}}
rows = spark.read.format("barnabas").options(**kafka, subscribe="numbers").load()
print("rows", rows.count())
rows.select("key", "value").write.format("barnabas").options(**kafka, topic="copied").mode("append").save()
stream = spark.readStream.format("barnabas").options(**kafka, subscribe="copied", startingOffsets="earliest").load()
writer = stream.select("key", f.reverse("value").alias("value")).writeStream.format("barnabas").options(**kafka)
query = writer.option("topic", "turned").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
assert query.awaitTermination(240)
again = spark.read.format("barnabas").options(**kafka, subscribe="turned").load()
print("turned", sorted(bytes(row.value).decode() for row in again.select("value").collect()))
"""
EXPECTED = ["rows 4", "turned ['01', '11', '21', '31']"]


@pytest.fixture
def servers() -> Iterator[str]:
    with Broker(topics={"numbers": 2, "copied": 2, "turned": 2}) as broker:
        with Producer(broker.bootstrap_servers) as producer:
            for number in range(10, 14):
                producer.send("numbers", b"%d" % number, b"k%d" % number, partition=number % 2)
        yield broker.bootstrap_servers


def environment(path: str, **more: str) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYSPARK", "SPARK", "PYTHON"))}
    own = {"JAVA_HOME": str(find_java_home()), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(SPARK_HOME)}
    return {**kept, "PATH": f"{path}:/usr/bin:/bin", **own, **more}


def run_job(directory: Path, master: str, servers: str, *, connect: bool = False) -> list[str]:
    """The job as a plain program, with its environment's Python first on the path; what it prints."""
    command = [sys.executable, "-c", JOB.format(connect=connect), master, servers, str(directory / "checkpoint")]
    done = subprocess.run(
        command, cwd=directory, env=environment(str(Path(sys.executable).parent)), capture_output=True, text=True,
        check=False, timeout=SECONDS_MAX,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    return done.stdout.splitlines()


# ---- a cluster ------------------------------------------------------------------------------------------------------


def needs_of(*extras: str) -> set[str]:
    """The packages that the wheel asks for, with what those ask for, as they are called in site-packages."""
    found: set[str] = set()
    todo = [("barnabas", frozenset(extras))]
    while todo:
        name, of = todo.pop()
        for text in importlib.metadata.requires(name) or ():
            match = re.match(r"([\w.-]+)(.*)", text)
            assert match is not None
            extra = re.search(r"""extra == ['"](.*?)['"]""", match[2])
            if "win32" in match[2] or (extra and extra[1] not in of) or match[1] in found:
                continue
            found.add(match[1])
            todo.append((match[1], frozenset()))
    return found


@pytest.fixture(scope="module")
def executors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the wheel and what `barnabas[spark-worker]` names: no PySpark, no checkout."""
    directory = tmp_path_factory.mktemp("executors")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory / "env")], check=True)
    (site,) = (directory / "env" / "lib").glob("python*/site-packages")
    (wheel,) = directory.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    names = needs_of("spark-worker")
    assert {"pyarrow", "numpy", "msgpack"} <= names
    assert "pyspark" not in names
    for name in names:
        distribution = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(distribution.locate_file(top))).resolve())
    return directory / "env" / "bin"


class Daemon:
    """A master or a worker of Spark's; its words are kept."""

    def __init__(self, directory: Path, bin_first: str, main: str, *arguments: str) -> None:
        directory.mkdir()
        room = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        self._process = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}", *room, *arguments],
            cwd=directory, env=environment(bin_first, SPARK_WORKER_DIR=str(directory), SPARK_DAEMON_MEMORY="256m"),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self._said = ""
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            with self._more:
                self._said += line
                self._more.notify_all()

    def said(self, pattern: str) -> str:
        """What it says, once it does."""
        with self._more:
            assert self._more.wait_for(lambda: re.search(pattern, self._said), SECONDS_MAX), self._said[-3000:]
            found = re.search(pattern, self._said)
        assert found is not None
        return found[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._process.terminate()
        self._process.wait(SECONDS_MAX)
        self._reader.join(SECONDS_MAX)
        assert self._process.stdout
        self._process.stdout.close()


def test_a_cluster_whose_executors_have_the_wheel_alone(executors: Path, servers: str, tmp_path: Path) -> None:
    bin_first = str(executors)
    with ExitStack() as stack:
        master = stack.enter_context(Daemon(tmp_path / "master", bin_first, "master.Master"))
        where = master.said(r"Starting Spark master at (spark://\S+)")
        for name in ("one", "two"):
            size = ["--cores", "1", "--memory", "1g"]
            worker = stack.enter_context(Daemon(tmp_path / name, bin_first, "worker.Worker", *size, where))
            worker.said("(Successfully registered) with master")
        assert [line for line in run_job(tmp_path, where, servers) if line in EXPECTED] == EXPECTED
        for name in ("one", "two"):
            assert list((tmp_path / name).glob("app-*/*/stderr")), f"worker {name} had no executor"


# ---- Connect --------------------------------------------------------------------------------------------------------


def test_spark_connect_reads_and_writes_with_nothing_registered(servers: str, tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    printed = run_job(tmp_path, "local[2]", servers, connect=True)
    assert [line for line in printed if line in EXPECTED] == EXPECTED
