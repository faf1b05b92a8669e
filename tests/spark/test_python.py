"""The Python that Spark starts: this one, without PySpark's zips on its path, wherever it lies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.spark_bridge.python import python_for_spark

SHOW = "import os, sys; print(os.environ['PYTHONPATH']); print(sys.prefix); print(sys.argv[1:])"


def test_the_script_runs_this_python_without_the_zips(tmp_path: Path) -> None:
    script = python_for_spark(tmp_path)
    assert Path(script).parent.parent == tmp_path
    path = ["/a b", "/spark/python/lib/pyspark.zip", "/spark/python/lib/py4j-0.10.9.9-src.zip", "/*", "/other.zip"]
    done = subprocess.run(
        [script, "-c", SHOW, "x y", "$z"],
        env={**os.environ, "PYTHONPATH": ":".join(path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["/a b:/*:/other.zip", sys.prefix, "['x y', '$z']"]


def test_another_pyspark_than_ours_keeps_its_zips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Spark's own distribution the zips may be all there is: without them a worker finds another, or none."""
    other = tmp_path / "other" / "pyspark"
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(other.parent))
    assert python_for_spark(tmp_path / "scripts") == sys.executable


def test_without_posix_there_is_no_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "getuid")
    assert python_for_spark(tmp_path) == python_for_spark() == sys.executable


@pytest.mark.parametrize("executable", ["/no/such/python", '/a"b/python'])
def test_a_python_that_no_script_can_run_is_taken_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executable: str
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    assert python_for_spark(tmp_path) == executable


def test_a_foreign_directory_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert python_for_spark(tmp_path / "link") == sys.executable
