"""The demo as a user runs it: to its end, and interrupted on the way."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", minversion="4.2")
pytest.importorskip("matplotlib")
pytest.importorskip("pyarrow")

from barnabas.demo.run import _table

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECONDS_MAX = 400
SECONDS_TO_LEAVE = 60
PNG_MAGIC = b"\x89PNG\r\n\x1a\n"


def start(temporary: Path, *flags: str) -> subprocess.Popen[str]:
    """In a session of its own, as a terminal starts it, with temporary files of its own."""
    arguments = [sys.executable, "-m", "barnabas.demo", *flags]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    return subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, env=environment
    )


def members(session: int) -> list[int]:
    """Processes of the session that still run: Spark's Python workers have a process group of their own."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(status.parent.name))
    return found


def left_over(session: int) -> list[str]:
    """Who is still there when all have had time to notice that the demo ended (Spark's workers read an end of file)."""
    deadline = time.monotonic() + SECONDS_TO_LEAVE
    while (running := members(session)) and (left := deadline - time.monotonic()) > 0:
        try:
            handle = os.pidfd_open(running[0])
        except ProcessLookupError:
            continue
        select.select([handle], [], [], left)
        os.close(handle)
    return [Path(f"/proc/{number}/cmdline").read_text().replace("\0", " ") for number in running]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    watchdogs: list[threading.Timer] = []

    def end(process: subprocess.Popen[str]) -> None:
        for number in members(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)

    def begin(*flags: str) -> subprocess.Popen[str]:
        process = start(tmp_path, *flags)
        started.append(process)
        watchdogs.append(threading.Timer(SECONDS_MAX, end, [process]))
        watchdogs[-1].start()
        return process

    yield begin
    for watchdog in watchdogs:
        watchdog.cancel()
        watchdog.join()
    for process in started:
        end(process)
        process.wait(60)
        assert process.stdout
        process.stdout.close()


def test_the_table_tells_the_late_share_and_what_rain_adds() -> None:
    """Shares and means are over departures, not flights or hours; an hour whose weather nobody knows is neither."""
    hour = {"origin": "JFK", "hour": 6, "flights": 50, "departed": 40, "delay": 400, "late": 10, "precip": 0}
    rows = [
        hour,
        {**hour, "hour": 7, "delay": 800, "late": 20, "precip": 0.02},
        {**hour, "hour": 8, "delay": 1200, "late": 0, "precip": None},
    ]
    (line,) = _table(rows)
    assert (line["airport"], line["hours"], line["flights"]) == ("JFK", "5-8", "150")
    assert (line["mean delay"], line["late"]) == ("20.0 min", "25%")
    assert (line["dry"], line["in rain"]) == ("10.0 min", "20.0 min")


def test_the_whole_year_goes_through_and_ends_by_itself(
    tmp_path: Path, demo: Callable[..., subprocess.Popen[str]]
) -> None:
    # A directory that was used before, and whose name has a space.
    directory = tmp_path / "my flights"
    directory.mkdir()
    (directory / "broker").write_text("somebody's own")
    process = demo("--seconds", "3", "--dir", str(directory))
    said, _ = process.communicate()
    assert process.returncode == 0, said
    assert "100 %" in said
    # Worked out from the data set without Spark: mean delay, late from 15 minutes on (38 % from 16), dry, in rain.
    assert re.search(r"EWR +17-20 +28,771 +27\.0 min +39% +25\.0 min +56\.6 min", said), said
    assert re.search(r"362,891 records, [\d.]+ MB at [\d.]+ MB/s, \d+ micro-batches, end to end latency p50", said), (
        said
    )
    assert "336,776 flights with the weather of their hour are in the topic flights-with-weather" in said
    assert re.search(r"^ +hours +[\d,]+ rows/s .* behind .* micro-batch +[\d,]+ ms", said, re.MULTILINE), said
    assert (directory / "delays.png").read_bytes().startswith(PNG_MAGIC)
    assert "WARN" not in said, "Spark's own words belong in its log"
    assert not left_over(process.pid)
    assert sorted(each.name for each in directory.iterdir()) == ["broker", "delays.png", "spark.log"]


@pytest.mark.parametrize("moment", ["starting Spark", "the job runs"])
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, demo: Callable[..., subprocess.Popen[str]], moment: str) -> None:
    process = demo("--watch")
    assert process.stdout
    said = ""
    for line in process.stdout:
        said += line
        if moment in line:
            break
    assert moment in said, said
    os.killpg(process.pid, signal.SIGINT)
    rest, _ = process.communicate()
    assert process.returncode == 130, said + rest
    assert "stopping" in rest
    assert "Traceback" not in rest
    assert not left_over(process.pid)
    assert not list(tmp_path.glob("barnabas-demo-*"))


def test_ctrl_c_before_anything_began_says_nothing(demo: Callable[..., subprocess.Popen[str]]) -> None:
    process = demo("--watch")
    status = Path(f"/proc/{process.pid}/status")
    caught = f"{1 << (signal.SIGINT - 1) | 1 << (signal.SIGTERM - 1):016x}"
    # As soon as the program listens; until then Python itself is only being read.
    while f"SigCgt:\t{caught}" not in status.read_text():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate()
    assert process.returncode == 130, said
    assert "Traceback" not in said
