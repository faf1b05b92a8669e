"""Every program in examples/ runs as it stands, and prints what its head says."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.loading import EXAMPLES, promised

# Started by their frameworks: test_apps.py, below, and where a session of Spark is shared.
ELSEWHERE = [
    "fastapi_orders.py",
    "faststream_invoices.py",
    "spark_kafka.py",
    "test_failover.py",
    "test_late_flights.py",
    "test_orders.py",
]
PROGRAMS = sorted(path for path in EXAMPLES.glob("*.py") if path.name not in ELSEWHERE)
LOUD = ["aiokafka_group.py"]  # aiokafka logs each rebalance
LINES_MAX = 60


def run(*arguments: str, seconds_max: int = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=seconds_max
    )


@pytest.mark.slow
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_it_prints_what_it_promises(path: Path) -> None:
    done = run(str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout == promised(ast.get_docstring(ast.parse(path.read_text()), clean=False))
    assert path.name in LOUD or done.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "passed"), [("test_orders.py", 2), ("test_failover.py", 1)])
def test_the_tests_to_copy_pass(name: str, passed: int) -> None:
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLES / name))
    assert done.returncode == 0, done.stdout
    assert f"{passed} passed" in done.stdout


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_it_is_short_enough_to_be_read(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LINES_MAX
