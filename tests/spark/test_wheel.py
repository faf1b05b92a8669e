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


ABSENT = """
import sys
{before}
sys.modules[{module!r}] = None  # as when it is not installed
from pyspark_barnabas import DefaultSource
assert DefaultSource.name() == "barnabas"  # looking formats up must not fail: it would fail all of them
DefaultSource({{}}).schema()
"""
NEEDS = "the format barnabas needs PySpark 4.2 or later: run pip install '.[spark]' in a checkout of Barnabas"


@pytest.mark.parametrize(
    ("before", "module", "said"),
    [
        (  # 4.0 and 4.1: formats, but no limits for them
            "import pyspark.sql.datasource",
            "pyspark.sql.streaming.datasource",
            f"barnabas.spark_bridge.too_old.PySparkTooOld: {NEEDS}",
        ),
        ("", "pyspark.sql.datasource", f"ImportError: {NEEDS}"),  # 3.5 looks for no formats in packages
        ("", "pyspark", f"ImportError: {NEEDS}"),
        (
            "",
            "barnabas.client.consumer",
            "barnabas.spark_bridge.too_old.PySparkTooOld: the format barnabas cannot be loaded: import of "
            "barnabas.client.consumer halted; None in sys.modules",
        ),
    ],
)
def test_what_is_missing_is_said_in_one_sentence_when_the_format_is_used(
    site: Path, tmp_path: Path, before: str, module: str, said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ABSENT.format(before=before, module=module)],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr.splitlines()[-1] == said


@pytest.mark.parametrize(
    ("module", "call", "said"),
    [
        ("pyspark", "from barnabas.spark_bridge import session; session()", f"ImportError: {NEEDS}"),
        (
            "pyarrow",
            "from pyspark_barnabas import DefaultSource; "
            "source = DefaultSource({'kafka.bootstrap.servers': 'h:1', 'subscribe': 'a'}); source.reader(None)",
            "barnabas.spark_bridge.errors.OptionError: the format barnabas needs pyarrow and numpy beside PySpark: "
            "run pip install '.[spark-worker]' in a checkout of Barnabas",
        ),
    ],
)
def test_other_doors_say_so_as_well(site: Path, tmp_path: Path, module: str, call: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules[{module!r}] = None; {call}"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr.splitlines()[-1] == said
