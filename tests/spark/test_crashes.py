"""Driver, executor, worker, planner and broker killed under load: each record comes exactly once into the batches."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas import Admin
from tests.cli.process import Process
from tests.spark.conftest import Cluster
from tests.spark.ledger import (
    EXECUTOR,
    IN_TASKS,
    PARTITIONS,
    PLANNER,
    WAIT_S,
    WORKER,
    Ledger,
    Load,
    below,
    found,
    start,
)

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]


def until(condition: Callable[[], Any]) -> Any:
    """What the condition gives, once it gives something."""
    pause = threading.Event()
    for _ in range(WAIT_S * 50):
        if answer := condition():
            return answer
        pause.wait(0.02)
    raise AssertionError("never")


def kill_all(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("kind", [PLANNER, WORKER], ids=["planner", "worker"])
def test_a_query_whose_planner_or_worker_is_killed_ends_and_its_restart_loses_and_repeats_nothing(
    spark: Any, cluster: Cluster, tmp_path: Path, kind: str
) -> None:
    """Under `local[2]`, which tries no task again."""
    topic = cluster.topic(PARTITIONS)
    ledger = Ledger(tmp_path / "ledger")
    driver = os.getpid()
    options = IN_TASKS if kind == WORKER else {}
    with Load(cluster.servers, topic) as load:
        query = start(spark, cluster.servers, topic, tmp_path, ledger, **options)
        ledger.wait_for(1, query)

        def ended() -> bool:
            kill_all(found(driver, kind))  # again and again: one between two tasks may do no harm
            return not query.isActive

        until(ended)
        said = str(query.exception())
        query = start(spark, cluster.servers, topic, tmp_path, ledger)
        ledger.wait_for(ledger.rows + 1, query)
        count = load.stop()
    query.processAllAvailable()
    query.stop()
    ledger.check(count)
    if kind == WORKER:  # of a planner Spark only says how the connection broke, one way or another
        told = (
            "Python worker exited unexpectedly",
            "java.io.EOFException",  # it had not begun yet
            "Python daemon failed to launch worker",  # nor had its process
        )
        assert any(one in said for one in told), "as docs/SPARK.md says"


def test_a_broker_that_is_restarted_ten_times_under_load_ends_no_query(spark: Any, tmp_path: Path) -> None:
    options = ["--data-dir", str(tmp_path / "data")]
    ledger = Ledger(tmp_path / "ledger")
    process = Process(*options, "--port", "0")
    try:
        servers = f"127.0.0.1:{process.port}"
        with Admin(servers) as admin:
            admin.create_topic("t", partitions=PARTITIONS)
        with Load(servers, "t") as load:
            query = start(spark, servers, "t", tmp_path, ledger)
            for number in range(10):
                ledger.wait_for(ledger.rows + 1, query)
                process.end((signal.SIGKILL, signal.SIGTERM)[number % 2])
                process = Process(*options, "--port", str(process.port))
            ledger.wait_for(ledger.rows + 1, query)
            count = load.stop()
        query.processAllAvailable()
        assert query.exception() is None
        query.stop()
    finally:
        process.end(signal.SIGKILL)
    ledger.check(count)
    assert not ledger.repeats, "no batch had to be run again"


class Driver:
    """A query in a process of its own."""

    def __init__(self, servers: str, topic: str, directory: Path, master: str) -> None:
        command = [sys.executable, "-m", "tests.spark.ledger", servers, topic, str(directory), master]
        root = Path(__file__).parents[2]
        self._spark_log = directory / "driver.log"
        self._log = (directory / "driver.err").open("w")
        self._temporary = tempfile.TemporaryDirectory(prefix="spark-")  # who is killed leaves sockets and files
        environment = {**os.environ, "TMPDIR": self._temporary.name}
        self._popen = subprocess.Popen(
            command,
            cwd=root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.pid = self._popen.pid

    def wait_for_batches(self, count: int) -> None:
        """Returns after so many further batches."""
        for _ in range(count):
            self._rows()

    def wait_for_rows(self, count: int) -> None:
        """Returns once all batches have so many rows together."""
        while self._rows() < count:
            pass

    def _rows(self) -> int:
        """How many rows all batches have, after the next one."""
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline()
        assert line, f"the query ended: {Path(self._log.name).read_text()[-3000:]}"
        return int(line)

    def lose(self, kind: str) -> None:
        """Kills processes of a kind until one was at work, which Spark says of: it lost a task, or an executor.

        The first worker may be idle. What comes after it was forked for a task, and is killed as soon as it is seen.
        """
        lost = {WORKER: "Lost task", EXECUTOR: "Lost executor"}[kind]
        known: set[int] = set()

        def fresh_or_lost() -> list[int] | str:
            return lost if lost in self._spark_log.read_text() else sorted(set(found(self.pid, kind)) - known)

        while isinstance(fresh := until(fresh_or_lost), list):
            kill_all(fresh[:1])
            known.update(fresh)

    def wait_for_end(self) -> None:
        """Returns once the query, and the driver with it, has ended."""
        self._popen.wait(WAIT_S)

    def kill(self) -> None:
        """Kills the driver and all that it started."""
        kill_all([self.pid, *below(self.pid)])
        self._popen.wait(WAIT_S)
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        for stream in (self._popen.stdin, self._popen.stdout, self._log):
            stream.close()
        self._temporary.cleanup()


@pytest.fixture
def driver(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    drivers: list[Driver] = []

    def make(topic: str, master: str, servers: str = "") -> Driver:
        drivers.append(Driver(servers or cluster.servers, topic, tmp_path, master))
        return drivers[-1]

    yield make
    for each in drivers:
        each.kill()


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,512]"])
def test_a_planner_and_the_broker_killed_together_lose_and_repeat_nothing(
    tmp_path: Path, driver: Callable[..., Driver], master: str
) -> None:
    """The query ends, and is started again."""
    options = ["--data-dir", str(tmp_path / "data")]
    process = Process(*options, "--port", "0")
    try:
        servers = f"127.0.0.1:{process.port}"
        with Admin(servers) as admin:
            admin.create_topic("t", partitions=PARTITIONS)
        with Load(servers, "t") as load:
            killed = driver("t", master, servers)
            killed.wait_for_batches(2)
            planners = found(killed.pid, PLANNER)
            assert planners
            kill_all(planners)
            process.end(signal.SIGKILL)
            process = Process(*options, "--port", str(process.port))
            killed.wait_for_end()
            again = driver("t", master, servers)
            again.wait_for_batches(1)
            count = load.stop()
        again.wait_for_rows(count)
    finally:
        process.end(signal.SIGKILL)
    Ledger(tmp_path / "ledger").check(count)


def test_where_tasks_are_tried_again_a_worker_that_is_killed_ends_no_query(
    cluster: Cluster, tmp_path: Path, driver: Callable[..., Driver]
) -> None:
    topic = cluster.topic(PARTITIONS)
    with Load(cluster.servers, topic) as load:
        running = driver(topic, "local[2,3]")
        running.wait_for_batches(2)
        running.lose(WORKER)
        running.wait_for_batches(1)
        count = load.stop()
    running.wait_for_rows(count)
    Ledger(tmp_path / "ledger").check(count)


def test_workers_and_executors_of_a_cluster_are_replaced_and_a_killed_driver_starts_again(
    spark: Any, cluster: Cluster, tmp_path: Path, driver: Callable[..., Driver]
) -> None:
    topic = cluster.topic(PARTITIONS)
    with Load(cluster.servers, topic) as load:
        killed = driver(topic, "local-cluster[2,1,512]")
        killed.wait_for_batches(2)
        for kind in (WORKER, EXECUTOR):
            killed.lose(kind)
            killed.wait_for_batches(2)
        killed.kill()
        ledger = Ledger(tmp_path / "ledger")
        query = start(spark, cluster.servers, topic, tmp_path, ledger)
        ledger.wait_for(ledger.rows + 1, query)
        count = load.stop()
    query.processAllAvailable()
    query.stop()
    ledger.check(count)
