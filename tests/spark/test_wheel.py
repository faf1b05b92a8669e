"""The built wheel, installed elsewhere: Spark finds the format by its name in it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling")
pytest.importorskip("pyspark")

ROOT = Path(__file__).parents[2]

# What Spark's own worker does when a format is first used, with its answer read here: count, then (length, name,
# length, pickled class) of each source.
LOOK_UP = """
import io, pickle, struct, sys
from pyspark.sql.worker import lookup_data_sources
answer = io.BytesIO()
lookup_data_sources._main(io.BytesIO(), answer)
answer.seek(0)
def field():
    return answer.read(struct.unpack(">i", answer.read(4))[0])
count, = struct.unpack(">i", answer.read(4))
for _ in range(count):
    name, source = field().decode(), pickle.loads(field())
    print(name, sys.modules[source.__module__].__file__)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = directory.glob("*.whl")
    site = directory / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def test_spark_s_lookup_finds_the_format_in_the_wheel(site: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", LOOK_UP], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert found["barnabas"] == str(site / "barnabas" / "spark_bridge" / "source.py")


OLD = """
import sys
sys.modules["barnabas.spark_bridge.source"] = None  # as when PySpark lacks what the source imports
from pyspark_barnabas import DefaultSource
assert DefaultSource.name() == "barnabas"
DefaultSource({}).schema()
"""


def test_an_older_pyspark_gets_one_sentence_when_the_format_is_used(site: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OLD],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr.splitlines()[-1] == (
        "barnabas.spark_bridge.too_old.PySparkTooOld: the format barnabas needs PySpark 4.2 or later: "
        "pip install 'barnabas[spark]'"
    )
