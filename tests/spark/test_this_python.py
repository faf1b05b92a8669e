"""Programs that are started as `venv/bin/python job.py`, beside a path whose `python3` is another one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barnabas import Broker, Producer

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SHOW = "import barnabas.spark_bridge, os; print(os.environ.get('PYSPARK_PYTHON'))"
JOB = """
import sys
import barnabas.spark_bridge
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
frame = spark.read.format("barnabas").option("kafka.bootstrap.servers", sys.argv[1]).option("subscribe", "t").load()
print("rows", frame.count())
"""


def run(program: str, *arguments: str, path: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    given = {**kept, "PATH": path, **environment}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], env=given, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A path whose `python3` is a Python of its own, with nothing installed."""
    done = subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "other")], check=True)
    assert done.returncode == 0
    return f"{tmp_path / 'other' / 'bin'}:/usr/bin:/bin"


def test_the_program_s_own_python_is_chosen_where_the_path_has_another(bare: str) -> None:
    assert run(SHOW, path=bare).stdout.strip() == sys.executable
    assert run(SHOW, path=f"{Path(sys.executable).parent}:{bare}").stdout.strip() == "None"
    assert run(SHOW, path=bare, PYSPARK_PYTHON="mine").stdout.strip() == "mine"
    assert run(SHOW, path=bare, PYSPARK_DRIVER_PYTHON="mine").stdout.strip() == "None"


def test_a_plain_session_finds_the_format(spark: Any, bare: str) -> None:
    with Broker(topics={"t": 1}) as broker:
        with Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"1").result()
        # The session of the other tests found a Java and put it there.
        done = run(JOB, broker.bootstrap_servers, path=bare, JAVA_HOME=os.environ["JAVA_HOME"])
    assert "rows 1" in done.stdout, done.stderr
