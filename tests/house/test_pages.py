"""What is made from the tables of settings is as they are, and type checkers know every setting."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.pages import ROOT, pages

RIGHT = """\
from barnabas import Admin, Broker, Consumer, Producer, ProducerSettings, aio

settings: ProducerSettings = {"linger_ms": 5, "acks": "all", "bootstrap_servers": ["h:1", "h:2"]}
Producer("h:1", linger_ms=5, client_id=None)
Producer({"linger.ms": 5}, **settings)
Consumer("t", config="h:1", max_poll_records=5)
Admin("h:1", request_timeout_ms=5)
Broker({"num.partitions": 3}, log_retention_ms=5, topics=["a"])
aio.Producer("h:1", linger_ms=5)
aio.Consumer("t", max_poll_records=5)
aio.Admin(request_timeout_ms=5)
aio.Broker(num_partitions=3)


class Upper:
    def serialize(self, value: str) -> bytes:
        return value.upper().encode()


Producer("h:1", acks=1, compression_type="zstd", value_serializer="json", key_serializer=Upper(), error_cb=print)
Producer("h:1", acks="1", security_protocol="PLAINTEXT", value_serializer=str.encode, stats_cb=None)
Consumer("t", auto_offset_reset="earliest", isolation_level="read_committed", value_deserializer=bytes.decode)
Admin("h:1", dialect="native", metadata_recovery_strategy="none")
Broker(compression_type="zstd", log_message_timestamp_type="LogAppendTime")
"""

WRONG = """\
from barnabas import Admin, Broker, Consumer, Producer, aio

Producer("h:1", linger_msec=5)
Producer("h:1", linger_ms="soon")
Consumer("t", max_pol_records=5)
Consumer(7)
Admin("h:1", linger_ms=5)
Broker(num_partitons=3)
aio.Producer("h:1", lingerms=5)
aio.Consumer("t", fetch_min_byte=5)
aio.Admin(timeout=5)
aio.Broker(num_partitions="three")
Producer("h:1", acks="some")
Producer("h:1", acks=2)
Producer("h:1", compression_type="zip")
Producer("h:1", value_serializer="jsn")
Producer("h:1", error_cb="print")
Consumer("t", auto_offset_reset="newest")
Consumer("t", isolation_level="committed")
Admin("h:1", dialect="kafkas")
Broker(log_message_timestamp_type="create")
Producer("h:1", "json")
Admin("h:1", "h:2")
"""


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_the_page_is_as_the_tables_say(path: Path) -> None:
    assert path.read_text() == pages()[path], "run ./dev pages"


def faults(command: list[str], folder: Path) -> set[int]:
    """The lines of wrong.py that a checker complains of; right.py must pass."""
    (folder / "right.py").write_text(RIGHT)
    (folder / "wrong.py").write_text(WRONG)
    done = subprocess.run(
        [*command, "right.py", "wrong.py"], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    lines = [line for line in done.stdout.splitlines() if "error" in line and ".py:" in line]
    assert not [line for line in lines if "right.py" in line], done.stdout
    assert lines, done.stdout + done.stderr
    return {int(line.partition("wrong.py:")[2].partition(":")[0]) for line in lines}


ALL_WRONG = set(range(3, 3 + WRONG.count("\n") - 2))


@pytest.mark.slow
def test_mypy_finds_a_misspelt_keyword(tmp_path: Path) -> None:
    cache = ["--cache-dir", str(ROOT / ".mypy_cache")]
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *cache]
    assert faults(command, tmp_path) == ALL_WRONG


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pyright", path=Path(sys.executable).parent) is None, reason="pyright is not here")
def test_pyright_finds_a_misspelt_keyword(tmp_path: Path) -> None:
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "basic"}')
    command = [str(Path(sys.executable).parent / "pyright"), "--pythonpath", sys.executable]
    assert faults(command, tmp_path) == ALL_WRONG
