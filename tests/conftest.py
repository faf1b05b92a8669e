"""What all tests share: Hypothesis' settings, counted skips, strict mode, and how a run is shared out to processes."""

from __future__ import annotations

import gc
import os
import random
import signal
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from barnabas.broker.host.disk_calls import raise_open_files_max
from tests.leftovers import Leftovers
from tests.measured import again

# How long an example takes, and how long it is to be drawn, is the machine's, and whoever is busy on it.
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# `./dev test` takes this one: whether a change is good must hang on the change, not on what is drawn this time.
# Whoever works on a room runs pytest itself, where each run draws other examples.
settings.register_profile("same", settings.get_profile("random"), derandomize=True)
settings.load_profile("random")

NO_ENGINE = ("docker is not on the path", "no Docker engine answers")
"""The only reasons for which strict mode lets a test skip, and only one that is marked docker."""

# Started in the background, a run ignores Ctrl-C (and under nohup the hang-up), and so would every process it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

raise_open_files_max()  # some tests hold thousands of connections, and many a shell allows 1,024

pytest.register_assert_rewrite("tests.wire.matrix")  # its asserts are tests', though it is none of them

TOGETHER = "tests/spark/"
"""Shares one Spark session and one Apache Kafka; all else that is expensive lies within a file."""

APART = ("tests/simulator/test_clean.py",)
"""Each of its tests takes long, and shares nothing with the others."""

LONG_ONES = (
    TOGETHER,
    "tests/simulator/test_plants.py",
    *(
        f"tests/{folder}/"
        for folder in ("demo", "pages", "container", "examples", "simulator", "durability", "hostile")
    ),
)
"""Begun first: what takes minutes in one piece would, begun last, leave the other processes idle."""

UNDER_VIRTUAL_TIME = "tests/simulator/"
"""Needs a processor and nothing else, and no test of it cares how long it takes."""

NOT_YET_CLEAN = ("tests/spark/",)
"""What these leave behind is told. To be emptied."""

_outcomes = {"passed": 0, "failed": 0, "skipped": 0}
_forbidden: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--strict-skips",
        action="store_true",
        help="a skipped test is a failure, save those marked docker where no engine can run",
    )
    parser.addoption(
        "--patience",
        metavar="SECONDS",
        type=float,
        default=10.0,
        help="for what ends by itself behind a file of tests: a thread that was told to, the far side of a connection",
    )
    parser.addoption("--shuffle", metavar="SEED", help="files in an order of their own for each seed")


def pytest_configure(config: pytest.Config) -> None:
    if gives_way(getattr(config, "workerinput", {})):
        os.nice(19)
    config.pluginmanager.register(Leftovers(unit, NOT_YET_CLEAN, config.getoption("--patience")))


def unit(nodeid: str) -> str:
    """What goes in one piece: a file, the folder of those that share a session, or a test by itself."""
    if nodeid.startswith(APART):
        return nodeid
    return TOGETHER if nodeid.startswith(TOGETHER) else nodeid.partition("::")[0]


def pytest_xdist_auto_num_workers() -> int:
    """`-n auto`: two where there are two processors, for much only waits, and one beside them."""
    return 3 if (os.cpu_count() or 1) > 1 else 1


def gives_way(worker: Mapping[str, Any]) -> bool:
    """Whether it is the last of more than two: it has the time that the others, which wait often, leave."""
    count: int = worker.get("workercount", 1)
    return count > 2 and f"gw{count - 1}" == str(worker["workerid"])


class InFiles(LoadFileScheduling):  # type: ignore[misc]
    """Several processes (`-n`, pytest-xdist) take a unit each, in the order of collection.

    Who gives way takes what runs under virtual time, the others what is left of it in the end.
    """

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)

    def _next_for(self, node: Any) -> str | None:
        beside = gives_way(node.workerinput)
        found = (scope for scope in self.workqueue if scope.startswith(UNDER_VIRTUAL_TIME) == beside)
        return next(found, None if beside else next(iter(self.workqueue), None))

    def _reschedule(self, node: Any) -> None:
        if self._next_for(node) is not None:
            super()._reschedule(node)
        elif not node.shutting_down:
            node.shutdown()

    def _assign_work_unit(self, node: Any) -> None:
        scope = self._next_for(node)
        if scope is not None:
            self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> InFiles:
    config.option.loadscopereorder = False
    return InFiles(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def turn(item: pytest.Item) -> int:
        return next((at for at, folder in enumerate(LONG_ONES) if item.nodeid.startswith(folder)), len(LONG_ONES))

    seed = config.getoption("--shuffle")
    if seed is not None:
        items.sort(key=lambda item: random.Random(f"{seed} {unit(item.nodeid)}").random())
    elif config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        items.sort(key=turn)


def pytest_collection_finish() -> None:
    """What was collected stays to the end: half a million objects, which each look for garbage would go through."""
    gc.collect()
    gc.freeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    if isinstance(item, pytest.Function) and item.get_closest_marker("measured"):
        item.obj = again(item.obj)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown" and hasattr(report, "wasxfail"):
        return  # it left something behind, which is told
    if report.when == "call" or report.outcome != "passed":
        _outcomes[report.outcome] += 1
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        excused = "docker" in report.keywords and reason.removeprefix("Skipped: ") in NO_ENGINE
        if not excused:
            _forbidden.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _outcomes["skipped"] += 1
        _forbidden.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if hasattr(session.config, "workerinput"):
        return
    if session.config.getoption("--strict-skips") and _forbidden and exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or config.getoption("--collect-only"):
        return
    if config.getoption("--strict-skips"):
        for node in _forbidden:
            print(f"strict: skipped, which --strict forbids: {node}")
    print(f"tests: {_outcomes['passed']} passed, {_outcomes['failed']} failed, {_outcomes['skipped']} skipped")
