"""The demo as a user runs it: to its end, and interrupted on the way."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", minversion="4.2")
pytest.importorskip("matplotlib")
pytest.importorskip("pyarrow")

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECONDS_MAX = 240
PNG_MAGIC = b"\x89PNG\r\n\x1a\n"


def start(directory: Path, *flags: str) -> subprocess.Popen[str]:
    """In a process group of its own, as a terminal starts it."""
    arguments = [sys.executable, "-m", "barnabas.demo", "--dir", str(directory), *flags]
    return subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def members(group: int) -> list[int]:
    """Processes of the group that still run."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(status.parent.name))
    return found


@pytest.fixture
def group() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if members(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
        assert process.stdout
        process.stdout.close()


def test_the_whole_year_goes_through_and_ends_by_itself(tmp_path: Path, group: list[subprocess.Popen[str]]) -> None:
    process = start(tmp_path, "--seconds", "3")
    group.append(process)
    said, _ = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0, said
    assert "100 %" in said
    assert re.search(r"EWR +17-20 +28,771 ", said), said
    assert re.search(r"362,891 records, [\d.]+ MB at [\d.]+ MB/s, \d+ micro-batches, end to end latency p50", said), (
        said
    )
    assert (tmp_path / "delays.png").read_bytes().startswith(PNG_MAGIC)
    assert "WARN" not in said, "Spark's own words belong in its log"
    assert not members(process.pid)


def test_ctrl_c_leaves_no_process_behind(tmp_path: Path, group: list[subprocess.Popen[str]]) -> None:
    process = start(tmp_path, "--watch")
    group.append(process)
    assert process.stdout
    for line in process.stdout:
        if "the job runs" in line:
            break
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 130
    assert not members(process.pid)
